from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mlxbatch.errors import SetupError
from mlxbatch.models import identity
from mlxbatch.models.identity import model_sha
from tests.models.tiny import write_tiny_whisper


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("MLXBATCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_tiny_whisper(tmp_path / "model")


def test_the_second_call_reads_no_weights(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    first = model_sha(model)
    monkeypatch.setattr(identity.hashlib, "file_digest", None)
    assert model_sha(model) == first
    assert len(first) == 64


def test_it_does_not_depend_on_the_place(model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "copy")
    assert model_sha(tmp_path / "copy") == model_sha(model)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer.json", "model.safetensors"])
def test_it_depends_on_each_file(model: Path, name: str) -> None:
    before = model_sha(model)
    with (model / name).open("ab") as file:
        file.write(b" ")
    assert model_sha(model) != before


def test_it_does_not_depend_on_what_is_not_read(model: Path) -> None:
    before = model_sha(model)
    (model / "README.md").write_text("a card")
    (model / "preprocessor_config.json").unlink()
    assert model_sha(model) == before


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt", "tokenizer.model", "preprocessor_config.json"])
def test_of_other_architectures_it_depends_on_all_settings(model: Path, name: str) -> None:
    (model / "config.json").write_text('{"model_type": "qwen3_asr"}')
    (model / "README.md").write_text("a card")
    before = model_sha(model)
    (model / "README.md").write_text("another card")
    for name_of_ours in ("model.safetensors.index.json", "quality.json", "sensitivity.json"):
        (model / name_of_ours).write_text("{}")
    assert model_sha(model) == before
    with (model / name).open("a") as file:
        file.write("more")
    assert model_sha(model) != before


def test_nothing_is_written_beside_the_model(model: Path, cache: Path) -> None:
    before = sorted(model.iterdir())
    model_sha(model)
    assert sorted(model.iterdir()) == before
    assert len(list((cache / "sha").iterdir())) == 4


@pytest.mark.parametrize("damage", ["", "short", "\xff"])
def test_a_damaged_note_is_not_believed(model: Path, cache: Path, damage: str) -> None:
    before = model_sha(model)
    for note in (cache / "sha").iterdir():
        note.write_text(damage, "latin-1")
    assert model_sha(model) == before


def test_a_cache_that_cannot_be_written_is_no_failure(model: Path, cache: Path) -> None:
    cache.write_text("a file where the directory would be")
    assert model_sha(model) == model_sha(model)


def test_no_weights(model: Path) -> None:
    (model / "model.safetensors").unlink()
    with pytest.raises(SetupError, match=r"no \*.safetensors in it"):
        model_sha(model)
