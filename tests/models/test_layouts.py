"""Names, shapes and arithmetic of single families."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight import models
from reference.plain_networks import linear_cnn_score, two_layer_relu_score

PHOTO = (3, 224, 224)


def imagenet(name):
    extra = {} if name == "alexnet" else {"form": "imagenet"}
    return models.build(name, classes=1000, shape=PHOTO, device="meta", **extra).state_dict()


LANDMARKS = {
    "alexnet": {
        "features.0.weight": (64, 3, 11, 11),
        "features.3.weight": (192, 64, 5, 5),
        "features.6.weight": (384, 192, 3, 3),
        "features.8.weight": (256, 384, 3, 3),
        "features.10.bias": (256,),
        "classifier.1.weight": (4096, 9216),
        "classifier.4.weight": (4096, 4096),
        "classifier.6.weight": (1000, 4096),
    },
    "vgg11": {
        "features.0.weight": (64, 3, 3, 3),
        "features.3.weight": (128, 64, 3, 3),
        "features.6.weight": (256, 128, 3, 3),
        "features.18.bias": (512,),
        "classifier.0.weight": (4096, 25088),
        "classifier.3.weight": (4096, 4096),
        "classifier.6.bias": (1000,),
    },
    "vgg11_bn": {
        "features.0.weight": (64, 3, 3, 3),
        "features.1.running_mean": (64,),
        "features.4.weight": (128, 64, 3, 3),
        "features.8.weight": (256, 128, 3, 3),
        "features.25.weight": (512, 512, 3, 3),
        "features.26.num_batches_tracked": (),
    },
    "vgg16": {"features.28.weight": (512, 512, 3, 3), "features.24.bias": (512,)},
    "vgg16_bn": {"features.40.weight": (512, 512, 3, 3), "features.41.running_var": (512,)},
    "vgg19": {"features.34.weight": (512, 512, 3, 3), "features.5.weight": (128, 64, 3, 3)},
    "resnet18": {
        "conv1.weight": (64, 3, 7, 7),
        "bn1.weight": (64,),
        "layer1.0.conv1.weight": (64, 64, 3, 3),
        "layer2.0.downsample.0.weight": (128, 64, 1, 1),
        "layer2.0.downsample.1.running_var": (128,),
        "layer4.1.bn2.bias": (512,),
        "fc.weight": (1000, 512),
    },
    "resnet34": {"layer3.5.conv2.weight": (256, 256, 3, 3), "layer2.3.bn1.weight": (128,)},
    "resnet50": {
        "layer1.0.conv3.weight": (256, 64, 1, 1),
        "layer1.0.downsample.0.weight": (256, 64, 1, 1),
        "layer2.0.conv2.weight": (128, 128, 3, 3),
        "layer3.5.bn3.running_mean": (1024,),
        "layer4.0.downsample.0.weight": (2048, 1024, 1, 1),
        "fc.bias": (1000,),
    },
}
N_KEYS = {"alexnet": 16, "vgg11": 22, "vgg11_bn": 62, "vgg16": 32, "resnet18": 122, "resnet50": 320}


@pytest.mark.parametrize("name", LANDMARKS)
def test_imagenet_form_has_torchvision_names_and_shapes(name):
    state = imagenet(name)
    for key, shape in LANDMARKS[name].items():
        assert tuple(state[key].shape) == shape, key
    assert len(state) == N_KEYS.get(name, len(state))


def test_layer_without_change_of_shape_has_no_downsample():
    assert not [k for k in imagenet("resnet18") if k.startswith("layer1") and "downsample" in k]


def test_stride_sits_in_the_3x3_or_in_the_first_1x1():
    ours = models.build("resnet50", device="meta")
    keras = models.build("resnet50", device="meta", stride_in_1x1=True, bn_eps=1e-3)
    assert ours.layer2[0].conv1.stride == (1, 1)
    assert ours.layer2[0].conv2.stride == (2, 2)
    assert keras.layer2[0].conv1.stride == (2, 2)
    assert keras.layer2[0].conv2.stride == (1, 1)
    assert {m.eps for m in keras.modules() if isinstance(m, torch.nn.BatchNorm2d)} == {1e-3}


def test_cifar_resnet_keeps_the_resolution_in_its_stem():
    model = models.build("resnet18", width=0.125).eval()
    stem = model.maxpool(model.conv1(torch.zeros(1, 3, 32, 32)))
    assert stem.shape[2:] == (32, 32)


@pytest.mark.parametrize("name", ["vgg11", "vgg11_bn"])
def test_first_width_changes_the_first_layer_alone(name):
    wide = models.build(name, first_width=17, device="meta").state_dict()
    usual = models.build(name, device="meta").state_dict()
    second = "features.4.weight" if name.endswith("bn") else "features.3.weight"
    assert wide["features.0.weight"].shape == (17, 3, 3, 3)
    assert wide[second].shape == (128, 17, 3, 3)
    assert wide["classifier.weight"].shape == usual["classifier.weight"].shape


def test_vgg_takes_images_that_are_not_square():
    model = models.build("vgg11", shape=(1, 40, 70), width=0.125)
    assert model(torch.rand(2, 1, 40, 70)).shape == (2, 10)


@given(
    n=st.integers(1, 3),
    c=st.integers(1, 3),
    h=st.integers(3, 7),
    w=st.integers(3, 7),
    kernel=st.integers(1, 3),
    padding=st.integers(0, 2),
    stride=st.integers(1, 3),
    filters=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_linear_cnn_equals_definition(n, c, h, w, kernel, padding, stride, filters, seed):
    generator = torch.Generator().manual_seed(seed)
    # drawn in single precision, in which the model stores it, so that the comparison is exact in double
    readout = torch.randn(filters, generator=generator)
    for given_readout, a in ((None, torch.full((filters,), 1 / filters)), (readout, readout)):
        model = models.build(
            "linear_cnn", classes=1, shape=(c, h, w), seed=seed, filters=filters, kernel=kernel,
            padding=padding, stride=stride, readout=given_readout,
        ).double()  # fmt: skip
        x = torch.rand(n, c, h, w, generator=generator, dtype=torch.float64)
        expected = linear_cnn_score(x, model.conv.weight, a.double(), padding=padding, stride=stride)
        torch.testing.assert_close(model(x)[:, 0], expected)


@given(n=st.integers(1, 3), q=st.integers(1, 6), half=st.integers(1, 4), seed=st.integers(0, 99))
def test_two_layer_relu_equals_definition_and_is_linear_when_paired(n, q, half, seed):
    model = models.build(
        "two_layer_relu", classes=1, shape=(1, 1, q), seed=seed, units=2 * half, paired=True
    ).double()
    x = torch.randn(n, 1, 1, q, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    a, weight = model.readout, model.hidden.weight.detach()
    torch.testing.assert_close(model(x)[:, 0], two_layer_relu_score(x.flatten(1), weight, a))
    torch.testing.assert_close(model(x)[:, 0], x.flatten(1) @ (0.5 * a @ weight))


def test_pairing_survives_another_initialiser():
    model = models.build("two_layer_relu", classes=1, units=8, paired=True, initialiser="xavier_normal")
    assert torch.equal(model.hidden.weight[1::2], -model.hidden.weight[::2])
    assert torch.equal(model.readout[1::2], -model.readout[::2])


@pytest.mark.parametrize("name", ["linear_fcn", "linear_st_vgg", "small_linear", "identity_linear_fcn"])
def test_linear_networks_are_affine(name, float64):
    options = {"width": 0.25} if "width" in models.options(name) else {"units": 20}
    model = models.build(name, shape=(2, 16, 16), **options).eval()
    x, y = torch.rand(2, 4, 2, 16, 16, generator=torch.Generator().manual_seed(0))
    mixed = model(0.3 * x + 0.7 * y)
    torch.testing.assert_close(mixed, 0.3 * model(x) + 0.7 * model(y))


def test_dropout_stands_before_the_output_layer_only():
    model = models.build("linear_fcn", depth=5, units=16, dropout=0.5, device="meta")
    names = [name for name, _ in model.named_children()]
    assert names == ["flatten", "fc1", "fc2", "fc3", "fc4", "dropout", "fc5"]
    assert model.dropout.p == 0.5


@pytest.mark.parametrize(("side", "padding"), [(28, 2), (32, 0), (14, 2)])
def test_lenet_pads_small_images(side, padding):
    model = models.build("lenet", shape=(1, side, side))
    assert model.conv1.padding == (padding, padding)
    assert model(torch.zeros(1, 1, side, side)).shape == (1, 10)


def test_residual_fcn_equals_definition(float64):
    model = models.build("residual_fcn", shape=(1, 2, 3), blocks=2, seed=1)
    x = torch.randn(4, 1, 2, 3, generator=torch.Generator().manual_seed(0))
    h = x.flatten(1)
    first, last = model.block1, model.block2
    h = h + torch.relu(first.fc2(torch.relu(first.fc1(h))))
    h = h + last.fc2(torch.relu(last.fc1(h)))
    torch.testing.assert_close(model(x).flatten(1), h)


@pytest.mark.parametrize(("name", "kinds"), [("pooling_vec", "CCCCL"), ("pooling_max", "CCMCMCML")])
def test_pooling_study_order_of_layers(name, kinds):
    letters = {"Conv2d": "C", "MaxPool2d": "M", "AdaptiveMaxPool2d": "M", "Linear": "L"}
    model = models.build(name, kernel=7, device="meta")
    assert "".join(letters.get(type(m).__name__, "") for m in model) == kinds
    assert all(p.ndim > 1 for p in model.parameters())
    assert model[0].kernel_size == (7, 7)


def test_identity_cnn_takes_any_image_size():
    model = models.build("identity_cnn", shape=(1, 28, 28), depth=3, channels=4)
    for side in (1, 7, 31):
        assert model(torch.zeros(2, 1, side, side + 1)).shape == (2, 1, side, side + 1)


def test_small_takes_any_image_size_and_a_first_width():
    model = models.build("small", shape=(3, 3, 5), depth=4, first_width=9, batch_norm=True)
    assert model[0].weight.shape == (9, 3, 3, 3)
    assert model(torch.rand(2, 3, 3, 5)).shape == (2, 10)
    assert [m.out_channels for m in model if isinstance(m, torch.nn.Conv2d)] == [9, 32, 64, 64]
