"""How much each group of a Whisper's layers suffers from each width, measured on calibration audio, and kept.

A group is a module with matrices of its own: an attention, a block's two layers of its MLP, the token embedding. It is
quantized alone, at each width, and compared with the original under teacher forcing (see `forced`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
from pydantic import TypeAdapter, ValidationError

from mlxbatch import device
from mlxbatch.convert.precision import Dtype
from mlxbatch.convert.proof import forced
from mlxbatch.convert.proof.allocation import Group, Sensitivity, Width
from mlxbatch.convert.proof.clips import Clips, Sound, sha256
from mlxbatch.convert.proof.forced import Batch, Forced
from mlxbatch.convert.proof.hearing import hear
from mlxbatch.convert.proof.quality import Level
from mlxbatch.convert.proof.recognition import forced_text, load
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.families import WHISPER, family_of
from mlxbatch.engines.whisper import network
from mlxbatch.engines.whisper.abilities import Abilities
from mlxbatch.errors import SetupError, UsageError, show
from mlxbatch.models.architecture import BITS
from mlxbatch.models.cache import cache_root
from mlxbatch.models.identity import model_sha
from mlxbatch.models.weights import DTYPE_BYTES
from mlxbatch.writers.files import write_outputs

FILE = "sensitivity.json"
# For a width at which a model gives no numbers any more: more than any that does.
_BROKEN = 1e6


def sensitivity(
    directory: Path,
    clips: Clips,
    level: Level,
    *,
    spec: EngineSpec,
    layers: Collection[str] | None = None,
    group_size: int = 64,
    dtype: Dtype = "float16",
    say: Callable[[str], None] = lambda text: None,
) -> Sensitivity:
    """That of a model's directory, from the cache where it was measured before on the same clips, else measured now.

    `layers` may be quantized (None: all whose rows are whole groups), to scales and offsets of `dtype`. Raises
    UsageError for a model that is no Whisper, or clips in which it hears nothing; else as `prove` does.
    """
    if family_of(directory) is not WHISPER:
        raise UsageError(f"{show(directory)}: the sensitivity of layers is measured of Whispers only")
    sounds = clips.sounds(level)
    wanted = None if layers is None else sorted(layers)
    asked = [model_sha(directory), sha256([one.clip for one in sounds]), wanted, group_size, dtype]
    note = cache_root() / "sensitivity" / f"{hashlib.sha256(json.dumps(asked).encode()).hexdigest()}.json"
    try:
        return read(note)
    except SetupError:
        found = _measure(directory, sounds, spec, wanted, group_size, dtype, say)
    write(found, note)
    return found


def write(found: Sensitivity, path: Path) -> None:
    """Save it, whole or not at all. Raises SetupError."""
    write_outputs({path: TypeAdapter(Sensitivity).dump_json(found, indent=1)}, path.parent)


def read(path: Path) -> Sensitivity:
    """One that was saved. Raises SetupError where it is not there, or is none."""
    try:
        return TypeAdapter(Sensitivity).validate_json(path.read_bytes())
    except OSError as error:
        raise SetupError(f"{show(path)}: {error.strerror or error}") from error
    except ValidationError as error:
        raise SetupError(f"{show(path)}: no record of a model's sensitivity: {error.errors()[0]['msg']}") from error


# ---- measuring


@dataclass(frozen=True, eq=False)
class _Reference:
    """A batch as the whole model has it: its encoded audio, and the decoder's states."""

    batch: Batch
    features: mx.array
    counts: mx.array
    states: mx.array


class _Whole:
    """The unquantized model on all batches, to which it is compared while one of its groups is quantized."""

    def __init__(self, model: network.Network, text: Sequence[Forced], spec: EngineSpec) -> None:
        self._model, self._context, self._dtype = model, spec.context, getattr(mx, spec.dtype)
        # Held here, since the embedding that makes logits is a layer that is quantized as well.
        self._embedding = model.decoder.token_embedding.weight
        self._references = [self._reference(batch) for batch in forced.batches(text, spec.context, spec.batch_size)]
        self.tokens = sum(len(one.tokens) for one in text)

    def _reference(self, batch: Batch) -> _Reference:
        features, counts = forced.encode(self._model, batch, self._context, self._dtype)
        return _Reference(batch, features, counts, forced.hidden(self._model.decoder, batch, features, counts))

    def away(self, *, encoder: bool) -> float:
        """How far the model as it is now is away, in nats a token.

        Unless a layer of the `encoder` is another, the audio is encoded already.
        """
        nats = 0.0
        for one in self._references:
            heard = forced.encode(self._model, one.batch, self._context, self._dtype) if encoder else None
            states = forced.hidden(self._model.decoder, one.batch, *(heard or (one.features, one.counts)))
            away, _ = forced.compare(self._logits, one.states, self._model.decoder.logits, states)
            nats += float(away.sum())
        mean = nats / self.tokens
        return mean if math.isfinite(mean) else _BROKEN

    def _logits(self, states: mx.array) -> mx.array:
        return (states @ self._embedding.T).astype(mx.float32)


def _measure(
    directory: Path,
    sounds: Sequence[Sound],
    spec: EngineSpec,
    wanted: Sequence[str] | None,
    group_size: int,
    dtype: Dtype,
    say: Callable[[str], None],
) -> Sensitivity:
    say("transcribing with the original")
    heard = hear(directory, sounds, spec)
    with device.device_settings(device.DeviceSettings(**spec.device)):
        model = load(directory, spec)
        modules = _modules(model, wanted, group_size)
        if not modules:
            raise UsageError(f"{show(directory)}: no layer in it can be quantized in groups of {group_size}")
        text = forced_text(sounds, heard, Abilities.read(directory))
        if not text:
            raise UsageError("the original hears no words in the calibration: give recordings of speech")
        whole = _Whole(model, text, spec)
        groups = {}
        for number, (name, layers) in enumerate(modules.items(), 1):
            say(f"sensitivity of {name} ({number} of {len(modules)})")
            groups[name] = _group(model, layers, whole, group_size, dtype)
        total = sum(array.size for _, array in network.flat(model)) * DTYPE_BYTES[dtype]
    return Sensitivity(
        model_sha256=model_sha(directory),
        calibration_sha256=sha256([one.clip for one in sounds]),
        group_size=group_size,
        dtype=dtype,
        fixed_bytes=total - sum(group.plain_bytes for group in groups.values()),
        tokens=whole.tokens,
        groups=groups,
    )


def _modules(model: network.Network, wanted: Sequence[str] | None, group_size: int) -> dict[str, dict[str, nn.Module]]:
    """Layers that can be quantized, by path, under the module that they belong to."""
    found: dict[str, dict[str, nn.Module]] = defaultdict(dict)
    for path, layer in model.named_modules():
        divides = isinstance(layer, nn.Linear | nn.Embedding) and layer.weight.shape[-1] % group_size == 0
        if divides and (wanted is None or path in wanted):
            found[path.rpartition(".")[0]][path] = layer
    return dict(sorted(found.items()))


def _group(
    model: network.Network, layers: Mapping[str, nn.Module], whole: _Whole, group_size: int, dtype: Dtype
) -> Group:
    """One group at each width."""
    encoder = any(path.startswith("encoder.") for path in layers)
    numbers = sum(layer.weight.size for layer in layers.values())
    widths = []
    for bits in BITS:
        with quantized(layers.values(), bits, group_size, getattr(mx, dtype)):
            nats = whole.away(encoder=encoder)
        # A scale and an offset for each group.
        taken = numbers * bits // 8 + 2 * numbers // group_size * DTYPE_BYTES[dtype]
        widths.append(Width(bits, taken, nats))
    return Group(tuple(layers), numbers * DTYPE_BYTES[dtype], tuple(widths))


@contextmanager
def quantized(layers: Collection[nn.Module], bits: int, group_size: int, dtype: mx.Dtype) -> Iterator[None]:
    """The layers with the values that they have at a width, as plain ones, as long as this lasts."""
    before = [layer.weight for layer in layers]
    try:
        for layer in layers:
            packed = mx.quantize(layer.weight.astype(dtype), group_size, bits)
            layer.weight = mx.dequantize(*packed, group_size, bits).astype(layer.weight.dtype)
        yield
    finally:
        for layer, weight in zip(layers, before, strict=True):
            layer.weight = weight
