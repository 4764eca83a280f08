"""Texts that repeat themselves are caught by how well they compress, and tried again until they do not."""

from __future__ import annotations

import string
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from mlxbatch.engines.whisper.tokens import Vocabulary
from mlxbatch.engines.whisper.windows import compression_ratio
from mlxbatch.types import TranscribeOptions
from tests.engines.whisper.parts import job, noise, outputs_by_job, write_config
from tests.engines.whisper.test_engine import attempts, run
from tests.jobs import RATE
from tests.models.tiny import TINY_DIMS, TOKEN_IDS, tiny_tensors, write_tiny_whisper

# Only loops are doubtful: of text made of noise no model is sure.
LOOPS = TranscribeOptions(language="en", logprob_threshold=-99.0)
SELF = 1.6  # the logit of the letter that was just said; the others' are of order 0.4
LETTERS = [TOKEN_IDS[letter] for letter in string.ascii_letters]


def parrot(directory: Path) -> Path:
    """Weights that say the same letter again and again, unless chance says another.

    Nothing but the last token reaches the last layer norm, so that each is likeliest after itself; all but letters
    share one direction, and the norm's bias points away from it.
    """
    write_tiny_whisper(directory)
    dims = replace(TINY_DIMS, n_text_ctx=64, n_audio_layer=1, n_audio_head=1)
    tensors = tiny_tensors(dims=dims)
    for name, tensor in tensors.items():
        if name.startswith("decoder.blocks.") and name.split(".")[-2] in ("out", "mlp2"):
            tensor[:] = 0
    tensors["decoder.positional_embedding"][:] = 0
    embedding = tensors["decoder.token_embedding.weight"]
    embedding /= np.linalg.norm(embedding.astype(np.float32), axis=1, keepdims=True).astype(np.float16)
    embedding[np.setdiff1d(np.arange(len(embedding)), LETTERS)] = embedding[-1]
    tensors["decoder.ln.weight"][:] = SELF / np.sqrt(dims.n_text_state)
    tensors["decoder.ln.bias"][:] = -20 * embedding[-1]
    save_file(tensors, directory / "model.safetensors", metadata={"format": "mlx"})
    write_config(directory, dims)
    return directory


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return parrot(tmp_path_factory.mktemp("loops") / "model")


def test_a_loop_is_tried_again_until_it_is_none(loops: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = attempts(monkeypatch)
    jobs = [job(number, noise((2 + number) * RATE), LOOPS) for number in range(2)]
    found = outputs_by_job(run(loops, jobs, 2))
    vocabulary = Vocabulary.read(loops / "tokenizer.json")
    for number, (output,) in found.items():
        trials = [trial for trial in begun if trial.end == (2 + number) * 50]
        ratios = [compression_ratio(vocabulary.text(trial.tokens)) for trial in trials]
        # First as it is, then with the full context, then warmer, as far as needed and no further.
        assert [trial.temperature for trial in trials] == [0.0, *LOOPS.temperatures][: len(trials)]
        assert 4 <= len(trials) < 7
        assert min(ratios[:-1]) > LOOPS.compression_ratio_threshold > 2.3
        assert ratios[-1] <= LOOPS.compression_ratio_threshold
        (segment,) = output.segments
        assert (output.stats.attempts, segment.temperature) == (len(trials), trials[-1].temperature)
        assert segment.text == vocabulary.text(trials[-1].tokens).strip()
        assert segment.compression_ratio == ratios[-1]


def test_without_the_gate_it_is_a_loop(loops: Path) -> None:
    """Or the test above would prove nothing."""
    options = replace(LOOPS, compression_ratio_threshold=99.0)
    (output,) = outputs_by_job(run(loops, [job(0, noise(2 * RATE), options)]))[0]
    (segment,) = output.segments
    assert output.stats.attempts == 1
    assert segment.compression_ratio > 2.8
    assert len(set(segment.text)) == 1


def test_one_that_never_ends_to_loop_is_tried_at_every_temperature_once(loops: Path) -> None:
    cold = replace(LOOPS, temperatures=(0.0, 0.01, 0.02))
    (output,) = outputs_by_job(run(loops, [job(0, noise(2 * RATE), cold)]))[0]
    assert (output.stats.attempts, output.segments[0].temperature) == (4, 0.02)
    assert output.segments[0].compression_ratio > LOOPS.compression_ratio_threshold
