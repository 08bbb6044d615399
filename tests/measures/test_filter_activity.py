"""Silent filters against hooks on the rectifiers behind them."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import firstlight
from firstlight import models
from firstlight.data import load
from firstlight.measures.feature_ansatz.filter_activity import filter_activity

GATED = {"small": {"0": "1", "2": "3"}, "lenet": {}}


@pytest.fixture(scope="module")
def photos():
    return load("photos", split="test", n=300)


def silent(activity):
    return {name: (~k).nonzero().flatten().tolist() for name, k in activity.active.items() if not k.all()}


def never_positive(model, x):
    """Filters of each convolution of a chain whose rectifier is zero everywhere, by hooks."""
    largest, names = {}, {}
    last = None
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            last = name
        if isinstance(module, nn.ReLU) and last is not None:
            names[module], last = last, None

    def hook(module, inputs, output):
        if module in names:
            top = output.amax((0, 2, 3))
            largest[names[module]] = torch.maximum(top, largest.get(names[module], top))

    handles = [module.register_forward_hook(hook) for module in names]
    with torch.no_grad():
        model.eval()(x)
    for handle in handles:
        handle.remove()
    return {n: (top <= 0).nonzero().flatten().tolist() for n, top in largest.items() if (top <= 0).any()}


@pytest.mark.parametrize("name", ["small", "vgg11"])
def test_silent_filters_are_those_whose_rectifier_never_opens(photos, name):
    options = {"batch_norm": True, "width": 0.5} if name == "small" else {}
    model = models.build(name, classes=8, seed=1, **options)
    with torch.no_grad():  # closed for some images and open for others, closed for all
        for module in model.modules():
            if isinstance(module, nn.Conv2d | nn.BatchNorm2d) and module.bias is not None:
                module.bias[0], module.bias[1] = -1e3, -0.1
    x = photos.x[:64]
    found = {k: v for k, v in silent(filter_activity(model, x)).items() if k in never_positive(model, x)}
    assert found == never_positive(model, x) != {}


class Residual(nn.Module):
    """A branch that a normalisation of weight zero switches off, and one that it does not."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.Linear(3, 2)
        self.norm.weight.data[1] = 0

    def forward(self, x):
        out = self.norm(self.conv(x))
        out += x
        return self.head(F.relu(out).mean((2, 3)))


def test_what_is_added_to_a_channel_does_not_make_its_filter_active():
    activity = filter_activity(Residual(), torch.rand(5, 3, 8, 8))
    assert silent(activity) == {"conv": [1]}


@pytest.mark.parametrize("gate", [nn.GELU(), nn.SiLU(), nn.LeakyReLU(), nn.Sigmoid()])
def test_what_is_never_quite_closed_counts_as_active(gate):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), gate, nn.Flatten(), nn.Linear(4 * 36, 2))
    model[0].bias.data[2] = -8
    assert silent(filter_activity(model, torch.rand(5, 3, 8, 8))) == {}


def test_the_passes_end_when_every_filter_has_responded_and_go_on_to_a_thousand_otherwise():
    x = torch.rand(1200, 3, 8, 8)
    model = nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 2))
    model[0].bias.data.fill_(2.0)
    assert filter_activity(model, x).n_images == 64
    model[0].bias.data[1] = -50.0
    assert filter_activity(model, x).n_images == 1000


def test_dead_filters_are_counted_on_all_images_however_few_the_gradients_take(photos):
    """A filter that responds to few images was called dead on sixteen."""
    model = models.build("small", classes=8, width=0.5, seed=0)
    with torch.no_grad():
        response = F.conv2d(photos.x, model[0].weight, padding=1).amax((2, 3))
        model[0].bias.copy_(-response.quantile(0.97, dim=0))  # open on three images of a hundred
    few = firstlight.inspect(model, photos, n_images=8, show=False)
    many = firstlight.inspect(model, photos, n_images=64, show=False)
    assert [fault.dead for fault in few.faults] == [fault.dead for fault in many.faults]
    assert few.faults[0].dead == ()
    compared = firstlight.compare({"a": model, "b": model}, photos, n_images=8, with_regime=False)
    assert compared.models[0].n_dead == sum(len(fault.dead) for fault in few.faults)
    rows = []
    firstlight.watch(model, lambda step, values: rows.append(values), photos, budget=1e9)
    assert rows[0]["firstlight/dead_filters"] == 0
