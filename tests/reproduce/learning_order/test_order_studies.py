"""Rules of the learning-order theme that a first ledger got wrong, and the shortcuts its studies take."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from firstlight import data
from firstlight.maths.correlation import pearson
from firstlight.measures.learning_order.accessibility import AccessibilityHistory
from reproduce.catalogue import claims
from reproduce.evidence import Evidence
from reproduce.judge import judge
from reproduce.studies.learning_order import common, spread
from reproduce.studies.learning_order import deep_linear as dl
from reproduce.studies.learning_order.principal_components import ZCAWhitening


def judged(claim, **values):
    """Judge a claim on made-up numbers, the same for five seeds; a dictionary stands for a series."""
    rows = {
        name.replace("_", " "): {
            point: torch.full((5,), float(number), dtype=torch.float64)
            for point, number in (given.items() if isinstance(given, dict) else [(None, given)])
        }
        for name, given in values.items()
    }
    return judge(claims()[claim].rule, Evidence(seeds=(0, 1, 2, 3, 4), values=rows))


def initialisers(*, accuracy, definition, glorot):
    points = (5, 20, 59, 200)
    return {
        "test_accuracy": {"definition 3": accuracy, "Glorot": accuracy},
        "loss_left_from_definition_3": dict.fromkeys(points, definition),
        "loss_left_from_Glorot": dict.fromkeys(points, glorot),
        "loss_left_from_Glorot_redrawn": dict.fromkeys(points, glorot),
    }


def test_networks_that_say_nothing_are_not_compared():
    shown = judged("init.fig12", **initialisers(accuracy=0.53, definition=0.1, glorot=0.2))
    assert shown.verdict == "not run"
    assert (
        judged("init.fig12", **initialisers(accuracy=0.6, definition=0.1, glorot=0.2)).verdict == "reproduced"
    )
    slower = judged("init.fig12", **initialisers(accuracy=0.6, definition=0.2, glorot=0.1))
    assert (slower.verdict, slower.null_verdict) == ("not reproduced", "not beyond")


@pytest.mark.parametrize(("slowdown", "verdict"), [(1.04, "not run"), (3.3, "reproduced")])
def test_whitening_is_judged_only_where_shuffled_labels_were_slower(slowdown, verdict):
    shown = judged(
        "interv.fig10.whitened",
        slowdown_by_shuffling={"natural": slowdown, "whitened": 1.0},
        final_training_accuracy={"true labels": 0.7},
    )
    assert shown.verdict == verdict


def test_networks_on_whitened_images_are_the_null_of_the_critical_component():
    name = "correlation_with_the_critical_component"
    shown = judged(
        "loc.fig6b",
        **{name: -0.31, f"{name}_smoothed": -0.35, f"{name}_smoothed_when_whitened": -0.6},
        training_accuracy=0.9,
    )
    assert (shown.verdict, shown.null_verdict) == ("partly", "not beyond")


def test_scale_matrices_are_compared_by_their_growth():
    parts = {
        f"largest_{kind}_of_{side}_before_convergence": 0.05
        for kind in ("diagonal_deviation", "off-diagonal")
        for side in "AB"
    }
    ends = {"final_deviation_of_A": 0.118, "final_deviation_of_B": 0.1255, "excess_loss_left": 0.003}
    starts = {"initial_deviation_of_A": 0.111, "initial_deviation_of_B": 0.1245}
    assert judged("deeplin.fig3.scale_matrices", **parts, **ends, **starts).verdict == "reproduced"


def test_untrained_ensembles_do_not_judge_the_order():
    shown = judged(
        "loc.fig7a",
        natural_constancy_of_linear_networks=0.39,
        drop_in_linear_networks=0.44,
        drop_in_linear_networks_among_the_fastest=0.41,
        drop_in_linear_networks_without_whitening=0.0,
        matched_accuracy_of_linear_networks=0.54,
    )
    assert shown.verdict == "not run"


def test_linear_accuracy_equals_descent_step_by_step():
    train = data.load("photos:coffee/flower", n=60, seed=0).map(lambda x: F.avg_pool2d(x, 4))
    x, y = common.centred(train)[0], common.one_hot(train)
    weights, rate = torch.zeros(2, x.shape[1]).double(), 0.3 / float(torch.linalg.eigvalsh(x.T @ x)[-1])
    expected = []
    for _ in range(6):
        outputs = x @ weights.T + train.counts.double() / len(train)
        expected.append(float((outputs.argmax(1) == train.y).double().mean()))
        weights = weights - rate * (weights @ (x.T @ x) - y.T @ x)
    shown = common.linear_accuracy(train, train, rate=0.3, steps=range(6))
    assert shown.tolist() == expected


def test_descent_in_scaled_coordinates_equals_descent_on_whitened_images():
    cfg = spread.ComponentSpread(
        data="photos:coffee/flower", n=300, width=8, nets=2, steps=4, whitened_rate=0.5
    )
    train = common.normalised(cfg.data, cfg.n, seed=0, halve=True).map(lambda x: F.avg_pool2d(x, 2).double())
    moments = spread._moments(train)
    shown, _ = spread._descent(spread._whitened(moments), cfg, rate=0.5)

    white = ZCAWhitening.fit(train).transform(train)
    (x,) = common.centred(white)
    sxx, syx, widths = x.T @ x, common.one_hot(white).T @ x, (x.shape[1], 8, 2)
    rate = 0.5 / (2 * float(torch.linalg.eigvalsh(sxx)[-1]))
    spreads = []
    for net in range(2):
        generator = spread.generator_from("component spread", 0, net)
        layers = dl.drawn_layers(
            widths, dl.glorot_variances(widths), generator=generator, distribution="uniform"
        )
        for _ in range(4):
            layers = dl.gradient_step(layers, sxx, syx, rate=rate)
        spreads.append(moments.rotated(dl.compact(layers)))
    naive = torch.stack(spreads).std(0).mean(0)
    torch.testing.assert_close(shown.spread[-1], naive[: shown.spread.shape[1]], rtol=1e-6, atol=1e-9)


def answers(chances, *, seed, nets=4, epochs=4):
    """Histories of networks that are right about each example with its chance, and otherwise at random."""
    draws = torch.rand(nets, epochs, len(chances), generator=torch.Generator().manual_seed(seed))
    bits = torch.from_numpy(np.packbits((draws < chances).numpy(), axis=-1))
    return AccessibilityHistory(bits=bits, n_examples=len(chances))


def test_a_correlation_is_corrected_for_the_noise_of_few_networks_and_noise_stays_noise():
    drawn = torch.rand(2, 20_000, generator=torch.Generator().manual_seed(0))
    true = torch.stack([drawn[0], 0.6 * drawn[0] + 0.4 * drawn[1]])
    first, second = (answers(row, seed=10 + index) for index, row in enumerate(true))
    exact, raw = float(pearson(*true)), float(pearson(first.scores, second.scores))
    own, other = common.reliability(first), common.reliability(second)
    assert own == pytest.approx(float(pearson(first.scores, answers(true[0], seed=12).scores)), abs=0.01)
    assert raw < exact - 0.1
    assert common.without_attenuation(raw, own, other) == pytest.approx(exact, abs=0.02)
    noise = answers(torch.full((20_000,), 0.5), seed=13)
    assert common.reliability(noise) < 0.05
    assert common.without_attenuation(0.3, own, 0.0) == 0.0
