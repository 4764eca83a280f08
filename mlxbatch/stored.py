"""Transcripts and outputs as they are stored, and the keys that say whether one still answers the question. Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlxbatch.types import Segment, TranscribeOptions, Transcript, Word

_SEGMENT = tuple(field.name for field in dataclasses.fields(Segment))
_WORD = tuple(field.name for field in dataclasses.fields(Word))


def transcript_to_json(transcript: Transcript) -> dict[str, Any]:
    """All of a transcript, as what json.dumps takes; `transcript_from_json` gives an equal transcript back."""
    return {
        "segments": [_segment_to_json(segment) for segment in transcript.segments],
        "language": transcript.language,
        "seconds": transcript.seconds,
        "warnings": list(transcript.warnings),
        "truncated": transcript.truncated,
        "model": transcript.model,
        "channels": list(transcript.channels),
    }


def transcript_from_json(data: Mapping[str, Any]) -> Transcript:
    """Raises KeyError, TypeError or ValueError for what `transcript_to_json` did not write."""
    return Transcript(
        segments=tuple(_segment_from_json(segment) for segment in data["segments"]),
        language=data["language"],
        seconds=data["seconds"],
        warnings=tuple(data["warnings"]),
        truncated=data["truncated"],
        model=data.get("model", ""),
        channels=tuple(data.get("channels", (None,))),
    )


def _segment_to_json(segment: Segment) -> dict[str, Any]:
    # Not dataclasses.asdict, which copies every value deeply: ten times slower on an hour of words.
    found = {name: getattr(segment, name) for name in _SEGMENT}
    found["words"] = [{name: getattr(word, name) for name in _WORD} for word in segment.words]
    return found


def _segment_from_json(data: Mapping[str, Any]) -> Segment:
    return Segment(**{**data, "words": tuple(Word(**word) for word in data["words"])})


def pack(transcript: Transcript) -> bytes:
    """Compact JSON, zlib-compressed: its checksum shows a flipped bit, which SQLite itself would not notice."""
    return zlib.compress(json.dumps(transcript_to_json(transcript), separators=(",", ":")).encode("ascii"), 6)


def unpack(blob: bytes) -> Transcript:
    """Raises ValueError for anything that `pack` did not write."""
    try:
        return transcript_from_json(json.loads(zlib.decompress(blob)))
    except (zlib.error, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a stored transcript: {error}") from error


def pack_outputs(sizes: Mapping[bytes, int]) -> bytes:
    """Output files and their sizes in bytes, as one value: path, NUL, size, NUL and so on; no path holds a NUL."""
    return b"".join(b"%b\0%d\0" % (path, size) for path, size in sizes.items())


def unpack_outputs(packed: bytes) -> dict[bytes, int]:
    """Raises ValueError for anything that `pack_outputs` did not write."""
    parts = packed.split(b"\0")
    if parts.pop() or len(parts) % 2:
        raise ValueError("not a list of outputs")
    return dict(zip(parts[::2], map(int, parts[1::2]), strict=True))


def inference_key(
    *, model_sha: str, engine: str, engine_version: str, options: TranscribeOptions, dtype: str, vad_sha: str = ""
) -> str:
    """The same for runs that must give the same transcript of the same content, else different.

    `vad_sha` is the speech detector's, where one is asked. Content is compared apart, by its hash. Nothing about speed
    belongs here: workers, batch size, profile.
    """
    facts = {
        "model": model_sha,
        "engine": [engine, engine_version],
        "options": _changing(options),
        "dtype": dtype,
    }
    facts |= {"vad": vad_sha} if vad_sha else {}
    text = json.dumps(_numbers_as_floats(facts), sort_keys=True)
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def with_rule(key: str, rule: str) -> str:
    """An inference key for samples that were read by a rule of the user's ("mulaw 8000 1"); the same without one."""
    return hashlib.blake2b(f"{key} {rule}".encode(), digest_size=16).hexdigest() if rule else key


# Options that came after the first keys were written: left out where they change nothing, so that those still hold.
_NEUTRAL = {
    "prompt": "",
    "hotwords": (),
    "max_tokens": None,
    "vad": False,
    "channels": "mix",
    "words": False,
    "encoder_context": "auto",
}


def _changing(options: TranscribeOptions) -> dict[str, Any]:
    # Not dataclasses.asdict, which copies deeply: each of many recordings may have a prompt of its own.
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    return {name: value for name, value in values.items() if name not in _NEUTRAL or value != _NEUTRAL[name]}


def rendering_key(formats: Iterable[str], lines: Mapping[str, object] | None = None) -> str:
    """The same for runs that write the same output files of the same transcript, whatever order the formats came in.

    `lines` are the rules for lines and cues that are asked for. Readable: "srt txt" or 'srt txt {"max_gap": 1.0}'.
    """
    options = " " + json.dumps(_numbers_as_floats(dict(lines)), sort_keys=True) if lines else ""
    return " ".join(sorted(set(formats))) + options


def named_key(rendering_key: str, speakers: Sequence[str]) -> str:
    """The rendering key of outputs in which channels have names."""
    return f"{rendering_key} {json.dumps(list(speakers))}" if speakers else rendering_key


def _numbers_as_floats(value: Any) -> Any:
    """2 and 2.0 are the same option, though JSON writes them differently."""
    if isinstance(value, dict):
        return {key: _numbers_as_floats(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_numbers_as_floats(inner) for inner in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
