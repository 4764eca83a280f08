from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mlxbatch.errors import SetupError
from mlxbatch.models import catalogue
from mlxbatch.models.identity import model_sha
from mlxbatch.models.resolve import ResolvedModel, resolve
from tests.models.shop import NAME, build_shop, only_this_shop
from tests.models.tiny import write_tiny_whisper


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("MLXBATCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def find(name: str, *, offline: bool = True) -> ResolvedModel:
    return resolve(name, offline=offline, say=lambda line: None)


@pytest.mark.parametrize("name", ["{}/model", "{}/model/../model", "./model", "model"])
def test_a_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    path = write_tiny_whisper(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    resolved = find(name.format(tmp_path))
    assert resolved.path.is_absolute()
    assert resolved.path.samefile(path)
    assert resolved.sha == model_sha(path)
    assert resolved.name == name.format(tmp_path)


def test_a_directory_below_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = write_tiny_whisper(tmp_path / "model")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find("~/model").path == path


def test_a_directory_is_checked(tmp_path: Path) -> None:
    (write_tiny_whisper(tmp_path / "model") / "tokenizer.json").unlink()
    with pytest.raises(SetupError, match=r"tokenizer.json: missing"):
        find(str(tmp_path / "model"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./nothing", "./nothing: no such model directory"),
        ("/nothing/at/all", "/nothing/at/all: no such model directory"),
        ("~nobody-of-that-name/model", "~nobody-of-that-name/model: no such model directory"),
        (
            "whisper-bse",
            "unknown model 'whisper-bse'; did you mean 'whisper-base'? Known: silero-vad, whisper-base; or a dir",
        ),
        ("Whisper_Base", "unknown model 'Whisper_Base'; did you mean 'whisper-base'? Known"),
        ("xyz", "unknown model 'xyz'. Known: silero-vad, whisper-base; or a directory, or a hub id such as org/name"),
        ("", "unknown model ''. Known"),
        ("x" * 5000, "unknown model 'xxx"),
        ("a\0b", r"unknown model 'a\x00b'. Known"),
    ],
)
def test_no_such_model(name: str, message: str) -> None:
    with pytest.raises(SetupError) as caught:
        find(name)
    assert str(caught.value).startswith(message)
    assert caught.value.exit_code == 3


def test_a_file_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "model.bin").touch()
    with pytest.raises(SetupError, match=r"model.bin: a file; name the model's directory"):
        find(str(tmp_path / "model.bin"))


def test_a_catalogue_model_is_pulled_when_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path) -> None:
    only_this_shop(monkeypatch, tmp_path / "shop")
    monkeypatch.setattr(catalogue, "CATALOGUE", (build_shop(tmp_path / "shop", tmp_path / "source"),))
    with pytest.raises(SetupError) as caught:
        find(NAME)
    assert str(caught.value) == (
        "tiny is not on this machine, and this run is offline: run `mlxbatch models pull tiny` once (1 MB)"
    )
    resolved = find(NAME, offline=False)
    assert (resolved.name, resolved.path) == (NAME, cache / "models" / NAME)
    assert find(NAME) == resolved


def test_a_damaged_catalogue_model_offline(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    path = write_tiny_whisper(cache / "models" / "whisper-base")
    (path / "model.safetensors").write_bytes(b"")
    with pytest.raises(SetupError, match=r"whisper-base/model.safetensors: no readable safetensors file"):
        find("whisper-base")


HUB_SCRIPT = """
import sys
from mlxbatch.errors import SetupError
from mlxbatch.models.resolve import resolve
try:
    print(resolve(sys.argv[1], offline=sys.argv[2] == "offline", say=print))
except SetupError as error:
    print("SetupError:", error)
"""


def hub(tmp_path: Path, name: str, mode: str) -> str:
    """Resolve in a process of its own: the hub's library reads its environment when it is imported."""
    env = {
        "HF_HOME": str(tmp_path / "hf"),
        "HF_ENDPOINT": "http://127.0.0.1:9",  # the discard port: nobody listens
        "NO_PROXY": "127.0.0.1",
        "MLXBATCH_CACHE": str(tmp_path / "cache"),
        "PATH": "",
    }
    command = [sys.executable, "-c", HUB_SCRIPT, name, mode]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return done.stdout.strip().splitlines()[-1]


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A tiny Whisper where the hub's library would have put `org/tiny` and its revisions `main` and `v2`."""
    repo = tmp_path / "hf" / "hub" / "models--org--tiny"
    (repo / "refs").mkdir(parents=True)
    for ref in ("main", "v2"):
        (repo / "refs" / ref).write_text(COMMIT)
    return write_tiny_whisper(repo / "snapshots" / COMMIT)


@pytest.mark.parametrize("name", ["org/tiny", "org/tiny@v2", f"org/tiny@{COMMIT}"])
def test_a_hub_model_in_the_hubs_cache(tmp_path: Path, snapshot: Path, name: str) -> None:
    assert hub(tmp_path, name, "offline") == repr(ResolvedModel(name, snapshot, model_sha(snapshot)))


def test_a_hub_model_is_checked(tmp_path: Path, snapshot: Path) -> None:
    (snapshot / "tokenizer.json").unlink()
    assert hub(tmp_path, "org/tiny", "offline").endswith(
        "copy the tokenizer.json of the Whisper it was made from into the directory"
    )


@pytest.mark.parametrize(
    ("name", "mode", "message"),
    [
        ("org/other", "offline", "org/other is not in the hub's cache on this machine, and this run is offline"),
        ("org/tiny@v3", "offline", "org/tiny@v3 is not in the hub's cache on this machine, and this run is offline"),
        ("org/other", "online", "org/other: the model hub cannot be reached, and the model is not in its cache"),
        ("org/na--me", "offline", "org/na--me: Cannot have -- or .. in repo_id"),
    ],
)
def test_a_hub_model_that_cannot_be_had(tmp_path: Path, snapshot: Path, name: str, mode: str, message: str) -> None:
    assert hub(tmp_path, name, mode).startswith(f"SetupError: {message}")


def test_a_hub_that_cannot_be_reached_does_not_matter_for_a_model_it_gave_before(
    tmp_path: Path, snapshot: Path
) -> None:
    assert hub(tmp_path, "org/tiny", "online") == repr(ResolvedModel("org/tiny", snapshot, model_sha(snapshot)))


def test_the_hubs_library_is_imported_for_hub_models_only(tmp_path: Path) -> None:
    write_tiny_whisper(tmp_path / "model")
    code = f"{HUB_SCRIPT}\nassert not {{'huggingface_hub', 'mlx', 'transformers'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "model"), "offline"], check=True)


@pytest.mark.real
def test_whisper_base(whisper_base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLXBATCH_CACHE", str(whisper_base.parents[1]))
    resolved = find("whisper-base")
    assert resolved.path == whisper_base
    assert len(resolved.sha) == 64
