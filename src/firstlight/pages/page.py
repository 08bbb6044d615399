"""One self-contained HTML page: words, figures, formulas, the table behind each figure."""

import base64
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from firstlight._internal.files import whole_file
from firstlight._internal.safe_text import csv_text
from firstlight._internal.version import __version__
from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.svg import moving_parts, svg
from firstlight.pages.formulas import formulas_of


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A figure with what it shows, what was published and what this run measured.

    Parameters
    ----------
    figure : Figure
        What is drawn.
    shows : str
        How to read it.
    published : str, default ''
        What the papers report.
    measured : str, default ''
        What this run gave.
    formulas : tuple of str, default ()
        Names in :func:`firstlight.pages.formulas.formulas`, to which the page links.
    """

    figure: Figure
    shows: str
    published: str = ""
    measured: str = ""
    formulas: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Section:
    """One question, its answer in plain words, and the figures behind it.

    Parameters
    ----------
    title, answer : str
        The question and its answer.
    panels : tuple of Panel, default ()
        The figures.
    details : dict of str to str
        Settings, folded away.
    """

    title: str
    answer: str
    panels: tuple[Panel, ...] = ()
    details: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A short answer at the head of a page, with the title of the section that shows why."""

    question: str
    answer: str
    section: str = ""


@dataclass(frozen=True, kw_only=True)
class Highlight:
    """A finding for the first screen: a picture, a title, a sentence, and the section that says more.

    Parameters
    ----------
    title, words : str
        What is seen, and the sentence below it.
    figures : tuple of Figure
        Small pictures, one below the other.
    section : str
        Title of the section that it leads to.
    """

    title: str
    words: str
    figures: tuple[Figure, ...]
    section: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Numbers by name that a reader can sort by any column.

    Parameters
    ----------
    title : str
        What a row is.
    columns : dict of str to list
        Texts and numbers, one list per column, all of one length; NaN is shown as a dash.
    words : str, default ''
        What the columns are.
    """

    title: str
    columns: dict[str, list[Any]]
    words: str = ""

    @property
    def rows(self) -> list[list[tuple[str, str]]]:
        """What is shown and what is sorted by, cell by cell.

        Examples
        --------
        >>> Table(title="t", columns={"layer": ["a", "b"], "share": [0.12345, math.nan], "filters": [16.0, 8.0]}).rows
        [[('a', 'a'), ('0.123', '0.12345'), ('16', '16.0')], [('b', 'b'), ('–', ''), ('8', '8.0')]]
        """
        return [list(row) for row in zip(*map(_cells, self.columns.values()), strict=True)]


def _cells(column: list[Any]) -> list[tuple[str, str]]:
    """Cells of a column: its numbers with equally many decimals, three digits for the largest."""
    numbers = [value for value in column if isinstance(value, int | float) and math.isfinite(value)]
    largest = max(map(abs, numbers), default=0.0)
    decimals = max(0, 2 - math.floor(math.log10(largest))) if largest else 0
    while decimals and all(round(value, decimals) == round(value, decimals - 1) for value in numbers):
        decimals -= 1  # no column of zeros behind the point
    return [
        (str(value), str(value))
        if not isinstance(value, int | float)
        else (f"{value:,.{decimals}f}", str(value))
        if math.isfinite(value)
        else ("–", "")
        for value in column
    ]


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page opens with its highlights and answers and goes on section by section.

    Parameters
    ----------
    title, lead : str or tuple of str
        What it is about, in a sentence or two.
    highlights : tuple of Highlight, default ()
        Findings with pictures, side by side on the first screen.
    answers : tuple of Answer, default ()
        The main findings, each with its question.
    sections : tuple of Section
        The figures behind them.
    table : Table, optional
        Numbers below the findings.
    is_folded : bool, default False
        Show only the titles of the sections until a reader opens them.
    facts : dict of str to str
        For the footer.
    pending : tuple of str, default ()
        What is still to come; such a page says so.
    reloads : bool, default False
        An unfinished page loads itself again every few seconds.
    """

    title: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...]
    highlights: tuple[Highlight, ...] = ()
    answers: tuple[Answer, ...] = ()
    table: Table | None = None
    is_folded: bool = False
    facts: dict[str, str] = field(default_factory=dict)
    pending: tuple[str, ...] = ()
    reloads: bool = False

    def _repr_html_(self) -> str:
        # in a frame of its own: neither its style nor its script may reach the notebook around it
        content = escape(render(self))
        return (
            '<iframe sandbox="allow-scripts allow-downloads" style="width:100%;height:80vh;border:0" '
            f'srcdoc="{content}"></iframe>'
        )

    def panels(self) -> Iterator[Panel]:
        """All figures of the page with their words, in order."""
        for section in self.sections:
            yield from section.panels


N_MOMENTS = 4  # of a figure with a slider, where there is no slider


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """One figure, ready for the template.

    Parameters
    ----------
    number : int
        Its place on the page.
    figure : Figure
        What is drawn.
    drawn : tuple of tuple of 2 str
        Label and SVG: one, or several moments side by side where there is no slider.
    moments : tuple of tuple of 2 str
        Label and changing parts of every frame, for a slider; empty without frames and on static pages.
    """

    number: int
    figure: Figure
    drawn: tuple[tuple[str, str], ...]
    moments: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, figure: Figure, number: int, static: bool) -> "Drawing":
        """Draw a figure."""
        if not static or not figure.frames:
            labels = [frame.label for frame in figure.frames]
            moments = () if static else tuple(zip(labels, moving_parts(figure), strict=True))
            return cls(number=number, figure=figure, drawn=(("", svg(figure)),), moments=moments)
        last = len(figure.frames) - 1
        chosen = sorted({round(i * last / (N_MOMENTS - 1)) for i in range(N_MOMENTS)})
        frames = [figure.frames[i] for i in chosen]
        drawn = tuple((frame.label, svg(figure, frame=frame)) for frame in frames)
        return cls(number=number, figure=figure, drawn=drawn)

    @property
    def is_picture(self) -> bool:
        """Whether it shows pictures, which keep their size."""
        return any(trace["type"] == "image" for trace in self.figure.plot["data"])

    @property
    def file_name(self) -> str:
        """Name for the table when it is downloaded.

        Examples
        --------
        >>> figure = Figure(plot={}, title="A / b?", alt="")
        >>> Drawing(number=1, figure=figure, drawn=()).file_name
        '2-a-b.csv'
        """
        words = re.sub(r"[^a-z0-9]+", "-", self.figure.title.lower()).strip("-")[:50]
        return f"{self.number + 1}-{words}.csv"

    @property
    def rows(self) -> list[list[str]]:
        """The table with four digits."""
        columns = [[_shown(value) for value in column] for column in self.figure.table.values()]
        return [list(row) for row in zip(*columns, strict=True)]

    @property
    def csv(self) -> str:
        """The table in full precision, as an address that holds it whole."""
        text = csv_text(self.figure.table).encode()
        return "data:text/csv;charset=utf-8;base64," + base64.b64encode(text).decode()


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def render(page: Page, *, static: bool = False) -> str:
    """Return the page as HTML. Every text is escaped; nothing is loaded from elsewhere.

    Parameters
    ----------
    page : Page
        What to show.
    static : bool, default False
        Leave out the script: no sliders and switches, a few moments side by side instead.
    """
    return render_with(
        "page.html",
        panels=list(page.panels()),
        figures=[figure for highlight in page.highlights for figure in highlight.figures],
        static=static,
        page=page,
        anchors={section.title: f"s{index + 1}" for index, section in enumerate(page.sections)},
    )


def render_with(
    template: str,
    *,
    panels: list[Panel],
    static: bool,
    figures: Sequence[Figure] = (),
    folder: Path | None = None,
    **words: Any,
) -> str:
    """Fill one of our templates, or one in `folder` that extends ours and brings its styles and scripts along."""
    import jinja2  # imported when a page is written: 100 ms

    loaders: list[jinja2.BaseLoader] = [jinja2.PackageLoader("firstlight.pages")]
    if folder is not None:
        loaders.append(jinja2.FileSystemLoader(folder))
    templates = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    drawings = {id(panel): Drawing.of(panel.figure, index, static) for index, panel in enumerate(panels)}
    drawings |= {
        id(figure): Drawing.of(figure, index, static) for index, figure in enumerate(figures, len(panels))
    }
    return templates.get_template(template).render(
        version=__version__,
        static=static,
        style=_template("page.css") + _own(folder, "css"),
        script="" if static else _template("page.js") + _own(folder, "js"),
        drawing_of=lambda shown: drawings[id(shown)],
        formulas=formulas_of([name for panel in panels for name in panel.formulas]),
        **words,
    )


def write_page(page: Page, path: str | Path, *, static: bool = False) -> Path:
    """Write a page as one HTML file that loads nothing from elsewhere, whole or not at all.

    Parameters
    ----------
    page : Page
        What a question wrote, such as :func:`firstlight.questions.inspect.page.inspection_page`, or your own.
    path : str or Path
        File to write.
    static : bool, default False
        Leave out all scripts; figures are then SVG.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> section = Section(title="Do they agree?", answer="In 31 of 32 filters.")
    >>> page = Page(title="Two networks", lead=("Trained from different seeds.",), sections=(section,))
    >>> write_page(page, f"{mkdtemp()}/two.html").name
    'two.html'
    """
    return write_html(render(page, static=static), Path(path))


def write_html(html: str, path: Path) -> Path:
    """Write a rendered page, whole or not at all."""
    with whole_file(path) as part:
        part.write_bytes(html.encode("utf-8", errors="backslashreplace"))  # names of files may be no text
    return path


def _template(name: str) -> str:
    return resources.files("firstlight.pages").joinpath("templates", name).read_text(encoding="utf-8")


def _own(folder: Path | None, kind: str) -> str:
    """What a page of its own adds to what all pages share: the files of this kind beside its template."""
    files = [] if folder is None else sorted(folder.glob(f"*.{kind}"))
    return "".join(file.read_text(encoding="utf-8") for file in files)


LEVEL = 0.05  # share of cases in which chance alone may pass for more


def beyond_chance(count: int, *, n: int, p: float) -> bool:
    """Whether `count` of `n` is more than chance gives in 95 % of cases, if each has probability `p`.

    Looking at many layers, some always stand out: one number counts only together with all others.

    Examples
    --------
    >>> beyond_chance(3, n=4, p=1 / 9), beyond_chance(19, n=186, p=1 / 9)
    (True, False)
    """
    from scipy.stats import binom  # when a page is made: a second

    return n > 0 and float(binom.sf(count - 1, n, p)) <= LEVEL


def chance_of_ignoring_flat(shape: tuple[int, ...], *, share: float) -> float:
    """Probability that a random pattern has less than `share` of its norm along constant channels.

    The squared share of a random direction in d dimensions along c of them follows a beta distribution.

    Parameters
    ----------
    shape : tuple of int
        Channels, height and width of the pattern.
    share : float
        Between 0 and 1.

    Examples
    --------
    >>> [round(chance_of_ignoring_flat(shape, share=0.1), 2) for shape in ((1, 3, 3), (3, 11, 11))]
    [0.22, 0.69]
    """
    from scipy.stats import beta

    channels, size = shape[0], math.prod(shape)
    if size == channels:  # nothing but constant patterns
        return 0.0
    return float(beta.cdf(share**2, channels / 2, (size - channels) / 2))
