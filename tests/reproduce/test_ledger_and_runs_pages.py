"""Pages from what is stored: the ledger, and runs of any kind."""

import json
from pathlib import Path

import pytest
import torch

from firstlight.claims import Entry, all_claims, record, reproduce
from firstlight.core.errors import InvalidInput, StoreProblem
from firstlight.data import load
from firstlight.insights import IdentityTask
from firstlight.models.spec import ModelSpec
from firstlight.report import render, runs_page
from firstlight.report.ledger import ledger_blocks, recorded_entries, render_ledger, write_ledger
from firstlight.store import RunSpec, Store
from firstlight.tour.identity import run_identity_tour
from firstlight.training import Recipe, train_once

HOSTILE = "<img src=x onerror=alert(1)>"
COMMITTED = Path(__file__).parents[2] / "docs" / "ledger"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("stored"))


@pytest.fixture(scope="module")
def entries(store):
    return reproduce("linear.thm42", store=store)


def hostile_entry():
    return Entry(
        claim="x.y", theme="identity", statement=HOSTILE, exact=False, reported=HOSTILE, verdict="partly", scale="desk",
        rule={"reproduced": HOSTILE}, measured={HOSTILE: {"mean": 1.0, "interval": [0.5, 1.5], "seeds": [1.0]}},
        note=HOSTILE, reason=HOSTILE, settings={HOSTILE: HOSTILE}, runs=["0"],
    )  # fmt: skip


def test_the_ledger_shows_every_claim_with_its_numbers_figure_and_cost(entries, store):
    html = render_ledger(entries, store=store)
    for entry in entries:
        assert f'id="claim-{entry.claim}"' in html
        assert entry.commit in html
    assert "CPU seconds" in html
    assert html.count('<svg class="figure"') == len({entry.study for entry in entries})


def test_figures_of_runs_that_are_elsewhere_are_left_out(entries, tmp_path):
    (theme,) = ledger_blocks(entries, store=Store(tmp_path))
    assert theme.counts["reproduced"] == 2
    assert all(study.panel is None for study in theme.studies)


def test_hostile_words_in_a_ledger_are_escaped():
    html = render_ledger([hostile_entry()], static=True)
    assert HOSTILE not in html
    assert html.count("&lt;img src=x") >= 5


def test_a_recorded_ledger_lists_all_claims_also_those_not_run(entries, tmp_path):
    record(entries, tmp_path)
    listed = recorded_entries(tmp_path, scale="smoke")
    assert len(listed) == len(all_claims())
    assert sum(entry.verdict == "reproduced" for entry in listed) == 2
    with pytest.raises(InvalidInput, match="No smoke ledger in"):
        recorded_entries(tmp_path / "nowhere", scale="smoke")
    file = tmp_path / "smoke" / "first_layer.json"
    body = json.loads(file.read_text())
    body["claims"][0]["surprise"] = 1
    file.write_text(json.dumps(body))
    with pytest.raises(StoreProblem, match="another version"):
        recorded_entries(tmp_path, scale="smoke")


def test_an_empty_ledger_is_refused():
    with pytest.raises(InvalidInput, match="no claim"):
        render_ledger([])


def test_the_ledger_can_be_filtered_in_a_browser(browser, tmp_path, artefacts):
    file = write_ledger(recorded_entries(COMMITTED), tmp_path / "ledger.html")
    assert browser.open(file, width=390) == []
    assert browser.run("return document.documentElement.scrollWidth") <= 390
    browser.driver.save_screenshot(str(artefacts / "ledger-390.png"))
    shown = "return [...document.querySelectorAll('.claim')].filter(c => c.checkVisibility()).length"
    assert browser.run(shown) == len(all_claims())
    choose = (
        "const s = document.querySelector(`[name=${arguments[0]}]`); s.value = arguments[1];"
        "s.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    browser.run(choose, "verdict", "reproduced")
    reproduced = browser.run(shown)
    assert 0 < reproduced < len(all_claims())
    browser.run(choose, "theme", "identity")
    assert 0 < browser.run(shown) < reproduced
    browser.run(choose, "words", "no such words anywhere")
    assert browser.run(shown) == 0
    assert browser.find("#filter output").text == "0 claims"


def test_a_study_is_shown_with_its_verdicts_and_its_cost(entries, store):
    page = runs_page([store.load(entries[0].runs[0])])
    assert "measured" in page.lead[0]
    assert page.sections[-1].details["Commit"] == entries[0].commit
    assert entries[0].statement in page.sections[-1].details.values()


def test_a_training_is_shown_by_its_loss(store):
    images = load("photos", split="train", n=32, seed=0)
    spec = ModelSpec(name="small", classes=images.n_classes, shape=images.shape)
    train_once(spec, images, Recipe(epochs=2, lr=0.01), store=store)
    (id,) = [name for name in store.ids() if store.load(name).spec.what == "train"]
    page = runs_page([store.load(id)])
    assert "The loss" in page.lead[0]
    assert "Distance from the initial weights" in page.sections[0].panels[0].measured


def test_runs_of_the_identity_task_are_shown_together_beside_others(entries, store):
    task = IdentityTask(dataset="photos", image_size=7, width=4, kernel=3, steps=3, n_images=40)
    run_identity_tour(task, depths=(1, 2), store=store, n_jobs=1)
    runs = [run for run in map(store.load, store.ids()) if run.spec.what == "identity"]
    assert runs_page(runs).facts["Networks"] == "2 of 2"
    both = runs_page([*runs, store.load(entries[0].runs[0])])
    assert both.title == "Report on 3 runs"
    assert render(both, static=True)


def test_a_stored_tour_gives_the_page_of_the_tour(small_tour, tmp_path):
    store, spec = Store(tmp_path), RunSpec(what="tour", config={})
    store.write(spec, small_tour, wall_seconds=1.0, cpu_seconds=1.0)
    page = runs_page([store.load(spec.id)])
    assert page.title == "What a small network learned from photos"
    assert len(page.answers) >= 5


def test_a_result_of_an_unknown_kind_is_shown_with_numbers_and_figures(tmp_path):
    store, spec = Store(tmp_path), RunSpec(what=HOSTILE, config={"lr": 0.1})
    value = {
        "score": 0.25,
        "curve": torch.rand(5),
        "matrix": torch.rand(3, 3),
        "gaps": torch.full((3,), float("nan")),
    }
    store.write(spec, value, wall_seconds=1.0, cpu_seconds=1.0)
    page = runs_page([store.load(spec.id)])
    assert "score 0.25" in page.sections[0].answer
    assert [panel.figure.title for panel in page.sections[0].panels] == ["curve", "matrix"]
    assert page.sections[0].details["Settings"] == "lr 0.1"
    assert HOSTILE not in render(page, static=True)
