from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlxbatch.errors import SetupError
from mlxbatch.models.architecture import architecture, engine_of


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"model_type": "whisper"}, "whisper"),
        ({"model_type": "Qwen3-ASR"}, "qwen3_asr"),
        ({"target": "nemo.collections.asr.models.rnnt_bpe_models.EncDecRNNTBPEModel"}, "parakeet"),
        ({"target": "nemo.collections.asr.models.aed_multitask_models.EncDecMultiTaskModel"}, "canary"),
        ({"n_mels": 80, "n_vocab": 51865}, "whisper"),
    ],
)
def test_the_config_says_what_it_is(config: dict[str, object], kind: str) -> None:
    assert architecture(config) == kind


def test_a_path_that_names_another_model_does_not_matter(tmp_path: Path) -> None:
    directory = tmp_path / "parakeet-qwen3_asr"
    directory.mkdir()
    (directory / "config.json").write_text('{"model_type": "whisper"}')
    assert engine_of(directory) == "whisper"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "llama"}, "no engine for a 'llama' model; there are: whisper"),
        ({"model_type": "wisper"}, "no engine for a 'wisper' model; did you mean 'whisper'? there are: whisper"),
    ],
)
def test_an_architecture_that_no_engine_runs(tmp_path: Path, config: dict[str, object], message: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(SetupError) as caught:
        engine_of(tmp_path)
    assert str(caught.value) == f"{tmp_path}: {message}"
