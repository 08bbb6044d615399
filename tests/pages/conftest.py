"""A small tour, shared by the tests of pages."""

import pytest

from firstlight._internal.store import RunSpec, Store
from firstlight.data import load
from firstlight.pages.page import write_page
from firstlight.questions.tour.page import tour_page
from firstlight.questions.tour.run import run_tour
from firstlight.questions.tour.subject import TrainedSubject


@pytest.fixture(scope="session")
def small_tour(shared_folder):
    """Everything a tour measures, from networks too small to learn much."""
    train, test = (load("photos", split=split, n=40, seed=0) for split in ("train", "test"))
    spec = RunSpec(what="tour", config={"minutes": 0.05, "networks": 2}, data=train.fingerprint)
    store = Store(shared_folder / "tours")
    return store.fetch_or_run(
        spec, lambda scratch: run_tour(TrainedSubject(train, test, minutes=0.05))
    ).result


@pytest.fixture(scope="session")
def tour_file(small_tour, tmp_path_factory):
    return write_page(tour_page(small_tour), tmp_path_factory.mktemp("tour") / "tour.html")
