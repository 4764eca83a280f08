"""What loading refuses: weights that are missing, foreign or misshapen, and whatever would be fetched."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from mlxbatch.engines import families, registry
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.mlx_audio.loading import load, network_of
from mlxbatch.errors import SetupError
from mlxbatch.models.residency import weight_bytes
from tests.engines.mlx_audio.tiny import MAKERS, NAMED, quantized, write

Models = Callable[[str], Path]
Change = Callable[[dict[str, mx.array]], object]


@pytest.fixture
def copy(models: Models, tmp_path: Path) -> Models:
    """A tiny directory of one's own."""
    return lambda name: Path(shutil.copytree(models(name), tmp_path / name))


def change(directory: Path, work: Change) -> None:
    weights = dict(mx.load(str(directory / "model.safetensors")))
    work(weights)
    mx.eval(weights)
    (directory / "model.safetensors").unlink()
    mx.save_safetensors(str(directory / "model.safetensors"), weights)


def refused(directory: Path) -> str:
    with pytest.raises(SetupError) as caught:
        load(directory, families.family_of(directory), mx.float32, dequantized=True)
    return str(caught.value)


@pytest.mark.parametrize("name", NAMED)
def test_every_weight_has_to_be_there(copy: Models, name: str) -> None:
    """The last one, in whichever part of the model that is: mlx-audio would leave it random."""
    directory = copy(name)
    change(directory, lambda weights: weights.pop(sorted(weights)[-1]))
    assert "model.safetensors: lacks the weight" in refused(directory)


@pytest.mark.parametrize("name", NAMED)
def test_every_weight_has_to_have_its_shape(copy: Models, name: str) -> None:
    directory = copy(name)
    change(directory, lambda weights: weights.update({sorted(weights)[0]: mx.zeros((3, 2))}))
    message = refused(directory)
    assert "has shape [3, 2], config.json wants" in message or "lacks the weight" in message


def test_a_config_with_fewer_layers_than_the_weights_is_another_model_s(copy: Models) -> None:
    directory = copy("parakeet")
    config = json.loads((directory / "config.json").read_text("utf-8"))
    config["encoder"]["n_layers"] = 1
    write(directory, "config.json", config)
    message = refused(directory)
    assert "holds encoder.layers.1." in message
    assert message.endswith("a layer that config.json does not have: weights and config do not belong together")


def test_weights_that_no_layer_has_are_passed_over(copy: Models) -> None:
    """Published checkpoints hold the windows and filters of their features, too."""
    directory = copy("cohere_asr")
    change(directory, lambda weights: weights.update({"preprocessor.featurizer.window": mx.ones((400,))}))
    load(directory, families.COHERE, mx.float32, dequantized=True)


def test_nothing_is_fetched_where_a_tokenizer_is_another_one(copy: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    """mlx-audio would take Qwen's from the model hub."""
    directory = copy("vibevoice_asr")
    tokenizer = json.loads((directory / "tokenizer.json").read_text("utf-8"))
    tokenizer["added_tokens"] = [one for one in tokenizer["added_tokens"] if "object_ref" not in one["content"]]
    write(directory, "tokenizer.json", tokenizer)
    monkeypatch.setattr(socket.socket, "connect", _no_network)
    assert refused(directory).startswith(f"{directory}: VibeVoice-ASR cannot be loaded from it: ")


def _no_network(*_: object) -> None:
    raise AssertionError("the network was asked")


@pytest.mark.parametrize("where", ["sub/tok.T", "{elsewhere}--tok.T", "some/repository--tok.T"])
@pytest.mark.parametrize("name", ["qwen3_asr", "vibevoice_asr", "glmasr"])
def test_no_program_is_run_that_a_setting_names(copy: Models, tmp_path: Path, name: str, where: str) -> None:
    """check_model refuses these before any is loaded; here is what would run them."""
    directory, ran = copy(name), tmp_path / "ran"
    program = f"open({str(ran)!r}, 'w')\nfrom transformers import PreTrainedTokenizerFast as T\n"
    for folder in (directory / "sub", tmp_path / "elsewhere"):
        folder.mkdir()
        (folder / "tok.py").write_text(program)
    reference = where.format(elsewhere=tmp_path / "elsewhere")
    settings = json.loads((directory / "tokenizer_config.json").read_text("utf-8"))
    settings |= {"auto_map": {"AutoTokenizer": [reference, reference]}, "tokenizer_class": "T"}
    write(directory, "tokenizer_config.json", settings)
    message = refused(directory)  # of VibeVoice, mlx-audio asks the hub for another tokenizer
    assert "names a program to run; take it out" in message or name == "vibevoice_asr"
    assert not ran.exists()


def test_a_config_that_makes_no_sense_is_one_line(copy: Models) -> None:
    directory = copy("qwen3_asr")
    config = json.loads((directory / "config.json").read_text("utf-8"))
    config["thinker_config"]["audio_config"]["encoder_attention_heads"] = 7
    write(directory, "config.json", config)
    assert "\n" not in refused(directory)


def test_weights_have_the_dtype_that_was_asked_for(models: Models) -> None:
    network = network_of(load(models("qwen3_asr"), families.QWEN3, mx.float16, dequantized=True))
    assert network.model.embed_tokens.weight.dtype == mx.float16


def size(directory: Path, kind: str, bits: int | None) -> tuple[int, int]:
    """Bytes of the weights in float16, as they are predicted and as they are."""
    spec = EngineSpec("mlx-audio", directory, dtype="float16", bits=bits, device={"kind": kind})
    told, family = registry.footprint(spec), families.family_of(directory)
    assert told is not None
    network = network_of(load(directory, family, mx.float16, bits, dequantized=kind == "cpu"))
    made = (array.nbytes for name, array in tree_flatten(network.parameters()) if name in family.computed)
    return told.weights, weight_bytes(network) - sum(made)


@pytest.mark.parametrize("name", MAKERS)
def test_the_size_of_weights_is_known_before_loading(models: Models, name: str) -> None:
    for kind, bits in (("cpu", None), ("cpu", 4), ("gpu", None), ("gpu", 4), ("gpu", 6)):
        told, found = size(models(name), kind, bits)
        assert told == pytest.approx(found, rel=0.02)


def test_the_size_of_packed_weights_too(copy: Models, tmp_path: Path) -> None:
    directory = copy("qwen3_asr")
    quantized(directory, tmp_path / "plain")
    sizes = [size(directory, kind, None) for kind in ("cpu", "gpu")]
    assert [told for told, _ in sizes] == [found for _, found in sizes]
    assert sizes[0] > sizes[1]
