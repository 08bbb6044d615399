"""Pages as a person meets them: in a real browser, from a file."""

import dataclasses
import time

import pytest
import torch

from firstlight.figures import Curve, Dots, curves, dots, heatmap, picture_grid
from firstlight.report import Page, Panel, Section, tour_page, write_page
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
    assert browser.draw_all() >= 8
    assert browser.run("return document.querySelectorAll('.pictures svg image').length") >= 5
    assert browser.complaints() == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
    browser.run("window.scrollTo(0, 0)")
    browser.driver.save_screenshot(str(artefacts / f"tour-{width}-{'dark' if dark else 'light'}.png"))


def test_no_drawn_figure_is_cut_at_phone_width(browser, tour_file):
    browser.open(tour_file, width=390)
    browser.draw_all()
    cut = browser.run(
        "return [...document.querySelectorAll('.plot')].flatMap(p => {"
        "  const box = p.getBoundingClientRect();"
        "  return [...p.querySelectorAll('.main-svg text')].filter(t => {"
        "    const b = t.getBoundingClientRect();"
        "    return b.width && (b.left < box.left - 1 || b.right > box.right + 1);"
        "  }).map(t => t.textContent); })"
    )
    assert cut == []


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
    browser.draw_all()
    move = "const s = arguments[0]; s.value = 0; s.dispatchEvent(new Event('input'));"
    pictures, curve = (browser.run(f"return document.querySelectorAll('.time input')[{i}]") for i in (0, 1))
    shown = "return arguments[0].closest('figure').querySelector('image').getAttribute('href')"
    last = browser.run(shown, pictures)
    browser.run(move, pictures)
    assert browser.run(shown, pictures) != last
    assert browser.run("return document.querySelector('.time output').textContent") == "start"
    browser.run(
        "arguments[0].value = arguments[0].max; arguments[0].dispatchEvent(new Event('input'))", pictures
    )
    assert browser.run(shown, pictures) == last
    path = "return arguments[0].closest('figure').querySelector('.scatterlayer .trace .js-line').getAttribute('d')"
    before = browser.run(path, curve)
    browser.run(move, curve)
    browser.until(path.replace("return ", "return arguments[1] !== "), curve, before)


def test_a_component_shows_its_patch_by_pointer_and_by_keyboard(browser, tour_file):
    browser.open(tour_file)
    browser.draw_all()
    figure = browser.run("return document.querySelector('.look').closest('figure')")
    look = "const l = arguments[0].querySelector('.look'); return !l.hidden && l.textContent.trim()"
    assert browser.run(look, figure) is False
    browser.run("arguments[0].querySelectorAll('.patches button')[4].focus()", figure)
    assert browser.until(look, figure) == "component 5"
    browser.run(
        "document.activeElement.blur(); arguments[0].scrollIntoView({behavior: 'instant', block: 'center'})",
        figure,
    )
    from selenium.webdriver import ActionChains

    drag = browser.run("return arguments[0].querySelector('.nsewdrag')", figure)
    ActionChains(browser.driver).move_to_element(drag).pause(0.2).move_by_offset(2, 2).perform()
    browser.until("return arguments[0].querySelector('.patches .on')?.dataset.point !== '4'", figure)
    assert browser.until(look, figure).startswith("component")


def test_a_series_is_hidden_by_its_key(browser, tour_file):
    browser.open(tour_file)
    browser.draw_all()
    lines = "return document.querySelector('.key').closest('figure').querySelectorAll('.scatterlayer .trace').length"
    before = browser.run(lines)
    browser.run("document.querySelector('.key button').click()")
    assert browser.run(lines) == before - 2  # the line and its band


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
    none = dict.fromkeys(("images", "first_layer", "ansatz", "order", "identity"))
    part = dataclasses.replace(small_tour, **none, pending=("order", "identity"))
    file = write_page(tour_page(part, reloads=True), tmp_path / "growing.html")
    file.write_text(file.read_text().replace('data-reload="6"', 'data-reload="1"'))
    browser.open(file)
    assert "Still to come: the order of learning, copy or memorise" in browser.find("#pending").text
    write_page(tour_page(dataclasses.replace(part, pending=())), file)
    browser.until(
        "return document.readyState === 'complete' && !document.getElementById('pending')", seconds=60
    )


def test_printing_draws_every_figure_in_light_colours(browser, tour_file):
    browser.open(tour_file, dark=True)
    browser.run("window.dispatchEvent(new Event('beforeprint'))")
    browser.until("return [...document.querySelectorAll('.plot')].every(p => p.querySelector('.main-svg'))")
    assert browser.run("return document.documentElement.dataset.theme") == "light"
    browser.run("window.dispatchEvent(new Event('afterprint'))")
    assert browser.run("return document.documentElement.dataset.theme ?? ''") == ""
