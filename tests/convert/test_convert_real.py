"""Whisper base in eight bits: here and in plain mlx-audio it says what the original says."""

from __future__ import annotations

import csv
from pathlib import Path

import mlx.core as mx
import pytest

from mlxbatch.convert.recipe import asked_for, precision
from mlxbatch.convert.reload import Reloaded, reload
from mlxbatch.convert.run import layers_of
from mlxbatch.convert.write import write
from mlxbatch.engines.quantizing import dequantize
from mlxbatch.quality import wer
from tests.cli.conftest import ROOT, finish, program
from tests.convert.mlx_source import checkpoint_of

pytestmark = pytest.mark.real
CLIP = "calls/demo-thanks"


@pytest.fixture(scope="module")
def eight_bits(whisper_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("converted") / "base-8bit"
    source = checkpoint_of(whisper_base)
    own = precision(asked_for(8), layers_of(source), architecture="whisper", task="transcribe")
    write(source, {folder: own}, lambda step: None)
    return folder


def said() -> str:
    with (ROOT / "examples" / "texts.tsv").open(encoding="utf-8", newline="") as file:
        rows = {row["file"]: row["text"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}
    return rows[f"{CLIP}.wav"]


def test_it_is_half_as_large_and_runs(eight_bits: Path, whisper_base: Path) -> None:
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (eight_bits, whisper_base)]
    assert 0.52 < sizes[0] / sizes[1] < 0.55, "8.5 bits of 16, and what is no matrix"
    assert reload(eight_bits) == Reloaded(True, form="float32 on cpu")


def test_mlxbatch_hears_with_it(eight_bits: Path, tmp_path: Path) -> None:
    clip = ROOT / "examples" / f"{CLIP}.wav"
    ran = finish(program("transcribe", clip, "-o", tmp_path, "--model", eight_bits, "--language", "en", "--offline"))
    assert ran.code == 0, ran.err
    assert wer([said()], [(tmp_path / "demo-thanks.txt").read_text("utf-8")]) < 0.1


@pytest.mark.filterwarnings("ignore")  # of its own
@pytest.mark.parametrize("plain", [True, pytest.param(False, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])])
def test_plain_mlx_audio_hears_with_it(eight_bits: Path, plain: bool) -> None:
    """Quantized products run at 1 GFLOPS on a CPU, so that it takes minutes; plain ones of the same numbers do not."""
    from mlx_audio.stt.utils import load_model

    model = load_model(eight_bits)
    if plain:
        dequantize(model)
    model.set_dtype(mx.float32)
    model.dtype = mx.float32
    found = model.generate(str(ROOT / "examples" / f"{CLIP}.wav"), language="en", temperature=0.0, fp16=False)
    assert wer([said()], [found.text]) < 0.1
