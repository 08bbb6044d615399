import base64
import csv
import dataclasses
import io
import re
from collections import Counter
from html import unescape

import pytest
import torch

from firstlight._internal.errors import InvalidInput, StoreProblem
from firstlight.pages.figures import Curve, Figure, curves
from firstlight.pages.formulas import formulas_of
from firstlight.pages.page import Drawing, Page, Panel, Section, render, write_page
from firstlight.questions.tour.page import PAGES, PartPage, tour_page
from firstlight.questions.tour.parts import PARTS

HOSTILE = "</script><img src=x onerror=alert(1)>&\"'"


@pytest.fixture
def page():
    figure = curves(
        [Curve(name=HOSTILE, values=torch.rand(1, 3))], title=HOSTILE, alt=HOSTILE, x=HOSTILE, y="y"
    )
    panel = Panel(figure=figure, shows=HOSTILE, published=HOSTILE, measured=HOSTILE)
    section = Section(title=HOSTILE, answer=HOSTILE, panels=(panel,))
    return Page(title=HOSTILE, lead=(HOSTILE,), sections=(section,), facts={HOSTILE: HOSTILE})


def test_hostile_text_stays_text(page):
    html = render(page)
    assert "<img src=x" not in html
    assert "onerror=alert(1)>" not in html.replace("onerror=alert(1)&gt;", "")
    tips = re.findall(r"<title>(.*?)</title>", html.split("</head>")[1])
    assert len(tips) == 3
    assert all(unescape(tip).startswith(HOSTILE) for tip in tips)


def test_nothing_is_loaded_from_elsewhere(page):
    html = render(page)
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", html)
    assert set(re.findall(r"https?://[^\"' ]+", html)) == {"http://www.w3.org/2000/svg"}  # the name of SVG


def test_every_figure_has_alt_text_and_its_table(page):
    html = render(page)
    assert html.count('role="img" aria-label=') == 1
    assert html.count("Download as CSV") == 1
    assert html.count("<tr>") == 4


def test_a_page_that_cannot_be_written_is_one_clear_error(page, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreProblem, match="Cannot write"):
        write_page(page, tmp_path / "file" / "page.html")


def test_every_figure_of_the_tour_says_what_it_shows_and_what_was_found(small_tour):
    page = tour_page(small_tour)
    for panel in page.panels():
        said = (panel.shows, panel.published, panel.measured, panel.formulas)
        assert all(said), panel.figure.title
        assert panel.figure.table, panel.figure.title
        assert panel.figure.alt
    titles = {section.title for section in page.sections}
    assert page.answers
    assert {answer.section for answer in page.answers} <= titles


def test_a_tour_is_shown_part_by_part(small_tour):
    page = tour_page(dataclasses.replace(small_tour, parts={}), reloads=True)
    assert page.sections == ()
    assert page.pending == tuple(part.words for part in PARTS)
    assert "Unfinished" in render(page)
    assert 'http-equiv="refresh"' in render(page, static=True)


def test_a_page_that_grows_draws_no_part_twice(small_tour, monkeypatch):
    count, drawn, draw = Counter(), {}, PartPage.draw

    def counted(page, result):
        count[type(result)] += 1
        return draw(page, result)

    monkeypatch.setattr(PartPage, "draw", counted)
    names = list(small_tour.parts)
    for n in range(len(names) + 1):
        parts = {name: small_tour.parts[name] for name in names[:n]}
        page = tour_page(dataclasses.replace(small_tour, parts=parts), drawn=drawn)
        assert len(page.pending) == len(PARTS) - n
    assert set(count.values()) == {1}
    assert len(count) == len(PARTS)
    assert render(page) == render(tour_page(small_tour))


def test_every_part_of_a_tour_has_a_page_of_its_own(small_tour):
    assert list(small_tour.parts) == [part.name for part in PARTS]
    assert small_tour.pending == ()
    assert {type(result) for result in small_tour.parts.values()} == set(PAGES)


def test_links_to_formulas_lead_somewhere(small_tour):
    html = render(tour_page(small_tour), static=True)
    targets = set(re.findall(r'href="#([^"]+)"', html))
    assert targets <= set(re.findall(r'id="([^"]+)"', html))
    assert html.count("<math") == html.count('id="formula-')


def test_an_unknown_formula_is_named():
    with pytest.raises(InvalidInput, match="Did you mean 'energy'"):
        formulas_of(["energie"])


def test_a_downloaded_table_is_exact_and_no_spreadsheet_takes_words_for_formulas():
    figure = Figure(plot={}, title="t", alt="a", table={"x": [1 / 3, -2.0], "label": ["=cmd()", "a,b"]})
    drawing = Drawing(number=0, figure=figure, drawn=())
    text = base64.b64decode(drawing.csv.split(",")[1]).decode()
    rows = list(csv.reader(io.StringIO(text)))
    assert float(rows[1][0]) == 1 / 3
    assert rows[1][1] == "'=cmd()"
    assert rows[2] == ["-2.0", "a,b"]


def test_everything_a_tour_measured_shows_itself_in_a_notebook(small_tour):
    html = small_tour._repr_html_()
    assert "FirstLayerTour" in html
    assert len(html) < 1e6
    for panel in tour_page(small_tour).panels():
        assert panel.figure._repr_html_().startswith("<svg")


def test_the_first_figure_of_a_section_is_open_and_the_others_fold_away():
    figure = curves([Curve(name="a", values=torch.ones(1, 3))], title="Second", alt="a", x="x", y="y")
    panels = tuple(
        Panel(figure=dataclasses.replace(figure, title=title), shows="s", published="p", measured="m")
        for title in ("First", "Second")
    )
    html = render(Page(title="t", lead=(), sections=(Section(title="s", answer="a", panels=panels),)))
    before, inside = html.split('<details class="more">')
    assert "<strong>First</strong>" in before
    assert inside.strip().startswith("<summary>Second</summary>")
    assert "<strong>Second</strong>" in inside
    assert html.count("<summary>Numbers and details</summary>") == 2
