from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from mlxbatch.engines.whisper.layout import Dims, expected_shapes
from mlxbatch.models import catalogue
from mlxbatch.models.catalogue import CATALOGUE, KOKORO_VOICES, CatalogueModel, Tarball, Wheel
from mlxbatch.models.facts import WINDOW, Facts
from mlxbatch.models.hub import HUB_ID
from mlxbatch.models.kinds import KINDS

SPEECH_TO_TEXT = [model for model in CATALOGUE if model.task == "transcribe"]

# Width, encoder's and decoder's layers, heads, mel bands, vocabulary: the sizes in the published config.json files.
WHISPERS = {
    "whisper-tiny": (384, 4, 4, 6, 80, 51_865),
    "whisper-tiny.en": (384, 4, 4, 6, 80, 51_864),
    "whisper-base": (512, 6, 6, 8, 80, 51_865),
    "whisper-base.en": (512, 6, 6, 8, 80, 51_864),
    "whisper-small": (768, 12, 12, 12, 80, 51_865),
    "whisper-small.en": (768, 12, 12, 12, 80, 51_864),
    "whisper-medium": (1024, 24, 24, 16, 80, 51_865),
    "whisper-medium.en": (1024, 24, 24, 16, 80, 51_864),
    "whisper-large-v2": (1280, 32, 32, 20, 80, 51_865),
    "whisper-large-v3": (1280, 32, 32, 20, 128, 51_866),
    "whisper-large-v3-turbo": (1280, 32, 4, 20, 128, 51_866),
    "distil-large-v3": (1280, 32, 2, 20, 128, 51_866),
}


def test_names_are_unique() -> None:
    assert len(set(catalogue.names())) == len(CATALOGUE)


@pytest.mark.parametrize("model", CATALOGUE, ids=lambda model: model.name)
def test_every_model_is_pinned_and_described(model: CatalogueModel) -> None:
    assert model.title
    assert model.licence
    assert bool(model.sources) != bool(model.hub)
    assert model.size_bytes > 1_000_000 or model.hub
    assert HUB_ID.fullmatch(model.hub) or model.sources
    for package in model.sources:
        form = r"[a-z0-9-]+@[0-9.]+" if isinstance(package, Tarball) else r"[a-z0-9-]+==[0-9.]+"
        assert re.fullmatch(form, package.requirement)
        assert re.fullmatch("[0-9a-f]{64}", package.sha256)
    files = {name for package in model.sources for _, name in package.members}
    for name, sha256 in model.pins:
        assert name in files
        assert re.fullmatch("[0-9a-f]{64}", sha256)


@pytest.mark.parametrize("model", SPEECH_TO_TEXT, ids=lambda model: model.name)
def test_every_recogniser_has_its_figures_and_their_source(model: CatalogueModel) -> None:
    facts = model.facts
    assert facts is not None
    assert facts.source.startswith("https://")
    assert facts.bits in (2, 3, 4, 5, 6, 8, 16)
    assert 1 <= facts.batch <= 64
    assert facts.languages >= 1
    assert (facts.segment_seconds == WINDOW) or model.engine != "whisper"
    assert ("English only" in model.title) == (facts.languages == 1)


def test_every_whisper_is_compared_with_its_sizes() -> None:
    assert {model.name for model in SPEECH_TO_TEXT if model.engine == "whisper"} == set(WHISPERS)


@pytest.mark.parametrize("name", WHISPERS)
def test_a_whispers_published_parameters_are_those_of_its_sizes(name: str) -> None:
    width, encoder, decoder, heads, mels, vocab = WHISPERS[name]
    dims = Dims(mels, 1500, width, heads, encoder, vocab, 448, width, heads, decoder)
    counted = sum(math.prod(shape) for shape in expected_shapes(dims).values())
    model = catalogue.find(name)
    assert model is not None
    assert model.facts is not None
    assert model.facts.parameters == pytest.approx(counted, rel=0.05)


def test_memory_is_parameters_times_bits_and_the_scales_of_groups() -> None:
    facts = Facts(1_000_000, 1, 16, 1, 30.0, "")
    assert facts.memory_bytes == 2_000_000
    assert replace(facts, bits=6).memory_bytes == 812_500  # 6.5 bits: a scale and a bias of 16 bits per 64 weights


def test_find() -> None:
    model = catalogue.find("whisper-base")
    assert model is not None
    assert (model.task, model.engine, model.licence) == ("transcribe", "whisper", "MIT")
    assert catalogue.find("whisper-bas") is None


@pytest.mark.parametrize(
    ("name", "task"), [("kokoro-82m", "synthesize"), ("deepfilternet3", "separate"), ("ge2e", "speaker")]
)
def test_models_that_recognize_no_speech(name: str, task: str) -> None:
    model = catalogue.find(name)
    assert model is not None
    assert (model.task, model.where) == (task, "package index")
    assert model.engine in KINDS


def test_kokoros_voices() -> None:
    assert len(set(KOKORO_VOICES)) == 54
    assert {"af_heart", "bm_george", "jf_alpha", "zm_yunxi"} <= set(KOKORO_VOICES)


def test_a_wheel_for_one_platform_is_fetched_on_all() -> None:
    model = catalogue.find("deepfilternet3")
    assert model is not None
    assert [wheel.platform for wheel in model.sources if isinstance(wheel, Wheel)] == ["manylinux_2_28_x86_64"]
