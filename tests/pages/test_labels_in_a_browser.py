"""Deciding about labels as a person does: buttons, a reload, an exported table, a corrected copy."""

import csv
import time

import pytest
import torch
from PIL import Image

from firstlight.data import load
from firstlight.questions.labels.decisions import apply_decisions
from firstlight.questions.labels.measure import check_labels
from firstlight.questions.labels.page import write_labels_page
from limits import PAGE


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """A folder with three swapped pictures, and its page."""
    root = tmp_path_factory.mktemp("labels")
    for i in range(60):
        generator = torch.Generator().manual_seed(i)
        pixels = (40 * torch.rand(8, 8, generator=generator)).to(torch.uint8)
        pixels[4 * (i % 2) : 4 * (i % 2) + 4] += 180
        name = ("above", "below")[i % 2 if i not in (3, 20, 41) else 1 - i % 2]
        (root / "data" / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.numpy()).save(root / "data" / name / f"{i}.png")
    check = check_labels(load(str(root / "data")), epochs=6, n_jobs=1, show=False)
    return root / "data", write_labels_page(check, root / "labels.html")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_first_images_are_on_the_first_screen(browser, checked, width):
    assert browser.open(checked[1], width=width) == []
    tops = browser.run(
        "return [...document.querySelectorAll('.suspect img')].map(i => i.getBoundingClientRect().top)"
    )
    assert tops[0] < 420
    assert browser.run("return document.documentElement.scrollWidth") <= width


def test_decisions_outlive_a_reload_and_are_exported_for_a_corrected_copy(browser, checked, tmp_path):
    folder, page = checked
    browser.open(page)
    cards = browser.driver.find_elements("css selector", ".suspect")
    files = [card.get_attribute("data-file") for card in cards[:3]]
    for card, decision in zip(cards, ("relabel", "remove", "keep"), strict=False):
        card.find_element("css selector", f"[data-decision={decision}]").click()
    browser.driver.refresh()
    assert browser.find("#decided").text == f"{min(3, len(cards))} decided"
    pressed = browser.run(
        "return [...document.querySelectorAll('[aria-pressed=true][data-decision]')].length"
    )
    assert pressed == min(3, len(cards))
    browser.find("#export").click()
    exported, until = browser.downloads / "decisions.csv", time.monotonic() + PAGE
    while not exported.exists() and time.monotonic() < until:
        time.sleep(0.05)
    with exported.open() as opened:
        rows = list(csv.DictReader(opened))
    assert [row["file"] for row in rows] == files
    assert [row["decision"] for row in rows] == ["relabel", "remove", "keep"][: len(rows)]
    assert rows[0]["new_label"] == {"above": "below", "below": "above"}[rows[0]["label"]]
    copy, _ = apply_decisions(folder, exported, tmp_path / "corrected")
    assert len(list(copy.rglob("*.png"))) == 59
    assert len(list((copy / rows[0]["new_label"]).glob(f"{files[0].split('/')[-1]}"))) == 1
    assert browser.complaints() == []
