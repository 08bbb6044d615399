"""One self-contained HTML page: words, figures, the table behind each figure."""

import json
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from firstlight.core.files import whole_file
from firstlight.core.version import __version__
from firstlight.figures import Figure


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A figure with what it shows, what was published and what this run measured."""

    figure: Figure
    shows: str
    published: str = ""
    measured: str = ""


@dataclass(frozen=True, kw_only=True)
class Section:
    """One question, its answer in plain words, and the figures behind it."""

    title: str
    answer: str
    panels: tuple[Panel, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page opens with its answers and goes on section by section."""

    title: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...]
    facts: dict[str, str] = field(default_factory=dict)


def render(page: Page) -> str:
    """Return the page as HTML. Every text is escaped; nothing is loaded from elsewhere."""
    import jinja2  # imported when a page is written: 100 ms

    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("firstlight.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    figures = [panel.figure for section in page.sections for panel in section.panels]
    return templates.get_template("page.html").render(
        page=page,
        version=__version__,
        plots=_script_json([figure.plot for figure in figures]),
        plotly=_plotly_source(),
        style=_template("page.css"),
        script=_template("page.js"),
        number={id(figure): index for index, figure in enumerate(figures)},
        identity=id,
        rows_of=_rows,
    )


def write_page(page: Page, path: Path) -> Path:
    """Write the page, whole or not at all."""
    with whole_file(path) as part:
        part.write_text(render(page), encoding="utf-8")
        part.chmod(0o644)
    return path


def _rows(figure: Figure) -> list[list[str]]:
    columns = [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in col] for col in figure.table.values()]
    return [list(row) for row in zip(*columns, strict=True)]


def _script_json(value: Any) -> str:
    """JSON that is safe inside a script element, whatever the data hold."""
    text = json.dumps(value, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@cache
def _plotly_source() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _template(name: str) -> str:
    return resources.files("firstlight.report").joinpath("templates", name).read_text(encoding="utf-8")
