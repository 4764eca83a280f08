"""A model card, README.md, made of a quality record and nothing else. Pure.

Its front matter is what the Hugging Face hub reads: huggingface.co/docs/hub/model-cards.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from mlxbatch.convert.proof.figures import HEAD, rows
from mlxbatch.convert.proof.quality import LayerError, Quality
from mlxbatch.errors import show
from mlxbatch.words import count, size

FILE = "README.md"
_PIPELINES = {
    "transcribe": "automatic-speech-recognition",
    "synthesize": "text-to-speech",
    "separate": "audio-to-audio",
    "vad": "voice-activity-detection",
}
# Of weights that are farthest from the original's, so many are named.
_NAMED = 5


def card(found: Quality) -> str:
    """The card's text, Markdown."""
    sections = (_front, _about, _cost, _layers, _kept, _missing, _files)
    return "\n".join(line for section in sections for line in section(found)) + "\n"


def _front(found: Quality) -> Iterator[str]:
    yield "---"
    origin = found.origin
    if origin and origin.licence:
        yield f"license: {_yaml(origin.licence.lower())}"
    yield "library_name: mlx"
    if found.task in _PIPELINES:
        yield f"pipeline_tag: {_PIPELINES[found.task]}"
    # Only what the hub gave has a revision; a directory's name means nothing there.
    if origin and origin.revision:
        yield f"base_model: {_yaml(origin.source)}"
        if any(one.bits is not None for one in found.layers):
            yield "base_model_relation: quantized"
    yield "tags:"
    yield from (f"- {tag}" for tag in ("mlx", "mlxbatch", _yaml(found.architecture)))
    yield "---"
    yield ""


def _yaml(text: str) -> str:
    """Any text as a YAML string: JSON's are some."""
    return json.dumps(text, ensure_ascii=False)


def _about(found: Quality) -> Iterator[str]:
    origin = found.origin
    source = _code(origin.source) if origin else "a model"
    versions = ", ".join(f"{name} {version}" for name, version in found.made_with.items())
    yield f"# {source} for MLX, {found.converted.bits_per_weight:.2f} bits a weight"
    yield ""
    facts = [
        ("source", source if origin else "not written down"),
        ("revision", _code(origin.revision) if origin and origin.revision else "none: it was not fetched from the hub"),
        ("licence", show(origin.licence) if origin and origin.licence else "not found in the source's files"),
        ("architecture", _code(found.architecture)),
        ("task", found.task),
        ("weights", f"{size(found.converted.bytes)}, of {size(found.original.bytes)}"),
        ("what is not packed", found.dtype or "as it is stored"),
        ("identity (sha256)", _code(found.converted.sha256)),
        ("made with", versions or "not written down"),
    ]
    yield from _table(("", ""), facts)


def _cost(found: Quality) -> Iterator[str]:
    yield "## What it cost"
    yield ""
    tried = found.calibration
    if tried is not None:
        words = f", {count(tried.words, 'word')} of text" if tried.words else ", without texts"
        yield (
            f"Both models on {count(tried.clips, 'clip')} ({show(tried.name)}; {tried.seconds:.1f} s{words}; "
            f"sha256 {_code(tried.sha256)}), proof {_code(found.level)}."
        )
        yield ""
    yield from _table(HEAD, ((row.name.strip(), row.original, row.converted) for row in rows(found)))
    if found.recognition is not None:
        yield f"Texts: {found.recognition.decoding} decoding, words normalized as in the Whisper paper. A ± is one"
        yield "standard error, the clips taken as draws."
        if found.recognition.forced:
            yield f"Divergence of next-token distributions: teacher forcing, of {found.recognition.forced}."
        yield ""


def _layers(found: Quality) -> Iterator[str]:
    packed, others = _by_form(found.layers), [one for one in found.layers if one.bits is None]
    if not found.layers:
        return
    yield "## Weights"
    yield ""
    yield "Relative error of each, ||W - W'|| / ||W||; all of them are in quality.json."
    yield ""
    lines = [
        (form, str(len(some)), f"{median(one.error for one in some):.4f}", f"{max(one.error for one in some):.4f}")
        for form, some in packed.items()
    ]
    if others:
        errors = [one.error for one in others]
        lines.append(("plain, of another precision", str(len(others)), f"{median(errors):.2g}", f"{max(errors):.2g}"))
    yield from _table(("how", "weights", "median error", "largest"), lines)
    worst = sorted(found.layers, key=lambda one: one.error, reverse=True)[:_NAMED]
    yield f"Farthest from the original: {', '.join(f'{_code(one.layer)} ({one.error:.3f})' for one in worst)}."
    yield ""


def _by_form(layers: Iterable[LayerError]) -> dict[str, list[LayerError]]:
    found: dict[str, list[LayerError]] = defaultdict(list)
    for one in layers:
        if one.bits is not None:
            found[f"{one.bits} bits, groups of {one.group_size}, {one.mode}"].append(one)
    return dict(sorted(found.items(), reverse=True))


def _kept(found: Quality) -> Iterator[str]:
    if not found.kept:
        return
    yield "## Layers that stay plain"
    yield ""
    yield from _table(("layer", "why"), ((_code(layer), show(why)) for layer, why in sorted(found.kept.items())))


def _missing(found: Quality) -> Iterator[str]:
    if not found.not_measured:
        return
    yield "## Not measured"
    yield ""
    yield from (f"- {show(what)}" for what in found.not_measured)
    yield ""


def _files(found: Quality) -> Iterator[str]:
    if not (found.origin and found.origin.sha256):
        return
    yield "## Files it was made from"
    yield ""
    yield from _table(("file", "sha256"), ((_code(name), _code(sha)) for name, sha in found.origin.sha256.items()))


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    for cells in (head, ["---"] * len(head), *lines):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


def _code(text: str) -> str:
    """As code, whatever is in it."""
    return f"`{show(text).replace('`', chr(39))}`"
