"""A sentence on a page is a measurement: it appears where its numbers beat their null, and not elsewhere."""

import dataclasses

import pytest
import torch

from firstlight import models
from firstlight.data import load
from firstlight.measures.feature_ansatz.ansatz import INITIAL, TRAINED, Ansatz, AnsatzRow
from firstlight.measures.feature_ansatz.layer_maps import Eigenvectors, LayerMaps, constant_share
from firstlight.pages.page import beyond_chance, chance_of_ignoring_flat
from firstlight.questions.inspect.measure import inspect
from firstlight.questions.inspect.page import inspection_page
from firstlight.questions.inspect.page_ansatz import ansatz_advice, ansatz_sections, ansatz_sentence


def rows(values, *, pair=TRAINED, low=0.4, high=0.6, draws=8):
    """Layers with these correlations, beside nulls that span one range."""
    return tuple(
        AnsatzRow(
            layer=f"layer{i}", pair=pair, pearson=value, cosine=value, pearson_error=0.01,
            null_pearson=torch.linspace(low, high, draws, dtype=torch.float64),
            null_cosine=torch.linspace(low, high, draws, dtype=torch.float64),
            isotropy=0.9, n_filters=8, patch_size=27, is_output=False,
        )
        for i, value in enumerate(values)
    )  # fmt: skip


def ansatz_with(*parts):
    return Ansatz(rows=sum(parts, ()), n_images=8, method="exact sum", is_exact=True, skipped={})


def maps(features, gradients):
    n = len(features)
    return LayerMaps(
        name="0", features=features, gradients=gradients, agreement=_agreement(features, gradients),
        sobel=torch.zeros(n, dtype=torch.float64), gradient_sobel=torch.zeros(n, dtype=torch.float64),
    )  # fmt: skip


def _agreement(a, b):
    centred = [x.flatten(1) - x.flatten(1).mean(1, keepdim=True) for x in (a, b)]
    return torch.nn.functional.cosine_similarity(*centred)


def sections(ansatz=None, *, vectors=None, seen=()):
    patterns = () if vectors is None else (
        Eigenvectors(name="0", kind="gradients", values=torch.full((len(vectors),), 0.1, dtype=torch.float64),
                     vectors=vectors, constant=constant_share(vectors)),
    )  # fmt: skip
    found = ansatz_sections(
        ansatz or ansatz_with(rows([0.5])), eigenvectors=patterns, maps=seen, shown=torch.rand(6, 3, 8, 8)
    )
    return {section.title: section for section in found}


# ---------------------------------------------------------------- filters and gradients


def test_layers_above_their_null_count_only_if_they_are_more_than_chance_gives():
    by_chance = ansatz_with(rows([0.9] * 2 + [0.5] * 16))  # 18 layers, 1 in 9 by chance: 2 expected
    text = ansatz_sentence(by_chance)
    assert ", no more than rotated gradients" in text
    assert (
        "2 of 18 layers beat every rotated control and 0 stay below all of them; 2.0 of each expected" in text
    )
    learned = ansatz_with(rows([0.9] * 6 + [0.5] * 12))
    assert ", more than rotated gradients" in ansatz_sentence(learned)
    avoided = ansatz_with(rows([0.1] * 6 + [0.5] * 12))
    assert ", less than rotated gradients" in ansatz_sentence(avoided)


def test_an_untrained_network_is_not_said_to_have_learned():
    photos = load("photos", split="test", n=16)
    model = models.build("vgg11", classes=8, width=0.125, seed=3)
    page = inspection_page(inspect(model, photos, n_images=16))
    assert not any("may be read as the features" in section.answer for section in page.sections)


@pytest.mark.parametrize(
    ("count", "n", "expected"), [(1, 1, False), (2, 2, True), (19, 186, False), (40, 186, True)]
)
def test_chance_is_counted_over_all_layers(count, n, expected):
    assert beyond_chance(count, n=n, p=1 / 9) is expected


def test_the_initial_network_stands_beside_its_own_null():
    both = ansatz_with(rows([0.9, 0.9]), rows([0.3, 0.3], pair=INITIAL, low=0.2, high=0.3))
    figure = sections(both)["Do the filters follow the gradients?"].panels[0].figure
    traces = {trace["name"]: trace for trace in figure.plot["data"]}
    for role, pair, middle in (("trained", TRAINED, 0.5), ("initial", INITIAL, 0.25)):
        null = traces[f"null, {role}: rotated gradients"]
        assert null["x"] == traces[pair]["x"]
        assert null["said"][0][0] == pytest.approx(middle)
    assert traces[TRAINED]["x"] != traces[INITIAL]["x"]
    alone = sections(ansatz_with(rows([0.9])))["Do the filters follow the gradients?"].panels[0].figure
    assert [trace["x"] for trace in alone.plot["data"]] == [[0.0], [0.0]]


# ---------------------------------------------------------------- patterns


def random_patterns(shape, seed=0):
    return torch.randn(8, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_patterns_are_called_edge_detectors_only_beyond_random_patterns():
    title, claim = "Which patterns matter to the first layer?", "as an edge detector must"
    noise = random_patterns((3, 11, 11))
    answer = sections(vectors=noise)[title].answer
    assert claim not in answer
    assert "nothing here points to edge detectors" in answer
    assert "of random patterns of this size 5.6 would" in answer
    small = random_patterns((3, 3, 3))
    edges = small - small.mean((2, 3), keepdim=True)
    answer = sections(vectors=edges)[title].answer
    assert claim in answer
    assert "8 of the 8 leading patterns ignore flat patches" in answer


@pytest.mark.parametrize(("constant", "words"), [(1.0, "averages"), (0.3, "does both"), (0.0, "compares")])
def test_the_leading_pattern_averages_or_compares_or_both(constant, words):
    edge = torch.tensor([[[1.0, -1.0], [1.0, -1.0]]], dtype=torch.float64) / 2
    flat = torch.full((1, 2, 2), 0.5, dtype=torch.float64)
    vector = constant * flat + (1 - constant**2) ** 0.5 * edge
    assert words in sections(vectors=vector[None])["Which patterns matter to the first layer?"].answer


def test_the_chance_of_ignoring_flat_patches_is_that_of_random_patterns():
    drawn = constant_share(torch.randn(40_000, 3, 3, 3, generator=torch.Generator().manual_seed(0)))
    for share in (0.1, 0.3):
        observed = float((drawn < share).double().mean())
        expected = chance_of_ignoring_flat((3, 3, 3), share=share)
        # five standard errors of a share among 40 000
        assert observed == pytest.approx(expected, abs=5 * (expected * (1 - expected) / 40_000) ** 0.5)
    assert chance_of_ignoring_flat((3, 1, 1), share=0.1) == 0


# ---------------------------------------------------------------- places


def test_filters_and_gradients_look_at_the_same_places_only_beyond_other_images():
    title, claim = "Where do the layers look?", "look at the same places (correlation"
    generator = torch.Generator().manual_seed(0)
    one, other = (torch.rand(6, 8, 8, generator=generator, dtype=torch.float64) for _ in range(2))
    assert f"Filters and gradients {claim} 1.00" in sections(seen=(maps(one, one),))[title].answer
    unrelated = sections(seen=(maps(one, other),))[title].answer
    assert claim not in unrelated
    assert "do not look at the same places" in unrelated
    mixed = sections(seen=(maps(one, one), maps(one, other)))[title].answer
    assert "In 1 of 2 layers shown" in mixed


def test_a_common_frame_is_not_taken_for_looking_at_the_same_places():
    """Every map is bright in the middle, whatever the image: high agreement, and as high between images."""
    bump = torch.zeros(8, 8, dtype=torch.float64)
    bump[2:6, 2:6] = 1.0
    noise = 0.05 * torch.randn(2, 6, 8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    seen = maps(bump + noise[0], bump + noise[1])
    assert float(seen.agreement.mean()) > 0.9
    assert (
        "do not look at the same places more than by chance"
        in sections(seen=(seen,))["Where do the layers look?"].answer
    )


def test_one_image_is_too_few_for_a_null_of_places():
    single = torch.rand(1, 8, 8, dtype=torch.float64)
    assert (
        "one image is too few" in sections(seen=(maps(single, single),))["Where do the layers look?"].answer
    )


# ---------------------------------------------------------------- dead filters


@pytest.fixture(scope="module")
def photos():
    return load("photos", split="test", n=8)


def test_dead_filters_are_crossed_out_and_all_filters_have_one_scale(photos):
    model = models.build("small", classes=8, width=0.25, seed=0)
    with torch.no_grad():
        model[0].weight[2] *= 1e-3
        model[0].weight[5] = 0.0
        if model[0].bias is not None:
            model[0].bias[5] = 0.0
    inspection = inspect(model, photos, n_images=8)
    dead = next(fault.dead for fault in inspection.faults if fault.name == "0")
    assert 5 in dead
    panel = _filters(inspection)
    assert f"Crossed out: {len(dead)} dead filter" in panel.shows
    assert f"({', '.join(map(str, dead))})." in panel.shows
    (cross,) = [trace for trace in panel.figure.plot["data"] if trace["type"] == "cross"]
    assert cross["text"] == [f"{i}: dead" for i in dead]
    assert _contrast(panel.figure, 2) < 0.05 * _contrast(panel.figure, 0)


def test_nothing_is_crossed_out_where_all_filters_live(photos):
    inspection = inspect(models.build("small", classes=8, width=0.25, seed=0), photos, n_images=8)
    faults = tuple(dataclasses.replace(fault, dead=()) for fault in inspection.faults)
    panel = _filters(dataclasses.replace(inspection, faults=faults))
    assert "Crossed out" not in panel.shows
    assert [trace["type"] for trace in panel.figure.plot["data"]] == ["image"]


def _filters(inspection):
    section = next(
        s for s in inspection_page(inspection).sections if s.title == "What does the first layer look at?"
    )
    return section.panels[0]


def _contrast(figure, index):
    """Difference of the brightest and the darkest pixel of one picture in the mosaic."""
    import base64
    import io

    import numpy as np
    from PIL import Image

    raw = base64.b64decode(figure.plot["data"][0]["source"].split(",")[1])
    pixels = np.asarray(Image.open(io.BytesIO(raw))).astype(float)
    side = 3 * (48 // 3)
    left = 2 + index * (side + 2)
    part = pixels[2 : 2 + side, left : left + side]
    return part.max() - part.min()


# ---------------------------------------------------------------- findings first


def test_branches_that_start_at_zero_are_not_called_dead_filters(photos):
    """Many residual networks begin with a normalisation of weight 0 behind each branch (timm's ResNet-18)."""
    model = models.build("resnet18", classes=8, width=0.125, seed=0)
    for name, module in model.named_modules():
        if name.startswith("layer1") and name.endswith("bn2"):
            torch.nn.init.zeros_(module.weight)
    inspection = inspect(model, photos, n_images=4)
    skipped, opening = inspection_page(inspection).lead[1:3]
    assert skipped.startswith("4 of 21 layers were not measured (layer1.0.conv1: ")
    names = "layer1.0.conv2, layer1.1.conv2"
    assert opening.startswith(f"Each of 2 whole layers ({names}) contributes nothing on these images: ")
    assert "layer1" not in opening.split("Look at the weights")[1]
    whole = dataclasses.replace(inspection, faults=inspection.faults[:3])
    assert inspection_page(whole).lead[2].startswith("A whole layer (layer1.0.conv2) contributes nothing")


def test_an_output_layer_that_starts_at_zero_is_said_to_have_zero_weights(photos):
    model = models.build("small", classes=8, width=0.25, seed=0)
    for parameter in list(model.modules())[-1].parameters():
        torch.nn.init.zeros_(parameter)
    inspection = inspect(model, photos, n_images=4)
    assert any(fault.name == inspection.layers[-1].name for fault in inspection.silent)
    assert any("weights are zero" in sentence for sentence in inspection_page(inspection).lead)


def test_the_page_opens_with_dead_filters_by_number_and_with_what_to_do(photos):
    model = models.build("small", classes=8, width=0.25, seed=0)
    with torch.no_grad():
        model[0].weight[5] = 0.0
    inspection = inspect(model, photos, n_images=8)
    fault = inspection.faults[0]
    opening = inspection_page(inspection).lead[1]
    numbers = ", ".join(map(str, fault.dead))
    verb = "is" if len(fault.dead) == 1 else "are"
    assert opening.startswith(f"{len(fault.dead)} of 16 filters of layer 0 {verb} dead: {numbers}.")
    assert (
        "no activation in 8 images (so on less than 38% of images, 95% sure). Too few for advice" in opening
    )
    assert "Prune" not in opening
    enough = tuple(dataclasses.replace(f, n_images=1000) for f in inspection.faults)
    page = inspection_page(dataclasses.replace(inspection, faults=enough))
    said = next(
        section for section in page.sections if section.title == "Are there dead or repeated filters?"
    )
    assert (
        "no activation in 1,000 images (so on less than 0.3% of images, 95% sure). Prune them" in said.answer
    )
    assert "are dead" in page.highlights[0].title
    assert "Prune them" in page.highlights[0].words
    assert "dead" not in " ".join(page.lead)
    faultless = tuple(dataclasses.replace(f, dead=(), duplicates=()) for f in inspection.faults)
    page = inspection_page(dataclasses.replace(inspection, faults=faultless))
    assert "None of its" in page.lead[1]
    assert "Are there dead or repeated filters?" not in [section.title for section in page.sections]


def test_the_output_layer_does_not_squash_the_axis():
    ansatz = ansatz_with(rows([0.3, 0.4, 1.0]))
    last = dataclasses.replace(ansatz.rows[-1], is_output=True)
    figures = [
        panel.figure
        for panel in sections(dataclasses.replace(ansatz, rows=(*ansatz.rows[:-1], last)))[
            "Do the filters follow the gradients?"
        ].panels
    ]
    assert [len(figure.table["layer"]) for figure in figures] == [2, 2]


def test_distances_are_drawn_only_from_initial_weights_of_its_own(photos):
    model = models.build("small", classes=8, width=0.25, seed=0)
    titles = {
        own: [
            panel.figure.title
            for panel in inspection_page(
                inspect(
                    model,
                    photos,
                    n_images=4,
                    initial=models.build("small", classes=8, width=0.25, seed=0) if own else None,
                )
            ).panels()
        ]
        for own in (True, False)
    }
    assert "Distance from the initial weights" in titles[True]
    assert "Distance from the initial weights" not in titles[False]
    assert "Filters of 0" in titles[False]


def test_the_advice_goes_with_the_layers_on_both_sides_of_their_nulls():
    assert "may be read as the features" in ansatz_advice(ansatz_with(rows([0.9] * 8)))
    every = ansatz_sentence(ansatz_with(rows([0.9] * 9)))
    assert "All 9 layers beat every rotated control; 1.0 expected by chance." in every
    barely = ansatz_advice(ansatz_with(rows([0.62] * 8)))  # beyond every control, whose mean is .5
    assert "not read them as the features" in barely
    assert "may be read" not in barely
    assert "Judge it layer by layer" in ansatz_advice(ansatz_with(rows([0.9] * 8 + [-0.9] * 8)))
    assert "Do not read its filters" in ansatz_advice(ansatz_with(rows([0.5] * 8)))
