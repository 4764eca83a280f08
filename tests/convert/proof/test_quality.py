"""quality.json: what is written is what is read."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from mlxbatch.convert.origin import Origin
from mlxbatch.convert.proof import quality
from mlxbatch.convert.proof.quality import FILE, Divergence, LayerError, Quality, Recognition, Speed, Weights
from mlxbatch.convert.proof.ratio import Estimate
from mlxbatch.errors import SetupError

FOUND = Quality(
    "transcribe",
    "whisper",
    "quick",
    Weights(160, 80, 16.0, "a"),
    Weights(45, 80, 4.5, "b"),
    origin=Origin("org/name", "abc", "mit", {"model.safetensors": "ff"}),
    kept={"decoder.token_embedding": "asked for"},
    layers=(LayerError("encoder.blocks.0.mlp1", 0.1, 4, 64, "affine"), LayerError("encoder.conv1.bias", 1e-3)),
    recognition=Recognition(
        5,
        1,
        0,
        "greedy",
        divergence=Divergence(9, Estimate(math.inf, None), 0.1, {"99": math.nan}, 1.0, Estimate(1, 0)),
    ),
    speed_original=Speed(2.0, 10.0, 1, "float32"),
)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = quality.write(FOUND, tmp_path)
    assert path == tmp_path / FILE
    found = quality.read(path)
    assert found.recognition is not None
    assert found.recognition.divergence is not None
    assert math.isnan(found.recognition.divergence.quantiles["99"])
    assert quality.text(found) == quality.text(FOUND)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_it_is_json_that_any_program_reads(tmp_path: Path) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    told = json.loads(quality.write(FOUND, tmp_path).read_text("utf-8"), parse_constant=refuse)
    assert (told["schema"], told["converted"]["bits_per_weight"]) == (1, 4.5)
    assert told["recognition"]["divergence"]["mean"] == {"value": "Infinity", "error": None}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "Invalid JSON"),
        (quality.text(FOUND).replace('"schema": 1', '"schema": 2'), "schema: Input should be 1"),
        (quality.text(FOUND).replace('"task"', '"tusk"'), "task: "),
    ],
)
def test_another_record_is_said_to_be_one(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(SetupError, match=message):
        quality.read(tmp_path / FILE)
    assert quality.find(tmp_path) is None


def test_a_directory_without_one(tmp_path: Path) -> None:
    assert quality.find(tmp_path) is None
    with pytest.raises(SetupError, match="No such file"):
        quality.read(tmp_path / FILE)


def test_speed_is_audio_by_time() -> None:
    assert Speed(2.0, 10.0, 1, "float32").rtfx == 5.0
