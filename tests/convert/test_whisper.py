from __future__ import annotations

import json
import sys
from pathlib import Path
from subprocess import run
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from mlxbatch.convert.whisper import convert_ctranslate2
from mlxbatch.convert.whisper_weights import sinusoids
from mlxbatch.engines.whisper.layout import Dims
from mlxbatch.models.check import check_whisper
from tests.convert.ct2 import ct2_bytes, ct2_config, ct2_variables, write_ct2_source
from tests.models.tiny import TIMESTAMPS, TINY_DIMS, TOKEN_IDS, tiny_tensors, tiny_tokenizer, write_json


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_ct2_source(tmp_path / "source")


def test_every_weight_arrives_unchanged(source: Path, tmp_path: Path) -> None:
    convert_ctranslate2(source, tmp_path / "model")
    made, wanted = load_file(tmp_path / "model" / "model.safetensors"), tiny_tensors()
    assert made.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert made[name].dtype == np.float16
        np.testing.assert_array_equal(made[name], tensor, err_msg=name)


def test_the_directory_is_whole(source: Path, tmp_path: Path) -> None:
    (source / "LICENSE").write_text("MIT")
    convert_ctranslate2(source, tmp_path / "model")
    files = check_whisper(tmp_path / "model")
    assert files.dims == TINY_DIMS
    modes = {path.stat().st_mode for path in (tmp_path / "model").iterdir()}
    assert len(modes) == 1
    assert (tmp_path / "model" / "LICENSE").read_text() == "MIT"


def test_the_missing_timestamps_are_added(source: Path, tmp_path: Path) -> None:
    convert_ctranslate2(source, tmp_path / "model")
    tokenizer = Tokenizer.from_file(str(tmp_path / "model" / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == TINY_DIMS.n_vocab
    for token in TIMESTAMPS:
        assert tokenizer.token_to_id(token) == TOKEN_IDS[token]
    ids = tokenizer.encode("<|0.00|> the end<|2.48|>", add_special_tokens=False).ids
    assert (ids[0], ids[-1]) == (TOKEN_IDS["<|0.00|>"], TOKEN_IDS["<|2.48|>"])
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<|0.00|> the end<|2.48|>"


def test_a_tokenizer_with_timestamps_is_kept(source: Path, tmp_path: Path) -> None:
    write_json(source / "tokenizer.json", tiny_tokenizer())
    convert_ctranslate2(source, tmp_path / "model")
    assert json.loads((tmp_path / "model" / "tokenizer.json").read_text("utf-8")) == tiny_tokenizer()


def test_generation_config_carries_what_decoding_needs(source: Path, tmp_path: Path) -> None:
    convert_ctranslate2(source, tmp_path / "model")
    made, meta = json.loads((tmp_path / "model" / "generation_config.json").read_text()), ct2_config()
    assert made["alignment_heads"] == meta["alignment_heads"]
    assert made["suppress_tokens"] == meta["suppress_ids"]
    assert made["begin_suppress_tokens"] == meta["suppress_ids_begin"]
    assert made["is_multilingual"] is True
    assert made["no_timestamps_token_id"] == TOKEN_IDS["<|notimestamps|>"]


def test_mlx_audio_loads_it_strictly(source: Path, tmp_path: Path) -> None:
    convert_ctranslate2(source, tmp_path / "model")
    # In a process of its own: mlx-audio and transformers warn of their own accord, and patch what they import.
    code = """
import sys; from pathlib import Path; from mlx_audio.stt.utils import load_model
model = load_model(Path(sys.argv[1]), strict=True)
tokenizer = model.get_tokenizer()
print(tokenizer.timestamp_begin, tokenizer.no_timestamps, tokenizer.eot, model.alignment_heads.tolist())
"""
    done = run([sys.executable, "-c", code, str(tmp_path / "model")], capture_output=True, text=True, check=True)
    ids = [TOKEN_IDS[token] for token in ("<|0.00|>", "<|notimestamps|>", "<|endoftext|>")]
    assert done.stdout.split("\n")[-2] == f"{ids[0]} {ids[1]} {ids[2]} [[1, 0], [1, 1]]"


def changed(name: str, value: Any) -> bytes:
    variables = ct2_variables(tiny_tensors())
    if value is None:
        del variables[name]
    else:
        variables[name] = value
    return ct2_bytes(variables)


KEY_BIAS = np.concatenate([np.zeros(64), np.full(64, 0.5), np.zeros(64)]).astype(np.float16)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no model", "model.bin: no CTranslate2 model"),
        (ct2_bytes({}, spec="TransformerSpec"), "model.bin: a TransformerSpec, not a WhisperSpec"),
        (changed("encoder/num_heads", None), "model.bin: variable 'encoder/num_heads' is missing"),
        (changed("encoder/layer_1/ffn/linear_0/bias", None), "variable 'encoder/layer_1/ffn/linear_0/bias' is missing"),
        (changed("decoder/embeddings/weight", np.zeros((1870, 64), np.int8)), "'decoder/embeddings/weight' is quant"),
        (changed("decoder/layer_0/self_attention/linear_0/bias", KEY_BIAS), "has a bias on its keys"),
        (
            changed("encoder/position_encodings/encodings", np.ones((1500, 64), np.float16)),
            "the encoder's positions are not Whisper's sinusoids",
        ),
        (
            changed("encoder/layer_0/self_attention/linear_0/weight", np.zeros((100, 64), np.float16)),
            r"of shape \[100, 64\] isn't 3 projections",
        ),
        (
            changed("encoder/layer_norm/gamma", np.zeros(63, np.float16)),
            r"encoder.ln_post.weight has shape \[63\], \[64\] is needed",
        ),
    ],
)
def test_a_model_that_is_not_right_is_refused(source: Path, tmp_path: Path, content: bytes, message: str) -> None:
    (source / "model.bin").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        convert_ctranslate2(source, tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", "{", "config.json: not JSON"),
        ("config.json", "[]", "config.json: not a JSON object"),
        ("config.json", "{}", "config.json: key 'alignment_heads' is missing"),
        ("tokenizer.json", "{}", "tokenizer.json: key 'added_tokens' is missing"),
        ("tokenizer.json", json.dumps({"added_tokens": [{"id": 9, "content": "x"}]}), "10 tokens and 1501 timestamps"),
        ("tokenizer.json", json.dumps({"added_tokens": [{"id": 368, "content": "x"}]}), "no <.startoftranscript.>"),
    ],
)
def test_what_is_wrong_in_a_json_file_is_said(
    source: Path, tmp_path: Path, name: str, content: str, message: str
) -> None:
    (source / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        convert_ctranslate2(source, tmp_path / "model")


def test_float32_is_narrowed(source: Path, tmp_path: Path) -> None:
    variables = {
        name: value.astype(np.float32) if value.dtype == np.float16 else value
        for name, value in ct2_variables(tiny_tensors()).items()
    }
    (source / "model.bin").write_bytes(ct2_bytes(variables))
    convert_ctranslate2(source, tmp_path / "model")
    made = load_file(tmp_path / "model" / "model.safetensors")
    assert {tensor.dtype.name for tensor in made.values()} == {"float16"}


def test_sinusoids_are_those_mlx_audio_computes() -> None:
    from mlx_audio.stt.models.whisper.whisper import sinusoids as theirs

    np.testing.assert_allclose(sinusoids(1500, 64), np.asarray(theirs(1500, 64)), atol=2e-3)


@pytest.mark.real
def test_whisper_base_has_its_published_sizes(whisper_base: Path) -> None:
    config = json.loads((whisper_base / "config.json").read_text())
    assert Dims.from_config(config) == Dims(80, 1500, 512, 8, 6, 51_865, 448, 512, 8, 6)
    tokenizer = Tokenizer.from_file(str(whisper_base / "tokenizer.json"))
    assert tokenizer.token_to_id("<|0.00|>") == 50_364
    assert tokenizer.token_to_id("<|30.00|>") == 51_864
