"""Which profile, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlxbatch.doctor.finding import Case
from mlxbatch.doctor.profile import check
from mlxbatch.hardware import this_hardware


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("MLXBATCH_PROFILE", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def whats(case: Case) -> list[str]:
    return [found.what for found in check(case)]


def test_chosen_by_platform() -> None:
    assert whats(Case())[0].endswith(f"chosen by {this_hardware().words}")


def test_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert whats(Case(profile="linux-cpu"))[0] == "linux-cpu, chosen by --profile"
    monkeypatch.setenv("MLXBATCH_PROFILE", "linux-cpu")
    assert whats(Case(profile="linux-cpu"))[0] == "linux-cpu, chosen by --profile or MLXBATCH_PROFILE"


def test_with_a_preset() -> None:
    assert whats(Case(profile="linux-cpu", preset="qa"))[0] == "linux-cpu + qa, chosen by --profile"


def test_chosen_in_a_file_with_its_settings_over_it(place: Path) -> None:
    (place / "mlxbatch.toml").write_text('profile = "linux-cpu"\n')
    chosen, layers, *_ = whats(Case())
    assert chosen == "linux-cpu, chosen by mlxbatch.toml:1"
    assert "linux-cpu.toml < mlxbatch.toml" in layers


def test_one_for_another_machine_is_a_warning() -> None:
    other = "linux-cpu" if this_hardware().platform == "darwin" else "apple-silicon"
    *_, found = check(Case(profile=other))
    assert (found.level, "is meant for" in found.what) == ("warning", True)
    assert "--profile" in found.remedy


def test_a_wrong_one_names_the_line(place: Path) -> None:
    (place / "mlxbatch.toml").write_text("[transcribe]\nbatch_sise = 4\n")
    (found,) = check(Case())
    assert found.level == "problem"
    assert "mlxbatch.toml:2" in found.what
    assert "did you mean 'transcribe.batch_size'" in found.what
