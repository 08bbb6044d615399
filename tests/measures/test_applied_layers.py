"""Layers are measured as they are applied, whatever class applies them, and none vanishes."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, prune, spectral_norm, weight_norm

from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import global_seed
from firstlight.measures.copy_or_memorise.identity_score import image_outputs
from firstlight.measures.feature_ansatz.ansatz import ansatz
from firstlight.measures.feature_ansatz.filter_activity import filter_activity, filter_faults
from firstlight.measures.feature_ansatz.layer_maps import layer_maps
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from firstlight.measures.first_layer.energy_profile import profile
from firstlight.measures.first_layer.first_convolution import first_convolution
from firstlight.measures.learning_order.discriminability import penultimate_features
from firstlight.measures.linearized.tangent_kernel import ntk_gram
from reference import patch_gradients as reference

TOLERANCE = 1e-10


def images(n=3, shape=(3, 7, 6), seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, *shape, generator=generator, dtype=torch.float64)


class SelfPadding(nn.Conv2d):
    """Pads as TensorFlow does, one side more than the other, in its own forward (EfficientNet, timm)."""

    def forward(self, x):
        missing = [
            max((-(-side // s) - 1) * s + k - side, 0)
            for side, k, s in zip(x.shape[2:], self.kernel_size, self.stride, strict=True)
        ]
        x = functional.pad(
            x, [missing[1] // 2, missing[1] - missing[1] // 2, missing[0] // 2, missing[0] - missing[0] // 2]
        )
        return functional.conv2d(x, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)


class Standardised(nn.Conv2d):
    """Standardises its weights in every forward pass (timm's StdConv2d)."""

    def forward(self, x):
        weight = functional.batch_norm(
            self.weight.reshape(1, self.out_channels, -1), None, None, training=True, momentum=0.0, eps=1e-6
        ).reshape_as(self.weight)
        return functional.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class WithActivation(nn.Linear):
    """A linear layer whose forward does more."""

    def forward(self, x):
        return torch.tanh(super().forward(x))


class Functional(nn.Module):
    """Weights without a module of their own, one of them computed from another."""

    def __init__(self):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(4, 3, 2, 3))
        self.deeper = nn.Module()
        self.deeper.weight = nn.Parameter(torch.randn(5, 4, 1, 1))
        self.head = nn.Parameter(torch.randn(3, 10))

    def forward(self, x):
        x = functional.conv2d(x, self.kernel, stride=(2, 1), padding="valid").relu_()
        x = functional.conv2d(x, self.deeper.weight, padding=1)
        return functional.linear(x.mean((2, 3)), self.head[:, ::2])


def stacked(make):
    with global_seed("test", 0):
        return nn.Sequential(
            make(3, 4, 3), nn.ReLU(inplace=True), make(4, 6, (2, 3), stride=2, groups=2), nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), WithActivation(6, 3),
        ).double()  # fmt: skip


def parametrised(with_norm):
    return lambda *sizes, **options: with_norm(nn.Conv2d(*sizes, **options))


def pruned(*sizes, **options):
    return prune.random_unstructured(nn.Conv2d(*sizes, **options), "weight", amount=0.4)


MODELS = {
    "pads by itself": lambda: stacked(SelfPadding),
    "standardises": lambda: stacked(Standardised),
    "new weight norm": lambda: stacked(parametrised(parametrizations.weight_norm)),
    "new spectral norm": lambda: stacked(parametrised(parametrizations.spectral_norm)),
    "old spectral norm": lambda: stacked(parametrised(spectral_norm)),
    "pruned": lambda: stacked(pruned),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("name", [*MODELS, "old weight norm"])
def test_padding_standardised_and_parametrised_layers_equal_the_definition(name, monkeypatch):
    model = MODELS[name]() if name in MODELS else stacked(parametrised(weight_norm))
    x = images()
    agops = patch_gradients(model, x)
    assert [layer.name for layer in agops.layers] == ["0", "2", "6"]
    assert not agops.skipped
    weights, expected = reference.agops_by_call(model, x, monkeypatch)
    for layer, weight, matrix in zip(agops.layers, weights, expected, strict=True):
        assert torch.allclose(layer.filters.flatten(), weight.flatten(), rtol=0, atol=TOLERANCE)
        assert (layer.agop - matrix).abs().max() <= TOLERANCE * matrix.abs().max()


def test_functional_layers_equal_the_definition_and_carry_the_names_of_their_weights(monkeypatch):
    with global_seed("test", 0):
        model = Functional().double()
    x = images()
    agops = patch_gradients(model, x)
    assert [(layer.name, layer.kind) for layer in agops.layers] == [
        ("kernel", "conv2d"),
        ("deeper", "conv2d"),
        ("linear", "linear"),
    ]
    _, expected = reference.agops_by_call(model, x, monkeypatch)
    for layer, matrix in zip(agops.layers, expected, strict=True):
        assert (layer.agop - matrix).abs().max() <= TOLERANCE * matrix.abs().max()
    assert agops.layers[2].is_output
    named = patch_gradients(model, x, layers=["deeper"])
    assert [layer.name for layer in named.layers] == ["deeper"]
    assert [layer.name for layer in layer_maps(model, agops.layers, x)] == ["kernel", "deeper"]


def test_the_parts_of_an_attention_are_measured(monkeypatch):
    class Attentive(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Conv2d(3, 8, 2, stride=2)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            x = self.embed(x).flatten(2).mT
            return self.head(self.attention(x, x, x, need_weights=False)[0].mean(1))

    with global_seed("test", 0):
        model = Attentive().double()
    x = images()
    agops = patch_gradients(model, x)
    names = ["embed", "attention.in_proj_weight", "attention.out_proj", "head"]
    assert [layer.name for layer in agops.layers] == names
    assert not agops.skipped
    with torch.enable_grad():
        _, expected = reference.agops_by_call(model, x, monkeypatch)
    for layer, matrix in zip(agops.layers, expected, strict=True):
        assert (layer.agop - matrix).abs().max() <= TOLERANCE * matrix.abs().max()


def test_images_folded_into_windows_all_count(monkeypatch):
    class Windows(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = nn.Linear(6, 5)
            self.head = nn.Linear(5, 2)

        def forward(self, x):
            rows = torch.tanh(self.mix(x.flatten(0, 2)))  # one row per image, channel and line
            return self.head(rows.reshape(len(x), -1, 5).mean(1))

    with global_seed("test", 0):
        model = Windows().double()
    x = images()
    _, expected = reference.agops_by_call(model, x, monkeypatch)
    mix = patch_gradients(model, x)["mix"]
    assert (mix.agop - expected[0]).abs().max() <= TOLERANCE * expected[0].abs().max()


def test_a_forward_that_loops_over_images_is_measured():
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)

        def forward(self, x):
            return torch.stack([self.head(self.conv(image).mean((1, 2))) for image in x])

    with global_seed("test", 0):
        model = Loop().double()
    x = images()
    expected = sum(patch_gradients(model, image[None])["conv"].agop for image in x) / len(x)
    assert torch.allclose(patch_gradients(model, x)["conv"].agop, expected, rtol=1e-12)


def test_shared_and_repeated_weights_keep_their_names():
    with global_seed("test", 0):
        model = nn.Sequential(
            Standardised(3, 3, 3), nn.Tanh(), nn.Conv2d(3, 3, 3), nn.Conv2d(3, 3, 1)
        ).double()
    model.append(model[0])  # the same module again: one layer, two uses
    model.append(nn.Conv2d(3, 3, 1).double())
    model[5].weight = model[3].weight  # two modules, one weight: two layers
    agops = patch_gradients(model, images(shape=(3, 12, 12)))
    assert [layer.name for layer in agops.layers] == ["0", "2", "3", "5"]


def test_exported_programs_are_measured():
    with global_seed("test", 0):
        model = nn.Sequential(nn.Conv2d(3, 4, 3, padding="same"), nn.ReLU(), nn.Flatten(), nn.Linear(168, 2))
    model = model.double().eval()
    batch = torch.export.Dim("batch")
    program = torch.export.export(model, (images(2),), dynamic_shapes=({0: batch},)).module()
    expected = patch_gradients(model, images())["0"].agop
    assert torch.allclose(patch_gradients(program, images()).layers[0].agop, expected, rtol=1e-12)


def test_what_is_not_measured_is_listed_and_nothing_stands_in_for_it():
    class ByHand(nn.Linear):
        def forward(self, x):
            return x @ self.weight.T

    class Gated(nn.Conv2d):
        def forward(self, x):
            return functional.conv2d(x, self.weight * x.mean(), self.bias)

    with global_seed("test", 0):
        model = nn.Sequential(
            Gated(3, 4, 3), nn.ConvTranspose2d(4, 2, 2), nn.Flatten(), ByHand(60, 5), nn.Linear(5, 2)
        ).double()
        model.spare = nn.Conv2d(3, 2, 1).double()
    model.forward = lambda x: nn.Sequential(*[model[i] for i in range(5)])(x)
    agops = patch_gradients(model, images(1))  # with one image the gate looks like any other weight
    assert "0" in [layer.name for layer in agops.layers]
    x = images()

    class OneByOne(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = model

        def forward(self, x):
            return torch.cat([self.body(image[None]) for image in x])

    agops = patch_gradients(OneByOne(), x)
    assert [layer.name for layer in agops.layers] == ["body.4"]
    assert "depend on the images" in agops.skipped["body.0"]
    assert "has no patches" in agops.skipped["body.1"]
    assert "ByHand applies no convolution or linear map" in agops.skipped["body.3"]
    assert "never called" in agops.skipped["body.spare"]
    with pytest.raises(InvalidInput, match=r"layer 'body.0' cannot be measured: its weights"):
        patch_gradients(OneByOne(), x, layers=["body.0"])


def test_a_dead_filter_of_a_layer_that_pads_by_itself_is_named():
    model = stacked(SelfPadding)
    with torch.no_grad():
        model[0].bias[2] = -1e3
    layer, activity = patch_gradients(model, images())["0"], filter_activity(model, images())
    assert filter_faults(layer.filters, activity.active["0"]).dead == (2,)


def test_the_first_convolution_is_the_one_that_images_meet_with_the_padding_it_has():
    x = images(4, shape=(3, 9, 8)).float()
    with global_seed("test", 0):
        model = nn.Sequential(SelfPadding(3, 4, 9, stride=2), nn.Conv2d(4, 2, 1))
    first = first_convolution(model, x[:, :, :6, :6])
    assert (first.name, first.stride, first.padding) == ("0.weight", (2, 2), (0, 0))
    # the kernel is larger than the images, but not larger than the padded ones that it sees
    assert profile(model, x[:, :, :6, :6]).amplitude.shape == (243,)
    standardised = nn.Sequential(Standardised(3, 4, 3))
    weight = profile(standardised, x).layer.weight
    assert weight.mean((1, 2, 3)).abs().max() < 1e-6
    assert first_convolution(standardised, x).name == "0"


def test_profiles_of_nan_lazy_and_meta_models_are_refused():
    x = images(4).float()
    spoilt = nn.Conv2d(3, 4, 3)
    spoilt.weight.data[1, 0, 0, 0] = torch.nan
    with pytest.raises(InvalidInput, match="'weight' holds NaN or infinite weights"):
        profile(spoilt, x)
    with pytest.raises(InvalidInput, match=r"'0.weight' is lazy"):
        profile(nn.Sequential(nn.LazyConv2d(4, 3), nn.Flatten(), nn.LazyLinear(2)), x)
    with pytest.raises(InvalidInput, match="'weight' is on the meta device"):
        profile(nn.Conv2d(3, 4, 3, device="meta"), x)
    with pytest.raises(InvalidInput, match=r"'2.weight' is lazy"):
        patch_gradients(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.LazyLinear(2)), x)
    with pytest.raises(InvalidInput, match=r"'0.weight' is lazy"):
        ntk_gram(nn.Sequential(nn.LazyConv2d(4, 3), nn.Flatten()), x)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("measure", [patch_gradients, ansatz, profile, ntk_gram])
def test_quantised_models_are_refused_with_the_reason(measure):
    with global_seed("test", 0):
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(160, 2)).eval()
    x = images(4).float()
    dynamic = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    with pytest.raises(InvalidInput, match=r"layer '3' \(Linear\) is quantised"):
        measure(dynamic, x)

    class Int8(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.ones(2, 160, dtype=torch.int8))

        def forward(self, x):
            return x @ self.weight.T.float()

    with pytest.raises(InvalidInput, match=r"layer '3' \(Int8\) is quantised"):
        measure(nn.Sequential(*model[:3], Int8()), x)


class Counting(nn.Module):
    """Writes to a buffer, binds another and draws random numbers, even in evaluation mode."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("last", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        self.last = x.sum().detach()
        torch.rand(1)
        return x


def restless():
    with global_seed("test", 0):
        model = nn.Sequential(
            spectral_norm(nn.Conv2d(3, 4, 3, padding=1)), nn.BatchNorm2d(4), nn.Dropout(), nn.ReLU(), Counting(),
            parametrizations.spectral_norm(nn.Conv2d(4, 4, 3, padding=1)), nn.Flatten(),
            parametrizations.weight_norm(nn.Linear(168, 168)), nn.Unflatten(1, (4, 7, 6)), nn.Conv2d(4, 3, 1),
            nn.Flatten(), nn.Linear(126, 2),
        )  # fmt: skip
    model.train()
    model[1].eval()
    model(images().float()).sum().backward()
    return model


def trace_of(model):
    values = [*model.parameters(), *model.buffers()]
    return {
        "values": [value.detach().clone() for value in values],
        "identities": [id(value) for value in values],
        "grads": [p.grad.clone() for p in model.parameters() if p.grad is not None],
        "modes": [m.training for m in model.modules()],
        "hooks": [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()],
        "attributes": [
            id(value) for m in model.modules() for value in vars(m).values() if torch.is_tensor(value)
        ],
        "random": torch.get_rng_state(),
    }


MEASURES = {
    "patch_gradients": patch_gradients,
    "profile": profile,
    "ntk_gram": ntk_gram,
    "layer_maps": lambda model, x: layer_maps(model, patch_gradients(model, x).layers, x),
    "penultimate_features": penultimate_features,
    "image_outputs": lambda model, x: image_outputs(model[:10], x),
}


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_leaves_the_model_as_it_was(name):
    model = restless()
    before = trace_of(model)
    MEASURES[name](model, images().float())
    after = trace_of(model)
    for key in ("values", "grads"):
        assert all(torch.equal(a, b) for a, b in zip(before[key], after[key], strict=True)), key
    for key in ("identities", "modes", "hooks", "attributes"):
        assert before[key] == after[key], key
    assert torch.equal(before["random"], after["random"])


def test_half_precision_is_measured_in_float32_and_says_so():
    with global_seed("test", 0):
        layers = [nn.Conv2d(3, 8, 3, padding=1)]
        for _ in range(6):
            layers += [nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)]
        model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)).half()
    x = images().float()
    agops = patch_gradients(model, x)
    exact = patch_gradients(copy.deepcopy(model).double(), x.double())
    for layer, expected in zip(agops.layers, exact.layers, strict=True):
        assert (layer.agop - expected.agop).norm() <= 1e-5 * expected.agop.norm()
    assert agops.method == "all 2 outputs, in float32 (the weights are stored in float16)"
    assert ansatz(model, x).method == agops.method
    assert all(p.dtype == torch.float16 for p in model.parameters())
    shown, truth = profile(model, x), profile(copy.deepcopy(model).float(), x)
    assert torch.equal(shown.amplitude, truth.amplitude)
    gram = ntk_gram(model, x)
    assert torch.equal(gram, ntk_gram(copy.deepcopy(model).float(), x))
