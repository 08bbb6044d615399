"""Figures and frames of real results: those of the pages, by name."""

import math
import re

import pytest
import torch

import firstlight
from firstlight._internal.errors import InvalidInput
from firstlight.estimators import ConvRFMClassifier
from firstlight.measures.learning_order.accessibility import AccessibilityRecorder
from firstlight.pages.figures import Figure
from firstlight.pages.page import Page, Section
from firstlight.questions.figures import FIGURES
from firstlight.questions.inspect.page import inspection_page
from firstlight.questions.kernel.measure import ThreeTheories, learn_kernel


@pytest.fixture(scope="module")
def results():
    photos = firstlight.load("photos", n=40)
    trained, before = (firstlight.build("small", classes=8, width=0.25, seed=seed) for seed in (0, 1))
    recorder = AccessibilityRecorder(photos.x, photos.y)
    for network in (before, trained):
        recorder.record(network)
    few = photos.take(torch.arange(12))
    test = firstlight.load("photos", "test", n=16)
    machine = ConvRFMClassifier(depth=1, rounds=1)
    return {
        "profile": firstlight.profile(trained, photos),
        "ansatz": firstlight.ansatz(trained, few, initial=before, draws=2),
        "regime": firstlight.regime(trained, few, initial=before, n_kernel=4, n_fit=0),
        "order": firstlight.learning_order(recorder.history(), photos, n_shown=4),
        "comparison": firstlight.compare({"before": before, "after": trained}, few, initial=before),
        "kernel": learn_kernel(
            small(photos), small(test), small(test).x[:2], machine=machine, with_network=False
        ),
        "inspection": firstlight.inspect(trained, few, initial=before, fast=True),
        "theories": ThreeTheories(kernel=torch.ones(3), network=torch.arange(3.0), theory=torch.ones(3)),
        "history": recorder.history(),
        "explanation": firstlight.explain_profile(trained, photos),
    }


def small(images):
    from firstlight.data.images import ImageData

    return ImageData(images.x[..., ::4, ::4].contiguous(), images.y, images.classes, {}, ())


def test_every_named_figure_of_every_kind_is_drawn_or_says_that_it_was_not_measured(results):
    by_kind = {type(result).__name__: result for result in results.values()}
    assert by_kind.keys() >= FIGURES.keys()
    missing = []
    for kind, result in by_kind.items():
        for what in FIGURES.get(kind, ()):
            try:
                figure = result.figure(what)
            except InvalidInput as error:
                missing.append((what, str(error)))
                continue
            assert isinstance(figure, Figure)
            assert figure._repr_html_().startswith("<svg")
            assert list(figure.to_frame()) == list(figure.table)
    assert missing == [
        ("accuracy", "What the figure 'accuracy' shows was not measured in this RegimeResult.")
    ]


def test_the_figure_of_a_result_is_that_of_its_page(results):
    page = inspection_page(results["inspection"])
    shown = {panel.figure.title: panel.figure for panel in page.panels()}
    own = results["inspection"].profile.figure()
    assert shown[own.title].table == own.table


def test_without_a_name_the_first_figure_is_drawn_and_unknown_names_are_refused(results):
    assert results["comparison"].figure().title == results["comparison"].figure("ansatz").title
    with pytest.raises(
        InvalidInput, match=r"Unknown figure of Comparison 'movment'\. Did you mean 'movement'\?"
    ):
        results["comparison"].figure("movment")
    with pytest.raises(InvalidInput, match=re.escape("PCA has no figure; Ansatz, Comparison")):
        results["profile"].pca.figure()


def test_frames_hold_the_numbers_of_the_results_with_their_nulls(results):
    profile, frame = results["profile"], results["profile"].to_frame()
    assert frame.amplitude.tolist() == profile.amplitude.tolist()
    assert frame.nulls_high.tolist() == profile.nulls.amax(0).tolist()
    rows = results["ansatz"].to_frame()
    assert len(rows) == len(results["ansatz"].rows)
    assert rows.null_pearson_mean[0] == pytest.approx(float(results["ansatz"].rows[0].null_pearson.mean()))
    regime = results["regime"].to_frame()
    assert regime.step[0] == "training"
    assert len(regime) == 9
    assert regime.score[0] == results["regime"].score
    assert results["order"].to_frame().suspicion.tolist() == results["order"].suspicion.tolist()
    assert results["kernel"].to_frame().error.tolist() == [r.error for r in results["kernel"].rounds]
    assert results["history"].to_frame().accuracy.tolist() == results["history"].accuracy.flatten().tolist()
    explained = results["explanation"].to_frame()
    residual = (explained.amplitude - explained.label_curve).to_list()
    assert residual == pytest.approx(results["explanation"].residual.tolist())


def test_the_frames_of_an_inspection_and_of_a_comparison_have_a_row_per_layer(results):
    inspection, comparison = results["inspection"], results["comparison"]
    frame = inspection.to_frame().set_index("layer")
    assert list(frame.index) == [layer.name for layer in inspection.layers]
    first = inspection.ansatz.rows[0]
    assert frame.cosine[first.layer] == first.cosine  # not that of the movement
    assert frame.change_cosine[first.layer] == inspection.changes[0].cosine
    assert frame.dead[first.layer] == inspection.faults[0].dead
    both = comparison.to_frame()
    assert both.groupby("model").size().to_dict() == {m.name: len(m.layers) for m in comparison.models}
    assert math.isclose(both.ansatz[0], comparison.models[0].layers[0].ansatz)


def test_every_result_prints_in_a_few_short_lines(results):
    for result in results.values():
        lines = str(result).splitlines()
        assert len(lines) <= 30
        assert max(map(len, lines)) <= 130


def test_a_page_in_a_notebook_stands_in_a_frame_of_its_own():
    section = Section(title="<b>bold</b>", answer="No </iframe><script>alert(1)</script>")
    shown = Page(title="Two networks", lead=("Words.",), sections=(section,))._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts allow-downloads"')
    assert shown.count("<") == 2  # the frame and its end: everything inside is escaped
    assert shown.count('"') == 6
