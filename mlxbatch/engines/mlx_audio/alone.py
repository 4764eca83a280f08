"""Families that go one piece at a time, through mlx-audio's own `generate`."""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from mlxbatch.engines.mlx_audio.cuts import Cut
from mlxbatch.engines.mlx_audio.decoding import token_limit
from mlxbatch.engines.mlx_audio.heard import Heard, aligned, plain, spoken_segments
from mlxbatch.engines.mlx_audio.hearing import NOT_A_NUMBER, Part, Tick, parts, samples_of
from mlxbatch.types import Segment

Arguments = Callable[[Cut], Mapping[str, Any]]
"""What `generate` is asked for a piece, in its own words."""

Saying = Generator[Sequence[Segment], None, Heard]
"""See hearing.parts."""

# What mlx-audio's models call the most tokens of a text.
LIMITS = ("max_tokens", "max_len")


class Alone:
    """`part` is the part of the model in whose output a NaN would show: `generate` itself goes on with any text.

    `stepping` is a part that is called for each token: a long text is seen to come on.
    """

    def __init__(self, model: Any, part: str, arguments: Arguments, stepping: str | None = None) -> None:
        self._model, self._arguments = model, arguments
        wanted = inspect.signature(model.generate).parameters
        weight = next(array for _, array in tree_flatten(model.parameters()) if mx.issubdtype(array.dtype, mx.floating))
        # Some take bfloat16 unless they are told, whatever their weights are.
        self._dtype = {"dtype": weight.dtype} if "dtype" in wanted else {}
        self._watched = _watch(model, part)
        self._stepping = _watch(model, stepping) if stepping else None

    def problem(self, language: str | None) -> str | None:
        return None

    def hear(self, cuts: Sequence[Cut], tick: Tick) -> list[Heard]:
        return [self._one(cut, tick) for cut in cuts]

    def _one(self, cut: Cut, tick: Tick) -> Heard:
        self._begin(tick)
        asked = self._arguments(cut)
        found = self._model.generate(mx.array(samples_of(cut)), **asked, **self._dtype)
        return self._ended(self._told(found), asked)

    def _begin(self, tick: Tick) -> None:
        """Before a piece: what is called from now on belongs to it."""
        self._watched.begin(tick, looks=True)
        if self._stepping:
            self._stepping.begin(tick)

    def _ended(self, heard: Heard, asked: Mapping[str, Any]) -> Heard:
        """What was heard in a piece, with what is wrong about it."""
        if self._watched.broken:
            return Heard(problem=NOT_A_NUMBER)
        limit = next((asked[name] for name in LIMITS if name in asked), math.inf)
        return replace(heard, cut=heard.tokens >= limit)

    def _told(self, found: Any) -> Heard:
        """An STTOutput, or an AlignedResult, as what was heard."""
        if hasattr(found, "sentences"):
            return Heard(aligned(found.sentences), None, sum(len(one.tokens) for one in found.sentences))
        return plain(found.text, None, found.generation_tokens)


class StreamingAlone(Alone):
    """Families of which mlx-audio tells what is said as it goes, and when: see hearing.Streaming."""

    def stream(self, cuts: Sequence[Cut], tick: Tick) -> Iterator[Part]:
        for row, cut in enumerate(cuts):
            yield from parts(row, self._one_saying(cut, tick))

    def _one_saying(self, cut: Cut, tick: Tick) -> Saying:
        self._begin(tick)
        asked = self._arguments(cut)
        saying = self._saying(cut, asked)
        while True:
            try:
                segments = next(saying)
            except StopIteration as end:
                return self._ended(end.value, asked)
            if self._watched.broken:
                return Heard(problem=NOT_A_NUMBER)
            yield segments

    @abstractmethod
    def _saying(self, cut: Cut, asked: Mapping[str, Any]) -> Saying:
        """What is certain so far, again and again; returns all in the end."""


class _Watched(nn.Module):
    """A part of a model that tells of each call, and whether there was a NaN in what it put out since `begin`."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module
        self._tick: Tick = _nothing
        self._looks = self.broken = False

    def begin(self, tick: Tick, *, looks: bool = False) -> None:
        self._tick, self._looks, self.broken = tick, looks, False

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        out = self.module(*arguments, **named)
        if self._looks:
            first = out[0] if isinstance(out, tuple) else out
            self.broken = self.broken or bool(mx.isnan(first).any())
        self._tick()
        return out

    def __getattr__(self, name: str) -> Any:
        """What is not its own is the part's."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


def _watch(model: Any, part: str) -> _Watched:
    """Put a watched part in its place: "encoder", or one within a part."""
    path, _, name = part.rpartition(".")
    owner = attrgetter(path)(model) if path else model
    found = getattr(owner, name)
    watched = found if isinstance(found, _Watched) else _Watched(found)
    setattr(owner, name, watched)
    return watched


def _nothing() -> None:
    """No step to tell of before the first piece."""


def moonshine(model: Any) -> Alone:
    most = model.config.max_position_embeddings - 2
    return Alone(model, "encoder", lambda cut: {"max_tokens": _limit(cut, most)}, "decoder")


def glm(model: Any) -> Alone:
    # A piece is never cut again.
    whole = {"chunk_duration": 3600.0}
    # Of the language model itself mlx-audio looks up what arguments it takes.
    return Alone(model, "audio_encoder", lambda cut: whole | {"max_tokens": _limit(cut, 4096)}, "language_model.model")


def canary(model: Any) -> Alone:
    """`source_lang` is what is spoken, `target_lang` what is written: English where it is to be translated."""

    def arguments(cut: Cut) -> Mapping[str, Any]:
        spoken = cut.options.language
        written = "en" if cut.options.task == "translate" else spoken
        return {"source_lang": spoken, "target_lang": written, "max_tokens": _limit(cut, 1000)}

    return Alone(model, "encoder", arguments, "decoder")


def granite(model: Any) -> Alone:
    """Its `language` is the one to translate into; `source_language` is what is spoken."""

    def arguments(cut: Cut) -> Mapping[str, Any]:
        options = cut.options
        asked: dict[str, Any] = {"hotwords": list(options.hotwords), "max_tokens": _limit(cut, 4096)}
        if options.task == "translate":
            return asked | {"language": "en"}
        return asked | {"source_language": options.language}

    return Alone(model, "encoder", arguments, "language_model.model.norm")


def fire_red(model: Any) -> Alone:
    """Beam search over three rows; they are one piece's, and nobody else's."""
    return Alone(model, "encoder", lambda cut: {"max_len": _limit(cut, 2000)}, "decoder.layer_norm_out")


def granite_ctc(model: Any) -> Alone:
    return Alone(model, "encoder", lambda cut: {})


def qwen2_audio(model: Any) -> Alone:
    asked = lambda cut: {"max_tokens": _limit(cut, 4096)}  # noqa: E731
    return Alone(model, "audio_tower", asked, "language_model.model.norm")


class Moss(StreamingAlone):
    """It says times and speakers. Words to expect join its instruction; mlx-audio would put them in its place."""

    def __init__(self, model: Any) -> None:
        super().__init__(model, "model.whisper_encoder", lambda cut: self._asked(cut), "model.language_model")

    def _asked(self, cut: Cut) -> Mapping[str, Any]:
        from mlx_audio.stt.models.moss_transcribe_diarize.moss_transcribe_diarize import DEFAULT_PROMPT

        self._alone = cut.alone
        words = list(cut.options.hotwords)
        return {"prompt": DEFAULT_PROMPT, "hotwords": words, "max_tokens": _limit(cut, 8192)}

    def _told(self, found: Any) -> Heard:
        return Heard(self._segments(found.segments), None, found.generation_tokens)

    def _segments(self, found: Sequence[Mapping[str, Any]]) -> tuple[Segment, ...]:
        lines = [{**one, "text": one["text"].removeprefix(f"[{one.get('speaker_id')}] ")} for one in found]
        # Who is the first speaker in one piece need not be in the next.
        shown = lines if self._alone else [{**one, "speaker_id": None} for one in lines]
        return spoken_segments(shown)

    def _saying(self, cut: Cut, asked: Mapping[str, Any]) -> Saying:
        """The same tokens as `generate`'s; a segment is whole where its closing bracket stands."""
        from mlx_audio.stt.utils import merge_hotwords

        prompt = merge_hotwords(asked["prompt"], asked["hotwords"])
        samples, tokenizer, tokens, text = samples_of(cut), self._model._tokenizer, list[int](), ""
        for token, _ in self._model.stream_generate(mx.array(samples), max_tokens=asked["max_tokens"], prompt=prompt):
            tokens.append(int(token))
            if "]" in tokenizer.decode(tokens[-1:]):
                text = tokenizer.decode(tokens, skip_special_tokens=True).strip()
                known = self._model._parse_segments(text, 0.0)
                yield self._segments([one for one in known if "speaker_id" in one])
        text = tokenizer.decode(tokens, skip_special_tokens=True).strip()
        seconds = len(samples) / cut.sample_rate
        return Heard(self._segments(self._model._parse_segments(text, seconds)), None, len(tokens))


class Nemotron(StreamingAlone):
    """Its languages are keys of a dictionary in its config ("en-US"), of which "auto" detects them."""

    def __init__(self, model: Any) -> None:
        # Of its encoder only the layers are called, as they are in a stream.
        super().__init__(model, "joint", lambda cut: {"language": self._key(cut.options.language)})
        self._keys = sorted(model.prompt_dictionary)

    def _saying(self, cut: Cut, asked: Mapping[str, Any]) -> Saying:
        """A sentence is whole where the next one has begun."""
        heard = Heard()
        for result in self._model.stream_generate(mx.array(samples_of(cut)), **asked, **self._dtype):
            heard = self._told(result)
            yield heard.segments[:-1]
        return heard

    def problem(self, language: str | None) -> str | None:
        if language is None or not self._keys or self._key(language) is not None:
            return None
        return f"Nemotron ASR does not know the language {language!r} (it knows {', '.join(self._keys)})"

    def _key(self, language: str | None) -> str | None:
        if language is None:
            return None
        return next((key for key in self._keys if key.partition("-")[0] == language), None)


def _limit(cut: Cut, most: int) -> int:
    return token_limit(cut.seconds, cut.options.max_tokens, most)
