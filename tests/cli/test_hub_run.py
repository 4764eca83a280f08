"""Large-v3 turbo from end to end: fetched from a stand-in for the hub, repaired, run; all real but for its weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models.hub_server import Fault, HubServer, serve
from tests.models.tiny import write_bare_whisper

from .conftest import Ran, finish, program

pytestmark = pytest.mark.real
TURBO = "mlx-community/whisper-large-v3-turbo"


@pytest.fixture
def hub(place: Path) -> Iterator[HubServer]:
    directory = write_bare_whisper(place / "turbo", 51_866)
    files = {path.name: path.read_bytes() for path in directory.iterdir()} | {"README.md": b"-"}
    with serve(HubServer({TURBO: {"main": files}})) as server:
        yield server


@pytest.fixture
def environment(canonical_tokenizers: Path, place: Path, hub: HubServer) -> dict[str, str]:
    """A cache of our own with the real tokenizers in it, and the stand-in as the hub."""
    (place / "cache").mkdir()
    (place / "cache" / "tokenizers").symlink_to(canonical_tokenizers)
    own = {"MLXBATCH_CACHE": str(place / "cache"), "HF_HOME": str(place / "hf"), "HF_ENDPOINT": hub.endpoint}
    return own | {"NO_PROXY": "127.0.0.1"}


def transcribe(environment: dict[str, str], *arguments: str) -> Ran:
    command = ("transcribe", "in", "-o", "out", "--model", "whisper-large-v3-turbo", "--language", "en", *arguments)
    return finish(program(*command, **environment), timeout=120)


def test_fetched_repaired_and_run(place: Path, recordings: Path, hub: HubServer, environment: dict[str, str]) -> None:
    hub.faults += [Fault(spoil=lambda content: content[:-1000])]  # cut on the way
    ran = transcribe(environment)
    assert ran.code == 0, ran.err
    assert f"whisper-large-v3-turbo ({TURBO}): weights.safetensors, " in ran.err
    assert ", going on at " in ran.err
    assert "no tokenizer in it: taking the canonical one of 51866 tokens" in ran.err
    assert len(list((place / "out").rglob("*.txt"))) == 3
    assert sorted(path.name for path in (place / "hf").rglob("snapshots/*/*")) == ["config.json", "weights.safetensors"]

    hub.log.clear()
    again = transcribe(environment, "--offline", "--json")
    assert (again.code, again.summary["skipped"]) == (0, 3)
    assert hub.log == []


def test_tampered_it_is_not_run(place: Path, recordings: Path, hub: HubServer, environment: dict[str, str]) -> None:
    hub.faults += [Fault(spoil=lambda content: content[:-1] + bytes([content[-1] ^ 1]))]
    ran = transcribe(environment)
    assert ran.code == 3
    assert "weights.safetensors: what came is not what the hub publishes (sha256 differs): removed" in ran.error
    assert not (place / "out").exists() or not list((place / "out").rglob("*.txt"))


def test_offline_it_says_what_to_do(place: Path, recordings: Path, environment: dict[str, str]) -> None:
    ran = transcribe(environment, "--offline")
    assert ran.code == 3
    assert "run `mlxbatch models pull whisper-large-v3-turbo` once" in ran.error
