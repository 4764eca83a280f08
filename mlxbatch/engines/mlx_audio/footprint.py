"""How much memory a model of mlx-audio takes, before it is loaded and without MLX."""

from __future__ import annotations

from functools import partial

from mlxbatch.engines.base import EngineSpec, Footprint
from mlxbatch.engines.families import family_of
from mlxbatch.engines.mlx_audio import memory
from mlxbatch.models.architecture import quantization, read_json
from mlxbatch.models.weights import DTYPE_BYTES, headers, loaded_bytes, resident_bytes, weight_files


def footprint(spec: EngineSpec) -> Footprint:
    """What MlxAudioEngine says of itself once it is loaded, of a directory that is whole; SetupError where it is not.

    The weights are those of the files: what mlx-audio leaves out of them counts too.
    """
    assert spec.model is not None
    family = family_of(spec.model)
    sizes = memory.sizes(read_json(spec.model / "config.json"), family.frames_per_second)
    need = partial(
        memory.need,
        sizes,
        piece=min(spec.segment_seconds or family.segment_seconds, family.longest),
        sample_rate=family.sample_rate,
        item=DTYPE_BYTES[spec.dtype],
        tiled=spec.device.get("kind", "cpu") != "cpu" and not family.relative,
        listens=spec.vad is not None,
    )
    weights = weight_bytes(spec, plain=spec.device.get("kind", "cpu") == "cpu")
    weights += loaded_bytes(weight_files(spec.vad), "float32") if spec.vad else 0
    return Footprint(weights, need)


def weight_bytes(spec: EngineSpec, *, plain: bool) -> int:
    """Bytes of all weights in the model's files; `plain`: none of its layers stays quantized."""
    assert spec.model is not None
    packed = quantization(read_json(spec.model / "config.json"))
    return resident_bytes(headers(weight_files(spec.model)), spec.dtype, spec.bits, packed, plain=plain)
