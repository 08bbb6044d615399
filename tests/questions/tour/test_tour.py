"""The tour of a network of the bank, on a bank small enough for a test, and of networks trained on the spot."""

from dataclasses import replace

import pytest
import torch

from firstlight._internal.errors import DataUnavailable, InvalidInput
from firstlight.data import load
from firstlight.models import ModelSpec
from firstlight.networks import definitions as definitions_module
from firstlight.networks.bank import load_network
from firstlight.networks.definitions import KINDS
from firstlight.networks.training import train_network
from firstlight.pages.page import render
from firstlight.questions.copy_or_memorise.page import word_at
from firstlight.questions.order.tour_part import order_from_training
from firstlight.questions.tour import subject as subject_module
from firstlight.questions.tour.page import _copy_title, tour_page
from firstlight.questions.tour.parts import PARTS
from firstlight.questions.tour.run import run_tour
from firstlight.questions.tour.subject import BankSubject, TrainedSubject

TINY = definitions_module.Definition(
    kind="tiny-photos",
    spec=ModelSpec(name="small", classes=8, options={"batch_norm": True, "width": 0.1}),
    data="photos",
    recipe=replace(definitions_module.PLAIN, epochs=2, batch_size=400, lr=0.05),
    n_moments=2,
)


@pytest.fixture
def bank(tmp_path, monkeypatch):
    kinds = (TINY, replace(TINY, kind="tiny-photos-random", random_labels=True, n_images=40))
    for kind in kinds:
        monkeypatch.setitem(KINDS, kind.kind, kind)
    monkeypatch.setitem(definitions_module.SCALING, "photos", ((0.5,), (0.25,)))
    monkeypatch.setitem(definitions_module.LICENCES, "photos", "free")
    monkeypatch.setenv("FIRSTLIGHT_NETWORKS", str(tmp_path / "bank"))
    for name in ("tiny-photos-0", "tiny-photos-1", "tiny-photos-random-0"):
        train_network(name, show=False)
    return tmp_path / "bank"


def test_a_network_of_the_bank_is_toured_with_its_siblings_and_controls(bank):
    subject = BankSubject("tiny-photos-0")
    subject.is_quick = True
    seen = []
    tour = run_tour(subject, listen=seen.append)
    assert [len(one.parts) for one in seen] == list(range(len(PARTS) + 1))
    network = tour.parts["network"]
    assert network.names == ("Small CNN (seed 0)", "Small CNN (seed 1)", "random labels")
    kept = load_network("tiny-photos-0")
    assert float(network.test_accuracy[0]) == kept.accuracy
    assert torch.equal(network.film, kept.film[1])
    scores = torch.stack([load_network(f"tiny-photos-{seed}").correct.double().mean(0) for seed in (0, 1)])
    order = tour.parts["order"].report
    torch.testing.assert_close(order.scores, scores.mean(0))
    assert float(order.scores[order.earliest.index].min()) == float(order.scores.max())
    assert float(order.scores[order.latest.index].max()) <= float(order.scores.quantile(0.05))
    assert set(tour.parts["first_layer"].controls) == {"random labels"}
    page = tour_page(tour)
    assert page.pending == ()
    film, order_shown, copies = page.highlights
    assert film.title == "The first layer during training"
    # titles say what was measured
    late = float(order.scores[order.latest.index].mean())
    assert order_shown.title == f"Some images come first, some {'never' if late < 0.05 else 'last'}"
    assert f"Below: after {late:.0%}" in order_shown.words
    identity = tour.parts["identity"]
    does = [word_at(identity, depth) for depth in (identity.depths[0], identity.depths[-1])]
    assert copies.title == _copy_title(*does)

    assert {one.section for one in page.highlights} <= {section.title for section in page.sections}
    assert render(page).count('class="highlight"') == 3


def test_the_title_of_the_copies_says_what_the_networks_do():
    assert _copy_title("identity", "constant") == "Shallow networks copy, deep ones memorise"
    assert _copy_title("identity", "identity") == "Shallow and deep networks copy"
    assert _copy_title("noise", "constant") == "Do networks copy or memorise?"


def test_without_its_images_a_network_is_shown_on_photographs_and_the_order_left_out(bank, monkeypatch):
    def fetch(name):
        raise DataUnavailable("there is no network")

    monkeypatch.setattr(subject_module, "fetch", fetch)
    subject = BankSubject("tiny-photos-0")
    assert subject.why == "there is no network"
    monkeypatch.setattr("firstlight.questions.tour.run.PARTS", PARTS[:2])
    tour = run_tour(subject)
    assert tour.planned == tuple(tour.parts) == ("network",)


def test_images_that_were_learned_equally_early_are_drawn_by_the_seed(bank):
    kept, train = load_network("tiny-photos-0"), load("photos", "train")
    shown = [
        order_from_training(
            [kept.history], train, recipe="", n_predicted=100, n_shown=6, seed=seed
        ).report.latest
        for seed in (0, 0, 1)
    ]
    assert torch.equal(shown[0].index, shown[1].index)
    assert not torch.equal(shown[0].index, shown[2].index)


def test_large_images_are_averaged_down_and_time_decides_the_epochs():
    train = load("photos", n=30, seed=0)
    large = train.map(lambda x: x.repeat_interleave(8, 2).repeat_interleave(8, 3))
    subject = TrainedSubject(large, large)
    assert subject.pixels[0].shape == (3, 64, 64)
    torch.testing.assert_close(subject.pixels[0].x[:, :, ::2, ::2], train.x)
    assert subject.training.epochs == 20
    assert TrainedSubject(load("photos", "train"), train, minutes=0.2).training.epochs == 1
    digits = train.map(lambda x: x.mean(1, keepdim=True))
    assert not TrainedSubject(digits, digits).training.flips
    with pytest.raises(InvalidInput, match="at least 2"):
        TrainedSubject(train, train, n_networks=1)
