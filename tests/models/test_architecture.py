from __future__ import annotations

from pathlib import Path

import pytest

from mlxbatch.engines.families import WHISPER, family_of
from mlxbatch.models.architecture import architecture


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"model_type": "whisper"}, "whisper"),
        ({"model_type": "Qwen3-ASR"}, "qwen3_asr"),
        ({"target": "nemo.collections.asr.models.rnnt_bpe_models.EncDecRNNTBPEModel"}, "parakeet"),
        ({"target": "nemo.collections.asr.models.aed_multitask_models.EncDecMultiTaskModel"}, "canary"),
        ({"istftnet": {}, "plbert": {}, "vocab": {}, "n_token": 178}, "kokoro"),
        ({"n_mels": 80, "n_vocab": 51865}, "whisper"),
        ({"architecture": "canary"}, "canary"),
        ({"model_type": "qwen3_asr", "thinker_config": {"model_type": "qwen3_forced_aligner"}}, "qwen3_forced_aligner"),
        ({"model_type": "parakeet_tdt", "ternary_modules": ["a"]}, "parakeet_redux"),
    ],
)
def test_the_config_says_what_it_is(config: dict[str, object], kind: str) -> None:
    assert architecture(config) == kind


def test_a_path_that_names_another_model_does_not_matter(tmp_path: Path) -> None:
    directory = tmp_path / "parakeet-qwen3_asr"
    directory.mkdir()
    (directory / "config.json").write_text('{"model_type": "whisper"}')
    assert family_of(directory) is WHISPER
