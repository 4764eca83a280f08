"""What a Whisper can be asked for, read from its directory before any audio is: no weight is loaded, no MLX."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from mlxbatch.engines.whisper.layout import Dims
from mlxbatch.engines.whisper.tokens import Vocabulary, multilingual
from mlxbatch.languages import LANGUAGES
from mlxbatch.types import TranscribeOptions
from mlxbatch.words import count

# The language to ask for where a model lacks one: they share a script, and most of what is written in it.
_NEAREST = {"yue": "zh", "nn": "no", "no": "nn"}
# Layers of encoder and decoder: Large v3 Turbo was fine-tuned without translation (openai/whisper's README).
_TURBO = (32, 4)


@dataclass(frozen=True)
class Abilities:
    """A model's vocabulary, sizes and languages; `languages` is empty for one that knows English only."""

    vocabulary: Vocabulary
    dims: Dims
    languages: dict[str, int]

    @classmethod
    def read(cls, directory: Path) -> Abilities:
        """Those of a directory that `models.check` has found whole."""
        dims = Dims.from_config(json.loads((directory / "config.json").read_text("utf-8")))
        vocabulary = Vocabulary.read(directory / "tokenizer.json")
        many = multilingual(directory, vocabulary, dims.n_vocab)
        return cls(vocabulary, dims, vocabulary.languages if many else {})

    @property
    def prompt_tokens(self) -> int:
        """How many tokens may come before a window: half the context without the token that announces them."""
        return self.dims.n_text_ctx // 2 - 1

    def refusal(self, options: TranscribeOptions) -> str | None:
        """Why the model cannot do what is asked, as what follows its name; None where it can."""
        return self._about_language(options) or self._about_prompt(options)

    def note(self, options: TranscribeOptions) -> str | None:
        """What the user should know of what is asked, as what follows the model's name."""
        if options.task == "translate" and (self.dims.n_audio_layer, self.dims.n_text_layer) == _TURBO:
            return "was not trained to translate: expect text in the language spoken; Medium and Large v3 translate"
        return None

    def _about_language(self, options: TranscribeOptions) -> str | None:
        code = options.language
        if not self.languages:
            if code not in (None, "en"):
                return f"knows English only, not {_named(code)}: a multilingual model knows more"
            if options.task == "translate":
                return "knows English only and cannot translate: a multilingual model can"
        elif code is not None and code not in self.languages:
            nearest = _NEAREST.get(code, "")
            hint = f"; the nearest is {_named(nearest)}" if nearest in self.languages else ""
            return f"knows {count(len(self.languages), 'language')}, but not {_named(code)}{hint}"
        return None

    def _about_prompt(self, options: TranscribeOptions) -> str | None:
        try:
            before = self.vocabulary.before(options.prompt, options.hotwords)
        except ValueError as error:
            return f"would take {error} in the prompt or the hotwords for a command: leave it out"
        tokens = len(before) - 1
        if tokens > self.prompt_tokens:
            return f"has room for {self.prompt_tokens} tokens of prompt and hotwords, these are {tokens}: shorten them"
        return None


def _named(code: str) -> str:
    """ "German (de)" """
    return f"{LANGUAGES[code].title()} ({code})" if code in LANGUAGES else code
