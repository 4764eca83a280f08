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
from ..vad.tiny import write_tiny_silero
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
    head, line = cli("models", "list").out.splitlines()
    assert head.split()[0] == "NAME"
    assert line.split() == ["tiny", "transcribe", "MIT", "no"]
    (record,) = cli("models", "list", "--json").records
    assert (record["name"], record["licence"], record["on_disk"]) == ("tiny", "MIT", False)
    assert record["size_bytes"] == tiny.size_bytes
    cli("models", "pull", "tiny")
    assert cli("models", "list", "--json").records[0]["on_disk"] is True
    assert cli("models", "list").out.splitlines()[1].endswith("  yes")


@pytest.fixture
def no_hub_models(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(place / "hub"))


def test_the_list_is_a_table_of_all_models(cli: Cli, no_hub_models: None) -> None:
    lines = cli("models", "list").out.splitlines()
    (turbo,) = [line for line in lines if line.startswith("whisper-large-v3-turbo ")]
    figures = ["transcribe", "100", "809", "M", "1.6", "GB", "16", "8", "30", "s", "MIT", "no"]
    assert turbo.split()[1:] == figures
    assert len(lines) == 1 + len(catalogue.CATALOGUE)
    assert max(map(len, lines)) <= 120
    place_of_licence = lines[0].index("LICENCE")
    assert all(line[place_of_licence - 1] == " " and line[place_of_licence] != " " for line in lines)


def test_programs_get_bytes_and_seconds(cli: Cli, no_hub_models: None) -> None:
    records = {record["name"]: record for record in cli("models", "list", "--json").records}
    live = records["vibevoice-asr"]
    assert (live["bits"], live["batch_size"], live["segment_seconds"]) == (6, 2, 300.0)
    assert live["memory_bytes"] == int(live["parameters"] * 6.5 / 8)
    assert (live["hub"], live["source"], live["size_bytes"]) == ("mlx-community/VibeVoice-ASR-bf16", "hub", None)
    assert records["whisper-base"]["source"] == "package index"
    assert records["cohere-transcribe"]["gated"] is True


def test_one_model_is_shown_with_the_sources_of_its_figures(cli: Cli, no_hub_models: None) -> None:
    text = cli("models", "show", "cohere-transcribe").out
    assert "Apache-2.0, and terms to accept on the hub first" in text
    assert "2 B, as published at https://huggingface.co/CohereLabs/cohere-transcribe-03-2026" in text
    assert "no: mlxbatch models pull cohere-transcribe" in text
    assert "133 MB to download" in cli("models", "show", "whisper-base").out
    assert cli("models", "show", "whisper-base", "--json").records[0]["parameters"] == 74_000_000


def test_a_model_that_recognizes_no_speech_has_its_directory_and_its_own_check(cli: Cli, empty_cache: Path) -> None:
    model = write_tiny_silero(empty_cache / "models" / "silero-vad")
    for command in ("path", "pull"):
        assert cli("models", command, "silero-vad").out.strip() == str(model)
    (model / "config.json").write_text('{"model_type": "whisper"}')
    assert "a 'whisper' model, not Silero VAD" in cli("models", "path", "silero-vad").error
    assert "`mlxbatch models pull ge2e` fetches it" in cli("models", "path", "ge2e").error


def test_the_list_tells_what_a_model_is_for(cli: Cli, no_hub_models: None) -> None:
    tasks = {record["name"]: record["task"] for record in cli("models", "list", "--json").records}
    assert (tasks["kokoro-82m"], tasks["deepfilternet3"], tasks["ge2e"]) == ("synthesize", "separate", "speaker")
    text = cli("models", "show", "kokoro-82m").out
    assert "93 MB to download" in text
    assert "Apache-2.0" in text


@pytest.mark.parametrize("command", ["show", "pull", "path"])
def test_a_name_close_to_two_others_names_both(cli: Cli, command: str) -> None:
    ran = cli("models", command, "whisper-large")
    assert ran.code == 3
    assert "did you mean 'whisper-large-v3' or 'whisper-large-v2'?" in ran.error


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
    assert ran.error.endswith("error: tiny is not on this machine: `mlxbatch models pull tiny` fetches it")
    assert ran.out == ""


def test_what_is_not_in_the_list_cannot_be_shown(cli: Cli) -> None:
    ran = cli("models", "show", "org/name")
    assert ran.code == 3
    assert ran.error.endswith("error: unknown model 'org/name'; `mlxbatch models list` has the names")


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
