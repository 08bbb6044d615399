"""The layer-wise tangent kernel equals the product of Jacobians, whatever the network is made of."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call, jacrev, vmap
from torch.nn import functional

from firstlight import models
from firstlight._internal.autograd.weight_gradients import WeightGradients
from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import global_seed
from firstlight.measures.linearized import tangent_kernel as ntk_module
from firstlight.measures.linearized.tangent_kernel import jacobian, ntk_gram
from firstlight.measures.linearized.tangent_kernel_summary import effective_rank, label_alignment, ntk_change
from reference import linearized as reference
from reference.drawn_networks import Residual, Shared, Twice, networks_and_images

TOLERANCE = 1e-10


def close(found, expected):
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= TOLERANCE * expected.abs().max().clamp(min=1e-12)


def seeded(build):
    with global_seed("test", 0):
        return build().double()


def images(n=3, shape=(2, 6, 5), seed=0):
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def agrees(model, x):
    expected = reference.jacobian(model, x)
    close(ntk_gram(model, x, outputs="full", show=False), expected @ expected.T)
    return expected


@given(drawn=networks_and_images(), block=st.sampled_from([None, 1, 2]), seed=st.integers(0, 9))
@settings(max_examples=25, deadline=None)
def test_any_network_equals_the_definition(drawn, block, seed):
    model, x = drawn
    other = images(2, tuple(x.shape[1:]), seed)
    left, right = reference.jacobian(model, x), reference.jacobian(model, other)
    options = {"block": block, "show": False}
    full = ntk_gram(model, x, outputs="full", **options)
    close(full, left @ left.T)
    assert torch.equal(full, full.T)
    close(ntk_gram(model, x, other, outputs="full", **options), left @ right.T)
    close(jacobian(model, x), left)
    rows, outputs = left.reshape(len(x), -1, left.shape[1]), len(left) // len(x)
    close(ntk_gram(model, x, **options), torch.einsum("iop,jop->ij", rows, rows))
    last = outputs - 1
    close(ntk_gram(model, x, outputs=last, **options), rows[:, last] @ rows[:, last].T)


@pytest.mark.parametrize("kept", [0, 1, 2, 9])
def test_blocks_that_are_kept_give_the_bits_of_blocks_that_are_read_again(monkeypatch, kept):
    model, x = seeded(lambda: Twice(2, 3)), images(7)
    alone = ntk_gram(model, x, outputs="full", block=7, show=False)
    monkeypatch.setattr(ntk_module, "_kept_blocks", lambda held: 0)
    again = [ntk_gram(model, x, y, outputs="full", block=2, show=False) for y in (None, x[:5])]
    monkeypatch.setattr(ntk_module, "_kept_blocks", lambda held: kept)
    found = [ntk_gram(model, x, y, outputs="full", block=2, show=False) for y in (None, x[:5])]
    close(found[0], alone)
    for one, other in zip(found, again, strict=True):
        assert torch.equal(one, other)


def test_no_image_is_read_twice_if_memory_holds_the_gradients(monkeypatch):
    model, x, seen = seeded(lambda: Twice(2, 3)), images(6), []
    read = WeightGradients.read
    monkeypatch.setattr(
        WeightGradients, "read", lambda *given, **more: seen.append(len(given[1])) or read(*given, **more)
    )
    ntk_gram(model, x, block=2, show=False)
    assert seen == [2, 2, 2]


@given(drawn=networks_and_images())
@settings(max_examples=12, deadline=None)
def test_factors_and_rows_written_out_agree(drawn):
    model, x = drawn
    model.eval()
    reader = WeightGradients(model, x)
    row = torch.eye(reader.n_outputs, dtype=torch.float64)
    found = []
    for as_rows in (True, False):
        for layer in reader.layers:
            layer.as_rows = as_rows or layer.groups > 1
        gram = x.new_zeros(len(x) * len(row), len(x) * len(row))
        trace = x.new_zeros(len(x), len(x))
        for gradients in reader.read(x, row).values():
            gradients.add_product(gradients, gram, is_trace=False)
            gradients.add_product(gradients, trace, is_trace=True)
        found.append((gram, trace))
    close(found[0][0], found[1][0])
    close(found[0][1], found[1][1])


@pytest.mark.parametrize("name", ["lenet", "resnet18", "vgg11_bn", "simplenet", "fcn"])
def test_known_architectures_equal_vmap_of_jacrev(name):
    options = {"width": 0.0625} if isinstance(models.options(name).get("width"), float | int) else {}
    options = {"units": 7} if name == "fcn" else options
    model = models.build(name, classes=2, shape=(1, 32, 32), **options).double()
    x = images(3, (1, 32, 32))
    found = ntk_gram(model, x, outputs="full", show=False)
    model.eval()
    weights = {key: p.detach() for key, p in model.named_parameters()}
    parts = vmap(jacrev(lambda w, one: functional_call(model, w, (one[None],))[0]), (None, 0))(weights, x)
    rows = torch.cat([part.flatten(2).flatten(0, 1) for part in parts.values()], 1)
    close(found, rows @ rows.T)
    assert not WeightGradients(model, x).plain


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv2d(4, 8, 3, groups=4), (4, 6, 5)),
        (nn.Conv2d(4, 6, (2, 3), padding="same", groups=2), (4, 6, 5)),
        (nn.Conv2d(4, 3, 3, stride=2, padding=2, padding_mode="reflect"), (4, 6, 5)),
        (nn.Conv1d(4, 3, 3), (4, 9)),
        (nn.ConvTranspose2d(4, 2, 2), (4, 3, 2)),
        (nn.GroupNorm(2, 4), (4, 3, 2)),
        (nn.LayerNorm([4, 3, 2]), (4, 3, 2)),
        (nn.PReLU(4), (4, 3, 2)),
        (nn.BatchNorm1d(4), (4, 7)),
        (nn.Linear(5, 3), (4, 5)),
    ],
)
def test_single_layers_and_layers_of_unknown_kinds(layer, shape):
    model = seeded(lambda: nn.Sequential(copy.deepcopy(layer), nn.Tanh(), nn.Flatten(), nn.LazyLinear(2)))
    model(torch.zeros(2, *shape, dtype=torch.float64))
    agrees(model, images(3, shape))


def test_partly_frozen_layers_count_what_trains():
    for frozen in ("0.weight", "0.bias", "2.weight"):
        model = seeded(lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(36, 2)))
        dict(model.named_parameters())[frozen].requires_grad_(False)
        assert agrees(model, images()).shape[1] < sum(p.numel() for p in model.parameters())


class Behind(nn.Module):
    """Uses the weight of a layer behind the layer's back, too."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.head = nn.Linear(2, 2)

    def forward(self, x):
        x = functional.conv2d(torch.tanh(self.conv(x)), self.conv.weight)
        return self.head(x.mean((2, 3)))


class Folded(nn.Module):
    """Folds pieces of the images into the batch, and puts the batch last elsewhere."""

    def __init__(self):
        super().__init__()
        self.pieces = nn.Linear(5, 4)
        self.turned = nn.Linear(6, 6)
        self.head = nn.Linear(24, 2)

    def forward(self, x):
        n = len(x)
        x = torch.tanh(self.pieces(x.mean(1).flatten(0, 1))).reshape(n, 6, 4)
        x = self.turned(x.permute(2, 0, 1)).permute(1, 0, 2)
        return self.head(x.flatten(1))


@pytest.mark.parametrize(("build", "plain"), [(Behind, "conv.weight"), (Folded, "pieces.weight")])
def test_weights_used_in_other_ways_are_found_and_read_plainly(build, plain):
    model = seeded(build)
    agrees(model, images())
    reader = WeightGradients(model, images())
    assert plain in reader.plain
    assert "head.weight" not in reader.plain


@pytest.mark.parametrize("build", [Twice, Shared, Residual])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_shared_and_repeated_modules(build, n):
    agrees(seeded(lambda: build(2, 3)), images(n))


def test_named_outputs_images_as_outputs_and_single_scores():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(2, 2, 3)

        def forward(self, x):
            y = self.conv(x)
            return {"map": y, "score": y.mean((1, 2, 3))}

    model, x = seeded(Pair), images()
    with pytest.raises(InvalidInput, match="dictionary with 'map', 'score'"):
        ntk_gram(model, x)
    assert ntk_gram(model, x, outputs="full", output_part="map", show=False).shape == (72, 72)
    score = ntk_gram(model, x, outputs="full", output_part="score", show=False)
    assert torch.equal(score, ntk_gram(model, x, output_part="score", outputs=0, show=False))


def test_single_precision_comes_close_and_the_model_is_left_as_it_was():
    model = seeded(lambda: Residual(2, 3))
    exact = ntk_gram(model, images(), outputs="full", show=False)
    model.float().train()
    model.left.eval()
    before = copy.deepcopy(model.state_dict())
    with torch.inference_mode():
        rough = ntk_gram(model, images(), outputs="full", show=False)
    assert rough.dtype == torch.float32
    assert (rough - exact).norm() < 1e-5 * exact.norm()
    assert model.training
    assert not model.left.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_bad_input_is_refused_in_one_line():
    model = seeded(lambda: Twice(2, 3))
    spoilt = images()
    spoilt[0, 0, 0, 0] = torch.nan
    for arguments, options, words in (
        ((images(0),), {}, "at least one image"),
        ((spoilt,), {}, "`images` holds NaN"),
        ((images(), spoilt), {}, "`other` holds NaN"),
        ((images(),), {"outputs": "all"}, "`outputs` must be 'full', 'trace' or one of the model's 3"),
        ((images(),), {"outputs": 3}, "got outputs=3"),
        ((images(),), {"block": 0}, "`block` must be at least 1"),
    ):
        with pytest.raises(InvalidInput, match=words):
            ntk_gram(model, *arguments, show=False, **options)
    with pytest.raises(InvalidInput, match="'full' or a number"):
        jacobian(model, images(), outputs="trace")
    with pytest.raises(InvalidInput, match="must hold trainable weights"):
        ntk_gram(seeded(lambda: Twice(2, 3)).requires_grad_(False), images(), show=False)
    coupled = seeded(lambda: nn.Sequential(nn.Conv2d(2, 2, 3), nn.BatchNorm2d(2, track_running_stats=False)))
    with pytest.raises(InvalidInput, match="statistics of the batch"):
        ntk_gram(coupled, images(), show=False)


def test_effective_rank_is_between_one_and_the_rank_and_smaller_for_the_kernel():
    rows = torch.randn(7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    of_kernel = effective_rank(rows @ rows.T)
    # Θ = JJᵀ: its singular values are the squares of those of J
    assert of_kernel == pytest.approx(effective_rank(torch.linalg.svdvals(rows).square()), rel=1e-6)
    assert 1 < of_kernel < effective_rank(rows) <= 4
    assert effective_rank(torch.zeros(3)) == 0.0
    with pytest.raises(InvalidInput, match="at least 0"):
        effective_rank(torch.tensor([1.0, -1.0]))


@given(n=st.integers(1, 6), factor=st.floats(0.1, 10), seed=st.integers(0, 99))
@settings(deadline=None)
def test_scaling_a_kernel_is_no_rotation(n, factor, seed):
    rows = torch.randn(n, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    gram = rows @ rows.T
    found = ntk_change(gram, factor * gram)
    assert found.rotation < 1e-12
    assert found.growth == pytest.approx(factor)
    assert found.distance == pytest.approx(abs(factor - 1), abs=1e-12)


def test_unrelated_kernels_are_far_apart_and_bad_ones_refused():
    assert (
        ntk_change(torch.diag(torch.tensor([1.0, 0.0])), torch.diag(torch.tensor([0.0, 1.0]))).rotation == 1.0
    )
    with pytest.raises(InvalidInput, match="same images"):
        ntk_change(torch.eye(2), torch.eye(3))
    with pytest.raises(InvalidInput, match="must not be zero"):
        ntk_change(torch.zeros(2, 2), torch.eye(2))


def test_alignment_is_one_for_the_labels_themselves_and_null_for_noise():
    labels = torch.arange(60) % 3
    found = label_alignment((labels[:, None] == labels).double() + 5.0, labels)
    assert found.value == pytest.approx(1.0)
    assert abs(found.null_mean) < 0.1
    rows = torch.randn(60, 200, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    noise = label_alignment(rows @ rows.T, labels)
    assert abs(noise.value - noise.null_mean) < 4 * noise.null_std
    with pytest.raises(InvalidInput, match="one class per row"):
        label_alignment(torch.eye(4), labels)
    with pytest.raises(InvalidInput, match="must not be constant"):
        label_alignment(torch.ones(60, 60), labels)
