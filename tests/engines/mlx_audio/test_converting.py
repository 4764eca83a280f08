"""Every family's checkpoint through its own class: what mlx-audio would load, one weight at a time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from mlxbatch.convert import sources
from mlxbatch.convert.checkpoint import Checkpoint
from mlxbatch.engines import families
from mlxbatch.engines.mlx_audio import converting
from mlxbatch.engines.mlx_audio.loading import load, network_of
from mlxbatch.errors import SetupError, UsageError
from tests.engines.mlx_audio.tiny import MAKERS, NAMED, quantized, write

Models = Callable[[str], Path]


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLXBATCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def opened() -> Any:
    with ExitStack() as stack:

        def find(directory: Path, task: str | None = None) -> Checkpoint:
            asked = {"revision": None, "task": task, "offline": True, "say": lambda line: None}
            return stack.enter_context(sources.open_source(str(directory), **asked))

        yield find


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_the_weights_are_those_that_mlx_audio_loads(models: Models, opened: Any, name: str) -> None:
    directory = models(name)
    family = families.family_of(directory)
    network = network_of(load(directory, family, mx.float32, dequantized=False))
    wanted = dict(tree_flatten(network.parameters()))
    found = opened(directory)
    assert found.weights.keys() == wanted.keys() - set(family.computed)
    for key, weight in found.weights.items():
        read = weight.read()
        assert read.shape == weight.shape == wanted[key].shape
        assert mx.array_equal(read.astype(mx.float32), wanted[key], equal_nan=True), key
    assert found.task == "transcribe"
    assert found.layers
    assert {f"{layer}.weight" for layer in found.layers} <= found.weights.keys()


@pytest.mark.parametrize(("name", "plain"), [("qwen3_asr", "audio_tower"), ("granite_speech", "encoder")])
def test_layers_that_the_model_keeps_plain_are_not_among_them(
    models: Models, opened: Any, name: str, plain: str
) -> None:
    layers = opened(models(name)).layers
    assert layers
    assert not [layer for layer in layers if layer.startswith(plain)]


def test_a_weight_can_be_read_again_and_is_not_held(models: Models) -> None:
    directory = models("qwen3_asr")
    home = converting.home("qwen3_asr", None)
    assert home == ("transcribe", "mlx_audio.stt.models.qwen3_asr")
    found = converting.open_directory(directory, "qwen3_asr", home[1])
    before, most = mx.get_active_memory(), 0
    for weight in found.weights.values():
        array = weight.read()
        most = max(most, mx.get_active_memory() - before)
        assert mx.array_equal(array, weight.read())
    largest = max(array.nbytes for array in mx.load(str(directory / "model.safetensors")).values())
    assert most <= 3 * largest


def test_a_quantized_one_is_told_and_stays_packed(models: Models, opened: Any, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(models("qwen3_asr"), tmp_path / "packed"))
    plain = opened(models("qwen3_asr")).layers
    quantized(directory, tmp_path / "rounded")
    found = opened(directory)
    assert found.quantized
    assert found.config["quantization"] == {"group_size": 32, "bits": 4}
    stored = mx.load(str(directory / "model.safetensors"))
    assert found.layers == plain == {name.removesuffix(".scales") for name in stored if name.endswith(".scales")}
    for name, weight in found.weights.items():
        assert mx.array_equal(weight.read(), stored[name])


@pytest.mark.parametrize("name", NAMED)
def test_a_weight_that_is_missing_is_told(models: Models, opened: Any, tmp_path: Path, name: str) -> None:
    directory = Path(shutil.copytree(models(name), tmp_path / name))
    weights = dict(mx.load(str(directory / "model.safetensors")))
    weights.pop(sorted(weights)[-1])
    mx.eval(weights)
    mx.save_safetensors(str(directory / "model.safetensors"), weights)
    with pytest.raises(SetupError, match=r"model.safetensors: lacks the weight"):
        opened(directory)


def test_a_file_cut_short_is_told_before_mlx_reads_it(models: Models, opened: Any, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(models("parakeet"), tmp_path / "cut"))
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(SetupError, match=r"model.safetensors: its header tells of"):
        opened(directory)


def test_programs_named_in_the_config_stay_behind(models: Models, opened: Any, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(models("parakeet"), tmp_path / "coded"))
    config = json.loads((directory / "config.json").read_text())
    write(directory, "config.json", config | {"auto_map": {"AutoModel": "modeling.Model"}})
    assert opened(directory).config == config


def test_another_task_than_the_model_s_is_refused(models: Models, opened: Any) -> None:
    with pytest.raises(UsageError, match=r"no 'parakeet' model that mlx-audio knows is for separate"):
        opened(models("parakeet"), "separate")


@pytest.mark.parametrize(
    ("kind", "task", "home"),
    [
        ("kokoro", None, ("synthesize", "mlx_audio.tts.models.kokoro")),
        ("csm", None, ("synthesize", "mlx_audio.tts.models.sesame")),
        ("mossformer2", None, ("separate", "mlx_audio.sts.models.mossformer2_se")),
        ("vibevoice", None, ("transcribe", "mlx_audio.stt.models.vibevoice_asr")),
        ("vibevoice", "synthesize", ("synthesize", "mlx_audio.tts.models.vibevoice")),
        ("os", None, None),
        ("base", None, None),
    ],
)
def test_where_an_architecture_is_at_home(kind: str, task: Any, home: Any) -> None:
    assert converting.home(kind, task) == home


def test_mlx_audio_that_is_not_installed_is_named(models: Models, opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converting, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match=r"a 'parakeet' model is converted by mlx-audio.*pip install 'mlxbatch"):
        opened(models("parakeet"))
