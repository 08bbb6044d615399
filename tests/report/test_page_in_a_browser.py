"""Pages as a person meets them: in a real browser, from a file."""

import time

import pytest
import torch

from firstlight.figures import Curve, Dots, curves, dots, heatmap, picture_grid
from firstlight.report import Page, Panel, Section, write_page

HOSTILE = "</script><script>window.hurt=1</script><img src=x onerror='window.hurt=1'>&%{x}\"'"


def hostile_page():
    made = (
        curves([Curve(name=HOSTILE, values=torch.rand(2, 3))], title=HOSTILE, alt=HOSTILE, x=HOSTILE, y=HOSTILE),
        dots([HOSTILE, "b"], [Dots.of(HOSTILE, [torch.rand(2)] * 2)], title="d", alt=HOSTILE, y=HOSTILE),
        heatmap(torch.eye(2), rows=[HOSTILE, "b"], columns=[HOSTILE, "d"], title="h", alt=HOSTILE),
        picture_grid(torch.rand(3, 3, 4, 4), title="p", alt=HOSTILE),
    )  # fmt: skip
    panels = tuple(Panel(figure=f, shows=HOSTILE, published=HOSTILE, measured=HOSTILE) for f in made)
    section = Section(title=HOSTILE, answer=HOSTILE, panels=panels)
    return Page(title=HOSTILE, lead=(HOSTILE,), sections=(section,), facts={HOSTILE: HOSTILE})


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_the_tour_is_drawn_without_a_complaint_at_any_width_and_theme(
    browser, tour_file, artefacts, width, dark
):
    assert browser.open(tour_file, width=width, dark=dark) == []
    assert browser.draw_all() >= 10
    assert browser.complaints() == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
    browser.run("window.scrollTo(0, 0)")
    browser.driver.save_screenshot(str(artefacts / f"tour-{width}-{'dark' if dark else 'light'}.png"))


def test_the_theme_switch_turns_page_and_figures(browser, tour_file):
    browser.open(tour_file)
    browser.draw_all()
    colours = (
        "const ink = e => getComputedStyle(e); const text = document.querySelector('.xtick text');"
        "return [ink(document.body).backgroundColor, ink(text).fill]"
    )
    before = browser.run(colours)
    browser.run("document.getElementById('theme').click()")
    after = browser.until(
        f"const now = (() => {{ {colours} }})(); return now[1] !== arguments[0] && now", before[1]
    )
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_hostile_words_stay_words(browser, tmp_path):
    file = write_page(hostile_page(), tmp_path / "a<b>&'c.html")
    assert browser.open(file) == []
    browser.draw_all()
    assert browser.run("return window.hurt") is None
    assert browser.run("return document.querySelectorAll('img[src=x], svg a').length") == 0
    assert browser.run("return document.title") == HOSTILE
    ticks = browser.run("return [...document.querySelectorAll('#plot2 .ytick text')].map(t => t.textContent)")
    assert HOSTILE in ticks


def test_numbers_are_downloaded_as_csv(browser, tour_file):
    browser.open(tour_file)
    browser.run(
        "const link = document.querySelector('.csv'); link.closest('details').open = true; link.click()"
    )
    until = time.monotonic() + 10
    while not (files := list(browser.downloads.glob("*.csv"))) and time.monotonic() < until:
        time.sleep(0.05)
    header, *rows = files[0].read_text().splitlines()
    shown = browser.run(
        "return document.querySelector('.csv').closest('details').querySelectorAll('tr').length"
    )
    assert header
    assert len(rows) == shown - 1


def test_every_control_can_be_reached_by_keyboard(browser, tour_file):
    browser.open(tour_file)
    unreachable = browser.run(
        "return [...document.querySelectorAll('button, a[href], summary, input')].filter(e => e.tabIndex < 0)"
        ".map(e => e.outerHTML)"
    )
    assert unreachable == []
