"""A run's figures in Prometheus' text format."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from mlxbatch import exposition
from mlxbatch.errors import SetupError
from mlxbatch.exposition import COUNTED, LATENCY_BOUNDS, STEPS, Ended, check_writable, cumulative, last_success, write
from mlxbatch.metrics import RunStats
from mlxbatch.types import Done, Failed, Item, Readings, Skipped, WindowStats

ITEM = Item("a", Path("in/a.wav"), Path("a"))
ODD = 'a "model" of\nC:\\new {le="1"} café # HELP'
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def ended(code: int = 0, at: float = 1000.0, output: str = "/out") -> Ended:
    return Ended("transcribe", output, code, at, {"version": "1.2.3", "model": ODD, "profile": "linux-cpu"})


@pytest.fixture
def stats() -> RunStats:
    now = [100.0]
    made = RunStats(clock=lambda: now[0], found=8)
    windows = tuple(WindowStats(0.0, 30.0, 10, latency) for latency in (0.05, 0.3, 3.0, 100.0))
    made.add(Done(ITEM, (), 120.0, windows, ("cut short",)))
    made.add(Failed(ITEM, "decode", "no audio"))
    made.add(Failed(ITEM, "infer", "killed", quarantined=True))
    made.add(Skipped(ITEM, "done"))
    made.add(Skipped(ITEM, "done"))
    made.add(Skipped(ITEM, "quarantined: killed", quarantined=True))
    made.read(Readings(peak=5 * 10**8, rss=9 * 10**8))
    for step in ("hold", "shrink", "hold"):
        made.event("governor", {"step": step})
    made.event("governor", {"step": "hold", "was": "hold", "why": "cache"})
    made.event("sample", {"cpu": 0.5, "gpu": None})
    now[0] = 160.0
    made.stop()
    return made


def samples(path: Path) -> Samples:
    """(name, labels but for the job's own) -> value; all names belong to us, all series to one job."""
    found: Samples = {}
    for family in text_string_to_metric_families(path.read_text("utf-8")):
        for one in family.samples:
            assert one.name.startswith("mlxbatch_")
            labels = dict(one.labels)
            assert labels.pop("task") == "transcribe"
            assert labels.pop("output")
            found[one.name, frozenset(labels.items())] = one.value
    return found


def value(found: Samples, name: str, **labels: str) -> float:
    return found[f"mlxbatch_{name}", frozenset(labels.items())]


def test_a_run_s_figures(tmp_path: Path, stats: RunStats) -> None:
    path = tmp_path / "x.prom"
    write(path, ended(1), stats)
    found = samples(path)
    assert value(found, "last_run_timestamp_seconds") == 1000.0
    assert value(found, "last_run_exit_code") == 1
    outcomes = {"done": 1, "failed": 1, "quarantined": 2, "skipped": 2, "left": 2}
    assert {name: value(found, "last_run_items", outcome=name) for name in outcomes} == outcomes
    assert value(found, "last_run_warnings") == 1
    assert value(found, "last_run_audio_seconds") == 120.0
    assert value(found, "last_run_wall_seconds") == 60.0
    assert value(found, "last_run_rtfx") == 2.0
    assert value(found, "last_run_peak_memory_bytes", of="device") == 5e8
    assert value(found, "last_run_peak_memory_bytes", of="process") == 9e8
    assert value(found, "last_run_utilisation_ratio", of="cpu") == 0.5
    assert ("mlxbatch_last_run_utilisation_ratio", frozenset({("of", "gpu")})) not in found
    steps = {step: value(found, "last_run_governor_steps", step=step) for step in COUNTED}
    assert steps == {**dict.fromkeys(STEPS, 0), "hold": 2, "shrink": 1, "cache": 1}
    assert STEPS == ("open", "hold", "slow", "shrink", "fallback", "reclaim", "refuse")
    assert [step for step in STEPS if value(found, "last_run_governor_state", step=step)] == ["hold"]


def test_what_ran_is_in_the_info_whatever_its_name(tmp_path: Path, stats: RunStats) -> None:
    write(tmp_path / "x.prom", ended(), stats)
    (labels,) = [dict(labels) for name, labels in samples(tmp_path / "x.prom") if name == "mlxbatch_run_info"]
    assert labels == {"version": "1.2.3", "model": ODD, "profile": "linux-cpu", "engine": "", "model_sha": ""}


def test_the_latencies_are_a_histogram(tmp_path: Path, stats: RunStats) -> None:
    write(tmp_path / "x.prom", ended(), stats)
    found = samples(tmp_path / "x.prom")
    name = "last_run_window_latency_seconds"
    buckets = {bound: value(found, f"{name}_bucket", le=bound) for bound in ("0.05", "0.25", "0.5", "5.0", "+Inf")}
    assert buckets == {"0.05": 1, "0.25": 1, "0.5": 2, "5.0": 3, "+Inf": 4}
    assert value(found, f"{name}_count") == 4
    assert value(found, f"{name}_sum") == pytest.approx(103.35)


@given(st.lists(st.floats(0, 200)))
def test_each_bucket_counts_what_is_at_most_its_bound(latencies: list[float]) -> None:
    found = cumulative(latencies)
    assert [count for _, count in found[:-1]] == [sum(x <= bound for x in latencies) for bound in LATENCY_BOUNDS]
    assert found[-1] == ("+Inf", len(latencies))


def test_a_run_that_did_nothing(tmp_path: Path) -> None:
    write(tmp_path / "x.prom", ended(), RunStats(clock=lambda: 5.0))
    found = samples(tmp_path / "x.prom")
    assert not [name for name, _ in found if "rtfx" in name], "nothing to do is not slow"
    assert value(found, "last_run_window_latency_seconds_count") == 0
    assert value(found, "last_run_governor_state", step="open") == 1


# --- the last success ------------------------------------------------------------------------------------------------


def test_the_last_success_outlives_failures(tmp_path: Path, stats: RunStats) -> None:
    path, seen = tmp_path / "x.prom", []
    for code, at in ((1, 1000.0), (0, 2000.25), (3, 3000.0), (130, 4000.0), (0, 5000.0)):
        write(path, ended(code, at), stats)
        seen.append(value(samples(path), "last_success_timestamp_seconds"))
    assert seen == [0.0, 2000.25, 2000.25, 2000.25, 5000.0]


def test_the_success_of_another_job_is_not_ours(tmp_path: Path, stats: RunStats) -> None:
    path = tmp_path / "x.prom"
    write(path, ended(0, 2000.0), stats)
    write(path, ended(1, 3000.0, output='/another "one"\n'), stats)
    assert value(samples(path), "last_success_timestamp_seconds") == 0.0


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"no metrics", b"{", f"{exposition.LAST_SUCCESS} NaN".encode(), b"x{y=} 1\n"]
)
def test_a_file_that_says_nothing_is_written_over(tmp_path: Path, stats: RunStats, content: bytes) -> None:
    path = tmp_path / "x.prom"
    path.write_bytes(content)
    write(path, ended(1), stats)
    assert value(samples(path), "last_success_timestamp_seconds") == 0.0


def test_a_time_that_is_no_number_is_none(tmp_path: Path) -> None:
    path = tmp_path / "x.prom"
    path.write_text(f'{exposition.LAST_SUCCESS}{{output="/out",task="transcribe"}} NaN\n')
    assert last_success(path, ended().labels) == 0.0


@given(st.data())
def test_no_damage_to_the_file_is_an_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("damage") / "x.prom"
    write(path, ended(), RunStats(clock=lambda: 5.0))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 40))] = data.draw(st.sampled_from([b"", b'"', b"\n{", b"\\"]))
    path.write_bytes(content)
    assert last_success(path, ended().labels) >= 0.0


# --- the file --------------------------------------------------------------------------------------------------------


def test_the_file_is_replaced_and_nothing_else_is_left(tmp_path: Path, stats: RunStats) -> None:
    path = tmp_path / "x.prom"
    for _ in range(2):
        check_writable(path)
        before = path.stat().st_ino if path.exists() else None
        write(path, ended(), stats)
        assert path.stat().st_ino != before
    assert [one.name for one in tmp_path.iterdir()] == ["x.prom"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask(), "the collector runs as another user"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize(("name", "cause"), [("none/x.prom", "No such file or directory"), ("", "Is a directory")])
def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path, stats: RunStats, name: str, cause: str) -> None:
    path = tmp_path / name
    told = re.escape(f"cannot write the metrics file {path}: {cause}")
    with pytest.raises(SetupError, match=told):
        check_writable(path)
    with pytest.raises(SetupError, match=f"cannot write the metrics file {re.escape(str(path))}"):
        write(path, ended(), stats)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.promtool
@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (Debian: prometheus)")
def test_promtool_has_nothing_to_say(tmp_path: Path, stats: RunStats) -> None:
    made = [(ended(output=ODD), stats), (ended(3), RunStats())]
    for one, figures in made:
        path = tmp_path / "x.prom"
        write(path, one, figures)
        done = subprocess.run(["promtool", "check", "metrics"], input=path.read_bytes(), capture_output=True)
        assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_the_document_names_every_metric(tmp_path: Path, stats: RunStats) -> None:
    text = (Path(__file__).parents[1] / "docs" / "logs-and-metrics.md").read_text("utf-8")
    named = set(re.findall(r"`(mlxbatch_\w+)[`{]", text))
    made = {family.name for family in exposition.registry(ended(), stats).collect()}
    assert named == made
