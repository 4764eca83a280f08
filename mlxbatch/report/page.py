"""A report as one HTML page: no script, nothing fetched, light and dark, narrow and wide."""

from __future__ import annotations

from dataclasses import dataclass

from mlxbatch.report import sections
from mlxbatch.report.charts import marks, pictures
from mlxbatch.report.content import Report
from mlxbatch.report.verdict import key_figures, verdict

# Files that are listed for each cause; the JSON has them all.
LISTED = 500


@dataclass(frozen=True, slots=True)
class Mark:
    """What a letter in the picture of the runs stands for."""

    letter: str
    began: str
    text: str


def to_html(report: Report) -> str:
    """The page; the same report gives the same text."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("mlxbatch.report", "page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # The SVG elements are made of the report by matplotlib, which escapes what it is given.
    drawn = {
        name: (picture, Markup(picture.wide), Markup(picture.narrow)) for name, picture in pictures(report).items()
    }
    return environment.get_template("page.html").render(
        report=report,
        run=report.run,
        verdict=verdict(report),
        key_figures=key_figures(report),
        pictures=drawn,
        marks=_marks(report),
        sections=sections,
        listed=LISTED,
    )


def _marks(report: Report) -> list[Mark]:
    began = {run.id: run.began for run in (*report.earlier, report.run)}
    found = []
    for run, letter in marks(report).items():
        what = [f"{change.what} {change.was} -> {change.now}" for change in report.changes if change.run == run]
        found.append(Mark(letter, sections.moment(began[run]), "; ".join(what)))
    return found
