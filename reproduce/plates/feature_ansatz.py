"""Plates of "Mechanism of feature learning in convolutional networks"."""

from collections.abc import Mapping
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstlight.data import ImageData, load
from firstlight.kernels import ConvKernel, Kernel, PatchKernel, median_bandwidth
from firstlight.maths import sobel_magnitude
from firstlight.measures.feature_ansatz.layer_maps import layer_maps
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from firstlight.networks.bank import load_network
from firstlight.pages.figures import Figure
from reproduce.plates.grids import picture_rows, signed, stretched
from reproduce.plates.registry import Ledger, Line, Panels, Plates, line_plate, reported
from reproduce.studies.feature_ansatz import common
from reproduce.studies.feature_ansatz.machines import convolutions, filter_covariance, leading_eigenvectors
from reproduce.studies.feature_ansatz.noisy_images import bars_in_noise, digits_in_noise

plates = Plates("CNFA")
SHOWN = 8  # photographs in a row
NETWORKS = ("resnet20-cifar10-0", "small-cifar10-0")


def _maps_picture(images: Tensor, maps: Mapping[str, Tensor], *, title: str) -> Figure:
    """Images above, then one row of maps each, every map stretched; smaller maps are enlarged without smoothing."""
    rows = {"image": images}
    for name, values in maps.items():
        rows[name] = F.interpolate(stretched(values[:, None].float()), size=images.shape[-2:], mode="nearest")
    return picture_rows(rows, title=title)


# ---------------------------------------------------------------- networks


@plates.numbers("Figure 1")
def all_layers(ledger: Ledger) -> Panels:
    """For every convolution of ResNet-50 trained on ImageNet: filters against gradients.

    Pearson correlation of its filter covariance with the average gradient outer product; gradients in rotated
    bases are the null. AlexNet and VGG on ImageNet need an account.
    """
    claim = "cnfa.fig1.all_models"
    lines = [
        Line("filters and gradients", claim, "Pearson"),
        Line("rotated gradients", claim, "Pearson with rotated gradients", role="null"),
    ]
    return [line_plate(ledger, "ResNet-50", lines, y="Pearson correlation")]


def _network_maps(name: str, layers: tuple[int, ...]) -> Figure:
    """Maps of filters and of gradients of some layers of a network of the bank, and of its untrained first layer."""
    network = load_network(name)
    images = network.test_data().x[:SHOWN]
    rows: dict[str, Tensor] = {}
    for word, model in (("", network.model), ("untrained ", network.initial)):
        gradients = patch_gradients(model, images, layers="convolutions", seed=0, show=False).layers
        maps = layer_maps(model, gradients, images)
        for index in layers if not word else layers[:1]:
            rows[f"{word}filters, layer {index + 1}"] = maps[index].features
            rows[f"{word}gradients, layer {index + 1}"] = maps[index].gradients
    rows["edges (Sobel)"] = sobel_magnitude(images.mean(1, keepdim=True))[:, 0]
    return _maps_picture(stretched(images), rows, title=network.title)


@plates.pictures("Figure 2")
def network_maps() -> Panels:
    """Where layers of two trained networks look, by their filters and by their gradients; the first layer finds edges.

    An untrained first layer and Sobel's edges stand below.
    """
    layers = {"resnet20-cifar10-0": (0, 3, 8, 14), "small-cifar10-0": (0, 1)}
    return [_network_maps(name, chosen) for name, chosen in layers.items()]


# ---------------------------------------------------------------- learned kernels


def _learned(data: ImageData, kernel: Kernel, *, rounds: int = 2) -> Tensor:
    """The metric that a ConvRFM learns from 250 images."""
    parts = common.two_parts(data, 250, 100, seed=0)
    return common.learned_metric(parts, kernel, rounds=rounds, agop_images=30, seed=0)


def _eigenvectors(title: str, metrics: Mapping[str, Tensor], channels: int = 3) -> Figure:
    """Eight leading eigenvectors of each metric as colour patches."""
    rows = {}
    for name, metric in metrics.items():
        side = round((len(metric) / channels) ** 0.5)
        rows[name] = signed(leading_eigenvectors(metric).T.reshape(-1, channels, side, side))
    return picture_rows(rows, title=title)


def _random_basis(d: int) -> Tensor:
    """Random directions: the null of learned ones."""
    noise = torch.randn(d, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    basis: Tensor = torch.linalg.qr(noise).Q
    return basis


def _random_metric(d: int) -> Tensor:
    """A metric with random eigenvectors, in an order."""
    basis = _random_basis(d)
    return basis @ torch.diag(torch.arange(float(d), 0, -1).double()) @ basis.T


CNTK = ConvKernel(depth=3)


def _laplace(data: ImageData) -> PatchKernel:
    """The Laplace kernel on 7 x 7 patches; the paper gives no bandwidth, the median distance is the usual start."""
    kernel = PatchKernel(size=7)
    return replace(kernel, bandwidth=median_bandwidth(data.x[:100], geometry=kernel.geometry))


def _colour(name: str = "cifar10") -> ImageData:
    return load(name, split="train", n=2000, seed=0)


@plates.pictures("Figure 3")
def edge_detectors() -> Panels:
    """A: eight leading directions that two kernels learn from small photographs, with 3 x 3 and with 7 x 7 patches.

    Random directions, the null, below. B: where the kernel looks, beside a network of equal depth, whose
    initial weights are taken off. C: the same kernel on large photographs it never saw. Maps are |Mx|, as
    appendix B says of photographs; section 2.2 has the root of M. The paper uses SVHN, which needs an own
    copy; this is CIFAR-10.
    """
    data = _colour()
    learned, wide = _learned(data, CNTK), _learned(data, _laplace(data))
    train, _ = common.two_parts(data, 250, 100, seed=0)
    initial, trained = common.plain_network(train, common.DESK_NETWORK, seed=0)
    unseen = load("cifar10", split="test", n=SHOWN, seed=0).x
    near = {
        "kernel": learned,
        "network": _learned_covariance(trained, initial),
        "untrained network": filter_covariance(convolutions(initial)[0]),
    }
    large = load("photos224", split="test", n=4, seed=0).x[..., ::2, ::2]
    far = _metric_maps(large, {"CNTK": learned}, by_root=False)
    far |= _metric_maps(large, {"Laplace": wide}, 7, by_root=False)
    return [
        _eigenvectors("A: 3 x 3 patches", {"CNTK": learned, "random": _random_metric(27)}),
        _eigenvectors("A: 7 x 7 patches", {"Laplace": wide, "random": _random_metric(147)}),
        _maps_picture(
            unseen,
            _metric_maps(unseen, near, by_root=False),
            title="B: on photographs like those it learned from",
        ),
        _maps_picture(large, far, title="C: on photographs it never saw"),
    ]


def _metric_maps(
    images: Tensor, metrics: Mapping[str, Tensor], size: int = 3, *, by_root: bool = True
) -> dict[str, Tensor]:
    """Maps of |Mx|, or of |M^(1/2) x|."""
    shape = (len(images), images.shape[-2] - size + 1, -1)
    powers = {name: metric if by_root else metric @ metric for name, metric in metrics.items()}
    return {name: common.feature_map(images, power, size).reshape(shape) for name, power in powers.items()}


def _learned_covariance(trained: nn.Module, initial: nn.Module) -> Tensor:
    """Covariance of what the filters of the first layer learned: appendix B takes the initial weights off."""
    after, before = (
        convolutions(model)[0].weight.detach().flatten(1).double() for model in (trained, initial)
    )
    return (after - before).T @ (after - before)


@plates.pictures("Figure 4")
def deep_features() -> Panels:
    """Where two layers of a Deep ConvRFM and of a convolutional network look, both trained on digits in noise.

    Maps are by the root of M, as section 2.2 has it (appendix B has M, and takes initial weights off). The
    untrained network is the reference.
    """
    digits = common.grey(load("mnist", split="train", n=2000, seed=0))
    drawn = digits_in_noise(digits, 350, sigma=0.5, seed=0, side=36)
    index = torch.arange(len(drawn))
    train, unseen = drawn.take(index[:250]), drawn.take(index[250:])
    stages = common.stages_of(
        common.Splits(train=train, valid=unseen, test=unseen), common.ConvRFM(rounds=1), depth=2, seed=0
    )
    images = unseen.x[:SHOWN]
    rows: dict[str, Tensor] = {}
    for number, stage in enumerate(stages, 1):
        inputs = stage.splits.valid.x[:SHOWN]
        rows |= _metric_maps(inputs, {f"kernel, layer {number}": stage.best.metric})
    initial, trained = common.plain_network(train, common.DESK_NETWORK, seed=0)
    for word, model in (("network", trained), ("untrained", initial)):
        inputs = images
        for number, conv in enumerate(convolutions(model)[:2], 1):
            rows |= _metric_maps(inputs, {f"{word}, layer {number}": filter_covariance(conv)})
            inputs = torch.relu(conv(inputs)).detach()
    return [_maps_picture(stretched(images), rows, title="Digits in noise")]


plates.add(
    "Figure 5",
    "Test accuracy on a small signal hidden in noise, by noise level: a fixed kernel, kernels that learn features, and "
    "a network.",
    study="feature_ansatz/local_signals",
)


@plates.numbers("Figure 6")
def benchmark(ledger: Ledger) -> Panels:
    """A: test accuracy in per cent of a fixed kernel, of one that learns features, and of a network.

    The paper's, with all images, stand beside. B: accuracy by the number of layers that learn features.
    """
    table, deep = "convrfm.fig6a.svhn_order", "convrfm.fig6b.layers"
    roles = {"CNTK": "random labels", "ConvRFM": "trained", "Deep ConvRFM": "other", "network": "initial"}
    methods = [
        *(Line(name, table, name, role) for name, role in roles.items()),
        Line("rotated metric", table, "ConvRFM with rotated metric", role="null"),
        reported({"cifar10": 67.74, "svhn": 81.38}, "CNTK"),
        reported({"cifar10": 67.97, "svhn": 85.02}, "ConvRFM"),
    ]
    layers = [
        Line("bars", deep, "accuracy on bars by layers"),
        Line("digits", deep, "accuracy on digits by layers", role="other"),
    ]
    x = "layers that learn features"
    return [
        line_plate(ledger, "A: accuracy in per cent", methods, y="test accuracy (%)"),
        line_plate(ledger, "B: by layers", layers, x=x, y="test accuracy"),
    ]


@plates.numbers("Figure 7")
def gains(ledger: Ledger) -> Panels:
    """For every convolution of ResNet-50: how much more its trained filters agree with the gradients than initial ones.

    The same with rotated gradients is the null.
    """
    claim = "cnfa.fig7.init_lower"
    lines = [
        Line("gain", claim, "gain"),
        Line("rotated gradients", claim, "gain with rotated gradients", role="null"),
    ]
    return [line_plate(ledger, "ResNet-50", lines, y="difference of correlations")]


plates.add(
    "Figure 8",
    "For every convolution of a SimpleNet: agreement of filters and gradients, of the initial filters, and with "
    "rotated gradients.",
    study="feature_ansatz/ansatz_simplenet",
)
plates.add(
    "Figure 9",
    "Cosine of filter covariance and gradients by data set and pooling, for trained and for initial networks; rotated "
    "gradients are the null.",
    study="feature_ansatz/ansatz_small_networks",
)


@plates.pictures("Figure 10")
def kernels_and_networks() -> Panels:
    """Where a ConvRFM and the first layer of a network look: bars in noise, digits in noise, and photographs.

    Maps are by the root of M. The untrained network is the reference.
    """
    digits = common.grey(load("mnist", split="train", n=2000, seed=0))
    tasks = {
        "A: bars in noise": bars_in_noise(500, sigma=1.0, seed=0),
        "B: digits in noise": digits_in_noise(digits, 500, sigma=0.5, seed=0, side=36),
        "C: photographs": _colour(),
    }
    return [_beside(data, name) for name, data in tasks.items()]


def _beside(data: ImageData, title: str) -> Figure:
    metric = _learned(data, ConvKernel(depth=2), rounds=1)
    train, unseen = common.two_parts(data, 250, 100, seed=0)
    initial, trained = common.plain_network(train, common.DESK_NETWORK, seed=0)
    images = unseen.x[:SHOWN].float()
    metrics = {
        "kernel": metric,
        "network": filter_covariance(convolutions(trained)[0]),
        "untrained": filter_covariance(convolutions(initial)[0]),
    }
    return _maps_picture(stretched(images), _metric_maps(images, metrics), title=title)


@plates.pictures("Figure 11")
def edges_by_direction() -> Panels:
    """A photograph after each of the eight leading directions of two learned kernels has been applied to its patches.

    They find edges of different orientation; the last row applies random directions.
    """
    image = load("photos224", split="test", n=1, seed=0).x[..., ::2, ::2].double()
    data = _colour()
    banks = {
        "CNTK": (leading_eigenvectors(_learned(data, CNTK)), 3),
        "Laplace": (leading_eigenvectors(_learned(data, _laplace(data))), 7),
        "random": (_random_basis(27)[:, :8], 3),
    }
    rows = {}
    for name, (vectors, size) in banks.items():
        filters = vectors.T.reshape(-1, 3, size, size)
        rows[name] = stretched(F.conv2d(image, filters, padding=size // 2).abs()[0][:, None])
    return [picture_rows(rows, title="Responses to eight directions")]


@plates.pictures("Figure 12")
def more_eigenvectors() -> Panels:
    """A: eight leading directions of a kernel that learned from photographs and from clothes. B: where they look.

    Kernels and trained first layers look at photographs that none of them saw, by the root of M (appendix B
    has M). GTSRB and SVHN need own copies.
    """
    colour, clothes = _learned(_colour(), CNTK), _learned(_colour("fashion_mnist"), CNTK)
    images = load("photos224", split="test", n=4, seed=0).x[..., ::2, ::2]
    metrics = {"kernel, CIFAR-10": colour}
    for network in map(load_network, NETWORKS):
        metrics[network.title] = filter_covariance(convolutions(network.model)[0])
        metrics[f"{network.title}, untrained"] = filter_covariance(convolutions(network.initial)[0])
    return [
        _eigenvectors("A: CIFAR-10", {"kernel": colour}),
        _eigenvectors("A: Fashion-MNIST", {"kernel": clothes}, channels=1),
        _maps_picture(images, _metric_maps(images, metrics), title="B: on photographs they never saw"),
    ]
