"""The canonical tokenizers of the Whispers on this machine: fetched as a package once, made into tokenizer.json."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from mlxbatch.convert.whisper_tokenizer import ENGLISH_ONLY, canonical_tokenizer, read_ranks
from mlxbatch.errors import NotHere
from mlxbatch.models.cache import cache_root
from mlxbatch.models.catalogue import CatalogueModel, Wheel
from mlxbatch.models.fetch import disk_errors, fetch_sources
from mlxbatch.models.one_fetch import Say
from mlxbatch.words import size

ENGLISH_RANKS, RANKS = "gpt2.tiktoken", "multilingual.tiktoken"

# OpenAI's ranks, as its own package and this one carry them.
PACKAGE = CatalogueModel(
    name="whisper-tokenizers",
    task="transcribe",
    engine="whisper",
    title="The byte-pair ranks of OpenAI's Whispers",
    licence="MIT",
    size_bytes=890_500,
    sources=(
        Wheel(
            requirement="mlx-whisper==0.4.3",
            sha256="6b82b6597a994643a3e5496c7bc229a672e5ca308458455bfe276e76ae024489",
            members=(
                (f"mlx_whisper/assets/{ENGLISH_RANKS}", ENGLISH_RANKS),
                (f"mlx_whisper/assets/{RANKS}", RANKS),
            ),
        ),
    ),
    pins=(
        (ENGLISH_RANKS, "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"),
        (RANKS, "b34b360dbb493e781e479794586d661700670d65564001f23024971d1f2fa126"),
    ),
)


def tokenizer_file(n_vocab: int, *, offline: bool, say: Say) -> Path:
    """tokenizer.json of the Whispers of `n_vocab` tokens, in our cache, fetched when it is not there.

    Raises SetupError where that cannot be done, NotHere where it may not.
    """
    target = cache_root() / "tokenizers" / f"whisper-{n_vocab}.json"
    if target.exists():
        return target
    if offline:
        raise NotHere(f"it comes with a package of {size(PACKAGE.size_bytes)}, and this run is offline")
    with disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as scratch:
            source = fetch_sources(PACKAGE, Path(scratch), say)
            ranks = (source / (ENGLISH_RANKS if n_vocab == ENGLISH_ONLY else RANKS)).read_text("ascii")
            made = Path(scratch) / "tokenizer.json"
            tokenizer = canonical_tokenizer(read_ranks(ranks), n_vocab)
            made.write_text(json.dumps(tokenizer, ensure_ascii=False), "utf-8")
            os.replace(made, target)  # noqa: PTH105
    return target
