"""A model hub on the loopback: its API, its files with their headers, and a second server that holds the large ones.

Faults are put into `faults` and happen one per answer of the file server, in that order; what it was asked is in `log`.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from mlxbatch.models.hub import faults

LFS = (".safetensors", ".npz", ".bin")


@dataclass
class Fault:
    """`drop`: this many bytes, then the connection is cut; `status`: this instead; `spoil`: applied to the bytes."""

    drop: int | None = None
    status: int | None = None
    spoil: Callable[[bytes], bytes] | None = None
    wait: threading.Event | None = None  # sends `drop` bytes, then nothing until it is set


@dataclass
class HubServer:
    """`repos`: name -> revision -> file -> bytes. `gated` and `tokens`: who must, and may, show which token."""

    repos: dict[str, dict[str, dict[str, bytes]]]
    gated: set[str] = field(default_factory=set)
    tokens: set[str] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)
    no_ranges: bool = False  # the file server sends all, whatever part it is asked for
    api_faults: list[int] = field(default_factory=list)  # statuses, one per answer of the API
    spoil_small: Callable[[bytes], bytes] | None = None  # what happens to the files that git keeps
    log: list[str] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)
    seen_by_files: list[str | None] = field(default_factory=list)
    endpoint: str = ""
    files_endpoint: str = ""
    blobs: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.blobs = {
            hashlib.sha256(content).hexdigest(): content
            for revisions in self.repos.values()
            for files in revisions.values()
            for content in files.values()
        }


def commit(repo: str, files: dict[str, bytes]) -> str:
    names = "".join(f"{name} {hashlib.sha1(content).hexdigest()}\n" for name, content in sorted(files.items()))
    return hashlib.sha1(f"{repo}\n{names}".encode()).hexdigest()


def git_sha1(content: bytes) -> str:
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()


@contextmanager
def serve(hub: HubServer) -> Iterator[HubServer]:
    """Both servers on ports of the system's choice, until the block ends."""
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub, kind)) for kind in (_Api, _Files)]
    hub.endpoint, hub.files_endpoint = (f"http://127.0.0.1:{server.server_address[1]}" for server in servers)
    threads = [threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield hub
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()


def use(hub: HubServer, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """The hub's library in this process asks that hub, with a cache of its own below `home`, and does not wait."""
    from huggingface_hub import constants, file_download

    template = hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hf" / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(home / "hf" / "token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 10_000)  # as small beside the files as it really is
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("MLXBATCH_CACHE", str(home / "cache"))
    monkeypatch.setattr(faults, "WAITS", (0.0, 0.01, 0.01))
    monkeypatch.setattr(file_download.time, "sleep", lambda seconds: None)


def _handler(hub: HubServer, kind: type[_Base]) -> type[_Base]:
    return type(kind.__name__, (kind,), {"hub": hub})


class _Base(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status: int, code: str) -> None:
        self.answer(status, b"{}", X_Error_Code=code, X_Error_Message=code)


class _Api(_Base):
    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        self.hub.log.append(f"{self.command} {path}")
        if self.hub.api_faults:
            self.refuse(self.hub.api_faults.pop(0), "Oops")
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/(.+)", path):
            self._about(match[1], match[2], self._tree)
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            blobs = "blobs" in parse_qs(url.query)
            self._about(match[1], match[2] or "main", lambda *found: self._info(*found, blobs=blobs))
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._about(match[1], match[2], lambda *found: self._file(*found, match[3]))
        else:
            self.refuse(404, "NoSuchPath")

    do_HEAD = do_GET  # noqa: N815

    def _about(self, repo: str, revision: str, then: Callable[[str, str, dict[str, bytes]], None]) -> None:
        revisions = self.hub.repos.get(repo)
        if revisions is None:
            self.refuse(401, "RepoNotFound")
            return
        commits = {commit(repo, files): files for files in revisions.values()}
        files = revisions.get(revision) or commits.get(revision)
        if files is None:
            self.refuse(404, "RevisionNotFound")
        else:
            then(repo, commit(repo, files), files)

    def _info(self, repo: str, sha: str, files: dict[str, bytes], *, blobs: bool) -> None:
        siblings: list[dict[str, Any]] = [{"rfilename": name} for name in files]
        if blobs:
            for entry in siblings:
                content = files[entry["rfilename"]]
                entry |= {"size": len(content), "blobId": git_sha1(content)}
                if entry["rfilename"].endswith(LFS):
                    sha256 = hashlib.sha256(content).hexdigest()
                    entry["lfs"] = {"sha256": sha256, "size": len(content), "pointerSize": 130}
        info = {"id": repo, "modelId": repo, "sha": sha, "siblings": siblings, "private": False, "tags": []}
        self.answer(200, json.dumps(info).encode(), Content_Type="application/json")

    def _tree(self, repo: str, sha: str, files: dict[str, bytes]) -> None:
        entries: list[dict[str, Any]] = []
        for name, content in files.items():
            entry: dict[str, Any] = {"type": "file", "path": name, "size": len(content), "oid": git_sha1(content)}
            if name.endswith(LFS):
                entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
            entries.append(entry)
        self.answer(200, json.dumps(entries).encode(), Content_Type="application/json")

    def _file(self, repo: str, sha: str, files: dict[str, bytes], name: str) -> None:
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if repo in self.hub.gated and token not in self.hub.tokens:
            self.refuse(403 if token else 401, "GatedRepo")
        elif name not in files:
            self.refuse(404, "EntryNotFound")
        elif name.endswith(LFS):
            sha256 = hashlib.sha256(files[name]).hexdigest()
            linked = {"X_Linked_Etag": f'"{sha256}"', "X_Linked_Size": str(len(files[name]))}
            location = f"{self.hub.files_endpoint}/{sha256}?signature=x"
            self.answer(302, b"", Location=location, X_Repo_Commit=sha, ETag='"link"', **linked)
        else:
            spoil = self.hub.spoil_small or bytes
            self.answer(200, spoil(files[name]), ETag=f'"{git_sha1(files[name])}"', X_Repo_Commit=sha)


class _Files(_Base):
    def do_GET(self) -> None:
        self.hub.ranges.append(self.headers.get("Range"))
        self.hub.seen_by_files.append(self.headers.get("Authorization"))
        fault = self.hub.faults.pop(0) if self.hub.faults else Fault()
        if fault.status is not None:
            self.refuse(fault.status, "Oops")
            return
        whole = self.hub.blobs[urlsplit(self.path).path.strip("/")]
        content = fault.spoil(whole) if fault.spoil else whole
        start = self._start(len(content))
        headers = {"Content_Length": str(len(content) - start)}
        if start:
            headers["Content_Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self._send(206 if start else 200, content[start:], headers, fault)

    def _start(self, length: int) -> int:
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        return min(int(match[1]), length) if match and not self.hub.no_ranges else 0

    def _send(self, status: int, body: bytes, headers: dict[str, str], fault: Fault) -> None:
        if fault.drop is None:
            self.answer(status, body, **headers)
            return
        self.answer(status, body[: fault.drop], **headers)
        self.wfile.flush()
        if fault.wait is not None:
            fault.wait.wait(30)
        self.close_connection = True
