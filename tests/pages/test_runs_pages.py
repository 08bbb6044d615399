"""Pages from stored runs of any kind."""

import pytest
import torch

from firstlight._internal.store import RunSpec, Store
from firstlight.cli.stored_pages import runs_page
from firstlight.data import load
from firstlight.models.building import ModelSpec
from firstlight.pages.page import render
from firstlight.questions.copy_or_memorise.task import IdentityTask
from firstlight.questions.copy_or_memorise.tour_part import run_identity_tour
from firstlight.training import Recipe, train_once

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("stored"))


def test_a_training_is_shown_by_its_loss(store):
    images = load("photos", split="train", n=32, seed=0)
    spec = ModelSpec(name="small", classes=images.n_classes, shape=images.shape)
    train_once(spec, images, Recipe(epochs=2, lr=0.01), store=store)
    (id,) = [name for name in store.ids() if store.load(name).spec.what == "train"]
    page = runs_page([store.load(id)])
    assert "The loss" in page.lead[0]
    assert "Distance from the initial weights" in page.sections[0].panels[0].measured


def test_runs_of_the_identity_task_are_shown_together_beside_others(store):
    task = IdentityTask(dataset="photos", image_size=7, width=4, kernel=3, steps=3, n_images=40)
    run_identity_tour(task, depths=(1, 2), store=store, n_jobs=1)
    runs = [run for run in map(store.load, store.ids()) if run.spec.what == "identity"]
    assert runs_page(runs).facts["Networks"] == "2 of 2"
    other = RunSpec(what="other", config={})
    store.write(other, {"score": 0.5}, wall_seconds=1.0, cpu_seconds=1.0)
    both = runs_page([*runs, store.load(other.id)])
    assert both.title == "Report on 3 runs"
    assert render(both, static=True)


def test_a_stored_tour_gives_the_page_of_the_tour(small_tour, tmp_path):
    store, spec = Store(tmp_path), RunSpec(what="tour", config={})
    store.write(spec, small_tour, wall_seconds=1.0, cpu_seconds=1.0)
    page = runs_page([store.load(spec.id)])
    assert page.title == "What vgg5, seed 0 learned from photos"
    assert len(page.answers) >= 5


def test_a_result_of_an_unknown_kind_is_shown_with_its_numbers(tmp_path):
    store, spec = Store(tmp_path), RunSpec(what=HOSTILE, config={"lr": 0.1})
    store.write(spec, {"score": 0.25, "curve": torch.arange(20.0)}, wall_seconds=1.0, cpu_seconds=1.0)
    page = runs_page([store.load(spec.id)])
    assert "score 0.25; curve (20,) from 0 to 19" in page.sections[0].answer
    assert page.sections[0].details["Settings"] == "lr 0.1"
    assert HOSTILE not in render(page, static=True)
