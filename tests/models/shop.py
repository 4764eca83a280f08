"""A package index in a folder: wheels that carry the tiny Whisper, and the catalogue model made from them."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from mlxbatch.models.catalogue import CatalogueModel, Wheel
from tests.convert.ct2 import write_ct2_source

NAME = "tiny"


def build_shop(shop: Path, scratch: Path) -> CatalogueModel:
    """Two wheels with a model cut in two, in `shop`; the model pins them and the joined file."""
    source = write_ct2_source(scratch)
    whole = (source / "model.bin").read_bytes()
    middle = len(whole) // 2
    first = {"model.bin.part1": whole[:middle]}
    first |= {name: (source / name).read_bytes() for name in ("config.json", "tokenizer.json")}
    first["LICENSE"] = b"MIT"
    sources = (
        _wheel(shop, 1, first, {"model.bin.part1": "model.bin"}),
        _wheel(shop, 2, {"model.bin.part2": whole[middle:]}, {"model.bin.part2": "model.bin"}),
    )
    pins = (("model.bin", hashlib.sha256(whole).hexdigest()),)
    size = sum(path.stat().st_size for path in shop.iterdir())
    return CatalogueModel(NAME, "transcribe", "whisper", "A tiny Whisper", "MIT", size, sources, pins)


def _wheel(shop: Path, part: int, files: Mapping[str, bytes], names: Mapping[str, str]) -> Wheel:
    package = f"mlxbatch_fake_part{part}"
    info = f"{package}-1.0.0.dist-info"
    path = shop / f"{package}-1.0.0-py3-none-any.whl"
    shop.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(f"{package}/data/{name}", content)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    members = tuple((f"{package}/data/{name}", names.get(name, name)) for name in files)
    return Wheel(f"{package.replace('_', '-')}==1.0.0", hashlib.sha256(path.read_bytes()).hexdigest(), members)


def only_this_shop(monkeypatch: pytest.MonkeyPatch, shop: Path) -> None:
    """Make pip see the folder and nothing else, whatever this machine's pip is set to."""
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shop))
