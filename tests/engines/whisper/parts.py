"""What the tests of the Whisper engine share: a small vocabulary, tiny weights, recordings made of noise."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models

from mlxbatch.engines.whisper.layout import Dims
from mlxbatch.engines.whisper.tokens import Vocabulary
from mlxbatch.types import Job, JobFailed, Output, TranscribeOptions
from tests.jobs import RATE
from tests.models.tiny import TINY_DIMS, TOKEN_IDS, tiny_tensors, write_json, write_tiny_whisper

EOT, STAMP = 12, 20  # words are 0 to 11, the specials in between are never to be chosen
GREEDY = TranscribeOptions(language="en", temperatures=(0.0,))


def small_vocabulary(suppressed: tuple[int, ...] = ()) -> Vocabulary:
    return Vocabulary(
        tokenizer=Tokenizer(models.BPE()),
        eot=EOT,
        sot=13,
        transcribe=15,
        translate=16,
        start_of_prev=17,
        no_speech=18,
        timestamp_begin=STAMP,
        languages={"en": 14},
        suppressed=suppressed,
    )


def short_whisper(directory: Path, n_text_ctx: int = 64) -> Path:
    """Tiny weights whose texts are short and end: half of `n_text_ctx` at most, and a likelier end-of-text.

    The encoder has one layer of one head: what it takes for 30 s, even so tiny, is most of the time of these tests.
    """
    write_tiny_whisper(directory)
    dims = replace(TINY_DIMS, n_text_ctx=n_text_ctx, n_audio_layer=1, n_audio_head=1)
    tensors = tiny_tensors(4, dims=dims)
    tensors["decoder.token_embedding.weight"][TOKEN_IDS["<|endoftext|>"]] *= 1.8
    save_file(tensors, directory / "model.safetensors", metadata={"format": "mlx"})
    write_config(directory, dims)
    return directory


def write_config(directory: Path, dims: Dims, **more: Any) -> None:
    write_json(directory / "config.json", {"model_type": "whisper", **asdict(dims), **more})


def edit_json(path: Path, **changes: Any) -> None:
    write_json(path, json.loads(path.read_text("utf-8")) | changes)


def job(number: int, samples: NDArray[np.float32], options: TranscribeOptions = GREEDY) -> Job:
    return Job(number, f"item{number}", samples, len(samples) / RATE, options=options)


def noise(count: int, seed: int | None = None) -> NDArray[np.float32]:
    rng = np.random.default_rng(count if seed is None else seed)
    return (0.1 * rng.standard_normal(count)).astype(np.float32)


def outputs_by_job(events: Sequence[Output | JobFailed]) -> dict[int, list[Output]]:
    """Each job's outputs in the order in which they came."""
    found: dict[int, list[Output]] = {}
    for event in events:
        assert isinstance(event, Output), event
        found.setdefault(event.job_id, []).append(event)
    return found
