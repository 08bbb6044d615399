"""What the audit found wrong in rules of this theme, each as evidence that must no longer pass."""

import pytest
import torch

from reproduce.catalogue import claims
from reproduce.evidence import Evidence
from reproduce.judge import judge
from reproduce.studies.identity.exact import OneConvolution
from reproduce.studies.identity.layers import GAP
from reproduce.studies.identity.settings import LEAD

SEEDS = (0, 1, 2)


def evidence(**numbers):
    """Evidence over three seeds that differ little; a dict is a series."""
    noise = torch.tensor([-1e-4, 0.0, 1e-4], dtype=torch.float64)
    tables = {name: n if isinstance(n, dict) else {None: n} for name, n in numbers.items()}
    values = {
        name.replace("_", " "): {point: n + noise for point, n in row.items()} for name, row in tables.items()
    }
    return Evidence(seeds=SEEDS, values=values)


def test_an_initial_network_that_answers_everything_alike_is_not_the_constant_map():
    blank = evidence(
        variation_near_the_trained_size=0.001,
        likeness_near_the_trained_size=0.02,
        initial_likeness_near_the_trained_size=0.02,
        loss=0.001,
    )
    judgement = judge(claims()["id.fig7.constant_sizes"].rule, blank)
    assert (judgement.verdict, judgement.null_verdict) == ("not reproduced", "not beyond")


def test_a_filter_of_29_pixels_does_not_stand_for_one_of_57():
    ran = evidence(
        constant={5: 0.4, 29: 0.9},
        identity={5: 0.9, 29: 0.5},
        initial_constant={5: 0.1, 29: 0.1},
        loss={5: 1e-4, 29: 1e-4},
    )
    judgement = judge(claims()["id.fig9.filter_size"].rule, ran)
    assert (judgement.verdict, judgement.null_verdict) == ("partly", "beyond")
    assert "constant[57]" in judgement.reason


@pytest.mark.parametrize(("bottom_loss", "verdict"), [(0.37, "not run"), (0.001, "reproduced")])
def test_training_the_bottom_only_is_judged_if_it_fits(bottom_loss, verdict):
    made = evidence(
        **{GAP: {16_384: 0.5}},
        constant_with_both_layers_trained={16_384: 0.6},
        initial_constant={16_384: 0.0},
        loss={"both layers 16384": 0.001, "bottom only 16384": bottom_loss},
    )
    assert judge(claims()["id.fig12.bottom_only"].rule, made).verdict == verdict


def test_skips_that_are_the_identity_before_training_are_not_beyond_their_null():
    made = evidence(
        **{LEAD: {1: 0.8, 2: 0.75}},
        identity_of_residual_networks={1: 0.977, 2: 0.971},
        initial_identity_of_residual_networks={1: 0.972, 2: 0.965},
        identity_of_plain_networks={1: 0.15, 2: 0.21},
        initial_identity_of_plain_networks={1: 0.0, 2: 0.0},
        loss={"residual 1": 1e-4},
    )
    judgement = judge(claims()["id.fig41.residual"].rule, made)
    assert (judgement.verdict, judgement.null_verdict) == ("reproduced", "not beyond")


def test_the_bound_of_theorem_2_is_nearly_attained_by_one_pixel_and_loose_for_larger_filters():
    measured = OneConvolution.at_scale("smoke").run()
    largest = dict(
        zip(
            measured["largest error over bound"].points,
            measured["largest error over bound"].values.tolist(),
            strict=True,
        )
    )
    assert 0.5 < largest["one pixel"] <= 1
    assert largest["5 x 5 filter"] < 1e-3
