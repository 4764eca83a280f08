"""The model card: all of it from the record."""

from __future__ import annotations

from dataclasses import replace

from mlxbatch.convert.origin import Origin
from mlxbatch.convert.proof.card import card
from mlxbatch.convert.proof.figures import plain
from mlxbatch.convert.proof.quality import (
    Calibration,
    Divergence,
    LayerError,
    Quality,
    Rates,
    Recognition,
    Speed,
    Weights,
)
from mlxbatch.convert.proof.ratio import Estimate

AWAY = Divergence(
    90, Estimate(0.00321, 0.0004), 0.0001, {"90": 0.01, "95": 0.02, "99": 0.1, "99.9": 0.3}, 0.4, Estimate(0.9889, 0.01)
)
FIGURES = Recognition(
    5, 1, 0, "greedy", Rates(0.05, 0.053), Rates(0.02, 0.021), Estimate(0.003, 0.001), AWAY, "its own text"
)
FOUND = Quality(
    "transcribe",
    "whisper",
    "full",
    Weights(145_000_000, 72_000_000, 16.0, "aa"),
    Weights(45_000_000, 72_000_000, 4.98, "bb"),
    origin=Origin("openai/whisper-base", "e37978b", "Apache-2.0", {"model.safetensors": "cc"}),
    dtype="float16",
    kept={"encoder.odd": "its rows are no whole groups of 64"},
    layers=(LayerError("decoder.blocks.0.mlp1", 0.09, 4, 64, "affine"), LayerError("encoder.conv1.bias", 1e-4)),
    calibration=Calibration("shipped clips", "dd", 5, 24.7, 67),
    recognition=FIGURES,
    speed_original=Speed(4.0, 24.7, 400_000_000, "float32"),
    speed_converted=Speed(4.1, 24.7, 410_000_000, "float32, weights dequantized on loading"),
    not_measured=("the weather",),
    made_with={"mlx": "0.32.4"},
)


def test_the_hub_reads_its_front_matter() -> None:
    _, front, _ = card(FOUND).split("---\n", 2)
    assert front.splitlines() == [
        'license: "apache-2.0"',
        "library_name: mlx",
        "pipeline_tag: automatic-speech-recognition",
        'base_model: "openai/whisper-base"',
        "base_model_relation: quantized",
        "tags:",
        "- mlx",
        "- mlxbatch",
        '- "whisper"',
    ]


def test_what_is_known_is_in_it() -> None:
    text = card(FOUND)
    for line in (
        "# `openai/whisper-base` for MLX, 4.98 bits a weight",
        "| revision | `e37978b` |",
        "| weights | 45 MB, of 145 MB |",
        "| identity (sha256) | `bb` |",
        "| word error rate | 5.00 % | 5.30 % |",
        "| loss, points |  | 0.30 ± 0.10 |",
        "| texts that changed |  | 1 of 5 |",
        "| KL divergence, nats a token |  | 0.00321 ± 0.0004 |",
        "| 99.9 % |  | 0.3 |",
        "| same likeliest token |  | 98.89 ± 1.00 % |",
        "| computed in | float32 | float32, weights dequantized on loading |",
        "| 4 bits, groups of 64, affine | 1 | 0.0900 | 0.0900 |",
        "| `encoder.odd` | its rows are no whole groups of 64 |",
        "- the weather",
        "| `model.safetensors` | `cc` |",
    ):
        assert line in text.splitlines(), line


def test_what_is_not_known_is_not_made_up() -> None:
    bare = Quality("vad", "silero", "none", FOUND.original, FOUND.converted, not_measured=("everything",))
    text = card(bare)
    assert "license" not in text
    assert "base_model" not in text
    assert "| licence | not found in the source's files |" in text
    assert "## Weights" not in text
    assert "error rate" not in text


def test_names_cannot_break_its_form() -> None:
    origin = Origin("dir|with`all\nof: it", None, 'own: "terms"\n---', {})
    text = card(replace(FOUND, origin=origin))
    assert text.splitlines()[1] == 'license: "own: \\"terms\\"\\n---"'
    assert r"| source | `dir\|with'all\nof: it` |" in text


def test_the_same_figures_in_a_terminal() -> None:
    lines = list(plain(FOUND))
    assert lines[0].split() == ["original", "converted"]
    assert lines[1].split() == ["size", "145", "MB", "45", "MB"]
    assert lines[-1] == "not measured: the weather"


def test_a_model_that_gives_no_numbers() -> None:
    broken = replace(AWAY, mean=Estimate(float("inf"), None), largest=float("inf"))
    text = card(replace(FOUND, recognition=replace(FIGURES, divergence=broken, failed=2)))
    assert "| KL divergence, nats a token |  | not finite ± ? |" in text
    assert "| clips that failed |  | 2 of 5 |" in text
