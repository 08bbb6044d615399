"""What the page advises about later measures comes out one way or the other, by their nulls."""

from dataclasses import replace

import pytest
import torch

from firstlight import models
from firstlight.data import load
from firstlight.questions.inspect.newer_papers import feature_report
from firstlight.questions.inspect.page_newer_papers import later_advice, later_sections


@pytest.fixture(scope="module")
def report():
    def network(seed):
        return models.build("lenet", classes=8, shape=(3, 32, 32), width=0.5, seed=seed)

    return feature_report(network(1), load("photos", n=24), initial=network(2), n_images=16, show=False)


def with_correlations(report, *, above):
    """The report with the first `above` hidden layers over their null and the others below it."""
    hidden = [row for row in report.centred.rows if not row.is_output]
    rows = tuple(
        row if row.is_output else replace(row, pearson=2.0 if hidden.index(row) < above else -2.0)
        for row in report.centred.rows
    )
    return replace(report, centred=replace(report.centred, rows=rows))


def test_layers_are_frozen_only_where_others_moved(report):
    n = sum(not row.is_output for row in report.centred.rows)
    assert "Nothing here says that training changed features" in later_advice(
        with_correlations(report, above=0)
    )
    assert "can be frozen" in later_advice(with_correlations(report, above=n - 1))
    all_moved = later_advice(with_correlations(report, above=n))
    assert "can be frozen" not in all_moved
    assert "Nothing here" not in all_moved


def test_the_count_of_layers_stands_beside_what_chance_gives(report):
    moved, *_ = with_correlations(report, above=2).sentences()
    hidden = [row for row in report.centred.rows if not row.is_output]
    expected = len(hidden) / (1 + len(hidden[0].null_pearson))
    assert f"In 2 of {len(hidden)} hidden layers, what training added follows" in moved
    assert f"{expected:.1f} expected by chance" in moved


def test_the_first_layer_from_which_the_classes_draw_together_is_named(report):
    variation = report.variation
    low = variation.projected.min(1).values / 2
    from_third = torch.where(torch.arange(len(low)) >= 2, low, variation.projected.max(1).values * 2)
    drawn = replace(report, variation=replace(variation, ratio=from_third))
    assert f"From {variation.layers[2]} on the classes lie closer together" in later_advice(drawn)
    apart = replace(report, variation=replace(variation, ratio=variation.projected.max(1).values * 2))
    assert "the labels did not shape the last features" in later_advice(apart)


def test_richness_is_read_beside_random_readouts(report):
    rich, poor = (
        replace(report, richness=replace(report.richness, value=float(report.richness.null.max()) + shift))
        for shift in (0.01, -0.01)
    )
    assert "transfer badly" in later_advice(rich)
    assert "other tasks may use them" in later_advice(poor)


def test_without_any_number_there_is_no_section(report):
    nothing = replace(report, centred=None, exponents=(), variation=None, richness=None)
    assert later_sections(nothing) == ()
    assert later_sections(None) == ()
    assert later_advice(nothing) == ""
