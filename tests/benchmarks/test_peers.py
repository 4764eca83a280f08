"""An environment counts as there when it is made of what is asked for; without one nothing is measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import peers
from benchmarks.peers import Peer


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Peer:
    """An environment as `make` leaves it, with this Python in it."""
    monkeypatch.setattr(peers, "CACHE", tmp_path)
    peer = Peer("peer", ("peer==1.0",))
    peer.python.parent.mkdir(parents=True)
    peer.python.symlink_to(sys.executable)
    (peer.folder / "made-of.json").write_text(json.dumps(["peer==1.0"]))
    return peer


def test_it_is_ready_as_long_as_its_python_is_there(made: Peer) -> None:
    assert made.ready()
    made.python.unlink()
    assert not made.ready()


def test_other_versions_are_another_environment(made: Peer) -> None:
    assert not Peer("peer", ("peer==1.1",)).ready()
    (made.folder / "made-of.json").write_text("[")  # cut off
    assert not made.ready()


def test_without_one_the_command_that_makes_it_is_named(made: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    model = made.folder
    monkeypatch.setattr(peers, "CTRANSLATE2", model)
    monkeypatch.setattr(peers, "FLOAT32", model)
    peers.require([made])
    with pytest.raises(SystemExit, match=r"other versions: absent; `python -m benchmarks.peers` makes them"):
        peers.require([made, Peer("absent", ())])
    monkeypatch.setattr(peers, "FLOAT32", made.folder / "float32")
    with pytest.raises(SystemExit, match="float32"):
        peers.require([made])
    peers.require([])
