"""Forty recordings say the same, byte for byte, whatever the batch size, the order of the files and their company."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlxbatch.audio import decode
from mlxbatch.engines.base import EngineSpec
from mlxbatch.engines.whisper.engine import WhisperEngine
from mlxbatch.types import Item, TranscribeOptions
from tests.cli.conftest import ROOT, finish, program
from tests.engines.whisper.parts import job
from tests.jobs import Given
from tests.near_ties import close, watched

CORPUS = ROOT.parent / "shared" / "data"
# How many of each kind: sentences, prompts and calls of the telephone, languages, codecs, noise; some are long.
KINDS = {
    "en_wer_bench": 12, "telephony": 7, "telephony_prompt": 7, "lang": 6, "container": 3, "enhance_noisy": 3,
    "call": 1, "diarization": 1,
}  # fmt: skip
LONGEST = 60.0  # seconds
# Of all windows, so many at most may say something else, each where two tokens were as likely.
DIFFERING = 0.01


def recordings() -> list[Path]:
    """Of each kind some of all lengths, from the manifest; paths below the corpus."""
    rows = [json.loads(line) for line in (CORPUS / "manifest.jsonl").read_text("utf-8").splitlines()]
    found: list[Path] = []
    for kind, count in KINDS.items():
        own = [row for row in rows if row["kind"] == kind and row["expect_decode"] and row["duration_s"] < LONGEST]
        own.sort(key=lambda row: (row["duration_s"], row["id"]))
        found += [Path(own[(len(own) - 1) * n // max(1, count - 1)]["path"]) for n in range(count)]
    assert len(set(found)) == 40
    return found


@dataclass(frozen=True)
class Told:
    """What a run left of each recording: the bytes of its texts, and its record."""

    texts: dict[Path, tuple[bytes, bytes]]
    records: dict[Path, Any]
    windows: int


def transcribe(paths: Sequence[Path], out: Path, batch_size: int) -> Told:
    """One run of the program over these paths, in this order."""
    out.parent.mkdir(exist_ok=True)
    listed = out.with_suffix(".list")
    listed.write_text("".join(f"{CORPUS / path}\n" for path in paths), "utf-8")
    where = ("--files-from", listed, "--root", CORPUS, "-o", out, "--offline", "--json", "--quiet")
    command = ("transcribe", *where, "--format", "txt,srt,json", "--batch-size", str(batch_size))
    ran = finish(program(*command, XDG_CONFIG_HOME=str(out / "config")), timeout=3000)
    assert ran.code == 0, ran.err
    assert ran.summary["done"] == len(paths)
    written = {path: [(out / path).with_suffix(f".{form}").read_bytes() for form in ("txt", "srt")] for path in paths}
    records = {path: json.loads((out / path).with_suffix(".json").read_bytes()) for path in paths}
    return Told({path: (txt, srt) for path, (txt, srt) in written.items()}, records, ran.summary["windows"])


def in_other_company(paths: Sequence[Path], out: Path, batch_size: int) -> Told:
    """The same in three runs of a third each, drawn by lot: the plan, and who sits beside whom, is another one."""
    drawn = random.Random(5).sample(paths, len(paths))
    parts = [transcribe(drawn[n::3], out / str(n), batch_size) for n in range(3)]
    return Told(
        {path: texts for part in parts for path, texts in part.texts.items()},
        {path: record for part in parts for path, record in part.records.items()},
        sum(part.windows for part in parts),
    )


@pytest.mark.soak
@pytest.mark.corpus
@pytest.mark.real
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not (CORPUS / "manifest.jsonl").exists(), reason="the shared recordings are missing")
def test_forty_recordings_say_the_same_in_any_batch(
    whisper_base: Path, silero_vad: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = recordings()
    told = {f"batch {size}": transcribe(paths, tmp_path / str(size), size) for size in (1, 4, 16)}
    shuffled = random.Random(4).sample(paths, len(paths))
    told["batch 4, shuffled"] = transcribe(shuffled, tmp_path / "shuffled", 4)
    told["batch 16, other company"] = in_other_company(paths, tmp_path / "company", 16)
    alone = told.pop("batch 1")
    warm = sum(any(one["temperature"] for one in record["segments"]) for record in alone.records.values())
    print(f"\n{len(paths)} recordings, {alone.windows} windows alone; {warm} recordings with a text that was sampled")
    assert warm >= 1, "or nothing is proved of those that fall down the ladder"
    differing = set()
    for name, found in told.items():
        others = {path for path in paths if found.texts[path] != alone.texts[path]}
        print(f"{name}: {found.windows} windows, {len(others)} recordings that differ from those alone")
        differing |= others
        for path in set(paths) - others:
            assert close(found.records[path], alone.records[path]), path
    assert len(differing) <= DIFFERING * alone.windows * len(told)
    assert told["batch 4, shuffled"].texts == told["batch 4"].texts, "the order of the files is none of the plan's"
    for path in differing:
        made, near = choices(path, whisper_base, silero_vad, monkeypatch)
        print(f"{path}: {near} of {made} tokens were near ties")
        assert near > 0, path


def choices(path: Path, model: Path, vad: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How many tokens are chosen for a recording by itself, and how many of them were near ties."""
    samples = decode(Item(str(path), CORPUS / path, path)).samples[0]
    one = job(0, samples, TranscribeOptions(vad=True))
    with (
        closing(WhisperEngine(EngineSpec("whisper", model, batch_size=1, vad=vad, device={"kind": "cpu"}))) as engine,
        watched(monkeypatch) as found,
    ):
        for _ in engine.run(Given([one]), lambda live: 1):
            pass
    return found.made, found.near
