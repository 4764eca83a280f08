"""Tokenizers made from ranks: by layout without the real ranks, and with them against the published files."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from mlxbatch.convert.whisper_tokenizer import (
    SIZES,
    add_merges,
    add_timestamps,
    canonical_tokenizer,
    lacking_merges,
    read_ranks,
    special_tokens,
)
from tests.models.tiny import MERGES, tiny_tokenizer

BYTES = {bytes([byte]): byte for byte in range(256)}


def ranks_of(*words: bytes) -> dict[bytes, int]:
    """All bytes, then these words."""
    return BYTES | {word: 256 + number for number, word in enumerate(words)}


def fill(ranks: dict[bytes, int], size: int) -> dict[bytes, int]:
    """As many ranks as a vocabulary of that size has: the rest are pairs of bytes, from the last."""
    count = 50_256 if size == 51_864 else 50_257
    pairs = (bytes([a, b]) for a in range(255, -1, -1) for b in range(255, -1, -1))
    others = (pair for pair in pairs if pair not in ranks)
    return ranks | dict(zip(others, range(len(ranks), count), strict=False))


def test_ranks_are_read_as_openai_writes_them() -> None:
    lines = [base64.b64encode(token).decode() + f" {rank}" for token, rank in ranks_of(b" t").items()]
    assert read_ranks("\n".join([*lines, "= 257", ""])) == ranks_of(b" t", b"")


@pytest.mark.parametrize("size", SIZES)
def test_the_tokens_after_the_text_are_in_openais_order(size: int) -> None:
    """openai/whisper tokenizer.py: <|endoftext|> follows the text, <|0.00|> is 1,501 before the end."""
    tokenizer = Tokenizer.from_str(json.dumps(canonical_tokenizer(fill(BYTES, size), size)))
    assert tokenizer.get_vocab_size() == size
    text = 50_256 if size == 51_864 else 50_257
    ids = {name: tokenizer.token_to_id(name) for name in special_tokens(size)}
    assert list(ids.values()) == list(range(text, size - 1501))
    assert ids["<|startoftranscript|>"] == text + 1
    assert ids["<|en|>"] == text + 2
    assert ids["<|su|>"] == text + 100
    assert ids.get("<|yue|>") == (text + 101 if size == 51_866 else None)
    assert ids["<|translate|>"] == (50_359 if size == 51_866 else text + 101)
    assert tokenizer.token_to_id("<|0.00|>") == ids["<|notimestamps|>"] + 1
    assert tokenizer.token_to_id("<|30.00|>") == size - 1


def test_ranks_that_do_not_fill_the_vocabulary() -> None:
    with pytest.raises(ValueError, match="1501 timestamps do not make 51865"):
        canonical_tokenizer(BYTES, 51_865)


def test_the_lowest_rank_is_merged_first() -> None:
    ranks = fill(ranks_of(b"bc", b"ab", b"abc", b"cd", b"abcd"), 51_865)
    tokenizer = canonical_tokenizer(ranks, 51_865)
    merges = {"".join(pair): tuple(pair) for pair in tokenizer["model"]["merges"]}
    assert merges["abc"] == ("a", "bc")
    assert merges["abcd"] == ("abc", "d")
    assert Tokenizer.from_str(json.dumps(tokenizer)).encode("abcd", add_special_tokens=False).ids == [260]


# ---- what is missing


def test_a_whole_tokenizer_is_left_as_it_is() -> None:
    tokenizer = tiny_tokenizer()
    before = copy.deepcopy(tokenizer)
    assert add_merges(tokenizer) == 0
    assert tokenizer == before


@pytest.mark.parametrize("lost", range(len(MERGES)))
@pytest.mark.parametrize("as_text", [False, True])
def test_a_lost_merge_is_put_back_in_its_place(lost: int, as_text: bool) -> None:
    tokenizer = tiny_tokenizer()
    whole = copy.deepcopy(tokenizer["model"]["merges"])
    del tokenizer["model"]["merges"][lost]
    if as_text:
        tokenizer["model"]["merges"] = [" ".join(pair) for pair in tokenizer["model"]["merges"]]
    assert lacking_merges(tokenizer) == [tuple(whole[lost])]
    assert add_merges(tokenizer) == 1
    assert tokenizer["model"]["merges"] == whole


def test_timestamps_are_put_back() -> None:
    tokenizer = tiny_tokenizer(timestamps=False)
    add_timestamps(tokenizer, len(tokenizer["model"]["vocab"]) + len(tokenizer["added_tokens"]) + 1501)
    assert tokenizer == tiny_tokenizer()


# ---- the real ones


@pytest.fixture(scope="module")
def canonical(canonical_tokenizers: Path) -> Callable[[int], dict[str, Any]]:
    def read(size: int) -> dict[str, Any]:
        tokenizer: dict[str, Any] = json.loads((canonical_tokenizers / f"whisper-{size}.json").read_text("utf-8"))
        return tokenizer

    return read


@pytest.mark.real
def test_the_multilingual_one_is_that_of_whisper_base(
    whisper_base: Path, canonical: Callable[[int], dict[str, Any]]
) -> None:
    theirs, ours = json.loads((whisper_base / "tokenizer.json").read_text("utf-8")), canonical(51_865)
    assert ours["model"]["merges"] == [list(pair) for pair in theirs["model"]["merges"]]
    vocab = theirs["model"]["vocab"]
    assert vocab | ours["model"]["vocab"] == vocab
    for part in ("added_tokens", "pre_tokenizer", "post_processor", "normalizer"):
        assert ours[part] == theirs[part]


@pytest.mark.real
def test_it_encodes_and_decodes_all_text_as_whisper_bases(
    whisper_base: Path, canonical: Callable[[int], dict[str, Any]]
) -> None:
    theirs = Tokenizer.from_file(str(whisper_base / "tokenizer.json"))
    ours = Tokenizer.from_str(json.dumps(canonical(51_865)))

    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(st.one_of(st.text(), st.text("the quick brown fox'S 0123456789.,é日本語 ♪<|>")))
    def same(text: str) -> None:
        ids = ours.encode(text, add_special_tokens=False).ids
        assert ids == theirs.encode(text, add_special_tokens=False).ids
        assert ours.decode(ids) == theirs.decode(ids)

    same()
    assert ours.encode(" the test", add_special_tokens=False).ids == [264, 1500]


@pytest.mark.real
def test_large_v3_differs_by_cantonese_and_what_moves_for_it(canonical: Callable[[int], dict[str, Any]]) -> None:
    before, after = canonical(51_865), canonical(51_866)
    assert after["model"] == before["model"]
    ids = {token["content"]: token["id"] for token in after["added_tokens"]}
    assert (ids["<|yue|>"], ids["<|translate|>"], ids["<|nospeech|>"]) == (50_358, 50_359, 50_363)
    assert (ids["<|notimestamps|>"], ids["<|0.00|>"], ids["<|30.00|>"]) == (50_364, 50_365, 51_865)
    assert "<|yue|>" not in {token["content"] for token in before["added_tokens"]}


@pytest.mark.real
def test_the_english_one_is_gpt_2s(canonical: Callable[[int], dict[str, Any]]) -> None:
    tokenizer = canonical(51_864)
    assert tokenizer["model"]["merges"][:3] == [["Ġ", "t"], ["Ġ", "a"], ["h", "e"]]
    ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    assert (ids["<|endoftext|>"], ids["<|notimestamps|>"], ids["<|30.00|>"]) == (50_256, 50_362, 51_863)
    assert Tokenizer.from_str(json.dumps(tokenizer)).encode("Hello world", add_special_tokens=False).ids == [15496, 995]
