from __future__ import annotations

import re

import pytest

from mlxbatch.models import catalogue
from mlxbatch.models.catalogue import CATALOGUE, CatalogueModel


def test_names_are_unique() -> None:
    assert len(set(catalogue.names())) == len(CATALOGUE)


@pytest.mark.parametrize("model", CATALOGUE, ids=lambda model: model.name)
def test_every_model_is_pinned_and_described(model: CatalogueModel) -> None:
    assert model.title
    assert model.licence
    assert model.size_bytes > 1_000_000
    for wheel in model.sources:
        assert re.fullmatch(r"[a-z0-9-]+==[0-9.]+", wheel.requirement)
        assert re.fullmatch("[0-9a-f]{64}", wheel.sha256)
    files = {name for wheel in model.sources for _, name in wheel.members}
    for name, sha256 in model.pins:
        assert name in files
        assert re.fullmatch("[0-9a-f]{64}", sha256)


def test_find() -> None:
    model = catalogue.find("whisper-base")
    assert model is not None
    assert (model.task, model.engine, model.licence) == ("transcribe", "whisper", "MIT")
    assert catalogue.find("whisper-bas") is None
