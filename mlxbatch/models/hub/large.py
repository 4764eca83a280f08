"""One large file from the hub into its cache: continued where it was cut, checked, landed by rename."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from mlxbatch.errors import SetupError
from mlxbatch.models.hub.faults import AGAIN, patiently, refusal
from mlxbatch.models.hub.wanted import RemoteFile, Wanted
from mlxbatch.models.one_fetch import Say, only_one
from mlxbatch.words import size

# Bytes from which on a file's progress is told, a tenth at a time.
TOLD_FROM = 50_000_000


def fetch_large(wanted: Wanted, commit: str, file: RemoteFile, say: Say) -> None:
    """Bring a file whose sha256 is known to where the hub's library looks for it, unless it is there.

    Raises SetupError; the partial file stays, unless its bytes are not the published ones. OSError is the disk's.
    """
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    cache, folder = Path(constants.HF_HUB_CACHE), repo_folder_name(repo_id=wanted.repo, repo_type="model")
    blob = cache / folder / "blobs" / str(file.sha256)
    if blob.exists():
        return
    blob.parent.mkdir(parents=True, exist_ok=True)
    # The library's own lock: other programs that fetch the same file wait for us, and we for them.
    with only_one(cache / ".locks" / folder / f"{blob.name}.lock", f"{wanted}: {file.name}", say):
        if not blob.exists():
            _download(wanted, commit, file, blob, say)


def _download(wanted: Wanted, commit: str, file: RemoteFile, blob: Path, say: Say) -> None:
    part = blob.with_name(f"{blob.name}.incomplete")
    try:
        patiently(lambda: _continue(wanted, commit, file, part, say), f"{wanted}: {file.name}", say)
    except Exception as error:
        if part.exists():
            say(f"{wanted}: {file.name}: {size(part.stat().st_size)} are kept; the next fetch goes on from there")
        raise refusal(wanted, error) from error
    with part.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    if sha256 != file.sha256:
        part.unlink()
        raise SetupError(
            f"{wanted}: {file.name}: what came is not what the hub publishes (sha256 differs): removed; {AGAIN}"
        )
    part.replace(blob)


def _continue(wanted: Wanted, commit: str, file: RemoteFile, part: Path, say: Say) -> None:
    """One attempt: ask where the file lies, as links to it run out, and append what is missing."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    headers = build_hf_headers(library_name="mlxbatch")
    url = hf_hub_url(wanted.repo, file.name, revision=commit)
    location = get_hf_file_metadata(url, headers=headers).location
    if urlsplit(location).netloc != urlsplit(url).netloc:
        headers.pop("authorization", None)  # a signed link to another server, which is not to see the token
    with part.open("ab") as stream:
        have = stream.tell()
        if file.bytes is not None and have > file.bytes:
            have = stream.truncate(0)
        told = _Told(stream, have, file.bytes or 0, lambda text: say(f"{wanted}: {file.name}, {text}"))
        # It goes on by itself after dropped connections, and from the start where the server cannot go on.
        http_get(location, told, resume_size=have, headers=headers, expected_size=file.bytes)  # type: ignore[arg-type]


class _Told:
    """A file being written that tells its beginning and, if it is large, each tenth: "320 MB of 3.2 GB"."""

    def __init__(self, file: BinaryIO, have: int, total: int, tell: Callable[[str], None]) -> None:
        self._file, self._have, self._total, self._tell = file, have, total, tell
        self._tenth = self._tenths()
        tell(f"going on at {size(have)} of {size(total)}" if have else size(total))

    def _tenths(self) -> int:
        return 10 * self._have // max(1, self._total)

    def write(self, data: bytes) -> int:
        self._have += len(data)
        if self._total >= TOLD_FROM and self._tenths() > self._tenth:
            self._tell(f"{size(self._have)} of {size(self._total)}")
        self._tenth = self._tenths()
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, place: int, whence: int = 0) -> int:
        return self._file.seek(place, whence)

    def truncate(self, length: int | None = None) -> int:
        self._have = self._file.truncate(length)
        return self._have
