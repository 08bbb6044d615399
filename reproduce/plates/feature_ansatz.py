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
from reproduce.plates.registry import Ledger, Line, Panels, line_plate, numbers, pictures, studied
from reproduce.studies.feature_ansatz.common import (
    DESK_NETWORK,
    ConvRFM,
    Splits,
    feature_map,
    fitted_round,
    grey,
    plain_metric,
    plain_network,
    stages_of,
    two_parts,
    updated_metric,
)
from reproduce.studies.feature_ansatz.machines import convolutions, filter_covariance, leading_eigenvectors
from reproduce.studies.feature_ansatz.noisy_images import bars_in_noise, digits_in_noise

PAPER = "CNFA"
SHOWN = 8  # photographs in a row
NETWORKS = ("resnet20-cifar10-0", "small-cifar10-0")


def _maps_picture(images: Tensor, maps: Mapping[str, Tensor], *, title: str) -> Figure:
    """Images above, then one row of maps each, every map stretched; smaller maps are enlarged without smoothing."""
    rows = {"image": images}
    for name, values in maps.items():
        rows[name] = F.interpolate(stretched(values[:, None].float()), size=images.shape[-2:], mode="nearest")
    return picture_rows(rows, title=title)


# ---------------------------------------------------------------- networks


@numbers(
    PAPER,
    "Figure 1",
    "For every convolution of ResNet-50 trained on ImageNet: Pearson correlation of its filter covariance "
    "with the average gradient outer product; gradients in rotated bases are the null. AlexNet and VGG on "
    "ImageNet need an account.",
)
def all_layers(ledger: Ledger) -> Panels:
    lines = [
        Line(name="filters and gradients", claim="cnfa.fig1.all_models", measurement="Pearson"),
        Line(
            name="rotated gradients",
            claim="cnfa.fig1.all_models",
            measurement="Pearson with rotated gradients",
            role="null",
        ),
    ]
    return {
        "ResNet-50": line_plate(ledger, lines, title="ResNet-50, every convolution", y="Pearson correlation")
    }


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


@pictures(
    PAPER,
    "Figure 2",
    "Where layers of two trained networks look, by their filters and by their gradients; the first layer "
    "finds edges. An untrained first layer and Sobel's edges stand below.",
)
def network_maps() -> Panels:
    layers = {"resnet20-cifar10-0": (0, 3, 8, 14), "small-cifar10-0": (0, 1)}
    return {load_network(name).title: _network_maps(name, chosen) for name, chosen in layers.items()}


# ---------------------------------------------------------------- learned kernels


def _learned(
    data: ImageData, kernel: Kernel, *, rounds: int = 2, n: int = 250, agop_images: int = 30
) -> Tensor:
    """The metric after some rounds of a ConvRFM."""
    train, valid = two_parts(data, n, 100, seed=0)
    splits = Splits(train=train, valid=valid, test=valid)
    metric = plain_metric(splits, kernel)
    for _ in range(rounds):
        fit = fitted_round(splits, kernel, metric)
        metric = updated_metric(splits, kernel, fit, agop_images=agop_images, seed=0)
    return metric


def _eigenvectors(metrics: Mapping[str, tuple[Tensor, int, int]], *, title: str) -> Figure:
    """Eight leading eigenvectors of each metric as colour patches."""
    rows = {
        name: signed(leading_eigenvectors(metric).T.reshape(-1, channels, side, side))
        for name, (metric, channels, side) in metrics.items()
    }
    return picture_rows(rows, title=title)


CNTK = ConvKernel(depth=3)


def _laplace(data: ImageData) -> PatchKernel:
    """The Laplace kernel on 7 x 7 patches; the paper gives no bandwidth, the median distance is the usual start."""
    kernel = PatchKernel(size=7)
    return replace(kernel, bandwidth=median_bandwidth(data.x[:100], geometry=kernel.geometry))


def _colour(name: str = "cifar10") -> ImageData:
    return load(name, split="train", n=2000, seed=0)


@pictures(
    PAPER,
    "Figure 3",
    "A: eight leading directions that two kernels learn from small photographs, with 3 x 3 and with 7 x 7 "
    "patches; random directions, the null, below. B: where the kernel looks, beside a network of equal depth, "
    "whose initial weights are taken off. C: the same kernel on large photographs it never saw. Maps are |Mx|, as "
    "appendix B says of photographs; section 2.2 has the root of M. The paper uses SVHN, which needs an own copy; "
    "this is CIFAR-10.",
)
def edge_detectors() -> Panels:
    data = _colour()
    learned, wide = _learned(data, CNTK), _learned(data, _laplace(data))
    random = torch.linalg.qr(
        torch.randn(27, 27, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ).Q
    random_wide = torch.linalg.qr(
        torch.randn(147, 147, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ).Q
    spread = torch.diag(torch.arange(27.0, 0, -1).double())
    spread_wide = torch.diag(torch.arange(147.0, 0, -1).double())
    three = {"CNTK": (learned, 3, 3), "random": (random @ spread @ random.T, 3, 3)}
    seven = {"Laplace": (wide, 3, 7), "random": (random_wide @ spread_wide @ random_wide.T, 3, 7)}
    train, _ = two_parts(data, 250, 100, seed=0)
    initial, trained = plain_network(train, DESK_NETWORK, seed=0)
    unseen = load("cifar10", split="test", n=SHOWN, seed=0).x
    covariances = {
        "network": _learned_covariance(trained, initial),
        "untrained network": filter_covariance(convolutions(initial)[0]),
    }
    large = load("photos224", split="test", n=4, seed=0).x
    return {
        "A: 3 x 3 patches": _eigenvectors(three, title="Leading directions, 3 x 3"),
        "A: 7 x 7 patches": _eigenvectors(seven, title="Leading directions, 7 x 7"),
        "B: on photographs like those it learned from": _maps_picture(
            unseen,
            _metric_maps(unseen, {"kernel": learned, **covariances}, 3, by_root=False),
            title="Where they look",
        ),
        "C: on photographs it never saw": _maps_picture(
            large[..., ::2, ::2],
            _metric_maps(large[..., ::2, ::2], {"CNTK": learned}, 3, by_root=False)
            | _metric_maps(large[..., ::2, ::2], {"Laplace": wide}, 7, by_root=False),
            title="Where they look",
        ),
    }


def _metric_maps(
    images: Tensor, metrics: Mapping[str, Tensor], size: int, *, by_root: bool = True
) -> dict[str, Tensor]:
    """Maps of |Mx|, or of |M^(1/2) x|."""
    height = images.shape[-2] - size + 1
    return {
        name: feature_map(images, metric if by_root else metric @ metric, size).reshape(
            len(images), height, -1
        )
        for name, metric in metrics.items()
    }


def _learned_covariance(trained: nn.Module, initial: nn.Module) -> Tensor:
    """Covariance of what the filters of the first layer learned: appendix B takes the initial weights off."""
    after, before = (
        convolutions(model)[0].weight.detach().flatten(1).double() for model in (trained, initial)
    )
    return (after - before).T @ (after - before)


@pictures(
    PAPER,
    "Figure 4",
    "Two layers of a Deep ConvRFM and of a convolutional network, both trained on digits in noise: where "
    "each layer looks, by the root of M as section 2.2 has it (appendix B has M, and takes initial weights off). The "
    "untrained network is the reference.",
)
def deep_features() -> Panels:
    digits = grey(load("mnist", split="train", n=2000, seed=0))
    drawn = digits_in_noise(digits, 350, sigma=0.5, seed=0, side=36)
    index = torch.arange(len(drawn))
    train, unseen = drawn.take(index[:250]), drawn.take(index[250:])
    stages = stages_of(Splits(train=train, valid=unseen, test=unseen), ConvRFM(rounds=1), depth=2, seed=0)
    images = unseen.x[:SHOWN]
    rows: dict[str, Tensor] = {}
    for number, stage in enumerate(stages, 1):
        inputs = stage.splits.valid.x[:SHOWN]
        rows |= _metric_maps(inputs, {f"kernel, layer {number}": stage.best.metric}, 3)
    initial, trained = plain_network(train, DESK_NETWORK, seed=0)
    for word, model in (("network", trained), ("untrained", initial)):
        inputs = images
        for number, conv in enumerate(convolutions(model)[:2], 1):
            rows |= _metric_maps(inputs, {f"{word}, layer {number}": filter_covariance(conv)}, 3)
            inputs = torch.relu(conv(inputs)).detach()
    return {"Digits in noise": _maps_picture(stretched(images), rows, title="Where each layer looks")}


studied(
    PAPER,
    "Figure 5",
    "feature_ansatz/local_signals",
    "Test accuracy on a small signal hidden in noise, by noise level: a fixed kernel, kernels that learn "
    "features, and a network.",
)


@numbers(
    PAPER,
    "Figure 6",
    "A: test accuracy in per cent of a fixed kernel, of one that learns features, and of a network, beside "
    "the paper's with all images. B: accuracy by the number of layers that learn features.",
)
def benchmark(ledger: Ledger) -> Panels:
    table = [
        Line(name=name, claim="convrfm.fig6a.svhn_order", measurement=name, role=role)
        for name, role in (
            ("CNTK", "random labels"),
            ("ConvRFM", "trained"),
            ("Deep ConvRFM", "other"),
            ("network", "initial"),
        )
    ]
    table.append(
        Line(
            name="rotated metric",
            claim="convrfm.fig6a.svhn_order",
            measurement="ConvRFM with rotated metric",
            role="null",
        )
    )
    reported = {"CNTK": {"cifar10": 67.74, "svhn": 81.38}, "ConvRFM": {"cifar10": 67.97, "svhn": 85.02}}
    table += [Line(name=f"reported, {name}", role="theory", reported=row) for name, row in reported.items()]
    layers = [
        Line(name="bars", claim="convrfm.fig6b.layers", measurement="accuracy on bars by layers"),
        Line(
            name="digits",
            claim="convrfm.fig6b.layers",
            measurement="accuracy on digits by layers",
            role="other",
        ),
    ]
    return {
        "A: accuracy in per cent": line_plate(
            ledger, table, title="Accuracy in per cent", y="test accuracy (%)"
        ),
        "B: by layers": line_plate(
            ledger, layers, title="By layers", x="layers that learn features", y="test accuracy"
        ),
    }


@numbers(
    PAPER,
    "Figure 7",
    "For every convolution of ResNet-50: how much more its trained filters agree with the gradients than "
    "filters before training would, and the same with rotated gradients.",
)
def gains(ledger: Ledger) -> Panels:
    lines = [
        Line(name="gain", claim="cnfa.fig7.init_lower", measurement="gain"),
        Line(
            name="rotated gradients",
            claim="cnfa.fig7.init_lower",
            measurement="gain with rotated gradients",
            role="null",
        ),
    ]
    return {
        "ResNet-50": line_plate(
            ledger, lines, title="Gain over untrained filters", y="difference of correlations"
        )
    }


studied(
    PAPER,
    "Figure 8",
    "feature_ansatz/ansatz_simplenet",
    "For every convolution of a SimpleNet: agreement of filters and gradients, of the initial filters, and "
    "with rotated gradients.",
)
studied(
    PAPER,
    "Figure 9",
    "feature_ansatz/ansatz_small_networks",
    "Cosine of filter covariance and gradients by data set and pooling, for trained and for initial "
    "networks; rotated gradients are the null.",
)


@pictures(
    PAPER,
    "Figure 10",
    "Where a ConvRFM and the first layer of a network look: bars in noise, digits in noise, and "
    "photographs, by the root of M. The untrained network is the reference.",
)
def kernels_and_networks() -> Panels:
    digits = grey(load("mnist", split="train", n=2000, seed=0))
    tasks = {
        "A: bars in noise": bars_in_noise(500, sigma=1.0, seed=0),
        "B: digits in noise": digits_in_noise(digits, 500, sigma=0.5, seed=0, side=36),
        "C: photographs": _colour(),
    }
    return {name: _beside(data, name) for name, data in tasks.items()}


def _beside(data: ImageData, title: str) -> Figure:
    metric = _learned(data, ConvKernel(depth=2), rounds=1)
    train, unseen = two_parts(data, 250, 100, seed=0)
    initial, trained = plain_network(train, DESK_NETWORK, seed=0)
    images = unseen.x[:SHOWN].float()
    metrics = {
        "kernel": metric,
        "network": filter_covariance(convolutions(trained)[0]),
        "untrained": filter_covariance(convolutions(initial)[0]),
    }
    return _maps_picture(stretched(images), _metric_maps(images, metrics, 3), title=title)


@pictures(
    PAPER,
    "Figure 11",
    "A photograph after each of the eight leading directions of two learned kernels has been applied to its "
    "patches: edges of different orientation. The last row applies random directions.",
)
def edges_by_direction() -> Panels:
    image = load("photos224", split="test", n=1, seed=0).x[..., ::2, ::2].double()
    data = _colour()
    random = torch.linalg.qr(
        torch.randn(27, 27, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ).Q
    banks = {
        "CNTK": (leading_eigenvectors(_learned(data, CNTK)), 3),
        "Laplace": (leading_eigenvectors(_learned(data, _laplace(data))), 7),
        "random": (random[:, :8], 3),
    }
    rows = {}
    for name, (vectors, size) in banks.items():
        filters = vectors.T.reshape(-1, 3, size, size)
        rows[name] = stretched(F.conv2d(image, filters, padding=size // 2).abs()[0][:, None])
    return {"Responses to eight directions": picture_rows(rows, title="Responses to eight directions")}


@pictures(
    PAPER,
    "Figure 12",
    "A: eight leading directions of a kernel that learned from photographs and from clothes. B: where "
    "kernels and trained first layers look in photographs none of them saw, by the root of M (appendix B "
    "has M). GTSRB and SVHN need own copies.",
)
def more_eigenvectors() -> Panels:
    colour, clothes = _learned(_colour(), CNTK), _learned(_colour("fashion_mnist"), CNTK)
    images = load("photos224", split="test", n=4, seed=0).x[..., ::2, ::2]
    metrics = {"kernel, CIFAR-10": colour}
    for name in NETWORKS:
        network = load_network(name)
        metrics[network.title] = filter_covariance(convolutions(network.model)[0])
        metrics[f"{network.title}, untrained"] = filter_covariance(convolutions(network.initial)[0])
    return {
        "A: CIFAR-10": _eigenvectors({"kernel": (colour, 3, 3)}, title="Leading directions"),
        "A: Fashion-MNIST": _eigenvectors({"kernel": (clothes, 1, 3)}, title="Leading directions"),
        "B: on photographs they never saw": _maps_picture(
            images, _metric_maps(images, metrics, 3), title="Where they look"
        ),
    }
