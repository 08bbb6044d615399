"""Every published parameter count, one row each. The models stand on the meta device: no memory."""

import pytest

from firstlight import models

GREY, COLOUR, PHOTO = (1, 28, 28), (3, 32, 32), (3, 224, 224)
IMAGENET = {"classes": 1000, "shape": PHOTO, "form": "imagenet"}

PUBLISHED = [
    ("lenet", {"shape": GREY}, 61_706),
    ("lenet", {"shape": GREY, "width": 2}, 244_362),
    ("lenet", {"shape": GREY, "width": 5}, 1_518_090),
    ("lenet", {"shape": GREY, "width": 60}, 217_800_970),
    ("lenet", {"shape": COLOUR}, 62_006),
    ("lenet", {"shape": GREY, "classes": 1}, 60_941),
    ("alexnet", {"shape": PHOTO}, 57_044_810),
    ("alexnet", {"shape": PHOTO, "width": 2}, 228_032_138),
    ("alexnet", {"shape": PHOTO, "width": 3}, 512_961_994),
    ("alexnet", {"shape": PHOTO, "width": 4}, 911_834_378),
    ("alexnet", {"shape": PHOTO, "classes": 1000}, 61_100_840),
    ("st_vgg", {"classes": 5}, 1_208_101),
    ("st_vgg", {"classes": 2}, 1_206_562),
    ("linear_st_vgg", {"classes": 5}, 1_208_101),
    ("vgg11", {}, 9_225_610),
    ("vgg11_bn", {}, 9_231_114),
    ("vgg19", {}, 20_029_514),
    ("vgg11", IMAGENET, 132_863_336),
    ("vgg11_bn", IMAGENET, 132_868_840),
    ("vgg13", IMAGENET, 133_047_848),
    ("vgg16", IMAGENET, 138_357_544),
    ("vgg19", IMAGENET, 143_667_240),
    ("resnet18", {}, 11_173_962),
    ("resnet18", IMAGENET, 11_689_512),
    ("resnet34", IMAGENET, 21_797_672),
    ("resnet50", IMAGENET, 25_557_032),
    ("cnfa_cnn", {}, 508_096),
    ("simplenet", {}, 5_498_378),
    ("identity_fcn", {"shape": GREY, "bias": False, "depth": 10, "units": 2048}, 36_765_696),
    ("identity_fcn", {"shape": GREY, "bias": False, "depth": 2, "units": 2048}, 3_211_264),
    ("identity_fcn", {"shape": GREY, "bias": False, "depth": 4, "units": 784}, 2_458_624),
    ("identity_cnn", {"shape": GREY, "bias": False, "depth": 20}, 7_379_200),
    ("identity_cnn", {"shape": GREY, "bias": False, "depth": 5, "kernel": 57}, 160_526_592),
    (
        "identity_cnn",
        {"shape": GREY, "bias": False, "depth": 20, "kernel": 7, "channels": 1024},
        924_944_384,
    ),
]


@pytest.mark.parametrize(("name", "options", "count"), PUBLISHED)
def test_parameter_count_is_the_published_one(name, options, count):
    assert models.parameter_count(models.build(name, device="meta", **options)) == count


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 10, 24])
@pytest.mark.parametrize("kernel", [1, 5, 29])
@pytest.mark.parametrize(("in_channels", "channels"), [(1, 3), (1, 128), (3, 1024)])
def test_identity_cnn_count_follows_the_formula(depth, kernel, in_channels, channels):
    model = models.build(
        "identity_cnn",
        shape=(in_channels, 28, 28),
        device="meta",
        depth=depth,
        kernel=kernel,
        channels=channels,
        bias=False,
    )
    inner = in_channels**2 if depth == 1 else 2 * in_channels * channels + (depth - 2) * channels**2
    assert models.parameter_count(model) == kernel**2 * inner


@pytest.mark.parametrize("depth", [1, 2, 4, 6, 12])
@pytest.mark.parametrize("units", [784, 2048, 16_384])
@pytest.mark.parametrize("name", ["identity_fcn", "identity_linear_fcn"])
def test_identity_fcn_count_follows_the_formula(name, depth, units):
    model = models.build(name, shape=GREY, device="meta", depth=depth, units=units, bias=False)
    d = 784
    assert models.parameter_count(model) == (d * d if depth == 1 else 2 * d * units + (depth - 2) * units**2)


def test_one_wide_convolution_of_the_identity_task_has_26_million_weights():
    model = models.build(
        "identity_cnn", shape=GREY, device="meta", depth=3, kernel=5, channels=1024, bias=False
    )
    assert model.conv2.weight.numel() == 26_214_400


def test_residual_fcn_has_two_square_matrices_a_block():
    model = models.build("residual_fcn", shape=GREY, device="meta", blocks=4, bias=False)
    assert models.parameter_count(model) == 4 * 2 * 784**2
