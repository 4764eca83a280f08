"""Damaged recordings, sixty for each `make test`; `make soak` takes thousands."""

from __future__ import annotations

from pathlib import Path

import pytest
import soundfile

from tests.faults.mutations import judge, mutations

from .sounds import encoded, tone, voices

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.mark.corpus
@pytest.mark.skipif(not (CORPUS / "edge").is_dir(), reason="the shared recordings are missing")
def test_mutations_of_the_edge_cases(tmp_path: Path) -> None:
    originals = [path for path in sorted((CORPUS / "edge").iterdir()) if 0 < path.stat().st_size < 400_000]
    verdicts = judge(mutations(originals, 60, seed=1, folder=tmp_path), tmp_path / "chatter")
    assert verdicts.faults == []
    assert verdicts.decoded + verdicts.failed == 60


def test_mutations_of_what_tests_can_make(tmp_path: Path) -> None:
    (made := tmp_path / "made").mkdir()
    for name in ("a.wav", "b.flac", "c.ogg", "d.aiff", "e.au"):
        soundfile.write(made / name, tone(1.0), 16000)
    for name, codec, rate in (("f.mp3", "libmp3lame", 44100), ("g.mkv", "aac", 44100), ("h.tta", "tta", 16000)):
        encoded(made / name, codec, tone(1.0, rate), rate, video=name == "g.mkv")
    encoded(made / "i.m4a", "aac", voices(1.0, 48000, 8), 48000)
    verdicts = judge(mutations(sorted(made.iterdir()), 72, seed=2, folder=tmp_path), tmp_path / "chatter")
    assert verdicts.faults == []
    assert verdicts.decoded + verdicts.failed == 72
    assert verdicts.decoded > 20


@pytest.mark.parametrize(
    ("code", "fault"),
    [("import os; os.kill(os.getpid(), 11)", "died with code -11"), ("raise KeyError(3)", "raises KeyError(3)")],
)
def test_a_fault_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, fault: str) -> None:
    (package := tmp_path / "broken").mkdir()
    (package / "sitecustomize.py").write_text(
        f"import mlxbatch.probe\ndef probe(item): {code}\nmlxbatch.probe.probe = probe\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{package}:{Path(__file__).parents[1]}")
    soundfile.write(tmp_path / "a.wav", tone(0.1), 16000)
    verdicts = judge(iter([tmp_path / "a.wav"]), tmp_path / "chatter")
    assert [line for line in verdicts.faults if line.startswith("a.wav")] == [f"a.wav: {fault}"]
