"""Whisper's tokenizer.json: made from the byte-pair ranks that OpenAI published, or made whole where parts are missing.

The layout is that of openai/whisper's tokenizer.py: the byte pairs, then end of text, start of transcript, the
languages in their order, the tasks, and 1,501 timestamps. The flags are those of the tokenizer.json files on the hub.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from mlxbatch.languages import LANGUAGES

Ranks = Mapping[bytes, int]

START, END, NO_TIMESTAMPS = "<|startoftranscript|>", "<|endoftext|>", "<|notimestamps|>"
TIMESTAMPS = 1501  # 0.00 to 30.00 s in steps of 0.02 s

ENGLISH_ONLY, MULTILINGUAL, LARGE_V3 = 51_864, 51_865, 51_866
SIZES = (ENGLISH_ONLY, MULTILINGUAL, LARGE_V3)


def read_ranks(text: str) -> dict[bytes, int]:
    """Byte sequences and their ranks from a *.tiktoken file: lines of base64 and a number; ValueError otherwise.

    The last of the multilingual file is "=", nothing: it fills the place up to the end of text.
    """
    pairs = (line.split() for line in text.splitlines() if line.strip())
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def canonical_tokenizer(ranks: Ranks, n_vocab: int) -> dict[str, Any]:
    """tokenizer.json of the Whispers with `n_vocab` tokens, one of SIZES. ValueError where the ranks are others'."""
    special = special_tokens(n_vocab)
    first = len(ranks)
    tokenizer = _tokenizer(ranks, {token: first + number for number, token in enumerate(special)})
    add_timestamps(tokenizer, n_vocab)
    return tokenizer


def special_tokens(n_vocab: int) -> list[str]:
    """All tokens between text and timestamps, in the order of their ids."""
    languages = list(LANGUAGES)[: 100 if n_vocab == LARGE_V3 else 99]
    # OpenAI's code says nospeech throughout; the published files did so from large-v3 on.
    silence = "<|nospeech|>" if n_vocab == LARGE_V3 else "<|nocaptions|>"
    tasks = ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", silence, NO_TIMESTAMPS]
    return [END, START, *(f"<|{code}|>" for code in languages), *tasks]


def add_timestamps(tokenizer: dict[str, Any], n_vocab: int) -> None:
    """Append the 1,501 tokens `<|0.00|>` to `<|30.00|>` that CTranslate2's tokenizer.json leaves out, in place.

    They are the vocabulary's last. Raises ValueError where they do not fill it exactly.
    """
    added = tokenizer["added_tokens"]
    if any(token["content"] == "<|0.00|>" for token in added):
        return
    first = max(token["id"] for token in added) + 1
    if first + TIMESTAMPS != n_vocab:
        raise ValueError(f"tokenizer.json: {first} tokens and {TIMESTAMPS} timestamps do not make {n_vocab}")
    added.extend(_timestamp(first + step, 0.02 * step) for step in range(TIMESTAMPS))


def _timestamp(token_id: int, seconds: float) -> dict[str, Any]:
    # Not special, as in OpenAI's published tokenizers: skipping special tokens must keep the timestamps.
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {"id": token_id, "content": f"<|{seconds:.2f}|>", **flags}


def add_merges(tokenizer: dict[str, Any]) -> int:
    """Put in the merges that tokens of the vocabulary lack, in place; returns how many that were. Raises ValueError."""
    lacking = lacking_merges(tokenizer)
    if lacking:
        vocab, merges = tokenizer["model"]["vocab"], tokenizer["model"]["merges"]
        pairs = sorted([*map(_pair, merges), *lacking], key=lambda pair: int(vocab["".join(pair)]))
        tokenizer["model"]["merges"] = [list(pair) for pair in pairs]
    return len(lacking)


def lacking_merges(tokenizer: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The two parts of each token of text that no merge makes, though others of lower rank lead up to it.

    Some published files lost the first line of their merges, which is that of " t": text is decoded as it should be,
    but " the" in a prompt is encoded as " " and "the", which the model has never seen. ValueError where the tokenizer
    is no byte-pair one.
    """
    try:
        vocab = tokenizer["model"]["vocab"]
        made = {"".join(pair) for pair in map(_pair, tokenizer["model"]["merges"])}
        known = made | {token["content"] for token in tokenizer["added_tokens"]}
        if not made <= set(vocab):
            raise ValueError("a merge that makes no token")
        text = (token for token in vocab if len(token) > 1 and token not in known and not _is_special(token))
        unmade = (_merged(token, vocab) for token in text)
        return [parts for parts in unmade if len(parts) == 2]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError("tokenizer.json: its model is no byte-pair encoding") from error


def _is_special(token: str) -> bool:
    return token.startswith("<|") and token.endswith("|>")


def _pair(merge: Any) -> tuple[str, ...]:
    """A merge's two parts: files hold them as a list, or as text with a space between."""
    return tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge)


def _tokenizer(ranks: Ranks, special: Mapping[str, int]) -> dict[str, Any]:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(token, number) for token, number in special.items()],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": _template(special),
        "decoder": byte_level,
        "model": _byte_pairs(ranks),
    }


def _added(token: str, number: int) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": token, **flags, "special": True}


def _template(special: Mapping[str, int]) -> dict[str, Any]:
    """What encoding with special tokens adds: start of transcript and no timestamps before, end of text after."""

    def token(name: str, part: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": name, "type_id": part}}

    def text(name: str, part: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": part}}

    before = [token(START, 0), token(NO_TIMESTAMPS, 0), text("A", 0)]
    used = {name: {"id": name, "ids": [special[name]], "tokens": [name]} for name in (END, START, NO_TIMESTAMPS)}
    return {
        "type": "TemplateProcessing",
        "single": [*before, token(END, 0)],
        "pair": [*before, text("B", 1), token(END, 1)],
        "special_tokens": used,
    }


def _byte_pairs(ranks: Ranks) -> dict[str, Any]:
    """The model: tokens spelled in letters, and for each the merge that makes it."""
    letters = _letters()
    vocab = {"".join(letters[byte] for byte in token): rank for token, rank in ranks.items()}
    merges = [list(_merged(token, vocab)) for token in sorted(vocab, key=vocab.__getitem__) if len(token) > 1]
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": "",
        "end_of_word_suffix": "",
        "fuse_unk": False,
        "byte_fallback": False,
        "vocab": vocab,
        "merges": merges,
    }


def _letters() -> dict[int, str]:
    """GPT-2's printable letter for each byte: itself where it prints, else the next from U+0100 on."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = (byte for byte in range(256) if byte not in printable)
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + number) for number, byte in enumerate(others)}


def _merged(token: str, ranks: Mapping[str, int]) -> tuple[str, ...]:
    """A token's letters, joined by all merges of lower rank than its own: the two parts of the merge that makes it.

    The ranks alone do not say which two those were.
    """
    parts, own = list(token), ranks[token]
    while len(parts) > 1:
        pairs = [(ranks.get(a + b, own), place) for place, (a, b) in enumerate(pairwise(parts))]
        rank, place = min(pairs)
        if rank >= own:
            break
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return tuple(parts)
