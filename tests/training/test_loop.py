import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from firstlight._internal.errors import Diverged, InvalidInput, StoreProblem
from firstlight._internal.seeds import global_seed
from firstlight.data.images import ImageData
from firstlight.training import Recipe, Snapshots, accuracy, predictions, train, train_ensemble, train_on
from firstlight.training.recipe import OPTIMISERS


def small(seed=0):
    with global_seed("weights", seed):
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 3
    x = torch.rand(60, 1, 4, 4, generator=generator) * 0.5 + y[:, None, None, None] * 0.2
    return ImageData(x, y, ("a", "b", "c"))


def weights_of(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_plain_gradient_descent_equals_the_update_written_by_hand(data):
    model, twin = small().eval(), small()
    model[3] = twin[3] = nn.Identity()
    recipe = Recipe(steps=5, batch_size=None, lr=0.3)
    train(model, data.x, data.y, recipe, show=False)
    for _ in range(5):
        loss = F.cross_entropy(twin(data.x), data.y)
        for p, g in zip(twin.parameters(), torch.autograd.grad(loss, list(twin.parameters())), strict=True):
            p.data -= 0.3 * g
    assert torch.allclose(weights_of(model), weights_of(twin), atol=1e-6)


@pytest.mark.parametrize("optimiser", sorted(OPTIMISERS))
def test_every_optimiser_lowers_the_loss_and_repeats_to_the_bit(data, optimiser):
    lr = {"sgd": 0.1, "adadelta": 1.0, "adagrad": 0.1}.get(optimiser, 0.01)
    runs = []
    for _ in range(2):
        model = small()
        history = train_on(
            model, data, Recipe(optimiser=optimiser, lr=lr, epochs=30, batch_size=10), show=False
        )
        runs.append(weights_of(model))
    assert torch.equal(*runs)
    assert history.by_epoch()[-1] < 0.9 * history.by_epoch()[0]
    assert history.hits[-6:].mean() > history.hits[:6].mean()


def test_another_seed_changes_the_order_but_not_the_first_weights(data):
    results = []
    for seed in (0, 1):
        model = small()
        history = train_on(model, data, Recipe(epochs=1, seed=seed, batch_size=10), show=False)
        results.append((history.loss, weights_of(model)))
    assert not torch.equal(results[0][0], results[1][0])
    assert not torch.equal(results[0][1], results[1][1])


def test_the_callers_random_state_is_untouched(data):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train_on(small(), data, Recipe(epochs=1), show=False)
    assert torch.equal(torch.rand(3), expected)


def test_an_epoch_sees_every_image_once(data):
    seen = []
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    model.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    train_on(model, data, Recipe(epochs=2, batch_size=7), show=False)
    per_epoch = torch.cat(seen)[:60].flatten(1)
    assert torch.equal(per_epoch.sort(0).values, data.x.flatten(1).sort(0).values)
    assert not torch.equal(torch.cat(seen)[:60], torch.cat(seen)[60:])


def test_frozen_layers_keep_their_weights_and_unknown_names_are_refused(data):
    model = small()
    before = model[1].weight.clone()
    train_on(model, data, Recipe(epochs=2, frozen=("1.",), weight_decay=0.1, momentum=0.9), show=False)
    assert torch.equal(model[1].weight, before)
    assert not torch.equal(model[4].weight, small()[4].weight)
    with pytest.raises(InvalidInput, match="no parameter begins so"):
        train_on(model, data, Recipe(epochs=1, frozen=("conv",)), show=False)
    with pytest.raises(InvalidInput, match="leaves no parameter"):
        train_on(model, data, Recipe(epochs=1, frozen=("1", "4")), show=False)


def test_the_schedule_lowers_the_rate_at_the_named_fractions():
    recipe = Recipe(lr=1.0, steps=10, milestones=(0.3, 0.6, 0.8), gamma=0.2)
    rates = [recipe.rate(step=s, total=10) for s in range(10)]
    assert rates == pytest.approx([1, 1, 1, 0.2, 0.2, 0.2, 0.04, 0.04, 0.008, 0.008])


def test_snapshots_hold_the_weights_of_their_steps(data):
    model = small()
    start = model[1].weight.detach().clone()
    shots = Snapshots(["1.weight"], steps=[0, 3, 6])
    train_on(model, data, Recipe(steps=6), observers=[shots], show=False)
    assert shots.steps == (0, 3, 6)
    assert torch.equal(shots["1.weight"][0], start)
    assert torch.equal(shots["1.weight"][-1], model[1].weight)


def test_both_squared_losses_differ_by_the_number_of_outputs(data):
    outputs, targets = torch.randn(5, 3), torch.randn(5, 3)
    mean, total = (Recipe(loss=name, steps=1).loss_of(outputs, targets) for name in ("mse", "mse_sum"))
    assert total == pytest.approx(3 * mean.item(), rel=1e-5)
    assert mean == pytest.approx(F.mse_loss(outputs, targets).item(), rel=1e-6)
    with pytest.raises(InvalidInput, match="one shape"):
        Recipe(loss="mse", steps=1).loss_of(outputs, targets[:, :1])


def test_a_resumed_training_says_from_which_epoch(data, tmp_path, capsys):
    recipe, file = Recipe(epochs=20, batch_size=len(data) // 2), tmp_path / "checkpoint.safetensors"
    train_on(small(), data, recipe, at_most=13, checkpoint=file, checkpoint_seconds=0)
    assert "going on" not in capsys.readouterr().err
    train_on(small(), data, recipe, at_most=14, checkpoint=file)
    assert capsys.readouterr().err == "Training: going on from epoch 7 of 20.\n"


def test_training_stops_once_the_loss_is_low_enough(data):
    history = train_on(small(), data, Recipe(steps=5000, lr=0.3, stop_below=0.3), show=False)
    assert history.stopped_early
    assert history.loss[-1] < 0.3
    assert len(history.loss) < 5000


def test_divergence_is_said_with_the_step_and_the_rate(data):
    with pytest.raises(Diverged, match=r"at step \d+ of 200.*Lower `lr` \(now 1e\+06\)"):
        train_on(small(), data, Recipe(steps=200, lr=1e6, loss="mse"), show=False)


def test_the_mode_of_the_model_comes_back(data):
    model = small().eval()
    train_on(model, data, Recipe(steps=1), show=False)
    assert not model.training
    model.train()
    assert 0 <= accuracy(model, data) <= 1
    assert model.training


def test_predictions_do_not_depend_on_the_block_size(data):
    model = small()
    assert torch.allclose(predictions(model, data.x), predictions(model, data.x, batch_size=7), atol=1e-6)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"optimiser": "sgdd", "steps": 1}, "Did you mean 'sgd'"),
        ({"loss": "hinge", "steps": 1}, "Unknown loss"),
        ({}, "either `epochs` or `steps`"),
        ({"steps": 1, "epochs": 1}, "either `epochs` or `steps`"),
        ({"steps": 0}, "at least 1; got steps=0"),
        ({"steps": 1, "lr": 0.0}, "positive"),
        ({"steps": 1, "lr": math.nan}, "positive"),
        ({"steps": 1, "batch_size": 0}, "batch_size=0"),
        ({"steps": 1, "optimiser": "adam", "momentum": 0.9}, "for sgd"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(bad, message):
    with pytest.raises(InvalidInput, match=message):
        Recipe(**bad)


def test_an_ensemble_equals_its_members_trained_one_by_one(data):
    def build(seed):  # local, because worker processes cannot import this file
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))

    recipe = Recipe(epochs=3, batch_size=10)
    together = train_ensemble(build, 3, data, recipe, n_jobs=2, show=False)
    alone = train_ensemble(build, 3, data, recipe, n_jobs=1, show=False)
    for one, other in zip(together, alone, strict=True):
        assert one.seed == other.seed
        assert all(torch.equal(one.weights[k], other.weights[k]) for k in one.weights)
        assert torch.equal(one.history.loss, other.history.loss)
    assert not torch.equal(together[0].weights["1.weight"], together[1].weights["1.weight"])


def test_a_folder_that_cannot_be_written_gives_one_sentence(data, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(StoreProblem, match=r"Cannot write .*in the way"):
        train_on(
            small(),
            data,
            Recipe(steps=3),
            checkpoint=blocked / "c.safetensors",
            checkpoint_seconds=0,
            show=False,
        )


def test_a_damaged_checkpoint_is_named_and_not_used(data, tmp_path):
    path = tmp_path / "c.safetensors"
    path.write_bytes(b"nonsense")
    with pytest.raises(StoreProblem, match=r"c\.safetensors is damaged"):
        train_on(small(), data, Recipe(steps=3), checkpoint=path, show=False)
