"""Sides take turns; their texts are put beside what was said, channel by channel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from benchmarks.corpus import Clip
from benchmarks.job import Job, Told, answer, ask, told
from benchmarks.processes import Ran, RunFailed
from benchmarks.sides import Measured, Side, backends, error_rate, files, in_turn, references, spoken


def side(name: str, order: list[str], fails_at: int = 0) -> Side:
    def run(folder: Path) -> Measured:
        assert list(folder.iterdir()) == []
        order.append(name)
        if order.count(name) == fails_at:
            raise RunFailed(f"{name} ended with 1: no memory")
        return Measured(float(len(order)), 0, (), name)

    return run


def test_sides_take_turns_in_each_round() -> None:
    order: list[str] = []
    runs, failures = in_turn({name: side(name, order) for name in "abc"}, 2)
    assert order == list("abcabc")
    assert [one.wall for one in runs["b"]] == [2.0, 5.0]
    assert failures == {}


def test_one_that_fails_is_left_out_and_the_others_go_on() -> None:
    order: list[str] = []
    runs, failures = in_turn({"a": side("a", order), "b": side("b", order, fails_at=2)}, 3)
    assert order == ["a", "b", "a", "b", "a"]
    assert list(runs) == ["a"]
    assert failures == {"b": "b ended with 1: no memory"}


def test_without_one_that_is_needed_nothing_goes_on() -> None:
    order: list[str] = []
    with pytest.raises(RunFailed, match="no memory"):
        in_turn({"a": side("a", order, fails_at=1), "b": side("b", order)}, 3, needed=["a"])
    assert order == ["a"]


def test_a_call_is_judged_channel_by_channel() -> None:
    clips = [Clip(Path("one.wav"), 1.0, "hello"), Clip(Path("call.wav"), 1.0, channels=("how are you", "fine"))]
    segments = [{"channel": 1, "text": "fine"}, {"channel": 0, "text": "how are"}, {"channel": 0, "text": "you"}]
    texts = [*spoken([{"channel": None, "text": "hello"}], 0), *spoken(segments, 2)]
    assert references(clips) == ["hello", "how are you", "fine"]
    assert error_rate(clips, Measured(1.0, 0, tuple(texts), "")) == 0.0
    swapped = Measured(1.0, 0, ("hello", "fine", "how are you"), "")
    assert error_rate(clips, swapped) == 6 / 5  # of 5 words: 3 wrong or missing on the one, 3 on the other


def test_channels_are_cut_into_files_of_their_own(tmp_path: Path) -> None:
    samples = np.stack([np.full(80, 0.25), np.full(80, -0.5)], axis=1).astype(np.float32)
    soundfile.write(tmp_path / "call.wav", samples, 8000, subtype="FLOAT")
    paths = files(Clip(tmp_path / "call.wav", 0.01, channels=("a", "b")), tmp_path / "cut")
    assert [float(soundfile.read(path)[0][0]) for path in paths] == [0.25, -0.5]
    assert {soundfile.info(path).samplerate for path in paths} == {8000}
    assert files(Clip(tmp_path / "call.wav", 0.01, "text"), tmp_path / "none") == [str(tmp_path / "call.wav")]


def test_a_job_goes_to_another_program_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work: Callable[[Job], Told] = lambda job: Told(dict.fromkeys(job.paths, job.way), f"with {job.model}")  # noqa: E731
    monkeypatch.setattr("sys.argv", ["side.py", *ask(tmp_path, Job("model", ["a.wav", "ü.wav"], "quickly"))])
    answer(work)
    assert told(tmp_path) == Told({"a.wav": "quickly", "ü.wav": "quickly"}, "with model")


def test_what_multiplies_is_read_from_ctranslate2s_log() -> None:
    errors = (
        "[info]  - Use Intel MKL: false\n[info]  - SGEMM backend: DNNL (packed: false)\n[info]  - GEMM_S8 backend: DNNL"
    )
    assert backends(Ran(1.0, 0, "", errors)) == "; Use Intel MKL: false, SGEMM backend: DNNL, GEMM_S8 backend: DNNL"
    assert backends(Ran(1.0, 0, "", "a warning")) == ""
