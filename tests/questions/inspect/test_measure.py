"""An inspection finds what is there, changes nothing, and makes a page."""

import dataclasses
import math
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

import firstlight
from firstlight import models
from firstlight._internal.errors import InvalidInput
from firstlight.data import load
from firstlight.measures.feature_ansatz.ansatz import INITIAL, TRAINED
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from firstlight.models.fresh_weights import fresh_initial
from firstlight.pages.page import Page, render, write_page
from firstlight.questions.inspect.measure import inspect
from firstlight.questions.inspect.page import inspection_page
from firstlight.questions.inspect.without_gradients import (
    affordable_images,
    applied_layers,
    passes_of_gradients,
)
from firstlight.questions.tour.page import PAGES
from firstlight.questions.tour.parts import AnsatzTour, run_ansatz_tour
from models_and_inputs import MODELS


def network(seed=0, **options):
    return models.build("small", classes=8, width=0.25, seed=seed, **options)


@pytest.fixture(scope="module")
def photos():
    return load("photos", split="test", n=24)


def test_an_inspection_holds_every_part_and_makes_a_page(photos):
    model = network()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = inspect(model, photos, fast=True)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.training
    assert [layer.name for layer in found.layers] == ["0", "3", "6", "10"]
    assert found.n_images == 24
    assert 0 <= found.accuracy <= 1
    assert found.profile is not None
    # a fresh initialisation takes as many gradients again and tells little about this model
    assert (len(found.ansatz.pair(TRAINED)), len(found.ansatz.pair(INITIAL))) == (4, 0)
    assert [one.kind for one in found.eigenvectors] == ["features", "gradients"]
    assert [one.name for one in found.maps] == ["0", "3", "6"]
    assert not found.has_own_initial
    page = inspection_page(found)
    assert isinstance(page, Page)
    text = render(page)
    for words in (
        "Do the filters follow the gradients?",
        "null, trained: rotated gradients",
        "fast look",
        "±",
    ):
        assert words in text


def test_the_own_start_shows_movement(photos):
    start = network()
    model = network()
    model[0].weight.data.mul_(3)
    found = inspect(model, photos, initial=start, n_images=8)
    moved = {change.name: change.distance for change in found.changes}
    assert moved["0"] == pytest.approx(2)
    assert moved["3"] == 0
    page = inspection_page(found)
    assert "moved layer 0 most" in next(
        s.answer for s in page.sections if s.title == "How far did every layer move?"
    )
    assert (len(found.ansatz.pair(TRAINED)), len(found.ansatz.pair(INITIAL))) == (4, 4)


def test_a_first_page_comes_before_the_gradients_and_says_what_is_still_to_come(photos):
    firsts = []
    whole = inspect(network(), photos, initial=network(1), n_images=8, listen=firsts.append)
    (first,) = firsts
    assert first.pending[-1] == "whether training was lazy"
    assert whole.pending == ()
    for name in ("outcome", "layers", "faults"):
        assert getattr(first, name) == getattr(whole, name)
    assert [change.distance for change in first.changes] == [change.distance for change in whole.changes]
    assert first.ansatz.rows == first.maps == first.eigenvectors == ()
    text = render(inspection_page(first))
    assert "Still to come: whether the filters follow the gradients" in text
    assert "Still being measured" in text
    assert "control" not in inspection_page(first).table.columns
    page = inspection_page(whole)
    assert "Still to come" not in render(page)
    assert len(page.highlights) <= 3
    assert page.table.columns["layer"] == ["0", "3", "6", "10"]
    assert all(0 <= abs(value) <= 1 for value in page.table.columns["control"][:3])
    assert math.isnan(page.table.columns["control"][3])  # the output layer correlates by definition


def test_a_model_that_does_not_fit_into_memory_is_refused_before_anything_is_computed(photos, monkeypatch):
    monkeypatch.setenv("FIRSTLIGHT_MEMORY_GB", "0.5")
    with pytest.raises(InvalidInput, match=r"takes about 1\.0 GB of memory; 0\.5 GB are free"):
        inspect(network(), photos, listen=lambda first: pytest.fail("something was computed"))


def test_gradients_take_as_many_images_as_the_network_allows_on_any_machine(photos):
    applied = applied_layers(models.build("small", classes=8), photos.x[:1])
    assert affordable_images(applied, 512) == 512
    larger = {name: 1000 * n for name, n in applied.elements.items()}
    slow = dataclasses.replace(applied, elements=larger, seconds=1000 * applied.seconds)
    n = affordable_images(slow, 512)
    assert n in (64, 128, 256)
    work = n * passes_of_gradients(slow, n) * sum(slow.products.values())
    assert work <= 8e12 < 2 * n * passes_of_gradients(slow, 2 * n) * sum(slow.products.values())
    assert affordable_images(dataclasses.replace(slow, seconds=0.0), 512) == n  # whatever the clock says
    largest = dataclasses.replace(slow, elements={name: 100 * n for name, n in larger.items()})
    assert affordable_images(largest, 512) == 8  # and no fewer than give an error


def test_models_without_convolutions_and_images_without_labels_have_a_page_too(photos):
    model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 12), nn.ReLU(), nn.Linear(12, 3))
    found = inspect(model, photos.x[:6])
    assert math.isnan(found.accuracy)
    assert found.profile is None
    assert found.maps == found.eigenvectors == ()
    assert "linear layers" in render(inspection_page(found))


def test_grey_images_and_one_image(photos):
    grey = photos.map(lambda x: x.mean(1, keepdim=True))
    model = models.build("lenet", classes=8, shape=(1, 32, 32))
    assert "unknown" in render(inspection_page(inspect(model, grey, n_images=1)))


def test_dead_networks_are_described_not_refused(photos):
    model = network()
    model[3].weight.data.zero_()
    found = inspect(model, photos, n_images=8)
    assert {"0", "3"} <= set(found.ansatz.skipped)
    assert render(inspection_page(found))


def titles(page):
    return [panel.figure.title for section in page.sections for panel in section.panels]


def test_the_figure_of_faults_is_named_after_what_it_shows(photos):
    model = network()
    with torch.no_grad():
        model[0].weight[2], model[0].bias[2] = 0, -1
    assert "Dead filters" in titles(inspection_page(inspect(model, photos, n_images=4)))
    with torch.no_grad():
        model[0].weight[4] = model[0].weight[3]
    assert "Dead and repeated filters" in titles(inspection_page(inspect(model, photos, n_images=4)))


@pytest.mark.parametrize(
    "name",
    [
        "two input channels",
        "groups and depthwise layers (ConvNeXt block)",
        "vision transformer, linear layer over patches",
        "one dimension (audio)",
        "three dimensions (volumes)",
        "a `forward` that loops over images",
    ],
)
def test_networks_that_are_not_over_colour_images_have_a_page_too(name, tmp_path):
    make, x = MODELS[name]
    torch.manual_seed(0)
    inspection = firstlight.inspect(make(), x, show=False)
    assert write_page(inspection_page(inspection), str(tmp_path / "x.html")).stat().st_size > 10_000


def test_components_of_a_grouped_first_layer_are_drawn_over_all_channels():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(4, 4, 3, groups=2), nn.Flatten(), nn.Linear(4 * 36, 2))
    inspection = firstlight.inspect(model, torch.randn(8, 4, 8, 8), show=False)
    figure = inspection_page(inspection).sections[0].panels[1].figure
    assert figure.sprite.n == len(inspection.profile.amplitude) == 36


def test_the_page_tells_what_later_papers_add_and_what_is_missing(photos):
    x, initial = photos.x, network(seed=0)

    def answer(**options):
        page = inspection_page(firstlight.inspect(network(seed=1), n_images=24, show=False, **options))
        return next(s.answer for s in page.sections if s.title == "What do later papers add?")

    with_initial = answer(data=photos, initial=initial)
    assert "hidden layers, what training added follows" in with_initial
    assert "within classes is" in with_initial
    without = answer(data=x)
    assert "it needs the weights before training" in without
    assert "it needs labels" in without


def test_bad_data_are_refused(photos):
    with pytest.raises(InvalidInput, match="n c h w"):
        inspect(network(), torch.zeros(3, 5))
    with pytest.raises(InvalidInput, match="`n_images` must be at least 1"):
        inspect(network(), photos, n_images=0)


def test_a_fresh_twin_is_new_everywhere_and_the_same_for_one_seed():
    model = models.build("resnet18", width=0.0625)
    twin, again = fresh_initial(model, seed=1), fresh_initial(model, seed=1)
    for name, value in model.named_parameters():
        if value.ndim > 1:
            assert not torch.equal(twin.get_parameter(name), value)
            assert torch.equal(twin.get_parameter(name), again.get_parameter(name))


class Doubled(nn.Module):
    """A parametrisation without an inverse."""

    def forward(self, weight):
        return 2 * weight


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(
    "normalise",
    [
        parametrizations.weight_norm,
        parametrizations.spectral_norm,
        torch.nn.utils.weight_norm,
        torch.nn.utils.spectral_norm,
        lambda layer: prune.random_unstructured(layer, "weight", amount=0.3),
    ],
    ids=["weight norm", "spectral norm", "old weight norm", "old spectral norm", "pruned"],
)
def test_a_fresh_initial_draws_weights_behind_a_normalisation_too(normalise, train):
    model = nn.Sequential(normalise(nn.Conv2d(3, 8, 3)), nn.Flatten(), nn.Linear(128, 2)).train(train)
    images = torch.rand(4, 3, 6, 6)
    model(images).sum().backward()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    initial = fresh_initial(model, seed=1)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    trained, fresh, again = (
        patch_gradients(one, images)["0"].filters for one in (model, initial, fresh_initial(model, seed=1))
    )
    assert float((trained - fresh).norm() / fresh.norm()) > 0.5
    assert torch.equal(fresh, again)
    if normalise in (parametrizations.spectral_norm, torch.nn.utils.spectral_norm):
        # singular vectors of the trained weight would give another norm to the new one
        assert float(torch.linalg.svdvals(fresh[0])[0]) == pytest.approx(1.0, abs=1e-5)


def test_a_parametrisation_without_inverse_is_refused_by_name():
    model = nn.Sequential(nn.Conv2d(3, 4, 3))
    torch.nn.utils.parametrize.register_parametrization(model[0], "weight", Doubled())
    with pytest.raises(
        InvalidInput, match="the weight of layer '0' cannot be drawn anew: Doubled has no inverse"
    ):
        fresh_initial(model)


def test_the_part_of_the_tour_makes_sections(photos):
    found = run_ansatz_tour(network(1), network(0), photos)
    sections = PAGES[AnsatzTour].sections(found)
    assert [section.title for section in sections] == [
        "Do the filters follow the gradients?",
        "Which patterns matter to the first layer?",
        "Where do the layers look?",
        "What do later papers add?",
    ]
    assert "what training added follows" in sections[-1].answer
    assert "shuffled labels" in sections[-1].answer


def test_importing_the_package_loads_no_torch_and_names_are_found_when_asked():
    code = "import sys, firstlight; assert 'torch' not in sys.modules; print(firstlight.inspect.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "firstlight.questions.inspect.measure"
    for name in firstlight.__all__:
        assert getattr(firstlight, name) is not None
    assert "inspect" in dir(firstlight)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        firstlight.nothing  # noqa: B018
