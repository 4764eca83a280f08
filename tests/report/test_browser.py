"""The page in a real browser: nothing fetched, nothing run, nothing complained of, and it fits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlxbatch.report.content import make_report
from mlxbatch.report.page import to_html
from mlxbatch.report.run import read_history

from . import chromium
from .chromium import Page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium.find() is None, reason="no Chromium here: on Debian, apt-get install chromium"),
]


@pytest.fixture(scope="module")
def address(nights: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(to_html(make_report(read_history(nights))), "utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    program = chromium.find()
    assert program is not None
    with chromium.browser(program) as page:
        yield page


def _open_all(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_the_page_fits_and_keeps_to_itself(tab: Page, address: str, width: int, dark: bool) -> None:
    tab.open(address, width, dark=dark)
    for _ in range(2):
        assert tab.evaluate("innerWidth") == width
        root = "document.documentElement"
        assert tab.evaluate(f"{root}.scrollWidth") == tab.evaluate(f"{root}.clientWidth")
        _open_all(tab)
    assert set(tab.requests) == {address}
    assert tab.problems == []
    assert tab.dialogs == 0
    shown = "[...document.querySelectorAll('svg')].filter(one => one.getClientRects().length).map(one => one.id || "
    shown += "one.parentNode.className)"
    assert set(tab.evaluate(shown)) == {"narrow" if width == 360 else "wide"}


def test_text_can_be_read_in_a_narrow_window(tab: Page, address: str) -> None:
    tab.open(address, 360)
    sizes = "[...document.querySelectorAll('.narrow svg text')].map(one => one.getBoundingClientRect().height)"
    assert min(tab.evaluate(sizes)) >= 9.0


def test_the_sentence_and_the_key_figures_are_on_the_first_screen(tab: Page, address: str) -> None:
    for width, least in ((360, 4), (1400, 6)):
        tab.open(address, width)
        assert tab.evaluate("document.querySelector('h1').getBoundingClientRect().bottom") < 450
        seen = "[...document.querySelectorAll('.tiles div')].filter(one => one.getBoundingClientRect().bottom < 900)"
        assert tab.evaluate(f"{seen}.length") >= least


def test_dark_and_light_are_two_pictures(tab: Page, address: str) -> None:
    digests, colours = set(), {}
    for dark in (False, True):
        tab.open(address, 1400, dark=dark)
        digests.add(hashlib.sha256(tab.screenshot()).hexdigest())
        names = {"paper": "html", "ink": "h1"}
        kinds = {"paper": "backgroundColor", "ink": "color"}
        colours[dark] = {
            name: tab.evaluate(f"getComputedStyle(document.querySelector('{names[name]}')).{kinds[name]}")
            for name in names
        }
        drawn = "getComputedStyle(document.querySelector('.wide svg text')).fill"
        colours[dark]["drawn"] = tab.evaluate(drawn)
    assert len(digests) == 2
    assert all(colours[False][name] != colours[True][name] for name in colours[False])


def test_colours_have_contrast_enough(tab: Page, address: str) -> None:
    """WCAG 2.1, 1.4.3 and 1.4.11: 4.5 for text, 3 for what is drawn."""
    for dark in (False, True):
        tab.open(address, 1400, dark=dark)
        value = "getComputedStyle(document.documentElement).getPropertyValue('--{}').trim()"
        paper = _luminance(tab.evaluate(value.format("paper")))
        for name in ("ink", "muted", "good", "fair", "bad", "first", "second"):
            found = _luminance(tab.evaluate(value.format(name)))
            light, deep = max(found, paper), min(found, paper)
            assert (light + 0.05) / (deep + 0.05) >= 4.5, (name, dark)


def _luminance(colour: str) -> float:
    """Relative luminance of "#rrggbb", as WCAG defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_script_in_a_name_does_not_run(tab: Page, address: str) -> None:
    tab.open(address, 1400)
    assert tab.evaluate("document.scripts.length") == 0
    text = tab.evaluate("document.body.textContent")
    assert "<script>alert('x')</script>" in text
    assert tab.dialogs == 0


def test_the_browser_would_see_a_page_that_does_wrong(tab: Page, tmp_path: Path) -> None:
    """The tests above can fail: a page that runs, fetches and overflows is found out."""
    path = tmp_path / "wrong.html"
    path.write_text(
        "<!doctype html><body style='width:500px'><img src='near.png'><script>console.log('x'); document.title = 1"
        "</script>"
    )
    before = len(tab.requests), len(tab.problems)
    tab.open(path.as_uri(), 360)
    assert tab.evaluate("document.documentElement.scrollWidth") > 360
    assert any(request.endswith("near.png") for request in tab.requests[before[0] :])
    assert len(tab.problems) > before[1]
