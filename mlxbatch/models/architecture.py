"""What kind of model a directory holds, by its config.json and never by its path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlxbatch.errors import SetupError, show
from mlxbatch.models.weights import AGAIN, GROUP

# Those that MLX can pack.
BITS = (2, 3, 4, 5, 6, 8)


def architecture(config: Mapping[str, Any]) -> str:
    """The architecture that a config.json names, in lower case and with "_" for "-".

    NVIDIA's configs name their class in `target` instead, Kokoro's its parts alone; Whispers converted for MLX long ago
    name nothing.
    """
    thinker = config.get("thinker_config")
    if isinstance(thinker, Mapping) and thinker.get("model_type") == "qwen3_forced_aligner":
        return "qwen3_forced_aligner"  # the type of the whole is that of the models it aligns for
    if config.get("ternary_modules"):
        return "parakeet_redux"
    kind = config.get("model_type") or config.get("architecture")
    if isinstance(kind, str):
        return kind.lower().replace("-", "_")
    target = str(config.get("target", ""))
    if target.startswith("nemo.collections.asr.models."):
        return "canary" if "MultiTask" in target else "parakeet"
    if {"istftnet", "plbert"} <= config.keys():
        return "kokoro"
    return "whisper"


def quantization(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """How the weights beside a config.json are quantized: MLX's settings, some layers' own under their paths.

    None where they are plain. ValueError for a form that is not MLX's (GPTQ, AWQ, bitsandbytes and others).
    """
    settings = config.get("quantization") or config.get("quantization_config")
    if not settings:
        return None
    if not isinstance(settings, Mapping) or "quant_method" in settings or settings.get("bits") not in BITS:
        kind = settings.get("quant_method", "an unknown way") if isinstance(settings, Mapping) else settings
        raise ValueError(f"quantized by {kind}: only MLX's form is known here, with group_size and bits")
    return {"group_size": GROUP, **settings}


def read_json(path: Path) -> dict[str, Any]:
    """A model's JSON file; SetupError that says what is wrong with it."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise SetupError(_missing(path)) from error
    except OSError as error:
        raise SetupError(f"{show(path)}: {error.strerror or error}") from error
    except ValueError as error:
        raise SetupError(f"{show(path)}: not JSON ({error}); {AGAIN}") from error
    if not isinstance(value, dict):
        raise SetupError(f"{show(path)}: not a JSON object; {AGAIN}")
    return value


def _missing(path: Path) -> str:
    if path.name == "tokenizer.json":
        remedy = "copy the tokenizer.json of the Whisper it was made from into the directory"
        return f"{show(path)}: missing, so text cannot be decoded; {remedy}"
    return f"{show(path)}: missing; a model directory holds config.json, *.safetensors and tokenizer.json"
