"""What every architecture must do: a new one is tested by being registered."""

import hashlib

import pytest
import torch

from firstlight import models
from firstlight._internal.errors import InvalidInput
from firstlight.models.building import MODELS

SHAPES = {"alexnet": (3, 67, 63)}
SINGLE_SCORE = {"linear_cnn", "two_layer_relu"}
IMAGE_TO_IMAGE = {"identity_fcn", "identity_linear_fcn", "residual_fcn", "identity_cnn"}


def small_options(name):
    """Narrow versions, so that the whole registry runs in seconds."""
    known = models.options(name)
    narrow = {"width": 0.25, "units": 24, "channels": 8, "filters": 5}
    return {k: v for k, v in narrow.items() if k in known}


def case(name):
    shape = SHAPES.get(name, (3, 32, 32))
    classes = 1 if name in SINGLE_SCORE else 7
    return {"shape": shape, "classes": classes, **small_options(name)}


def digest(model):
    total = hashlib.sha256()
    for key, tensor in model.state_dict().items():
        total.update(key.encode() + tensor.numpy().tobytes())
    return total.hexdigest()


def images(name, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    return torch.rand(3, *SHAPES.get(name, (3, 32, 32)), generator=generator, dtype=dtype)


@pytest.mark.parametrize("name", models.available())
def test_output_has_one_score_per_class_or_the_shape_of_the_image(name):
    model = models.build(name, **case(name)).eval()
    x = images(name)
    expected = x.shape if name in IMAGE_TO_IMAGE else (3, case(name)["classes"])
    out = model(x)
    assert out.shape == expected
    assert out.isfinite().all()


@pytest.mark.parametrize("name", models.available())
def test_same_seed_gives_same_bits_and_another_seed_others(name):
    options = case(name)
    first = digest(models.build(name, seed=3, **options))
    torch.rand(5)
    assert digest(models.build(name, seed=3, **options)) == first
    assert digest(models.build(name, seed=4, **options)) != first


@pytest.mark.parametrize("name", models.available())
def test_initialise_default_gives_what_build_gives(name):
    built = models.build(name, seed=3, **case(name))
    redrawn = models.initialise(models.build(name, seed=9, **case(name)), "default", seed=3)
    assert digest(redrawn) == digest(built)


@pytest.mark.parametrize("name", models.available())
def test_backward_in_float64_reaches_every_parameter(name):
    # dropout can silence a narrow layer by chance, so it is off while batch norm stays in training mode
    model = models.build(name, **case(name)).double().train()
    for module in model.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            module.eval()
    out = model(images(name, torch.float64))
    assert out.dtype == torch.float64
    out.square().sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
        if parameter.ndim > 1:
            assert parameter.grad.any(), key


@pytest.mark.parametrize("name", [n for n in models.available() if "width" in models.options(n)])
def test_width_factor_changes_the_count(name):
    shape = SHAPES.get(name, (3, 32, 32))
    counts = [
        models.parameter_count(models.build(name, device="meta", shape=shape, width=w)) for w in (0.5, 1, 2)
    ]
    assert counts[0] < counts[1] < counts[2]


@pytest.mark.parametrize("name", models.available())
def test_meta_device_allocates_nothing(name):
    model = models.build(name, device="meta", **case(name))
    assert all(t.device.type == "meta" for t in model.state_dict().values())


@pytest.mark.parametrize("name", models.available())
def test_every_architecture_is_documented_and_takes_its_options_by_keyword(name):
    builder = MODELS[name].builder
    assert builder.__doc__
    assert all(option.isidentifier() for option in models.options(name))


def test_building_leaves_the_callers_random_state_untouched():
    torch.manual_seed(5)
    expected = torch.rand(4)
    torch.manual_seed(5)
    models.build("small", initialiser="xavier_normal")
    models.build("lenet")
    assert torch.equal(torch.rand(4), expected)


def test_init_is_applied_with_its_options():
    model = models.build("small", initialiser="normal", initialiser_options={"std": 1e-3}, seed=2)
    assert model[0].weight.std() < 2e-3
    assert not model[0].bias.any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "lenett"}, "Did you mean 'lenet'"),
        ({"name": "lenet", "widht": 2}, r"Unknown option of 'lenet' 'widht'.*Known: width, padding"),
        ({"name": "lenet", "initialiser": "xavier"}, "Unknown initialiser 'xavier'"),
        ({"name": "lenet", "initialiser": "normal", "initialiser_options": {"sd": 1}}, "Known: std"),
        (
            {"name": "lenet", "initialiser": "normal", "initialiser_options": {"std": float("nan")}},
            "`std` must be finite",
        ),
        ({"name": "lenet", "width": 0}, "`width` must be a positive factor"),
        ({"name": "lenet", "width": float("nan")}, "`width` must be a positive factor"),
        ({"name": "lenet", "classes": 0}, "`classes` must be at least 1"),
        ({"name": "lenet", "shape": (3, 32)}, r"`shape` must be \(channels, height, width\)"),
        ({"name": "lenet", "shape": (0, 32, 32)}, r"`shape` must be \(channels, height, width\)"),
        ({"name": "lenet", "shape": (1, 8, 8)}, "too small for LeNet"),
        ({"name": "vgg11", "shape": (3, 28, 28)}, "at least 32 x 32"),
        ({"name": "vgg11", "first_width": 0}, "`first_width` must be at least 1"),
        ({"name": "alexnet"}, "at least 63 x 63"),
        ({"name": "simplenet", "dropout": 1.0}, "`dropout` must lie in"),
        ({"name": "st_vgg", "shape": (3, 8, 8)}, "at least 16 x 16"),
        ({"name": "linear_cnn"}, "pass classes=1"),
        ({"name": "linear_cnn", "classes": 1, "kernel": 33}, "`kernel` must be at most 32"),
        ({"name": "linear_cnn", "classes": 1, "filters": 2, "readout": [1.0]}, "2 finite numbers"),
        ({"name": "two_layer_relu"}, "pass classes=1"),
        ({"name": "two_layer_relu", "classes": 1, "units": 3, "paired": True}, "must be even"),
        ({"name": "identity_cnn", "kernel": 4}, "`kernel` must be odd"),
        ({"name": "identity_cnn", "depth": 0}, "`depth` must be at least 1"),
        ({"name": "identity_fcn", "units": 0}, "`units` must be at least 1"),
        ({"name": "residual_fcn", "blocks": 0}, "`blocks` must be at least 1"),
        ({"name": "cnfa_cnn", "shape": (3, 6, 9)}, "`shape` must exceed 6 pixels"),
        ({"name": "pooling_max", "shape": (3, 2, 9)}, "at least 4 x 4"),
        ({"name": "small", "depth": 5}, "`depth` must be 3 or 4"),
        ({"name": "small_linear", "batch_norm": True}, "`batch_norm`"),
        ({"name": "resnet18", "bn_eps": 0.0}, "`bn_eps` must be positive"),
    ],
)
def test_bad_input_is_refused_in_words(arguments, message):
    name = arguments.pop("name")
    with pytest.raises(InvalidInput, match=message):
        models.build(name, **arguments)
