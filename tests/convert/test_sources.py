"""Every layout that a Whisper is published in gives the very same weights; what is damaged or foreign is refused."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from mlxbatch.convert import whisper_checkpoints
from mlxbatch.convert.checkpoint import Checkpoint
from mlxbatch.convert.sources import open_source
from mlxbatch.convert.whisper_files import model_config
from mlxbatch.convert.whisper_weights import sinusoids
from mlxbatch.engines.whisper.layout import Dims
from mlxbatch.errors import MlxBatchError, NotHere, SetupError, UsageError
from mlxbatch.models.identity import file_sha
from mlxbatch.models.weights import INDEX
from tests.convert.ct2 import ct2_bytes, ct2_variables, write_ct2_source
from tests.convert.layouts import hf_config, hf_tensors, write_hf_config, write_openai, write_shards
from tests.models.hub_server import HubServer, commit, serve, use
from tests.models.tiny import TINY_DIMS, tiny_tensors, tiny_tokenizer, write_json, write_tiny_whisper

Read = dict[str, NDArray[Any]]
TENSORS = tiny_tensors()


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLXBATCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The tiny Whisper in MLX's layout."""
    return write_tiny_whisper(tmp_path / "model")


def opened(
    name: object, *, revision: str | None = None, task: str | None = None, online: bool = False
) -> tuple[Checkpoint, Read]:
    """The checkpoint, and all of its weights while it was open; bfloat16 as float32."""
    with open_source(str(name), revision=revision, task=task, offline=not online, say=lambda line: None) as found:
        return found, {name: _numpy(weight.read()) for name, weight in found.weights.items()}


def _numpy(array: mx.array) -> NDArray[Any]:
    return np.asarray(array.astype(mx.float32) if array.dtype == mx.bfloat16 else array)


def refused(name: object, **asked: Any) -> str:
    with pytest.raises(MlxBatchError) as caught:
        opened(name, **asked)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def same(read: Mapping[str, NDArray[Any]], wanted: Mapping[str, NDArray[Any]]) -> None:
    assert list(read) == list(wanted)
    for name, values in wanted.items():
        assert read[name].dtype == values.dtype
        np.testing.assert_array_equal(read[name], values, err_msg=name)


# ---- the layouts


def as_hugging_face(directory: Path) -> Path:
    save_file(hf_tensors(TENSORS, TINY_DIMS), directory / "model.safetensors")
    write_hf_config(directory, TINY_DIMS)
    return directory


def as_shards(directory: Path) -> Path:
    write_shards(directory, hf_tensors(TENSORS, TINY_DIMS))
    write_hf_config(directory, TINY_DIMS)
    return directory


def as_weights(directory: Path) -> Path:
    (directory / "model.safetensors").rename(directory / "weights.safetensors")
    return directory


def as_npz(directory: Path) -> Path:
    (directory / "model.safetensors").unlink()
    np.savez(directory / "weights.npz", **TENSORS)  # type: ignore[arg-type]
    return directory


def as_ctranslate2(directory: Path) -> Path:
    return write_ct2_source(directory.parent / "ct2")


LAYOUTS = (Path, as_hugging_face, as_shards, as_weights, as_npz, as_ctranslate2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_the_same_checkpoint(model: Path, layout: Callable[[Path], Path]) -> None:
    source = layout(model)
    found, read = opened(source)
    same(read, TENSORS)
    assert (found.architecture, found.task, found.quantized) == ("whisper", "transcribe", False)
    assert found.config == model_config(TINY_DIMS)
    assert {name: (weight.shape, weight.kind) for name, weight in found.weights.items()} == {
        name: (values.shape, "F16") for name, values in TENSORS.items()
    }
    beside = {"tokenizer.json", "generation_config.json", "tokenizer_config.json", "preprocessor_config.json"}
    assert set(found.files) == beside
    assert found.origin.source == str(source)
    assert found.origin.sha256 == {name: file_sha(source / name) for name in found.origin.sha256}
    assert {path.name for path in source.glob("*[sz]")} - {INDEX} <= set(found.origin.sha256)


def test_the_layers_are_those_that_mlx_quantizes(model: Path) -> None:
    found, _ = opened(model)
    blocks = [f"{side}.blocks.{number}" for side in ("encoder", "decoder") for number in (0, 1)]
    parts = [f"{kind}.{part}" for kind in ("attn", "cross_attn") for part in ("query", "key", "value", "out")]
    named = [f"{block}.{part}" for block in blocks for part in (*parts, "mlp1", "mlp2")]
    wanted = {path for path in named if not path.startswith("encoder") or "cross" not in path}
    assert found.layers == wanted | {"decoder.token_embedding"}
    assert all(f"{path}.weight" in found.weights for path in found.layers)


@pytest.mark.parametrize("kind", [mx.bfloat16, mx.float32])
def test_a_type_stays_what_it_is(model: Path, kind: mx.Dtype) -> None:
    wide = {name: mx.array(values).astype(kind) for name, values in TENSORS.items()}
    mx.save_safetensors(str(model / "model.safetensors"), wide)
    with open_source(str(model), revision=None, task=None, offline=True, say=print) as found:
        assert {weight.kind for weight in found.weights.values()} == {"BF16" if kind == mx.bfloat16 else "F32"}
        for name, weight in found.weights.items():
            read = weight.read()
            assert read.dtype == kind
            assert mx.array_equal(read, wide[name])


def test_64_bits_become_32(model: Path) -> None:
    save_file({name: values.astype(np.float64) for name, values in TENSORS.items()}, model / "model.safetensors")
    found, read = opened(model)
    assert {weight.kind for weight in found.weights.values()} == {"F32"}
    same(read, {name: values.astype(np.float32) for name, values in TENSORS.items()})


def test_openai_s_pt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dims = replace(TINY_DIMS, n_vocab=51_865, n_audio_state=32, n_text_state=32, n_text_ctx=64)
    asked = []
    write_json(tmp_path / "tokenizer.json", tiny_tokenizer())

    def tokenizer(n_vocab: int, **_: Any) -> Path:
        asked.append(n_vocab)
        return tmp_path / "tokenizer.json"

    monkeypatch.setattr(whisper_checkpoints, "tokenizer_file", tokenizer)
    tensors = tiny_tensors(dims=dims)
    found, read = opened(write_openai(tmp_path / "tiny.pt", tensors, dims))
    same(read, tensors)
    assert asked == [51_865]
    assert found.config == model_config(dims)
    assert found.files["tokenizer.json"] == tmp_path / "tokenizer.json"
    decoding = json.loads(bytes(found.files["generation_config.json"]))  # type: ignore[arg-type]
    assert decoding["is_multilingual"] is True
    assert decoding["alignment_heads"] == [[1, 0], [1, 1]]
    assert list(found.origin.sha256) == ["tiny.pt"]


def test_a_quantized_ctranslate2_model_is_what_its_integers_stand_for(tmp_path: Path) -> None:
    source = write_ct2_source(tmp_path / "ct2")
    variables = ct2_variables(TENSORS)
    for name in [name for name in variables if name.endswith("/weight") and variables[name].ndim == 2]:
        scale = 127 / np.abs(variables[name].astype(np.float32)).max(axis=1)
        variables |= {name: np.rint(variables[name] * scale[:, None]).astype(np.int8), f"{name}_scale": scale}
    (source / "model.bin").write_bytes(ct2_bytes(variables))
    found, read = opened(source)
    assert not found.quantized
    for name, values in TENSORS.items():
        step = np.abs(values).max() / 127 if name.removesuffix(".weight") in found.layers else 0
        np.testing.assert_allclose(read[name], values, atol=0.6 * step, err_msg=name)


def test_alignment_heads_among_the_weights_go_into_the_settings(model: Path) -> None:
    (model / "generation_config.json").unlink()
    save_file({**TENSORS, "alignment_heads": np.array([[0, 1]])}, model / "model.safetensors")
    found, read = opened(model)
    assert list(read) == list(TENSORS)
    decoding = json.loads(bytes(found.files["generation_config.json"]))  # type: ignore[arg-type]
    assert decoding["alignment_heads"] == [[0, 1]]


def test_a_model_that_mlx_quantized_says_so(model: Path) -> None:
    packed = {name: mx.array(values) for name, values in TENSORS.items()}
    layer = "decoder.blocks.0.mlp1"
    parts = mx.quantize(packed[f"{layer}.weight"], group_size=32, bits=4)
    packed |= {f"{layer}.{part}": array for part, array in zip(("weight", "scales", "biases"), parts, strict=True)}
    mx.save_safetensors(str(model / "model.safetensors"), packed)
    settings = {"group_size": 32, "bits": 4}
    write_json(model / "config.json", model_config(TINY_DIMS) | {"quantization": settings})
    found, read = opened(model)
    assert found.quantized
    assert found.config["quantization"] == settings
    assert found.weights[f"{layer}.weight"].kind == "U32"
    same(read, {name: np.asarray(packed[name]) for name in found.weights})
    assert set(read) == set(packed)


def test_programs_that_the_settings_name_stay_behind(model: Path) -> None:
    (model / "modeling.py").write_text("print('here')")
    write_json(model / "tokenizer_config.json", {"tokenizer_class": "A", "auto_map": {"AutoTokenizer": "modeling.T"}})
    (model / "LICENSE").write_text("MIT License")
    found, _ = opened(model)
    assert "modeling.py" not in found.files
    content = found.files["tokenizer_config.json"]
    assert isinstance(content, bytes)
    assert json.loads(content) == {"tokenizer_class": "A"}
    assert (found.origin.licence, found.files["LICENSE"]) == ("MIT", model / "LICENSE")


def test_a_local_source_asks_no_network(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    opened(as_hugging_face(model), online=True)


# ---- what is damaged, or another's


def change(model: Path, work: Callable[[dict[str, NDArray[Any]]], object]) -> Path:
    tensors: dict[str, NDArray[Any]] = hf_tensors(TENSORS, TINY_DIMS)
    work(tensors)
    save_file(tensors, as_hugging_face(model) / "model.safetensors")
    return model


POSITIONS = "model.encoder.embed_positions.weight"


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda t: t.pop("model.decoder.layers.1.fc2.bias"), "lacks the weight decoder.blocks.1.mlp2.bias"),
        (
            lambda t: t.update({"model.encoder.layers.0.fc1.weight": np.zeros((64, 256), np.float16)}),
            "encoder.blocks.0.mlp1.weight has shape [64, 256], [256, 64] is needed",
        ),
        (lambda t: t.update({"model.encoder.conv1.weight": np.zeros((64, 80), np.float16)}), "a convolution of shape"),
        (lambda t: t.update({POSITIONS: np.ones((1500, 64))}), "the encoder's positions are not Whisper's sinusoids"),
        (
            lambda t: t.update({"model.encoder.layers.2.fc1.weight": np.zeros((64, 256))}),
            "holds encoder.blocks.2.mlp1.weight, a layer that its sizes do not have",
        ),
        (lambda t: t.update({"model.x.qweight": np.zeros(4)}), "model.x.qweight is quantized by GPTQ or AWQ"),
    ],
)
def test_weights_that_are_not_right_are_refused(
    model: Path, work: Callable[[dict[str, NDArray[Any]]], object], message: str
) -> None:
    assert message in refused(change(model, work))


def test_positions_in_bfloat16_are_known(model: Path) -> None:
    tensors = {name: mx.array(values).astype(mx.bfloat16) for name, values in hf_tensors(TENSORS, TINY_DIMS).items()}
    tensors[POSITIONS] = mx.array(sinusoids(1500, 64)).astype(mx.bfloat16)
    mx.save_safetensors(str(as_hugging_face(model) / "model.safetensors"), tensors)
    opened(model)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 4}},
            "config.json: quantized by gptq: only MLX's",
        ),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "; convert the model it was made from"),
        ({"tie_word_embeddings": False}, "its output has a matrix of its own"),
        ({"model_type": "wisper"}, "no architecture 'wisper' is known here or to mlx-audio; did you mean 'whisper'?"),
        ({"model_type": "../os"}, "no architecture '../os' is known"),
        ({"d_model": 0}, "key 'd_model' must be a whole number above 0, not 0"),
    ],
)
def test_a_config_that_is_not_right_is_refused(model: Path, more: dict[str, Any], message: str) -> None:
    write_hf_config(as_hugging_face(model), TINY_DIMS, **more)
    assert message in refused(model)


def test_a_truncated_file_is_refused(model: Path) -> None:
    whole = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(whole[:-100])
    assert "model.safetensors: its header tells of" in refused(model)


def test_a_shard_that_is_missing_is_refused(model: Path) -> None:
    (as_shards(model) / "model-00002-of-00003.safetensors").unlink()
    assert "model-00002-of-00003.safetensors: the shard is missing (1 of 3 are)" in refused(model)


def test_shards_and_their_index_have_to_agree(model: Path) -> None:
    index = json.loads((as_shards(model) / INDEX).read_text())
    name, shard = "proj_out.weight", "model-00001-of-00003.safetensors"
    other = next(one for one in index["weight_map"].values() if one != index["weight_map"][name])
    write_json(model / INDEX, index | {"weight_map": index["weight_map"] | {name: other}})
    assert f"{INDEX}: puts {name} into {other}, but it is in " in refused(model)
    write_json(model / INDEX, index | {"weight_map": index["weight_map"] | {"model.more": shard}})
    assert f"{shard}: lacks the weight model.more, which {INDEX} puts there" in refused(model)


def test_a_weight_in_two_files_is_refused(model: Path) -> None:
    for name in ("a", "b"):
        save_file(TENSORS, model / f"{name}.safetensors")
    (model / "model.safetensors").unlink()
    assert (
        "b.safetensors: holds decoder.blocks.0.attn.key.weight, as a.safetensors does: take one of them away"
        in refused(model)
    )


def test_a_ctranslate2_file_with_another_magic_is_refused(tmp_path: Path) -> None:
    source = write_ct2_source(tmp_path / "ct2")
    (source / "model.bin").write_bytes(b"GGUF" + bytes(100))
    assert "ct2: model.bin: no CTranslate2 model of version 6 (its first word is" in refused(source)


def test_a_pt_that_is_no_whisper_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")
    assert "model.pt: no zip archive, or cut short" in refused(path)
    dims = replace(TINY_DIMS, n_mels=128)
    assert "encoder.conv1.weight has shape" in refused(write_openai(path, TENSORS, dims))


def test_a_vocabulary_of_no_published_size_needs_its_tokenizer(tmp_path: Path) -> None:
    path = write_openai(tmp_path / "model.pt", TENSORS, TINY_DIMS)
    assert refused(path) == f"{path}: it has no tokenizer.json, and 1870 tokens are no published Whisper's"


def test_a_tokenizer_that_would_be_fetched_is_not_offline(tmp_path: Path) -> None:
    dims = replace(TINY_DIMS, n_vocab=51_865, n_audio_state=32, n_text_state=32, n_text_ctx=64)
    path = write_openai(tmp_path / "model.pt", tiny_tensors(dims=dims), dims)
    with pytest.raises(NotHere, match=r"it has no tokenizer, and the canonical one cannot be had: it comes with"):
        opened(path)


@pytest.mark.parametrize("name", ["model.bin", "weights.gguf", "model.safetensors"])
def test_another_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    assert f"{name}: no checkpoint of a kind that is read here" in refused(tmp_path / name)


def test_a_directory_without_a_config_is_refused(model: Path) -> None:
    (model / "config.json").unlink()
    assert "config.json: missing" in refused(model)


def test_a_task_that_is_not_the_model_s(model: Path) -> None:
    with pytest.raises(UsageError, match=r"a Whisper, which is for transcribe and not for synthesize"):
        opened(model, task="synthesize")
    with pytest.raises(UsageError, match=r"--task sing: a model is for one of transcribe, synthesize, separate"):
        opened(model, task="sing")
    assert opened(model, task="transcribe")[0].task == "transcribe"


# ---- names, and the hub


REPO = "org/tiny"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def files(directory: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in directory.iterdir()}

    card = {"README.md": b"---\nlanguage: en\nlicense: apache-2.0\n---\n# A card\n"}
    main = files(write_tiny_whisper(tmp_path / "files")) | card
    ct2 = files(write_ct2_source(tmp_path / "ct2")) | card
    repos = {REPO: {"main": main, "v2": main | {"LICENSE": b"x"}}, "org/ct2": {"main": ct2}}
    with serve(HubServer(repos)) as server:
        use(server, monkeypatch, tmp_path)
        yield server


@pytest.mark.parametrize(
    ("name", "revision", "told"), [(REPO, None, "main"), (REPO, "v2", "v2"), (f"{REPO}@v2", None, "v2")]
)
def test_a_model_of_the_hub(hub: HubServer, name: str, revision: str | None, told: str) -> None:
    found, read = opened(name, revision=revision, online=True)
    same(read, TENSORS)
    assert found.origin.revision == commit(REPO, hub.repos[REPO][told])
    assert (found.origin.source, found.origin.licence) == (name, "apache-2.0")
    asked = len(hub.log)
    again, _ = opened(name, revision=revision)
    assert again.origin == found.origin
    assert len(hub.log) == asked


def test_a_ctranslate2_model_of_the_hub(hub: HubServer) -> None:
    found, read = opened("org/ct2", online=True)
    same(read, TENSORS)
    assert found.origin.licence == "apache-2.0"
    same(opened("org/ct2")[1], TENSORS)


def test_a_hub_that_is_not_there(hub: HubServer) -> None:
    assert "org/tiny is not in the hub's cache on this machine, and this run is offline" in refused(REPO)
    hub.api_faults += [503] * 9
    assert "org/tiny: the model hub cannot be reached" in refused(REPO, online=True)
    hub.api_faults.clear()
    assert refused("org/none", online=True).startswith("org/none: no such model on the hub")
    assert "has no revision 'v9'" in refused(REPO, revision="v9", online=True)


def test_a_revision_is_the_hub_s(model: Path) -> None:
    for name in (str(model), "whisper-base"):
        with pytest.raises(UsageError, match=r"--revision is for models of the hub, which this is not"):
            opened(name, revision="main")
    with pytest.raises(UsageError, match=r"org/tiny@v1: its revision is not that of --revision v2"):
        opened("org/tiny@v1", revision="v2")


@pytest.mark.parametrize("name", ["./nothing", "whisper-bse"])
def test_there_is_no_such_source(name: str) -> None:
    with pytest.raises(SetupError, match=r"no such model directory|did you mean 'whisper-base'"):
        opened(name)


# ---- real weights


@pytest.mark.real
def test_whisper_base_in_every_layout(whisper_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is read back to the very same numbers."""
    monkeypatch.setenv("MLXBATCH_CACHE", str(whisper_base.parents[1]))
    wanted = {name: np.asarray(array) for name, array in mx.load(str(whisper_base / "model.safetensors")).items()}
    dims = Dims.from_config(json.loads((whisper_base / "config.json").read_text()))
    for directory in (hugging_face := tmp_path / "hf", shards := tmp_path / "shards", archive := tmp_path / "npz"):
        directory.mkdir()
        for name in ("tokenizer.json", "config.json"):
            (directory / name).symlink_to(whisper_base / name)
    save_file(hf_tensors(wanted, dims), hugging_face / "model.safetensors")
    (hugging_face / "config.json").unlink()
    write_json(hugging_face / "config.json", hf_config(dims))
    write_shards(shards, wanted)
    np.savez(archive / "weights.npz", **wanted)  # type: ignore[arg-type]
    path = write_openai(tmp_path / "base.pt", wanted, dims)
    for source in (hugging_face, shards, archive, path, "whisper-base"):
        found, read = opened(source)
        assert set(read) == set(wanted)
        for name, values in read.items():
            assert values.dtype == wanted[name].dtype
            assert values.tobytes() == wanted[name].tobytes(), f"{source} {name}"
    assert found.origin.licence == "MIT"
