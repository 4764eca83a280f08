"""DIR and DIR.partial: what is refused, what is replaced, what is left."""

from __future__ import annotations

import errno
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mlxbatch.convert import place as places
from mlxbatch.convert.place import Need, Place, check, need, place_for, placing, writing
from mlxbatch.disk import Room
from mlxbatch.errors import LockedError, SetupError, UsageError
from mlxbatch.machine import Machine

GB = 10**9


def model(folder: Path, word: str = "old") -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(word)
    (folder / "model.safetensors").write_bytes(b"")
    return folder


def word(folder: Path) -> str:
    return (folder / "config.json").read_text()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "models" / "mine"


def make(target: Path, *, force: bool = False, source: Path | None = None, land: bool = True) -> None:
    with placing(place_for(target), source, force=force) as place:
        model(place.made, "new")
        if land:
            place.land()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_model_lands_and_nothing_else_is_left(target: Path) -> None:
    make(target)
    assert names(target.parent) == {"mine"}
    assert names(target) == {"config.json", "model.safetensors"}


def test_what_does_not_land_leaves_nothing_not_even_the_folders_above(tmp_path: Path, target: Path) -> None:
    make(target, land=False)
    assert names(tmp_path) == set()


@pytest.mark.parametrize("error", [SetupError("x"), KeyboardInterrupt(), OSError(errno.EIO, "x")])
def test_an_error_leaves_nothing_and_the_old_model_as_it_was(target: Path, error: BaseException) -> None:
    model(target)

    def fail() -> None:
        with placing(place_for(target), None, force=True) as place:
            model(place.made, "new")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert names(target.parent) == {"mine"}
    assert word(target) == "old"


def test_an_existing_model_is_replaced_only_if_told_to(target: Path) -> None:
    model(target)
    with pytest.raises(UsageError, match=r"mine: is there already; --force replaces it"):
        make(target)
    assert word(target) == "old"
    make(target, force=True)
    assert word(target) == "new"
    assert names(target.parent) == {"mine"}


def test_an_empty_directory_may_be_filled(target: Path) -> None:
    target.mkdir(parents=True)
    make(target)
    assert word(target) == "new"


# ---- what is refused before anything is written


@pytest.mark.parametrize("force", [False, True])
def test_a_directory_of_other_things_is_never_replaced(target: Path, force: bool) -> None:
    target.mkdir(parents=True)
    (target / "config.json").write_text("of some program")
    with pytest.raises(UsageError, match="holds something, and no model: it is not replaced"):
        make(target, force=force)
    assert names(target) == {"config.json"}


@pytest.mark.parametrize("force", [False, True])
def test_a_file_of_that_name(target: Path, force: bool) -> None:
    target.parent.mkdir()
    target.write_text("text")
    with pytest.raises(UsageError, match="a file of that name is there"):
        make(target, force=force)


@pytest.mark.parametrize("there", [True, False], ids=["to a model", "to nothing"])
def test_a_symbolic_link(tmp_path: Path, target: Path, there: bool) -> None:
    real = model(tmp_path / "real") if there else tmp_path / "real"
    target.parent.mkdir()
    target.symlink_to(real)
    with pytest.raises(UsageError, match="a symbolic link; name the directory that it points to"):
        make(target, force=True)
    assert target.is_symlink()


def test_the_source_itself(target: Path, tmp_path: Path) -> None:
    model(target)
    linked = tmp_path / "link"
    linked.symlink_to(target)
    for source in (target, linked, target / "model.safetensors"):
        with pytest.raises(UsageError, match="is what is to be converted, or holds it"):
            make(target, force=True, source=source)
    assert word(target) == "old"


def test_a_folder_within_the_source_is_another(target: Path) -> None:
    model(target)
    make(target / "4bit", source=target)
    assert word(target / "4bit") == "new"
    assert word(target) == "old"


@pytest.mark.parametrize("name", ["/", "/.."])
def test_a_directory_without_a_name(name: str) -> None:
    with pytest.raises(UsageError, match="not a directory that a model could have for itself"):
        place_for(Path(name))


def test_a_partial_directory_that_is_somebody_else_s(target: Path) -> None:
    other = target.with_name("mine.partial")
    other.mkdir(parents=True)
    (other / "thesis.txt").write_text("my only copy")
    with pytest.raises(UsageError, match=r"mine\.partial: holds what no conversion has left there; move it away"):
        make(target)
    assert names(other) == {"thesis.txt"}


def test_no_permission(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system says it to all but root, who may write everywhere."""
    target.parent.mkdir()
    mkdir = Path.mkdir

    def refuse(self: Path, *given: Any, **named: Any) -> None:
        if self.parent == target.with_name("mine.partial"):
            raise PermissionError(errno.EACCES, "Permission denied")
        mkdir(self, *given, **named)

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(SetupError, match=r"cannot write to .*mine\.partial: Permission denied"):
        make(target)


def test_a_place_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match=r"cannot write .*file/mine: (File exists|Not a directory)"):
        make(tmp_path / "file" / "mine")


# ---- kills


def killed(target: Path) -> Place:
    """What is left of a run that was killed while it wrote."""
    place = place_for(target)
    model(place.made, "half")
    (place.made / "voices").mkdir()
    model(place.original, "copy")
    return place


def test_what_a_killed_run_left_is_cleared(target: Path) -> None:
    killed(target)
    make(target)
    assert word(target) == "new"
    assert names(target.parent) == {"mine"}


def test_a_model_that_was_being_replaced_comes_back(target: Path) -> None:
    """Killed between the two renames: the old one lies in DIR.partial."""
    place = killed(target)
    model(place.old)
    with pytest.raises(UsageError, match="is there already"):
        make(target)
    assert word(target) == "old"
    assert names(target.parent) == {"mine"}


def test_a_swap_that_fails_halfway_is_undone(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model(target)
    rename = Path.rename

    def fail(self: Path, to: Path) -> Path:
        if self.name == "model":
            raise OSError(errno.ENOSPC, "No space left on device")
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(SetupError, match=r"cannot write .*mine: the disk is full; free some space"):
        make(target, force=True)
    assert word(target) == "old"
    assert names(target.parent) == {"mine"}


def test_files_and_folders_are_synced_before_they_are_moved(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut after the rename finds whole files, or the old model."""
    seen: list[str] = []
    monkeypatch.setattr(places, "_sync", lambda path: seen.append(f"{path.name} {target.exists()}"))
    make(target)
    assert seen[-1] == "models True"
    assert sorted(seen[:-1]) == ["config.json False", "model False", "model.safetensors False"]


# ---- two at once


def test_of_two_at_once_the_second_is_refused_and_the_first_is_not_disturbed(target: Path) -> None:
    with placing(place_for(target), None, force=False) as place:
        model(place.made, "new")
        with pytest.raises(LockedError, match=r"mine\.partial is in use by"):
            make(target)
        assert names(place.made) == {"config.json", "model.safetensors"}
        place.land()
    assert word(target) == "new"
    assert names(target.parent) == {"mine"}


def test_a_model_that_came_meanwhile_is_not_replaced(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was not there when the options were looked at, but when the lock was had."""
    lock = places.output_lock

    def slow(root: Path, break_lock: bool) -> object:
        model(target)
        return lock(root, break_lock)

    monkeypatch.setattr(places, "output_lock", slow)
    with pytest.raises(UsageError, match="is there already"):
        make(target)
    assert word(target) == "old"


# ---- room


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "free_room", lambda path: Room(5 * GB, None))
    monkeypatch.setattr(places, "read_machine", lambda: Machine(2 * GB, 8 * GB, "normal", None))


def test_room_and_memory_are_told_in_one_line(machine: None, target: Path) -> None:
    found = need(place_for(target), 2 * GB, GB)
    found.require()
    assert str(found) == "needs 2.0 GB on the disk (5.0 GB free) and 1.3 GB of memory (2.0 GB free)"


def test_too_little_of_either_is_told_before_anything_is_written(machine: None, target: Path) -> None:
    with pytest.raises(SetupError, match=r"not enough room: the conversion needs 6\.0 GB on the disk \(5\.0 GB free\)"):
        need(place_for(target), 6 * GB, GB).require()
    with pytest.raises(SetupError, match=r"not enough memory: the conversion needs .* 2\.3 GB of memory"):
        need(place_for(target), GB, 2 * GB).require()


def test_a_disk_that_does_not_tell_is_no_reason_not_to_try(
    machine: None, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(path: Path) -> Room:
        raise OSError

    monkeypatch.setattr(places, "free_room", unknown)
    found = need(place_for(target), 6 * GB, GB)
    found.require()
    assert found.disk_free is None
    assert str(found).startswith("needs 6.0 GB on the disk and")


def test_errors_of_the_disk_name_the_directory(target: Path) -> None:
    said = r"cannot write .*mine: the disk is full; free some space and run again"
    with pytest.raises(SetupError, match=said), writing(target):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_checking_writes_nothing(tmp_path: Path, target: Path) -> None:
    check(place_for(target), tmp_path, force=False)
    assert names(tmp_path) == set()


def test_several_places_at_once(tmp_path: Path) -> None:
    with ExitStack() as stack:
        found = [stack.enter_context(placing(place_for(tmp_path / n), None, force=False)) for n in ("a", "b")]
        for place in found:
            model(place.made, "new")
        found[1].land()
    assert names(tmp_path) == {"b"}


def test_a_need_has_no_free_room_to_tell_of() -> None:
    assert Need(1, None, 1, 1).disk_free is None
