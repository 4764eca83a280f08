"""Models: whole ones, damaged ones, and those that are not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from mlxbatch.doctor.finding import Case, Finding
from mlxbatch.doctor.models import check
from mlxbatch.engines import families

from ..models.tiny import tiny_tokenizer, write_json, write_tiny_whisper

HUB_SUMMARY = "models of the hub on this machine"
# What transcription has no use for.
OTHERS = ("kokoro-82m", "deepfilternet3", "ge2e")
ANOTHER = "name the directory of a whole model, with --model or in the profile"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache without models, and a directory without settings."""
    monkeypatch.setenv("MLXBATCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def base(place: Path) -> Path:
    return place / "cache" / "models" / "whisper-base"


def findings(case: Case) -> list[Finding]:
    return [one for one in check(case) if not one.what.startswith(OTHERS)]


def last(case: Case) -> Finding:
    return next(one for one in reversed(findings(case)) if HUB_SUMMARY not in one.what)


def test_a_model_that_the_profile_names_and_is_not_here() -> None:
    found = last(Case())
    assert (found.level, found.remedy) == ("warning", "mlxbatch models pull whisper-base")
    assert "133 MB to download" in found.what


def test_a_model_that_nobody_named_may_be_missing(place: Path) -> None:
    write_tiny_whisper(place / "mine")
    found = findings(Case(model="./mine"))
    assert [one.level for one in found] == ["ok", "warning", "ok", "ok", "ok"]
    assert found[1].what.startswith("silero-vad, the profile names it: not on this machine")
    assert "not on this machine" in found[2].what
    assert f"whole, in {place / 'mine'}" in found[4].what


def test_models_for_other_tasks_are_told_of() -> None:
    told = [one for one in check(Case()) if one.what.startswith(OTHERS)]
    assert [(one.level, one.what) for one in told] == [
        ("ok", "kokoro-82m: not on this machine (93 MB to download)"),
        ("ok", "deepfilternet3: not on this machine (13 MB to download)"),
        ("ok", "ge2e: not on this machine (16 MB to download)"),
    ]


def test_nothing_finds_speech_where_all_is_to_be_heard(place: Path) -> None:
    (place / "mlxbatch.toml").write_text("[transcribe]\nvad = false\n")
    found = next(one for one in check(Case()) if "silero-vad" in one.what)
    assert (found.level, found.remedy) == ("ok", "")


def test_a_whole_one(place: Path) -> None:
    write_tiny_whisper(base(place))
    assert last(Case()).what == "whisper-base, the profile names it: whole"


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_an_incomplete_one_is_named_with_the_remedy(place: Path, name: str) -> None:
    (write_tiny_whisper(base(place)) / name).unlink()
    found = last(Case())
    assert (found.level, found.remedy) == ("problem", "mlxbatch models pull whisper-base")
    assert "not whole" in found.what
    assert str(base(place)) in found.what


def test_one_that_a_run_would_repair(place: Path) -> None:
    """As whisper-base was before its lost merge was noticed."""
    tokenizer = tiny_tokenizer()
    del tokenizer["model"]["merges"][0]
    write_json(write_tiny_whisper(base(place)) / "tokenizer.json", tokenizer)
    found = last(Case())
    assert (found.level, found.remedy) == ("note", "mlxbatch models pull whisper-base")
    assert "its tokenizer.json lacks 1 of its merges: taking a completed copy" in found.what
    assert not (place / "cache" / "repaired").exists()


def test_a_directory_that_is_no_model(place: Path) -> None:
    (place / "mine").mkdir()
    found = last(Case(model="./mine"))
    assert (found.level, found.remedy) == ("problem", ANOTHER)
    assert "config.json: missing" in found.what


@pytest.mark.parametrize(
    ("model", "what", "remedy"),
    [
        ("./nothing", "./nothing: no such model directory", ANOTHER),
        ("text.bin", "text.bin: a file", ANOTHER),
        ("whisper-bse", "unknown model 'whisper-bse'; did you mean 'whisper-base'?", "mlxbatch models list"),
        (
            "whisper-large-v3-turbo",
            "whisper-large-v3-turbo (mlx-community/whisper-large-v3-turbo) is not in the hub's cache on this machine",
            "mlxbatch models pull whisper-large-v3-turbo",
        ),
        ("org/none", "org/none is not in the hub's cache on this machine", "mlxbatch models pull org/none"),
    ],
)
def test_one_that_is_not_there_is_only_fetched_where_that_can_be(
    place: Path, model: str, what: str, remedy: str
) -> None:
    (place / "text.bin").touch()
    found = last(Case(model=model))
    assert (found.level, found.remedy) == ("problem", remedy)
    assert found.what.startswith(what)
    assert "offline" not in found.what


def test_a_directory_that_a_run_would_repair_is_left_alone(place: Path) -> None:
    tokenizer = tiny_tokenizer()
    del tokenizer["model"]["merges"][0]
    write_json(write_tiny_whisper(place / "mine") / "tokenizer.json", tokenizer)
    found = last(Case(model="./mine"))
    assert found.level == "note"
    assert found.what.startswith("./mine: its tokenizer.json lacks 1 of its merges: taking a completed copy")
    assert not (place / "cache").exists()


def test_a_model_whose_engine_is_not_installed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "find_spec", lambda name: None)
    model = place / "mine"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "qwen3_asr"}')
    for name in [one.split("|")[0] for one in families.FAMILIES["qwen3_asr"].files]:
        (model / name).write_text("{}")
    save_file({"weight": np.zeros(1, np.float32)}, model / "model.safetensors")
    found = last(Case(model="./mine"))
    assert found.level == "problem"
    assert "runs on mlx-audio, which is not installed: pip install 'mlxbatch[mlx-audio]'" in found.what


def test_the_fallback_is_looked_at_as_well(place: Path) -> None:
    write_tiny_whisper(base(place))
    (place / "mlxbatch.toml").write_text('[governor]\nfallback_model = "./small"\n')
    found = last(Case())
    assert found.level == "problem"
    assert "./small: no such model directory" in found.what


def test_without_a_right_profile_the_catalogue_is_still_listed(place: Path) -> None:
    (place / "mlxbatch.toml").write_text("nonsense = 1\n")
    found = findings(Case())
    assert [one.level for one in found] == ["ok", "ok", "ok", "ok"]


def test_models_of_the_hub_are_named_where_they_are_here(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(place / "hub"))
    assert findings(Case())[3].what.startswith("none of the catalogue's ")
    repo = place / "hub" / "models--openai--whisper-tiny"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text("0" * 40)
    write_tiny_whisper(repo / "snapshots" / ("0" * 40))
    assert findings(Case())[3].what.startswith("whisper-tiny of the catalogue's ")
    assert last(Case(model="whisper-tiny")).what.startswith("whisper-tiny, the profile names it: whole, in ")
