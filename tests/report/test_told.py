"""The same report as text, as JSON and as a page."""

from __future__ import annotations

import html.parser
import io
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from mlxbatch.report import data, page, sections, table
from mlxbatch.report.charts import marks, pictures
from mlxbatch.report.content import Report, make_report
from mlxbatch.report.figures import Figures
from mlxbatch.report.run import read_history
from mlxbatch.report.series import Stretch, stretches, thinned, unit_of

from .conftest import HOSTILE, LIMIT, busy_night
from .nights import Night, night_id, write

DOC = (Path(__file__).resolve().parents[2] / "docs" / "report.md").read_text("utf-8")


@pytest.fixture(scope="module")
def report(nights: Path) -> Report:
    return make_report(read_history(nights))


@pytest.fixture(scope="module")
def made(report: Report) -> str:
    return page.to_html(report)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The first run of all, killed before it had begun anything."""
    out = write(tmp_path_factory.mktemp("bare"), Night(night_id(1), done=0, end=False))
    return make_report(read_history(out))


# ---- text


def test_the_text_tells_of_everything(report: Report) -> None:
    lines = list(table.plain(report))
    text = "\n".join(lines)
    assert lines[0] == f"run {night_id(9)}, 2026-11-09 22:00 UTC"
    assert lines[1] == "24 of 32 files are done; 6 failed, 2 are left; 3 more skipped, 2 quarantined."
    titles = ["Figures", "Failures by cause", "Quarantined", "Skipped", "Slowest files", "The engine's process"]
    titles += ["Governor", "Load", "Stages", "Run by run", "The run"]
    assert [line for line in lines if line in titles] == titles
    assert re.search(r"^ +3  decode: N of N bytes$", text, re.MULTILINE)
    assert re.search(r"^ +2  done before$", text, re.MULTILINE)
    assert "calls/new\\nline.wav" in text
    assert "calls/crash-\\xff.wav" in text
    assert re.search(r"1:20  80.0|1:00  hold +open +82 % ", text)
    assert re.search(r"2026-11-04 22:00 UTC  killed ", text)
    assert "version 0.1.0 -> 0.2.0" in text
    assert "memory of the engine's process keeps growing: 400 MB more in 4 groups, 100 MB a group; 200 MB" in text
    assert "the device held 5.0 GB after a group where earlier runs held 4.0 GB" in text
    assert "calls/crash-before.wav" in text
    assert re.search(r"^ +\d+:\d+ +9\.10 +8  waits$", text, re.MULTILINE)
    assert re.search(r"^  files, all runs until now  0 done, 0 failed, 0 quarantined$", text, re.MULTILINE)
    assert "\x1b" not in text


def test_columns_stand_below_each_other(report: Report) -> None:
    lines = list(table.plain(report))
    first = lines.index("Slowest files") + 1
    rows = lines[first : first + 11]
    assert len({row.index("calls/") for row in rows[1:]}) == 1
    assert rows[0].index("file") == rows[1].index("calls/")


def test_more_failures_than_are_named(tmp_path: Path) -> None:
    failed = [(f"{number}.wav", "decode", "no audio") for number in range(9)]
    text = "\n".join(table.plain(make_report(read_history(write(tmp_path, Night(night_id(1), failed=failed))))))
    assert "9  decode: no audio" in text
    assert "  4.wav\n" in text
    assert "  5.wav\n" not in text
    assert "and 4 more" in text


def test_a_terminal_gets_the_same_tables_drawn(report: Report) -> None:
    stream = io.StringIO()
    table.show_report(report, stream, terminal=True)
    drawn = stream.getvalue()
    assert all(word in drawn for word in ("Failures by cause", "Run by run", "Slowest files", "N of N bytes", "hold"))


def test_of_a_run_of_which_nothing_is_left(tmp_path: Path) -> None:
    write(tmp_path, Night(night_id(1), end=False))
    next((tmp_path / ".mlxbatch" / "runs").iterdir()).unlink()
    found = make_report(read_history(tmp_path))
    text = "\n".join(table.plain(found))
    assert re.search(r"^  files +-$", text, re.MULTILINE)
    assert re.search(r"^  warnings +-$", text, re.MULTILINE)
    assert "The run's log has been removed" in text
    assert "Counted:" not in text
    assert "how far it came is not known" in page.to_html(found)
    assert data.as_data(found)["run"]["figures"]["known"] is False


def test_what_happened_to_the_engine_is_told_without_the_log(tmp_path: Path) -> None:
    write(tmp_path, busy_night())
    next((tmp_path / ".mlxbatch" / "runs").iterdir()).unlink()
    text = "\n".join(table.plain(make_report(read_history(tmp_path))))
    assert "Counted: died 1, renewed 1, leaks 2." in text


def test_events_of_another_form_are_told_as_far_as_they_go(tmp_path: Path) -> None:
    events = [{"what": "rss", "growth": "much"}, {"what": 3}, {"what": "baseline", "of": [], "size": None}]
    night = Night(night_id(1), leaks=events, loads=[True])
    path = write(tmp_path, night) / ".mlxbatch" / "runs" / f"{night.id}.jsonl"
    path.write_text(path.read_text().replace('"load": 9.1', '"load": "high"').replace('"busy": true', '"busy": 1'))
    text = "\n".join(table.plain(make_report(read_history(tmp_path))))
    assert re.search(r"leak +memory of the engine's process keeps growing$", text, re.MULTILINE)
    assert re.search(r"leak +memory keeps growing$", text, re.MULTILINE)
    assert re.search(r"leak +memory held more after a group than earlier runs held$", text, re.MULTILINE)
    assert re.search(r"^ +\d+:\d+ +- +8 +goes on$", text, re.MULTILINE)


# ---- JSON


def test_every_key_is_documented_and_every_documented_key_is_there(report: Report) -> None:
    found = json.loads(data.to_json(report))
    keys = re.findall(r"^\| `(\w+)` \|", DOC.split("## JSON")[1], re.MULTILINE)
    assert list(found) == keys
    assert found["schema"] == data.SCHEMA
    named = set(re.findall(r"`(\w+)`", DOC.split("The figures of a run:")[1]))
    assert named == {"items", *(field.name for field in fields(Figures))} == set(found["run"]["figures"])
    assert set(found["earlier"][0]) == set(found["run"]) - {"facts", "log"}


def test_the_data_is_that_of_the_run(report: Report) -> None:
    found = json.loads(data.to_json(report))
    assert (found["run"]["id"], found["run"]["state"], found["run"]["log"]) == (night_id(9), "finished", True)
    assert found["run"]["facts"]["model"] == "<b>tiny</b>"
    assert [run["state"] for run in found["earlier"]].count("killed") == 1
    assert found["failures"][0]["failures"][0] == {
        "source": "calls/broken-0.wav",
        "stage": "decode",
        "error": "100 of 2000 bytes",
        "quarantined": False,
    }
    assert found["memory_limit_bytes"] == LIMIT
    assert found["ledger"] == {"done": 0, "failed": 0, "quarantined": 0}
    assert [load["busy"] for load in found["load"]] == [True, False]
    assert len(found["samples"]) == 30
    assert [step["step"] for step in found["governor"]] == ["hold", "shrink", "open", "hold"]
    assert found["slowest"][0]["took"] == 80.0
    assert found["slowest"][0]["speed"] == pytest.approx(found["slowest"][0]["seconds"] / 80.0)
    assert data.to_json(report).isascii()


# ---- the page


class Reader(html.parser.HTMLParser):
    """Tags with their attributes, ids, and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


def test_the_page_asks_for_nothing(made: str) -> None:
    read = Reader(made)
    assert not {tag for tag, _ in read.tags} & {"script", "img", "iframe", "object", "embed", "base", "audio", "video"}
    names = ("src", "href", "srcset", "action", "xlink:href", "data", "poster")
    links = [value for _, attributes in read.tags for name in names if (value := attributes.get(name))]
    assert all(link.startswith("#") or link == "data:," for link in links)
    assert any(link.startswith("#") for link in links)
    outside = set(re.findall(r"https?://[^\s\"'<]+", made))
    assert outside == {"http://www.w3.org/1999/xlink"}  # a namespace, which nobody fetches
    assert "@import" not in made
    assert {target[0] for target in re.findall(r"url\(([^)]*)", made)} == {"#"}
    assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on")]


def test_names_are_shown_and_never_markup(made: str, report: Report) -> None:
    read = Reader(made)
    assert HOSTILE in read.text
    assert "<script>" not in made
    assert "<b>tiny</b>" not in made
    assert "calls/crash-\\xff.wav" in read.text
    assert "calls/new\\nline.wav" in read.text


def test_the_page_can_be_read_without_seeing_it(made: str) -> None:
    read = Reader(made)
    assert read.all("html") == [{"lang": "en"}]
    assert len(read.all("h1")) == 1
    assert len(read.all("h2")) >= 8
    assert len(read.all("caption")) == len(read.all("table")) >= 6
    ids = [value for _, attributes in read.tags if (value := attributes.get("id"))]
    assert len(ids) == len(set(ids))
    drawn = read.all("svg")
    assert len(drawn) == 6
    for one in drawn:
        assert one["role"] == "img"
        assert set((one["aria-labelledby"] or "").split()) <= set(ids)


def test_the_pictures_have_the_pages_colours(report: Report) -> None:
    drawn = pictures(report)
    assert list(drawn) == ["memory", "use", "trend"]
    for picture in drawn.values():
        for svg in (picture.wide, picture.narrow):
            assert re.findall(r"#[0-9a-f]{6}\b", svg) == []
            assert "var(--first)" in svg
            assert "<text" in svg
            assert "<metadata" not in svg
    memory = drawn["memory"]
    assert all(f">{word}</text>" in memory.wide for word in ("80 %", "90 %", "limit", "hold", "shrink"))
    assert "hold 2 times, shrink 1 time" in memory.description
    assert all(f">{letter}</text>" in drawn["trend"].narrow for letter in marks(report).values())


def test_the_same_runs_give_the_same_page(
    nights: Path, made: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import matplotlib

    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.hashsalt": "other"}):
        again = page.to_html(make_report(read_history(nights)))
        assert matplotlib.rcParams["font.size"] == 30
    assert again == made


def test_a_run_that_began_nothing_has_a_page_without_pictures(bare: Report) -> None:
    made = page.to_html(bare)
    assert "<svg" not in made
    assert "The run was killed" in made
    assert pictures(bare) == {}


def test_a_log_without_a_limit_or_governor_has_a_memory_curve(tmp_path: Path) -> None:
    night = Night(night_id(1), governor=())
    path = write(tmp_path, night) / ".mlxbatch" / "runs" / f"{night.id}.jsonl"
    path.write_text(re.sub(r', "limit": [0-9]+', "", path.read_text()))
    found = make_report(read_history(tmp_path))
    memory = pictures(found)["memory"]
    assert found.limit is None
    assert memory.description == "Its peak was 4.0 GB. The governor took no step."
    assert ">90 %</text>" not in memory.wide


@pytest.mark.parametrize("name", ["page.html", "parts.html", "page.css"])
def test_the_templates_are_in_the_package(name: str) -> None:
    from importlib.resources import files

    assert (files("mlxbatch.report") / "page" / name).is_file()


# ---- what the pictures are made of


def test_points_are_thinned_and_peaks_stay() -> None:
    points = [(float(at), 9.0 if at == 777 else 1.0) for at in range(1000)]
    found = thinned(points, max, most=100)
    assert len(found) == 100
    assert found[77] == (770.0, 9.0)
    assert thinned(points[:5], max, most=5) == points[:5]
    assert thinned([], max, most=5) == []


def test_a_step_lasts_until_the_next() -> None:
    steps = [
        {"t": 10, "step": "hold"},
        {"t": 30, "step": "shrink"},
        {"t": 40, "step": "open"},
        {"t": 90, "step": "hold"},
    ]
    assert stretches(steps, 100.0) == [Stretch("hold", 10, 30), Stretch("shrink", 30, 40), Stretch("hold", 90, 100)]
    assert stretches([], 100.0) == []


@pytest.mark.parametrize(
    ("seconds", "name"), [(90, "seconds"), (181, "minutes"), (10_800, "minutes"), (10_801, "hours")]
)
def test_time_is_told_in_a_fitting_unit(seconds: float, name: str) -> None:
    assert unit_of(seconds).name == name


def test_moments() -> None:
    assert sections.moment("2026-11-30T22:15:09+00:00") == "2026-11-30 22:15 UTC"
    assert sections.moment("yesterday") == "yesterday"
    assert sections.moment(None) == "-"
