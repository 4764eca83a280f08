"""Whisper's vocabulary: special ids looked up once, text out of token ids. No MLX."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from mlxbatch.languages import LANGUAGES


@dataclass(frozen=True)
class Vocabulary:
    """Ids of the special tokens; all below `eot` is text, all from `timestamp_begin` on is time in steps of 20 ms."""

    tokenizer: Tokenizer
    eot: int
    sot: int
    transcribe: int
    translate: int
    start_of_prev: int
    no_speech: int
    timestamp_begin: int
    languages: dict[str, int]
    suppressed: tuple[int, ...]

    @classmethod
    def read(cls, path: Path) -> Vocabulary:
        """The vocabulary of a tokenizer.json that `models.check` has found whole; KeyError names what it lacks."""
        tokenizer = Tokenizer.from_file(str(path))
        ids = {token.content: i for i, token in tokenizer.get_added_tokens_decoder().items()}
        return cls(
            tokenizer=tokenizer,
            eot=ids["<|endoftext|>"],
            sot=ids["<|startoftranscript|>"],
            transcribe=ids["<|transcribe|>"],
            translate=ids["<|translate|>"],
            start_of_prev=ids["<|startofprev|>"],
            no_speech=ids[next(name for name in _NO_SPEECH if name in ids)],
            timestamp_begin=ids["<|notimestamps|>"] + 1,
            languages={code: ids[f"<|{code}|>"] for code in LANGUAGES if f"<|{code}|>" in ids},
            suppressed=non_speech_tokens(tokenizer),
        )

    def prompt(self, language: str, task: str) -> list[int]:
        """The tokens a window's decoding starts from."""
        return [self.sot, self.languages[language], self.translate if task == "translate" else self.transcribe]

    def before(self, prompt: str, hotwords: Sequence[str]) -> list[int]:
        """What comes before a window's start: <|startofprev|>, the hotwords, the prompt; [] where there is neither.

        The prompt as openai/whisper's `initial_prompt`, the hotwords as faster-whisper's: " one, two" ahead of it. The
        model takes all that for text said before. ValueError names a special token that is written out in them.
        """
        words = ", ".join(hotwords)
        said = [*self._said(words), *self._said(prompt)]
        return [self.start_of_prev, *said] if said else []

    def _said(self, text: str) -> list[int]:
        ids = _ids(self.tokenizer, f" {text.strip()}") if text.strip() else []
        for special in (i for i in ids if i >= self.eot):
            raise ValueError(self.tokenizer.id_to_token(special))
        return ids

    def text(self, ids: Sequence[int]) -> str:
        """Text of the ids below `eot`; incomplete UTF-8 becomes U+FFFD."""
        return self.tokenizer.decode([i for i in ids if i < self.eot], skip_special_tokens=False)


MULTILINGUAL_SIZE = 51_865  # English-only vocabularies have 51,864 tokens, those of the languages among them


def multilingual(directory: Path, vocabulary: Vocabulary, n_vocab: int) -> bool:
    """What generation_config.json says; by the vocabulary where it is missing, as in most MLX conversions."""
    try:
        config = json.loads((directory / "generation_config.json").read_bytes())
    except (OSError, ValueError):
        config = None
    said = config.get("is_multilingual") if isinstance(config, dict) else None
    return bool(vocabulary.languages) and (n_vocab >= MULTILINGUAL_SIZE if said is None else bool(said))


# Large-v3's vocabulary says nospeech, those before it nocaptions.
_NO_SPEECH = ("<|nospeech|>", "<|nocaptions|>")
_RUNS = """<< >> <<< >>> -- --- -( -[ (' (" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪"""


def non_speech_tokens(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Ids of annotations that nobody says, such as "[", "♪♪" or "<<"; openai/whisper `non_speech_tokens`.

    " -" and " '" go only at the start of a word: hyphens and apostrophes inside words stay.
    """
    symbols = [*'"#()*+/:;<=>@[\\]^_`{|}~「」『』', *_RUNS.split()]
    music = "♩♪♫♬♭♮♯"
    found = {_ids(tokenizer, lead)[0] for lead in (" -", " '")}
    for symbol in [*symbols, *music]:
        for ids in (_ids(tokenizer, symbol), _ids(tokenizer, f" {symbol}")):
            # Several music signs share their first byte-pair token, which nothing else starts with.
            if len(ids) == 1 or symbol in music:
                found.add(ids[0])
    return tuple(sorted(found))


def _ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).ids)
