"""Is a model directory of any family whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mlxbatch.engines.families import COHERE, PARAKEET, QWEN3, WHISPER
from mlxbatch.errors import SetupError
from mlxbatch.models.identity import model_sha
from mlxbatch.models.whole import check_model
from tests.engines.mlx_audio import tiny
from tests.models.tiny import write_tiny_whisper


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.qwen3_asr(tmp_path_factory.mktemp("whole") / "qwen")


@pytest.fixture
def copy(qwen: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(qwen, tmp_path / "qwen"))


def test_each_by_its_family(qwen: Path, tmp_path: Path) -> None:
    assert check_model(qwen) is QWEN3
    assert check_model(tiny.parakeet(tmp_path / "parakeet")) is PARAKEET
    assert check_model(tiny.cohere_asr(tmp_path / "cohere")) is COHERE
    assert check_model(write_tiny_whisper(tmp_path / "whisper")) is WHISPER


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "preprocessor_config.json"])
def test_a_file_that_is_missing_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(SetupError, match=rf"{name}.*: missing, Qwen3-ASR needs it"):
        check_model(copy)


def test_weights_that_are_cut_short_are_named(copy: Path) -> None:
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(SetupError, match=r"model\.safetensors: no readable safetensors file"):
        check_model(copy)
    weights.unlink()
    with pytest.raises(SetupError, match=r"no \*\.safetensors in it"):
        check_model(copy)


@pytest.mark.parametrize("name", ["tokenization.py", "below/tokenization.py"])
def test_a_program_in_the_directory_is_not_run(copy: Path, name: str) -> None:
    (copy / name).parent.mkdir(exist_ok=True)
    (copy / name).write_text("raise SystemExit")
    with pytest.raises(SetupError, match=r"tokenization\.py: a program among the model's files"):
        check_model(copy)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "config.json", "processor_config.json"])
def test_a_setting_that_names_programs_is_refused(copy: Path, name: str) -> None:
    settings = json.loads((copy / name).read_text("utf-8")) if (copy / name).exists() else {}
    (copy / name).write_text(json.dumps(settings | {"auto_map": {"AutoTokenizer": ["/else/where--tok.T", None]}}))
    with pytest.raises(SetupError, match=rf"{name}: names programs to run \(auto_map\); take that key out"):
        check_model(copy)


def test_a_token_may_have_that_name(copy: Path) -> None:
    (copy / "vocab.json").write_text('{"auto_map": 7}')
    assert check_model(copy) is QWEN3


def test_a_form_of_quantization_that_is_not_mlx_s_is_refused(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text("utf-8"))
    (copy / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "awq", "bits": 4}}))
    with pytest.raises(SetupError, match=r"config\.json: quantized by awq: only MLX's form is known here"):
        check_model(copy)


def test_no_directory() -> None:
    with pytest.raises(SetupError, match="no such model directory"):
        check_model(Path("/nothing/here"))


def test_every_setting_counts_for_what_the_model_is(copy: Path) -> None:
    """A Whisper's is known by three files; others have tokenizers and statistics of many names."""
    before = model_sha(copy)
    (copy / "README.md").write_text("new")
    assert model_sha(copy) == before
    (copy / "preprocessor_config.json").write_text("{}")
    changed = model_sha(copy)
    (copy / "am.mvn").write_text("0 1")
    assert len({before, changed, model_sha(copy)}) == 3
