"""The fast gradient outer products equal their definition for whatever a network may be made of."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from firstlight import models
from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import generator_from, global_seed
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from reference import patch_gradients as reference

TOLERANCE = 1e-10


def images(n=3, shape=(3, 7, 6), seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, *shape, generator=generator, dtype=torch.float64)


def agrees(model, x, *, pick=lambda result: result, names=None, **options):
    found = patch_gradients(model, x, **options)
    for layer in found.layers:
        if names is not None and layer.name not in names:
            continue
        expected = reference.agop(model, layer.name, x, pick)
        assert layer.agop.shape == expected.shape
        assert (layer.agop - expected).abs().max() <= TOLERANCE * expected.abs().max(), layer.name
        weights = reference.feature_matrix(dict(model.named_modules())[layer.name])
        assert torch.allclose(layer.feature_matrix, weights, rtol=0, atol=TOLERANCE)
    return found


def seeded(build):
    with global_seed("test", 0):
        return build().double()


def around(conv, *, after=nn.ReLU):
    """A convolution between another one and a read-out."""
    return seeded(
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.Tanh(), conv, after(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
            nn.Linear(4 * conv.out_channels, 3),
        )
    )  # fmt: skip


@st.composite
def convolutions(draw):
    groups = draw(st.sampled_from([1, 1, 2, 4]))
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    return {
        "out_channels": groups * draw(st.integers(1, 3)),
        "kernel_size": kernel,
        "stride": (draw(st.integers(1, 3)), draw(st.integers(1, 2))),
        "padding": tuple(draw(st.integers(0, k - 1)) for k in kernel),
        "dilation": (draw(st.integers(1, 2)), draw(st.integers(1, 2))),
        "groups": groups,
        "bias": draw(st.booleans()),
        "padding_mode": draw(st.sampled_from(["zeros", "reflect", "replicate", "circular"])),
    }


@given(options=convolutions(), n=st.integers(1, 2), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_any_convolution_equals_the_definition(options, n, seed):
    model = around(nn.Conv2d(4, **options))
    agrees(model, images(n, seed=seed))


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_padding_given_in_words(padding):
    agrees(around(nn.Conv2d(4, 5, (2, 3), padding=padding)), images())


def test_depthwise_and_pointwise_convolutions():
    def build():
        return nn.Sequential(
            nn.Conv2d(3, 6, 3, groups=3), nn.ReLU(), nn.Conv2d(6, 2, 1), nn.Flatten(), nn.LazyLinear(3)
        )

    model = build()
    model(torch.zeros(1, 3, 7, 6))
    agrees(model.double(), images())


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.left = nn.Conv2d(4, 4, 3, padding=1)
        self.right = nn.Conv2d(4, 4, 1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = x + self.norm(self.left(x)) * torch.sigmoid(self.right(x))
        return self.head(functional.max_pool2d(x, 2).mean((2, 3)))


def test_branches_residuals_and_batch_norm():
    model = seeded(Residual)
    model.norm.running_mean.copy_(torch.arange(4) / 4)
    model.norm.running_var.copy_(torch.arange(1, 5))
    agrees(model, images())


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        return self.head(self.conv(torch.tanh(self.conv(x))).mean((2, 3)))


def test_a_module_used_twice_sums_over_both_uses():
    agrees(seeded(Twice), images())


def test_a_head_used_twice():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)
            self.head = nn.Linear(4, 4)

        def forward(self, x):
            return self.head(torch.tanh(self.head(self.conv(x).mean((2, 3)))))

    agrees(seeded(Model), images())


@pytest.mark.parametrize("activation", [nn.ReLU, nn.SiLU, nn.Hardswish])
def test_in_place_activations(activation):
    model = around(nn.Conv2d(4, 5, 3), after=lambda: activation(inplace=True))
    agrees(model, images())


def test_in_place_activation_of_the_outputs_themselves():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(12, 3)

        def forward(self, x):
            return self.head(x.flatten(1)).sigmoid_()

    found = agrees(seeded(Model), images(shape=(3, 2, 2)))
    assert not found["head"].is_output


def test_linear_layers_over_positions():
    model = seeded(
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.Flatten(2), nn.Linear(20, 5), nn.ReLU(), nn.Flatten(), nn.Linear(20, 3)
        )
    )
    agrees(model, images())


def test_networks_that_return_images():
    agrees(seeded(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 2))), images(2))


class Several(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.conv, self.one, self.two, self.kind = (
            nn.Conv2d(3, 4, 3),
            nn.Linear(4, 2),
            nn.Linear(4, 3),
            kind,
        )

    def forward(self, x):
        features = torch.relu(self.conv(x)).mean((2, 3))
        return self.kind({"one": self.one(features), "two": self.two(features)})


def test_the_user_names_the_output_of_a_dictionary_or_tuple():
    x = images()
    model = seeded(lambda: Several(dict))
    found = agrees(model, x, output_part="two", pick=lambda result: result["two"])
    assert "no gradient reaches it" in found.skipped["one"]
    with pytest.raises(InvalidInput, match="dictionary with 'one', 'two'"):
        patch_gradients(model, x)
    with pytest.raises(InvalidInput, match=r"`output_part` must name .* got 'three'"):
        patch_gradients(model, x, output_part="three")
    pair = seeded(lambda: Several(lambda parts: tuple(parts.values())))
    agrees(pair, x, output_part=1, pick=lambda result: result[1])
    agrees(pair, x, output_part=lambda result: result[0] * 2, pick=lambda result: result[0] * 2)
    with pytest.raises(InvalidInput, match="tuple of 2"):
        patch_gradients(pair, x)


def test_frozen_parameters_and_callers_without_gradients():
    model = around(nn.Conv2d(4, 5, 3)).requires_grad_(False)
    agrees(model, images())
    with torch.no_grad():
        blind = patch_gradients(model, images())
    with torch.inference_mode():
        blinder = patch_gradients(model, images())
    expected = patch_gradients(model, images())
    assert torch.equal(blind["2"].agop, expected["2"].agop)
    assert torch.equal(blinder["2"].agop, expected["2"].agop)


def test_channels_last():
    model = around(nn.Conv2d(4, 5, 3)).to(memory_format=torch.channels_last)
    agrees(model, images().to(memory_format=torch.channels_last))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.1)])
def test_other_precisions_come_close_to_double(dtype, tolerance):
    model = around(nn.Conv2d(4, 5, 3))
    exact = patch_gradients(model, images())["2"].agop
    rough = patch_gradients(model.to(dtype), images())["2"].agop
    assert rough.dtype == torch.float64
    assert (rough - exact).norm() <= tolerance * exact.norm()


@pytest.mark.parametrize("factor", [1e-26, 1e-37, 1e15])
def test_gradients_whose_squares_float32_cannot_hold_are_measured(factor):
    model = seeded(
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(80, 2))
    ).float()
    with torch.no_grad():
        model[3].weight.mul_(factor)
    x = images().float()
    found, wanted = (
        patch_gradients(model, x, show=False)["0"],
        patch_gradients(model.double(), x.double(), show=False)["0"],
    )
    torch.testing.assert_close(found.agop, wanted.agop, rtol=1e-3, atol=1e-4 * float(wanted.agop.abs().max()))


def test_the_number_of_images_at_a_time_does_not_matter():
    model, x = around(nn.Conv2d(4, 5, 3)), images(11)
    whole = patch_gradients(model, x)
    batches = patch_gradients(model, [(part, torch.zeros(len(part))) for part in torch.split(x, 2)])
    assert torch.allclose(whole["2"].agop, batches["2"].agop, rtol=1e-12)
    assert batches.n_images == 11
    assert patch_gradients(model, [x, x], n_images=13).n_images == 13


def state_of(model):
    return {
        "state": {name: value.clone() for name, value in model.state_dict().items()},
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._backward_hooks)
                  for m in model.modules()],
        "modes": [m.training for m in model.modules()],
        "grads": [None if p.grad is None else p.grad.clone() for p in model.parameters()],
        "flags": [p.requires_grad for p in model.parameters()],
    }  # fmt: skip


def same(a, b):
    assert a["hooks"] == b["hooks"]
    assert a["modes"] == b["modes"]
    assert a["flags"] == b["flags"]
    assert all(torch.equal(a["state"][name], b["state"][name]) for name in a["state"])
    assert all(
        (p is None and q is None) or torch.equal(p, q) for p, q in zip(a["grads"], b["grads"], strict=True)
    )


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_left_as_it_was_also_when_the_data_raise(fails):
    model = seeded(Residual)
    model.train()
    model.norm.eval()
    model.left.requires_grad_(False)
    model(images()).sum().backward()
    before = state_of(model)

    def batches():
        yield images()
        if fails:
            raise OSError("the disk is gone")
        yield images()

    if fails:
        with pytest.raises(OSError, match="the disk is gone"):
            patch_gradients(model, batches())
    else:
        patch_gradients(model, batches())
    same(before, state_of(model))


def test_what_cannot_be_right_is_refused_by_layer_name():
    x = images()

    class ByHand(nn.Linear):
        def forward(self, x):
            return x @ self.weight.T

    strange = seeded(lambda: nn.Sequential(ByHand(6, 6), nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(40, 3)))
    assert "ByHand applies no convolution" in patch_gradients(strange, x).skipped["0"]
    with pytest.raises(InvalidInput, match="layer '0' cannot be measured: no convolution or linear map"):
        patch_gradients(strange, x, layers=["0"])
    with pytest.raises(InvalidInput, match=r"layer '2' must be a convolution.*it is Flatten"):
        patch_gradients(strange, x, layers=["2"])
    with pytest.raises(InvalidInput, match="Unknown layer '9'"):
        patch_gradients(strange, x, layers=["9"])

    coupled = seeded(
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False), nn.Flatten(), nn.Linear(80, 3)
        )
    )
    with pytest.raises(InvalidInput, match="layer '1' normalises by the statistics of the batch"):
        patch_gradients(coupled, x)

    upside = seeded(lambda: nn.Sequential(nn.ConvTranspose2d(3, 2, 2), nn.Flatten(), nn.Linear(112, 2)))
    assert list(patch_gradients(upside, x).skipped) == ["0"]


def test_couplings_between_images_and_chance_are_refused():
    class Coupled(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.head, self.function = nn.Linear(12, 3), function

        def forward(self, x):
            return self.function(self.head(x.flatten(1)))

    x = images(shape=(3, 2, 2))
    for function in (lambda y: y - y.mean(0), lambda y: y + torch.randn_like(y)):
        with pytest.raises(InvalidInput, match="answer each image by itself"):
            patch_gradients(Coupled(function).double(), x)
    with pytest.raises(InvalidInput, match="no gradient can be taken"):
        patch_gradients(Coupled(lambda y: y.detach()).double(), x)


def test_bad_input_is_refused_in_one_line():
    model = around(nn.Conv2d(4, 5, 3))
    spoilt = images()
    spoilt[1, 0, 0, 0] = torch.nan
    for data, words in (
        (torch.zeros(0, 3, 7, 6), "at least one image"),
        ([], "it is empty"),
        (spoilt, "NaN or infinite pixels"),
        (images(shape=(1, 7, 6)), "cannot take images of shape 1x7x6"),
    ):
        with pytest.raises(InvalidInput, match=words):
            patch_gradients(model, data)
    ill = copy.deepcopy(model)
    ill[0].weight.data[0] = torch.inf
    with pytest.raises(InvalidInput, match=r"'0.weight' holds NaN or infinite"):
        patch_gradients(ill, images())

    class Loud(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = copy.deepcopy(model)

        def forward(self, x):
            return self.inner(x) * 1e308 * 1e308

    with pytest.raises(InvalidInput, match="returned NaN or infinite outputs"):
        patch_gradients(Loud(), images(), layers="convolutions")
    vast = copy.deepcopy(model)
    vast[0].weight.data.fill_(1e200)
    with pytest.raises(InvalidInput, match=r"'0\.weight' holds a weight of 1e\+200"):
        patch_gradients(vast, images())
    with pytest.raises(InvalidInput, match="`output_sum` must be"):
        patch_gradients(model, images(), output_sum="some")
    with pytest.raises(InvalidInput, match="`n_images` must be at least 1"):
        patch_gradients(model, images(), n_images=0)
    with pytest.raises(InvalidInput, match="has none"):
        patch_gradients(nn.Sequential(nn.Flatten()), images())


def wide(features=9, outputs=50):
    return seeded(
        lambda: nn.Sequential(
            nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, features),
            nn.Tanh(), nn.Linear(features, outputs),
        )
    )  # fmt: skip


def test_an_exact_sum_needs_no_more_passes_than_the_last_layer_has_inputs():
    found = agrees(wide(), images(), output_sum="exact")
    assert (found.n_passes, found.n_outputs, found.is_exact) == (9, 50, True)
    assert found["6"].is_output


def test_many_outputs_are_estimated_without_bias_and_better_than_by_signs_alone():
    model, x = wide(features=40, outputs=60), images(4)
    exact = patch_gradients(model, x, output_sum="exact")["0"].agop
    draws = torch.stack([patch_gradients(model, x, seed=s)["0"].agop for s in range(60)])
    spread = draws.std(0) / len(draws) ** 0.5
    # the mean of 60 unbiased draws: entries are correlated, so bound the whole by its expected size
    assert (draws.mean(0) - exact).norm() < 3 * spread.norm()
    error = (draws - exact).flatten(1).norm(dim=1).square().mean().sqrt() / exact.norm()
    plain = nn.Sequential(*model, nn.Identity())  # hides the last layer: signs alone
    plain[-1].forward = lambda y: y * 1
    signs = torch.stack([patch_gradients(plain, x, seed=s)["0"].agop for s in range(20)])
    plain_error = (signs - exact).flatten(1).norm(dim=1).square().mean().sqrt() / exact.norm()
    assert error < 0.5 * plain_error
    assert not patch_gradients(model, x).is_exact


def test_the_same_seed_gives_the_same_bits():
    model, x = wide(features=40, outputs=60), images(4)
    first, again, other = (patch_gradients(model, x, seed=s)["0"].agop for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", ["resnet18", "vgg11", "simplenet", "lenet"])
def test_known_architectures_equal_the_definition(name):
    options = {"width": 0.0625} if name != "lenet" else {}
    model = models.build(name, classes=2, shape=(3, 32, 32), **options).double()
    x = images(1, shape=(3, 32, 32))
    first, *_, last = (layer.name for layer in patch_gradients(model, x).layers)
    agrees(model, x, names={first, last} if name != "lenet" else None)


def hourglass(outputs=16):
    """Layers with many positions on both sides of layers with one."""
    return seeded(
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 6, 3, stride=2), nn.Tanh(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 8), nn.Tanh(), nn.Unflatten(1, (2, 2, 2)),
            nn.Upsample(size=(12, 15)), nn.Conv2d(2, 3, 2), nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
            nn.Linear(12, outputs),
        )
    )  # fmt: skip


@pytest.fixture
def every_pass_counts(monkeypatch):
    """Let fewer passes be worth it for the smallest networks."""
    monkeypatch.setattr("firstlight._internal.autograd.gradient_accumulators.WORTH", 0)


def test_small_networks_have_all_their_passes():
    model = seeded(lambda: nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(40, 16)))
    small = patch_gradients(model, images(), output_sum="estimated")
    assert small.n_fewer == 0
    assert small.is_exact


@pytest.mark.usefixtures("every_pass_counts")
def test_layers_with_many_positions_get_random_combinations_and_the_others_all_outputs():
    model, x, few = hourglass(), images(1, shape=(3, 20, 27)), 2
    found = patch_gradients(model, x, output_sum="estimated", seed=3)
    assert (found.n_passes, found.n_fewer, found.is_exact) == (12, few, False)
    assert found.method == "16 outputs by 12 combinations (as few as 2 for layers with many positions)"
    generator = generator_from("output signs", 3)
    signs = [torch.randint(2, (1, 16), generator=generator).double() * 2 - 1 for _ in range(8 + few)]
    # 154 positions for 3 rows need eight combinations, 117 for 6 rows all outputs, and so do linear layers
    drawn = {"10": torch.cat(signs[:8]) / 8**0.5, "0": torch.cat(signs[8:]) / few**0.5}
    for layer in found.layers:
        rows = drawn.get(layer.name, torch.eye(16, dtype=torch.float64))
        expected = reference.agop(model, layer.name, x, lambda result, rows=rows: result @ rows.T)
        assert (layer.agop - expected).abs().max() <= TOLERANCE * expected.abs().max(), layer.name


@pytest.mark.usefixtures("every_pass_counts")
def test_fewer_combinations_are_unbiased():
    model, x = hourglass(), images(2, shape=(3, 20, 27))
    exact = patch_gradients(model, x, output_sum="exact")["0"].agop
    draws = torch.stack(
        [patch_gradients(model, x, output_sum="estimated", seed=s)["0"].agop for s in range(60)]
    )
    assert (draws.mean(0) - exact).norm() < 3 * draws.std(0).norm() / len(draws) ** 0.5
    assert draws.std(0).norm() > 0.01 * exact.norm()  # they are random


@pytest.mark.parametrize(
    ("model", "shape"), [(hourglass(), (3, 4, 5)), (hourglass(outputs=2), (3, 20, 27)), (wide(), (3, 7, 6))]
)
@pytest.mark.usefixtures("every_pass_counts")
def test_nothing_is_saved_where_positions_or_outputs_are_few(model, shape):
    names = [name for name in ("0", "2", "6") if not isinstance(model[int(name)], nn.AdaptiveAvgPool2d)]
    x = images(1, shape=shape)
    auto, estimated = (
        patch_gradients(model, x, layers=names, output_sum=way) for way in ("auto", "estimated")
    )
    assert estimated.n_fewer == 0
    assert estimated.is_exact == auto.is_exact
    for one, other in zip(auto.layers, estimated.layers, strict=True):
        assert torch.equal(one.parts, other.parts)


@pytest.mark.usefixtures("every_pass_counts")
def test_images_of_unknown_number_get_all_passes():
    model, x = hourglass(), images(2, shape=(3, 20, 27))
    assert patch_gradients(model, iter([x]), output_sum="estimated").n_fewer == 0
