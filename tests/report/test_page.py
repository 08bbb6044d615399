import json
import re

import pytest
import torch

from firstlight.core.errors import StoreProblem
from firstlight.figures import Curve, curves
from firstlight.report import Page, Panel, Section, render, write_page

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
    plots = json.loads(re.search(r'<script id="plots"[^>]*>(.*?)</script>', html, re.S).group(1))
    assert plots[0]["data"][0]["name"] == HOSTILE


def test_nothing_is_loaded_from_elsewhere(page):
    html = render(page)
    own = html.split("<script>")[0] + html.split('<script id="plots"')[1]  # without Plotly's own source
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", own)


def test_every_figure_has_alt_text_and_its_table(page):
    html = render(page)
    assert html.count('role="img" aria-label=') == 1
    assert html.count("Download CSV") == 1
    assert html.count("<tr>") == 4


def test_a_page_that_cannot_be_written_is_one_clear_error(page, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreProblem, match="Cannot write"):
        write_page(page, tmp_path / "file" / "page.html")
