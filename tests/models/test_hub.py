"""The hub's path against a stand-in over real sockets: cut, tampered, refused, and two processes at once."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import save_file

from mlxbatch.errors import SetupError
from mlxbatch.models.hub import Wanted, fetch, is_here, large, needed
from mlxbatch.models.hub.fetch import _remote
from mlxbatch.models.hub.wanted import RemoteFile

from .hub_server import Fault, HubServer, commit, serve, use
from .tiny import write_tiny_whisper

REPO = "org/tiny"
JUNK = {"pytorch_model.bin": b"x" * 10, "model.fp32.safetensors": b"y" * 10, "onnx/model.onnx": b"z", "README.md": b"-"}


@pytest.fixture(scope="module")
def model_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    directory = write_tiny_whisper(tmp_path_factory.mktemp("tiny") / "model")
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture
def hub(model_files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    """The hub's library in this process set to a stand-in, with a cache of its own and no waiting."""
    with serve(HubServer({REPO: {"main": model_files | JUNK, "v2": model_files}})) as server:
        use(server, monkeypatch, tmp_path)
        yield server


def get(name: str = REPO, *, offline: bool = False, said: list[str] | None = None) -> Path:
    repo, _, revision = name.partition("@")
    wanted = Wanted(name, repo, revision or None)
    return fetch(wanted, offline=offline, say=said.append if said is not None else lambda text: None)


def refused(name: str = REPO, *, offline: bool = False) -> str:
    with pytest.raises(SetupError) as caught:
        get(name, offline=offline)
    message = str(caught.value)
    assert "\n" not in message
    return message


def contents(snapshot: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in snapshot.iterdir()}


def partials(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "hf").rglob("*.incomplete"))


# ---- what comes


def test_only_the_needed_files_come_and_whole(hub: HubServer, model_files: dict[str, bytes]) -> None:
    said: list[str] = []
    assert contents(get(said=said)) == model_files
    assert said[0] == "org/tiny: looking it up on the model hub"
    assert said[1].startswith("org/tiny: model.safetensors, ")
    assert not any("README" in line or "fp32" in line or "onnx" in line for line in hub.log)


def test_the_second_time_asks_once_and_fetches_nothing(hub: HubServer) -> None:
    first = get()
    hub.log.clear()
    hub.ranges.clear()
    assert get() == first
    assert hub.log == ["GET /api/models/org/tiny"]
    assert hub.ranges == []


@pytest.mark.parametrize("named", ["org/tiny@v2", "commit"])
def test_a_revision(hub: HubServer, model_files: dict[str, bytes], named: str) -> None:
    sha = commit(REPO, model_files)
    name = f"{REPO}@{sha}" if named == "commit" else named
    assert get(name).name == sha
    assert get(name, offline=True).name == sha


def test_offline_takes_what_is_there(hub: HubServer) -> None:
    first = get()
    hub.log.clear()
    assert get(offline=True) == first
    assert hub.log == []


def test_a_newer_commit_is_fetched(hub: HubServer, model_files: dict[str, bytes]) -> None:
    old = get()
    hub.repos[REPO]["main"] = model_files | {"generation_config.json": b"{}"}
    new = get()
    assert new != old
    assert (new / "generation_config.json").read_bytes() == b"{}"
    assert get(offline=True) == new


def test_shards_come_by_their_index(hub: HubServer) -> None:
    names = ["config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "extra.safetensors"]
    hub.repos["org/shards"] = {"main": {name: name.encode() for name in [*names, "model.safetensors.index.json"]}}
    hub.__post_init__()
    assert sorted(contents(get("org/shards"))) == [*names[:3], "model.safetensors.index.json"]


@pytest.mark.parametrize(
    ("names", "weights"),
    [
        ("model.safetensors weights.npz consolidated.safetensors", "model.safetensors"),
        ("weights.safetensors weights.npz", "weights.safetensors"),
        ("weights.npz other.npz", "weights.npz"),
        ("model-1-of-1.safetensors x.safetensors", "model-1-of-1.safetensors"),
        ("a.safetensors b.safetensors", "a.safetensors b.safetensors"),
        ("pytorch_model.bin model.onnx flax_model.msgpack", ""),
        ("model.fp32-00001-of-00002.safetensors sub/model.safetensors", ""),
    ],
)
def test_one_set_of_weights_is_needed(names: str, weights: str) -> None:
    wanted = needed(["config.json", "vocab.txt", "convert.py", ".gitattributes", *names.split()])
    assert set(wanted) == ({"config.json", "vocab.txt", *weights.split()} if weights else set())


def test_to_be_converted_other_formats_and_the_papers_are_needed() -> None:
    other = ["config.json", "vocabulary.txt", "model.bin", "README.md", "LICENSE", ".gitattributes", "convert.py"]
    assert needed(other) == []
    assert needed(other, to_convert=True) == ["config.json", "model.bin", "vocabulary.txt", "LICENSE", "README.md"]
    voices = ["voices/a.safetensors", "voices/a.pt", "speech_tokenizer/config.json", "onnx/model.safetensors"]
    mine = ["config.json", "model.bin", "model.safetensors", *voices]
    assert needed(mine) == ["config.json", "model.safetensors"]
    assert needed(mine, to_convert=True) == [
        *("config.json", "model.safetensors", "speech_tokenizer/config.json", "voices/a.safetensors")
    ]


def test_a_damaged_voice_is_fetched_again(hub: HubServer, model_files: dict[str, bytes]) -> None:
    hub.repos[REPO]["main"] = model_files | {"voices/a.safetensors": b"sound"}
    hub.__post_init__()
    wanted = Wanted(REPO, REPO, to_convert=True)
    voice = fetch(wanted, offline=False, say=lambda text: None) / "voices" / "a.safetensors"
    voice.resolve().write_bytes(b"noise")
    fetch(wanted, offline=False, say=lambda text: None)
    assert voice.read_bytes() == b"sound"


# ---- what goes wrong on the way


def test_a_connection_that_is_cut_is_gone_on_with(hub: HubServer, model_files: dict[str, bytes]) -> None:
    hub.faults += [Fault(drop=35_000), Fault(drop=50_000)]
    assert contents(get()) == model_files
    starts = [int(asked[6:-1]) for asked in hub.ranges[1:] if asked]
    assert len(starts) == 2
    assert 0 < starts[0] < starts[1]


def test_a_server_that_cannot_go_on_begins_anew(hub: HubServer, model_files: dict[str, bytes]) -> None:
    hub.no_ranges = True
    hub.faults += [Fault(drop=50_000)]
    assert contents(get()) == model_files
    assert hub.ranges[:2] == [None, "bytes=50000-"]


def test_a_server_that_stumbles_is_asked_again(hub: HubServer, model_files: dict[str, bytes]) -> None:
    hub.api_faults += [503, 502]
    hub.faults += [Fault(status=500)]
    said: list[str] = []
    assert contents(get(said=said)) == model_files
    assert sum("trying again" in line for line in said) == 3


def test_a_server_that_stays_broken_is_given_up_and_the_part_is_kept(
    hub: HubServer, model_files: dict[str, bytes], tmp_path: Path
) -> None:
    hub.faults += [Fault(drop=70_000), *[Fault(status=503)] * 10]
    message = refused()
    assert message.startswith("org/tiny: the model hub does not come through (")
    assert message.endswith("): try again later")
    (part,) = partials(tmp_path)
    kept = part.stat().st_size
    assert 0 < kept <= 70_000
    assert not list((tmp_path / "hf").rglob("config.json"))  # nothing that looks like a model
    hub.faults.clear()
    hub.ranges.clear()
    said: list[str] = []
    assert contents(get(said=said)) == model_files
    assert hub.ranges == [f"bytes={kept}-"]
    assert "going on at" in said[1]
    assert partials(tmp_path) == []


def test_truncated_answers_are_never_taken_for_the_file(hub: HubServer, tmp_path: Path) -> None:
    hub.faults += [Fault(spoil=lambda content: content[:-10])] * 8
    message = refused()
    assert "does not come through" in message
    assert not list((tmp_path / "hf").rglob("*.safetensors"))


def test_a_truncated_answer_is_completed(hub: HubServer, model_files: dict[str, bytes]) -> None:
    hub.faults += [Fault(spoil=lambda content: content[:-10])]
    assert contents(get()) == model_files


@pytest.mark.parametrize("name", ["../../../../victim", "a" * 63, "A" * 64])
def test_a_hash_that_is_none_names_no_file(name: str) -> None:
    """It would be the name of a file in the cache."""
    record = SimpleNamespace(rfilename="model.safetensors", size=9, lfs={"sha256": name})
    with pytest.raises(SetupError, match=r"model.safetensors: the hub gives .* for its sha256, which is none"):
        _remote(record)
    assert _remote(SimpleNamespace(rfilename="a", size=9, lfs=None)) == RemoteFile("a", 9, None)


@pytest.mark.parametrize("place", [0, 5000, -1])
def test_a_tampered_file_is_removed_and_never_used(hub: HubServer, tmp_path: Path, place: int) -> None:
    def tamper(content: bytes) -> bytes:
        spoilt = bytearray(content)
        spoilt[place] ^= 1
        return bytes(spoilt)

    hub.faults += [Fault(spoil=tamper)]
    assert refused() == (
        "org/tiny: model.safetensors: what came is not what the hub publishes (sha256 differs): removed; "
        "fetch it again with `mlxbatch models pull`"
    )
    blobs = [path for path in (tmp_path / "hf").rglob("*") if path.is_file() and path.stat().st_size > 100_000]
    assert blobs == []
    get()


def test_a_tampered_small_file_is_removed_and_never_used(hub: HubServer, model_files: dict[str, bytes]) -> None:
    hub.spoil_small = lambda content: bytes([content[0] ^ 1]) + content[1:]
    message = refused()
    assert "config.json" in message
    assert "not what the hub publishes (the hash differs): removed; fetch it again" in message
    hub.spoil_small = None
    assert contents(get()) == model_files


def test_a_file_damaged_in_the_cache_is_fetched_again(hub: HubServer, model_files: dict[str, bytes]) -> None:
    path = get() / "model.safetensors"
    path.resolve().write_bytes(b"\0" * path.stat().st_size)
    said: list[str] = []
    assert contents(get(said=said)) == model_files
    assert "org/tiny: model.safetensors in the hub's cache is damaged, and is fetched again" in said


def test_a_file_damaged_in_the_cache_is_not_used_offline(hub: HubServer) -> None:
    path = get() / "model.safetensors"
    path.resolve().write_bytes(b"\0" * path.stat().st_size)
    assert "model.safetensors: not what the hub publishes" in refused(offline=True)
    assert not path.exists()


def test_a_snapshot_without_its_weights_is_none(hub: HubServer) -> None:
    (get() / "model.safetensors").unlink()
    assert refused(offline=True).startswith("org/tiny is not in the hub's cache on this machine")
    assert not is_here(Wanted(REPO, REPO))
    get()
    assert is_here(Wanted(REPO, REPO))


def test_a_file_missing_in_the_cache_is_fetched(hub: HubServer, model_files: dict[str, bytes]) -> None:
    path = get() / "tokenizer.json"
    path.unlink()
    assert contents(get()) == model_files


def test_a_part_longer_than_the_file_is_begun_anew(
    hub: HubServer, model_files: dict[str, bytes], tmp_path: Path
) -> None:
    hub.faults += [Fault(drop=70_000), *[Fault(status=503)] * 10]
    refused()
    hub.faults.clear()
    (part,) = partials(tmp_path)
    part.write_bytes(b"\0" * (len(model_files["model.safetensors"]) + 1))
    assert contents(get()) == model_files


def test_progress_is_told_by_tenths(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "TOLD_FROM", 1)
    hub.faults += [Fault(drop=100_000), Fault(drop=100_000)]
    said: list[str] = []
    get(said=said)
    assert any(" of " in line for line in said)


# ---- what the hub refuses


def test_there_is_no_such_model(hub: HubServer) -> None:
    assert refused("org/none") == (
        "org/none: no such model on the hub; if it is a private one, log in with `hf auth login`, or set HF_TOKEN"
    )


def test_there_is_no_such_revision(hub: HubServer) -> None:
    assert refused("org/tiny@v9") == "org/tiny@v9: the model is on the hub, but has no revision 'v9'"


def test_a_gated_model(hub: HubServer, monkeypatch: pytest.MonkeyPatch, model_files: dict[str, bytes]) -> None:
    hub.gated.add(REPO)
    hub.tokens.add("hf_right")
    wanted = f"do so at {hub.endpoint}/org/tiny, then log in with `hf auth login`, or set HF_TOKEN"
    assert refused() == f"org/tiny: the hub gives it only to those who accept its terms: {wanted}"
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    assert refused().endswith(wanted)
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert contents(get()) == model_files
    assert set(hub.seen_by_files) == {None}  # the server of large files never sees the token


def test_an_account_that_is_not_let_in(hub: HubServer) -> None:
    hub.api_faults += [403]
    assert "the hub does not give it to this account (HTTP 403): log in with" in refused()


def test_a_repository_that_holds_no_model(hub: HubServer) -> None:
    hub.repos["org/other"] = {"main": {"config.json": b"{}", "pytorch_model.bin": b"x"}}
    assert "org/other: it has no *.safetensors (or weights.npz), so it is no model" in refused("org/other")
    hub.repos["org/other"] = {"main": {"model.safetensors": b"x"}}
    assert "org/other: it has no config.json" in refused("org/other")


@pytest.mark.parametrize("name", ["org/na--me", "org/tiny..x"])
@pytest.mark.parametrize("offline", [False, True])
def test_a_name_that_no_model_has(hub: HubServer, name: str, offline: bool) -> None:
    assert refused(name, offline=offline).startswith(f"{name}: Cannot have -- or .. in repo_id")


def test_the_hub_cannot_be_reached(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # the discard port: nobody listens
    message = refused()
    assert message.startswith(
        "org/tiny: the model hub cannot be reached, and the model is not in its cache on this machine (http://127.0.0.1"
    )
    assert message.endswith("run `mlxbatch models pull org/tiny` with a network, or name a model's directory")


@pytest.mark.parametrize("status", [503, 401, 403, 429])
def test_a_hub_that_does_not_answer_does_not_matter_for_a_model_it_gave_before(hub: HubServer, status: int) -> None:
    first = get()
    hub.api_faults += [status] * 9
    said: list[str] = []
    assert get(said=said) == first
    assert said[-1].endswith("): taking what is in its cache here")
    assert len(hub.api_faults) == 8  # asked once


def test_files_that_others_fetched_are_not_looked_at(hub: HubServer) -> None:
    snapshot = get()
    blob = snapshot.parents[1] / "blobs" / ("0" * 64)
    blob.write_bytes(b"a pickle that is not what it should be")
    (snapshot / "pytorch_model.bin").symlink_to(blob)
    assert get() == get(offline=True) == snapshot


def test_what_was_never_fetched_cannot_be_had_offline(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    message = "org/tiny is not in the hub's cache on this machine, and this run is offline: "
    assert refused(offline=True) == message + "run `mlxbatch models pull org/tiny` once"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert refused().startswith(message)
    assert hub.log == []


def test_a_cache_that_cannot_be_written(hub: HubServer, tmp_path: Path) -> None:
    (tmp_path / "hf").write_text("a file where the directory would be")
    message = refused()
    assert str(tmp_path / "hf" / "hub") in message
    assert message.endswith("; HF_HOME sets another place")


def test_a_disk_that_is_full(hub: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = large._Told.write

    def write(self: large._Told, data: bytes) -> int:
        if self.tell() >= 50_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(self, data)

    monkeypatch.setattr(large._Told, "write", write)
    where = tmp_path / "hf" / "hub"
    wanted = f"org/tiny: {where}: the disk is full; free some space and run again; HF_HOME sets another place"
    assert refused() == wanted
    assert len(hub.ranges) == 1  # it is not tried again
    assert partials(tmp_path)[0].stat().st_size == 50_000


# ---- processes


@pytest.fixture
def large_files(hub: HubServer, tmp_path: Path) -> dict[str, bytes]:
    """A model of three of the pieces, of 10 MiB, in which the hub's library writes."""
    save_file({"x": np.zeros(25_000_000, np.uint8)}, tmp_path / "large.safetensors")
    whole = (tmp_path / "large.safetensors").read_bytes()
    files = {"config.json": b'{"model_type": "parakeet"}', "model.safetensors": whole}
    hub.repos["org/large"] = {"main": files}
    hub.__post_init__()
    return files


def pull(hub: HubServer, tmp_path: Path) -> subprocess.Popen[str]:
    """`mlxbatch models pull`, with the hub's settings as users set them."""
    env = {"HF_HOME": str(tmp_path / "hf"), "HF_ENDPOINT": hub.endpoint, "MLXBATCH_CACHE": str(tmp_path / "cache")}
    env |= {"NO_PROXY": "127.0.0.1", "PATH": "", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "mlxbatch", "models", "pull", "org/large"]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def begun(tmp_path: Path) -> bool:
    return any(part.stat().st_size for part in partials(tmp_path))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_stop_leaves_a_part_that_the_next_fetch_goes_on_from(
    hub: HubServer, large_files: dict[str, bytes], tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    held = threading.Event()
    hub.faults += [Fault(drop=12_000_000, wait=held)]
    process = pull(hub, tmp_path)
    try:
        until(lambda: begun(tmp_path))
        process.send_signal(sent)
        _, said = process.communicate(timeout=60)
    finally:
        held.set()
        process.kill()
    assert process.returncode == code
    assert "Traceback" not in said
    assert "trying again" not in said
    (part,) = partials(tmp_path)
    kept = part.stat().st_size
    assert 0 < kept <= 10 << 20
    hub.ranges.clear()
    assert contents(get("org/large")) == large_files
    assert hub.ranges == [f"bytes={kept}-"]


def test_of_two_processes_one_fetches_and_both_get_it(
    hub: HubServer, large_files: dict[str, bytes], tmp_path: Path
) -> None:
    held = threading.Event()
    hub.faults += [Fault(drop=12_000_000, wait=held)]
    first = pull(hub, tmp_path)
    processes = [first]
    try:
        until(lambda: begun(tmp_path))
        processes.append(second := pull(hub, tmp_path))
        assert second.stderr is not None
        waits = next(line for line in iter(second.stderr.readline, "") if "waiting" in line)
        held.set()
        paths = {process.communicate(timeout=60)[0].strip() for process in processes}
    finally:
        held.set()
        for process in processes:
            process.kill()
    assert waits == "mlxbatch: org/large: model.safetensors: another process is fetching it, waiting\n"
    assert len(paths) == 1
    assert contents(Path(paths.pop())) == large_files
    assert hub.ranges == [None, f"bytes={10 << 20}-"]  # one whole request that was cut, and the rest of the file
