"""Is Silero VAD's directory whole: every weight there in its shape. No weight is loaded."""

from __future__ import annotations

import json
from pathlib import Path

from mlxbatch.errors import SetupError, show
from mlxbatch.models.weights import AGAIN, shapes, weight_files
from mlxbatch.vad.layout import NETWORKS, expected_shapes


def check_silero(directory: Path) -> None:
    """Raise SetupError that names the file at fault and what to do."""
    if not directory.is_dir():
        raise SetupError(f"{show(directory)}: no such model directory")
    _check_config(directory / "config.json")
    (path, *_) = weight_files(directory)
    found = dict(shapes(path))
    wanted = {f"{rate}.{name}": shape for rate in NETWORKS for name, shape in expected_shapes(rate).items()}
    for name, shape in wanted.items():
        if name not in found:
            raise SetupError(f"{show(path)}: lacks the weight {name}; {AGAIN}")
        if found[name] != shape:
            raise SetupError(f"{show(path)}: {name} has shape {list(found[name])}, {list(shape)} is needed; {AGAIN}")


def _check_config(path: Path) -> None:
    try:
        kind = json.loads(path.read_bytes())["model_type"]
    except OSError as error:
        raise SetupError(f"{show(path)}: {error.strerror or error}; {AGAIN}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SetupError(f"{show(path)}: not a model's config; {AGAIN}") from error
    if kind != "silero_vad":
        raise SetupError(f"{show(path)}: a {kind!r} model, not Silero VAD")
