"""Pages as a person meets them: in a real browser, from a file."""

import dataclasses
import re
import time

import pytest
import torch

from firstlight.pages.figures import Curve, Dots, curves, dots, heatmap, picture_grid
from firstlight.pages.page import Page, Panel, Section, write_page
from firstlight.questions.tour.page import tour_page
from limits import PAGE

HOSTILE = "</script><script>window.hurt=1</script><img src=x onerror='window.hurt=1'>&%{x}<b>bold</b>\"'"


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
    assert browser.run("return document.querySelectorAll('.plot svg.figure').length") >= 8
    assert browser.run("return document.querySelectorAll('.picture svg image').length") >= 5
    # scripts that only a pointer starts complain only when there is one
    browser.point_at(browser.find(".plot svg.figure circle"))
    assert browser.complaints() == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
    browser.run("window.scrollTo(0, 0)")
    browser.driver.save_screenshot(str(artefacts / f"tour-{width}-{'dark' if dark else 'light'}.png"))


def test_no_drawn_figure_is_cut_at_phone_width(browser, tour_file):
    browser.open(tour_file, width=390)
    assert browser.run("return document.querySelectorAll('svg.figure text').length") > 50
    cut = browser.run(
        "return [...document.querySelectorAll('svg.figure')].flatMap(p => {"
        "  const box = p.getBoundingClientRect();"
        "  return [...p.querySelectorAll('text')].filter(t => {"
        "    const b = t.getBoundingClientRect();"
        "    return b.left < box.left - 1 || b.right > box.right + 1 || b.top < box.top - 1"
        "      || b.bottom > box.bottom + 1;"
        "  }).map(t => t.textContent); })"
    )
    assert cut == []


def test_the_theme_switch_turns_page_and_figures(browser, tour_file):
    browser.open(tour_file)
    colours = (
        "const ink = e => getComputedStyle(e); const text = document.querySelector('svg.figure text');"
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
    for mark in ("circle", "rect"):
        browser.point_at(browser.find(f".plot svg.figure {mark}"))
        assert HOSTILE in browser.until("return document.querySelector('.tip:not([hidden])')?.textContent")
    assert browser.run("return window.hurt") is None
    assert browser.run("return document.querySelectorAll('img[src=x], svg a').length") == 0
    assert browser.run("return document.title") == HOSTILE
    texts = browser.run("return [...document.querySelectorAll('svg.figure text')].map(t => t.textContent)")
    assert HOSTILE[:24] + "…" in texts


def test_numbers_are_downloaded_as_csv(browser, tour_file):
    browser.open(tour_file)
    browser.run(
        "const link = document.querySelector('.csv'); link.closest('details').open = true; link.click()"
    )
    until = time.monotonic() + PAGE
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


def test_the_slider_runs_through_training(browser, tour_file):
    browser.open(tour_file)
    move = "const s = arguments[0]; s.value = 0; s.dispatchEvent(new Event('input'));"
    pictures, curve = (browser.run(f"return document.querySelectorAll('.time input')[{i}]") for i in (0, 1))
    shown = "return arguments[0].closest('figure').querySelector('image').getAttribute('href')"
    last = browser.run(shown, pictures)
    browser.run(move, pictures)
    assert browser.run(shown, pictures) != last
    assert browser.run("return document.querySelector('.time output').textContent") == "initial"
    browser.run(
        "arguments[0].value = arguments[0].max; arguments[0].dispatchEvent(new Event('input'))", pictures
    )
    assert browser.run(shown, pictures) == last
    paths = (
        "return [...arguments[0].closest('figure').querySelectorAll('.trace polyline')]"
        ".map(line => line.getAttribute('points'))"
    )
    moving, still = browser.run(paths, curve)
    browser.run(move, curve)
    now = browser.run(paths, curve)
    assert now[0] != moving
    assert now[0] == now[1] == still  # at the start the profile is the initial one


def test_play_runs_to_the_end(browser, tour_file):
    browser.open(tour_file)
    control = browser.find(".time")
    browser.run("arguments[0].querySelector('.play').click()", control)
    assert (
        browser.run("return arguments[0].querySelector('.play').getAttribute('aria-label')", control)
        == "Pause"
    )
    browser.until(
        "const [s, p] = ['input', '.play'].map(q => arguments[0].querySelector(q));"
        "return s.value === s.max && p.getAttribute('aria-label') === 'Play'",
        control,
        seconds=100,
    )


def test_a_hidden_series_stays_hidden_while_the_slider_moves(browser, tour_file):
    browser.open(tour_file)
    figure = browser.run("return document.querySelectorAll('.time')[1].closest('figure')")
    seen = (
        "return [...arguments[0].querySelectorAll('.trace')].map(g => getComputedStyle(g).display !== 'none')"
    )
    browser.run("arguments[0].querySelector('.key button').click()", figure)
    assert browser.run(seen, figure) == [False, True]
    browser.run(
        "const s = arguments[0].querySelector('input'); s.value = 0; s.dispatchEvent(new Event('input'))",
        figure,
    )
    assert browser.run(seen, figure) == [False, True]
    browser.run("arguments[0].querySelector('.key button').click()", figure)
    assert browser.run(seen, figure) == [True, True]


def test_values_are_shown_under_the_pointer(browser, tmp_path):
    made = (
        curves([Curve(name="a", values=torch.linspace(0, 1, 100)[None])], title="c", alt="a", x="x", y="y"),
        dots(["b", "c"], [Dots.of("m", [torch.tensor([0.1, 0.3])] * 2)], title="d", alt="a", y="y"),
        heatmap(torch.eye(2), rows="rs", columns="cd", title="h", alt="a"),
    )
    panels = tuple(Panel(figure=figure, shows="s") for figure in made)
    page = Page(title="t", lead=(), sections=(Section(title="s", answer="a", panels=panels),))
    browser.open(write_page(page, tmp_path / "page.html"))
    tip = "const tip = document.querySelector('.tip'); return !tip.hidden && tip.textContent"
    said = []
    for index, mark in enumerate(("circle:nth-of-type(51)", "circle:nth-of-type(2)", "rect")):
        browser.point_at(browser.find(f"#f{index + 1} {mark}"))
        said.append(browser.until(tip))
        box, room = browser.run(
            "return [document.querySelector('.tip').getBoundingClientRect(), document.documentElement.clientWidth]"
        )
        assert box["left"] >= 0
        assert box["right"] <= room
    assert said == ["a: 0.505 at 51", "c, m: 0.2 (0.1 to 0.3)", "r, c: 1"]
    browser.point_at(browser.find("h1"))
    assert browser.run(tip) is False


def test_a_component_shows_its_patch_by_pointer_and_by_keyboard(browser, tour_file):
    browser.open(tour_file)
    figure = browser.run("return document.querySelector('.look').closest('figure')")
    look = "const l = arguments[0].querySelector('.look'); return !l.hidden && l.textContent.trim()"
    assert browser.run(look, figure) is False
    browser.run("arguments[0].querySelectorAll('.patches button')[4].focus()", figure)
    assert browser.until(look, figure) == "component 5"
    browser.run(
        "document.activeElement.blur(); arguments[0].scrollIntoView({behavior: 'instant', block: 'center'})",
        figure,
    )
    assert browser.run(look, figure) is False
    # anywhere above a point, however far: the column decides
    browser.point_at(browser.run("return arguments[0].querySelector('[data-point=\"7\"]')", figure))
    assert browser.until(look, figure) == "component 8"
    assert "at 8" in browser.run("return document.querySelector('.tip').textContent")
    browser.point_at(browser.run("return arguments[0].querySelector('svg.figure')", figure))
    middle = browser.run("return arguments[0].querySelector('.patches .on').dataset.point", figure)
    assert middle not in ("4", "7")


def test_a_series_is_hidden_by_its_key(browser, tour_file):
    browser.open(tour_file)
    key = "document.querySelector('.look').closest('figure').querySelector('.key')"
    lines = (
        f"return [...{key}.closest('figure').querySelectorAll('.trace')]"
        ".filter(g => g.getBoundingClientRect().width).length"
    )
    before = browser.run(lines)
    browser.run(f"{key}.querySelector('button').click()")
    assert browser.run(lines) == before - 2  # the line and its band
    browser.run(f"{key}.querySelector('button').click()")
    assert browser.run(lines) == before


def test_a_static_page_needs_no_script(browser, small_tour, tmp_path, artefacts):
    file = write_page(tour_page(small_tour), tmp_path / "static.html", static=True)
    assert "<script" not in file.read_text()
    assert file.stat().st_size < 3e6
    assert browser.open(file, width=390) == []
    assert browser.run("return document.documentElement.scrollWidth") <= 390
    assert browser.run("return document.querySelectorAll('svg.figure').length") >= 15
    assert browser.run("return document.querySelectorAll('math').length") >= 10
    browser.driver.save_screenshot(str(artefacts / "static-390.png"))


def test_an_unfinished_page_loads_itself_again(browser, small_tour, tmp_path):
    kept = {
        name: result for name, result in small_tour.parts.items() if name in ("regime", "kernel", "network")
    }
    part = dataclasses.replace(small_tour, parts=kept)
    file = write_page(tour_page(part, reloads=True), tmp_path / "growing.html")
    file.write_text(file.read_text().replace('data-reload="6"', 'data-reload="1"'))
    browser.open(file)
    notice = browser.find("#pending").text
    assert (
        "Still to come: the order of learning, copy or memorise, the first layer, filters and gradients"
        in notice
    )
    write_page(tour_page(small_tour), file)
    browser.until(
        "return document.readyState === 'complete' && !document.getElementById('pending')", seconds=60
    )


def test_printing_draws_every_figure_in_light_colours(browser, tour_file):
    browser.open(tour_file, dark=True)
    ink = (
        "return [...new Set([...document.querySelectorAll('svg.figure text:not([fill])')]"
        ".map(t => getComputedStyle(t).fill))]"
    )
    (on_screen,) = browser.run(ink)
    for choose in ("", "document.documentElement.dataset.theme = 'dark'"):  # by the system, and by hand
        browser.run(choose)
        browser.see(dark=True, media="print")
        (on_paper,) = browser.run(ink)
        assert sum(map(int, re.findall(r"\d+", on_screen))) > 600
        assert sum(map(int, re.findall(r"\d+", on_paper))) < 150
        assert browser.run(
            "return [...document.querySelectorAll('.stage')].every(s => s.querySelector('svg').clientWidth > 0)"
        )
        browser.see(dark=True)


def test_folded_figures_and_formulas_unfold_on_paper_and_behind_a_link(browser, tour_file):
    browser.open(tour_file)
    visible = "return [...document.querySelectorAll('details.more svg.figure, .math')].map(e => e.checkVisibility())"
    assert not any(browser.run(visible))
    browser.see(media="print")
    assert all(browser.run(visible))
    browser.see()
    browser.run("document.querySelector('figure dl a[href^=\"#\"]').click()")
    assert browser.until(
        "return document.querySelector('.formulas :target, .formulas > div:target')?.checkVisibility()"
    )


def test_an_interactive_page_shows_its_figures_without_scripts_too(browser, tour_file, tmp_path):
    html = tour_file.read_text()
    start, end = html.index("<script>"), html.rindex("</script>")
    assert "<script" not in html[:start]
    assert tour_file.stat().st_size < 1.5e6
    bare = tmp_path / "bare.html"
    bare.write_text(html[:start] + html[end + len("</script>") :])
    assert browser.open(bare) == []
    assert browser.run("return document.querySelectorAll('svg.figure').length") == html.count(
        '<svg class="figure"'
    )
    assert browser.run("return document.querySelector('svg.figure circle title').textContent")
