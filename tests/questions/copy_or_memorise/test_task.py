"""The identity task end to end on the photographs of the installation: no download."""

import dataclasses

import pytest
import torch
from torch import nn

from firstlight._internal.errors import Diverged, InvalidInput
from firstlight._internal.store import Store
from firstlight._internal.store.encoding import decode, encode
from firstlight.questions.copy_or_memorise.measure import copy_or_memorise
from firstlight.questions.copy_or_memorise.task import (
    IdentityTask,
    initial_findings,
    run_identity_task,
    run_identity_tasks,
    write_limit,
)
from firstlight.training import Recipe, train

SMALL = IdentityTask(dataset="photos", image_size=7, width=8, kernel=3, depth=2, steps=60, n_images=40)


def test_a_run_is_finite_repeatable_and_shared_through_the_store(tmp_path):
    store = Store(tmp_path)
    first, again = (run_identity_task(SMALL, store=store) for _ in range(2))
    alone = run_identity_task(SMALL)
    assert len(store.ids()) == 1
    for other in (again, alone):
        assert all(torch.equal(other.measured.weights[k], v) for k, v in first.measured.weights.items())
    assert first.settings == SMALL
    assert set(first.measured.scores) == {"unseen", "others", "patterns", "blends", "noise"}
    outputs = first.model(SMALL.images.unseen)
    assert outputs.isfinite().all()
    assert first.measured.behaviour in {"identity", "edge detector", "constant", "noise", "none"}


def test_runs_stored_when_the_behaviour_was_called_a_verdict_are_still_read():
    findings = run_identity_task(dataclasses.replace(SMALL, steps=2, stop_below=None)).findings
    tree, arrays = encode(findings)
    tree["fields"]["verdict"] = tree["fields"].pop("behaviour")
    assert decode(tree, arrays).behaviour == findings.behaviour


def test_initial_findings_are_those_of_the_network_before_training():
    initial = initial_findings(SMALL)
    weights = SMALL.build().state_dict()
    assert all(torch.equal(initial.weights[name], weight) for name, weight in weights.items())
    assert (
        initial.scores["unseen"].means["identity"]
        == initial.untrained
        == run_identity_task(SMALL).measured.untrained
    )
    assert initial.loss > run_identity_task(SMALL).measured.loss


@pytest.mark.parametrize("family", ["cnn", "fcn", "linear_fcn", "residual_fcn"])
def test_every_family_trains_on_one_two_and_all_images(family):
    for examples in (1, 2, None):
        task = dataclasses.replace(SMALL, family=family, examples=examples, steps=3, stop_below=None)
        assert run_identity_task(task).measured.steps == 3


def test_a_diverging_run_is_caught_and_said_and_the_others_go_on(tmp_path):
    wild = dataclasses.replace(SMALL, optimiser="sgd", lr=1e6, stop_below=None)
    runs = run_identity_tasks([SMALL, wild], store=Store(tmp_path))
    assert runs[0].findings is not None
    assert runs[1].findings is None
    assert "Lower `lr`" in runs[1].problem
    with pytest.raises(Diverged, match="The loss became"):
        _ = runs[1].measured


def test_weights_that_blow_up_at_the_very_last_step_count_as_diverged():
    last = dataclasses.replace(SMALL, optimiser="sgd", lr=1e38, momentum=0.9, steps=1, stop_below=None)
    run = run_identity_task(last)
    assert run.findings is None or all(v.isfinite().all() for v in run.findings.weights.values())
    found = copy_or_memorise(
        lambda seed: nn.Conv2d(1, 1, 3, padding=1),
        1e3 * image(),
        recipe=Recipe(lr=3e38, loss="mse", batch_size=None, steps=1),
        seeds=(0,),
    )
    assert found.word == "diverged"


def test_listeners_hear_of_every_run_in_order():
    heard = []
    tasks = [dataclasses.replace(SMALL, depth=d, steps=2) for d in (1, 2, 3)]
    run_identity_tasks(tasks, listen=lambda runs: heard.append([r.task["depth"] for r in runs]), n_jobs=1)
    assert heard == [[1], [1, 2], [1, 2, 3]]


@pytest.mark.parametrize("family", ["cnn", "fcn"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("n", [1, 2])
def test_the_closed_form_is_where_gradient_descent_ends(family, bias, n):
    x = torch.randn(n, 1, 8, 7, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    layers = {
        "cnn": lambda: nn.Conv2d(1, 1, 3, padding=1, bias=bias),
        "fcn": lambda: nn.Sequential(nn.Flatten(), nn.Linear(56, 56, bias=bias), nn.Unflatten(1, (1, 8, 7))),
    }
    torch.manual_seed(0)
    stepped = layers[family]().double()
    jumped = layers[family]().double()
    jumped.load_state_dict(stepped.state_dict())
    recipe = Recipe(loss="mse", lr=0.3, momentum=0.9, steps=6000, batch_size=None, stop_below=1e-26)
    train(stepped, x, x, recipe, show=False)
    write_limit(jumped, x)
    for a, b in zip(stepped.parameters(), jumped.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-7)
    with pytest.raises(InvalidInput, match="exactly one layer"):
        write_limit(nn.Sequential(nn.Conv2d(1, 1, 3), nn.Conv2d(1, 1, 3)), x)


def test_only_one_layer_trained_by_gradient_descent_uses_the_closed_form():
    one = dataclasses.replace(SMALL, depth=1, optimiser="sgd")
    assert one.is_least_squares
    assert run_identity_task(one).measured.steps == 0
    assert not SMALL.is_least_squares
    assert not dataclasses.replace(one, optimiser="adam").is_least_squares
    assert not dataclasses.replace(one, family="residual_fcn").is_least_squares


def image(side=6):
    return torch.rand(1, 1, side, side, generator=torch.Generator().manual_seed(1))


def test_a_convolution_copies_and_a_bottleneck_memorises():
    quick = Recipe(optimiser="adam", lr=0.02, loss="mse", batch_size=None, steps=800, stop_below=1e-5)
    copying = copy_or_memorise(
        lambda seed: nn.Conv2d(1, 1, 3, padding=1), image(), recipe=quick, seeds=(0, 1)
    )
    assert copying.word == "identity"
    assert copying.agreement == 1
    assert "copies" in copying.answer

    def autoencoder(seed):
        return nn.Sequential(
            nn.Flatten(), nn.Linear(36, 1), nn.ReLU(), nn.Linear(1, 36), nn.Unflatten(1, (1, 6, 6))
        )

    memorising = copy_or_memorise(autoencoder, image(), recipe=quick, seeds=(0, 1, 2))
    assert memorising.word == "constant"
    assert "memorises" in memorising.answer


def test_bias_of_a_network_that_diverges_or_returns_another_shape_is_said():
    wild = Recipe(lr=1e8, loss="mse", batch_size=None, steps=50)
    lost = copy_or_memorise(lambda seed: nn.Conv2d(1, 1, 3, padding=1), image(), recipe=wild, seeds=(0,))
    assert lost.word == "diverged"
    assert "was not trained" in lost.answer
    with pytest.raises(InvalidInput, match="of the shape it gets"):
        copy_or_memorise(lambda seed: nn.Conv2d(1, 2, 3, padding=1), image(), seeds=(0,))
    with pytest.raises(InvalidInput, match="loss 'mse'"):
        copy_or_memorise(lambda seed: nn.Identity(), image(), recipe=Recipe(steps=1))


def test_unknown_families_are_refused():
    with pytest.raises(InvalidInput, match="Did you mean 'cnn'"):
        IdentityTask(family="cnnn")
