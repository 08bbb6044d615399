"""Studies of the ansatz in networks: every layer, small networks, a ResNet-50, and what the layers look at."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from firstlight._internal.executor import map_tasks
from firstlight._internal.seeds import generator_from, global_seed
from firstlight._internal.store.runs import Store
from firstlight.data import load
from firstlight.maths import PatchGeometry
from firstlight.measures.feature_ansatz.ansatz import (
    FILTERS,
    INITIAL,
    TRAINED,
    ansatz,
    ansatz_from,
    feature_matrix,
)
from firstlight.measures.feature_ansatz.layer_maps import layer_maps, patch_operator_map
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from firstlight.models import ModelSpec, build
from firstlight.training import Recipe, accuracy, train_once
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, Point, Series, by
from reproduce.studies.feature_ansatz import common
from reproduce.weights.resnet50 import resnet50_imagenet, resnet50_normalised


@study("cnfa.fig1.all_models", "cnfa.fig7.init_lower")
class AnsatzResnet50(Study):
    """Do filters and gradients of a network trained on ImageNet agree more than those of an initial one?

    There is one trained network: seeds differ in the photographs and in the initial network.
    """

    # Photographs for both networks; the initial one needs fewer, it has no structure to average over.
    network: str = "resnet50"  # "resnet18": two initial ones, where nothing can be fetched
    n_images: int = 10
    initial_images: int = 4

    n_seeds = 3  # about 100 CPU seconds each
    drawn = {
        "every convolution": "trained",
        "every convolution with rotated gradients": "null",
        "every convolution of the initial network": "initial",
    }
    axes = ("", "Pearson correlation")
    scales = {
        "smoke": dict(network="resnet18", n_images=2, initial_images=2),
        "night": dict(n_images=32, initial_images=8),
    }

    def run(self) -> Measured:
        """Measure all convolutions on photographs."""
        model, fresh, images = _networks(self)
        trained = patch_gradients(model, images, layers="convolutions", seed=self.seed)
        initial = patch_gradients(fresh, images[: self.initial_images], layers="convolutions", seed=self.seed)
        agreement = ansatz_from(trained, initial, seed=self.seed)
        after, rotated = (agreement.values(TRAINED, what) for what in ("pearson", "null_pearson"))
        before, before_rotated = (agreement.values(INITIAL, what) for what in ("pearson", "null_pearson"))
        first = [name.endswith(".conv1") for name in agreement.layers]  # of each block, as in the paper
        blocks = [name for name, keep in zip(agreement.layers, first, strict=True) if keep]
        return {
            "Pearson": by(blocks, after[first]),
            "Pearson with rotated gradients": by(blocks, rotated[first]),
            "gain": by(blocks, (after - before)[first]),
            "gain with rotated gradients": by(blocks, (rotated - before_rotated)[first]),
            "every convolution": by(agreement.layers, after),
            "every convolution with rotated gradients": by(agreement.layers, rotated),
            "every convolution of the initial network": by(agreement.layers, before),
        }


def _networks(cfg: AnsatzResnet50) -> tuple[nn.Module, nn.Module, Tensor]:
    """The trained network, an initial one of its architecture, and images."""
    if cfg.network == "resnet50":
        options: dict[str, Any] = {"form": "imagenet", "stride_in_1x1": True, "bn_eps": 1e-3}
        fresh = build("resnet50", classes=1000, shape=(3, 224, 224), seed=cfg.seed, **options)
        return (
            resnet50_imagenet(),
            fresh,
            resnet50_normalised(load("photos224", n=cfg.n_images, seed=cfg.seed).x),
        )
    model, fresh = (build(cfg.network, width=0.125, seed=cfg.seed + i) for i in (1, 0))
    return model, fresh, load("photos", n=cfg.n_images, seed=cfg.seed).x


@study("cnfa.agop_sandwich")
class AnsatzSandwich(Study):
    """Is the patch AGOP of a convolution W^T Q W, with Q from gradients at the layer's output?"""

    # A small network with a stride and padding.
    n_images: int = 4
    side: int = 9
    classes: int = 3

    scales = {"desk": dict(n_images=16, side=16)}

    def run(self) -> Measured:
        """Compute every layer's AGOP from explicit patches and from output gradients."""
        with global_seed("sandwich", self.seed):
            model = nn.Sequential(
                nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 8, 3, stride=2, padding=1), nn.ReLU(),
                nn.Conv2d(8, 5, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(20, self.classes),
            )  # fmt: skip
        shape = (self.n_images, 3, self.side, self.side)
        x = torch.rand(shape, generator=generator_from("sandwich", self.seed), dtype=torch.float64)
        return {
            "difference in float32": _differences(model.float(), x.float()),
            "difference in float64": _differences(model.double(), x),
        }


def _differences(model: nn.Sequential, x: Tensor) -> Series:
    """Relative difference of the two computations by convolution."""
    differences = {}
    for layer in patch_gradients(model, x, layers="convolutions").layers:
        slow = _from_patches(model, int(layer.name), x).double()
        differences[f"layer {layer.name}"] = float((layer.agop[0] - slow).norm() / slow.norm())
    return by(differences, list(differences.values()))


def _from_patches(model: nn.Sequential, index: int, x: Tensor) -> Tensor:
    """Sum of outer products of the gradients with respect to explicit, independent patches."""
    layer = model[index]
    assert isinstance(layer, nn.Conv2d)
    with torch.no_grad():
        h = model[:index](x)
        shape = layer(h).shape
        patches = F.unfold(h, layer.kernel_size, layer.dilation, layer.padding, layer.stride)  # type: ignore[arg-type]
    patches.requires_grad_()
    bias = 0 if layer.bias is None else layer.bias[:, None]
    outputs = model[index + 1 :]((layer.weight.flatten(1) @ patches + bias).reshape(shape))
    total = torch.zeros(patches.shape[1], patches.shape[1], dtype=x.dtype)
    for column in outputs.T:
        (gradient,) = torch.autograd.grad(column.sum(), patches, retain_graph=True)
        total += torch.einsum("ndp,nep->de", gradient, gradient)
    return total / len(x)


@study("cnfa.fig8a.simplenet", "cnfa.fig8b.accuracy")
class AnsatzSimplenet(Study):
    """Does a deep network with batch norm, trained from tiny weights, obey the ansatz in every layer?"""

    # One data set; the paper has five.
    data: str = "mnist"
    n: int = 4000
    width: float = 0.125
    epochs: int = 8
    lr: float = 1.0  # Adadelta
    agop_images: int = 64

    drawn = {
        "Pearson": "trained",
        "Pearson with rotated gradients": "null",
        "Pearson of the initial network": "initial",
    }
    axes = ("", "Pearson correlation")
    scales = {"smoke": dict(data="photos", n=128, epochs=2, agop_images=8)}

    def run(self) -> Measured:
        """Train by Adadelta from tiny weights and measure on unseen images.

        The paper's weights of 1e-4 are scaled up where the network is narrower, so that each layer
        passes on as much; at an eighth of the width they would vanish below the constant that batch
        norm adds to its variances, and nothing would be learned.
        """
        train, test = load(self.data, n=self.n, seed=self.seed), load(self.data, split="test", seed=self.seed)
        spec = ModelSpec(
            name="simplenet", classes=train.n_classes, shape=train.shape, initialiser="normal",
            initialiser_options={"std": 1e-4 / self.width**0.5}, options={"width": self.width},
        )  # fmt: skip
        recipe = Recipe(
            optimiser="adadelta", lr=self.lr, weight_decay=1e-4, batch_size=64, epochs=self.epochs,
            milestones=(0.6, 0.85), seed=self.seed,
        )  # fmt: skip
        model = train_once(spec, train, recipe, store=Store()).into(spec(self.seed))
        images = test.sample(min(self.agop_images, len(test)), seed=self.seed)
        correct = accuracy(model, test)
        # in float64: thirteen layers of 1e-4 leave nothing of a float32 gradient
        initial = spec(self.seed).double()
        agreement = ansatz(model.double(), images, initial=initial, layers="convolutions", seed=self.seed)
        layers = [f"convolution {i + 1}" for i in range(len(agreement.layers))]
        return {
            "Pearson": by(layers, agreement.values(TRAINED)),
            "Pearson with rotated gradients": by(layers, agreement.values(TRAINED, "null_pearson")),
            "Pearson of the initial network": by(layers, agreement.values(INITIAL)),
            "test accuracy": correct,
            "accuracy in per cent": by([self.data], [100 * correct]),
            "most frequent class in per cent": 100 * float(test.y.bincount().max()) / len(test),
        }


ROTATED = " with rotated gradients"
BEFORE = " of the initial network"
COLUMNS = {
    "": (TRAINED, ""),
    ROTATED: (TRAINED, "null_"),
    BEFORE: (INITIAL, ""),
    BEFORE + ROTATED: (INITIAL, "null_"),
}
Networks = Mapping[common.NetworkPlan, common.MeasuredNetwork]


@study("cnfa.small", "cnfa.fig1.init_control", "cnfa.fig9.pooling", "cnfa.fig9.patch_size", "cnfa.fig9.init")
class AnsatzSmallNetworks(Study):
    """Do filters and gradients of small trained networks agree, and more than rotated gradients would?"""

    # Networks of all poolings on every data set, and larger filters on the first.
    data: tuple[str, ...] = ("mnist", "fashion_mnist")  # on CIFAR-10 a desk run stays below 40 %
    n: int = 6000
    depth: int = 4
    channels: int = 16
    kernels: tuple[int, ...] = (3, 5, 7)
    kernel_poolings: tuple[str, ...] = ("vec",)  # those that need few epochs: large filters are expensive
    lr: tuple[float, ...] = (5e-3, 3e-3, 2e-3)  # max, avg, vec: higher rates kill all units of some seeds
    epochs: tuple[int, ...] = (8, 12, 2)  # until each of them passes 0.9 on MNIST
    milestones: tuple[float, ...] = (0.5, 0.75)
    agop_images: int = 100

    drawn = {"cosine": "trained", f"cosine{BEFORE}": "initial", f"cosine{ROTATED}": "null"}
    axes = ("", "cosine, mean over layers")
    scales = {
        "smoke": dict(data=("photos",), n=64, channels=4, epochs=(1, 1, 1), agop_images=8),
        # at higher rates all units of a seed died, and another stayed at 69 %; at these, with a rate that falls, a seed
        # of maximum pooling was at 87 % after 12 epochs and one of average pooling at 91 % after 80
        "desk": dict(lr=(2e-3, 2e-3, 1e-3), epochs=(26, 50, 3), milestones=()),
    }  # fmt: skip

    def run(self) -> Measured:
        """Train every network and measure it before and after."""
        plans = [
            common.NetworkPlan(
                data=data, n=self.n, pooling=pooling, kernel=kernel, depth=self.depth, channels=self.channels,
                lr=lr, epochs=epochs, milestones=self.milestones, agop_images=self.agop_images, seed=self.seed,
            )
            for data in self.data
            for kernel in self.kernels
            for pooling, lr, epochs in zip(common.POOLINGS, self.lr, self.epochs, strict=True)
            if kernel == self.kernels[0] or (data == self.data[0] and pooling in self.kernel_poolings)
        ]  # fmt: skip
        networks = dict(
            zip(plans, map_tasks(common.measured_network, plans, label="Small networks"), strict=True)
        )
        small = {plan: network for plan, network in networks.items() if plan.kernel == self.kernels[0]}
        # those poolings that have all filter sizes, on the first data set
        swept = {
            k: n for k, n in networks.items() if k.data == self.data[0] and k.pooling in self.kernel_poolings
        }
        return {
            **_by_network(small),
            **_by_group(
                "pooling", {p: {k: n for k, n in small.items() if k.pooling == p} for p in common.POOLINGS}
            ),
            **_by_group(
                "kernel", {q: {k: n for k, n in swept.items() if k.kernel == q} for q in self.kernels}
            ),
            "lowest test accuracy": by(
                self.data,
                [min(n.test_accuracy for plan, n in networks.items() if plan.data == d) for d in self.data],
            ),
        }


def _by_network(networks: Networks) -> Measured:
    """Means over layers for each network with 3 x 3 filters."""
    names = [f"{plan.data} {plan.pooling}" for plan in networks]
    rows = list(networks.values())

    def series(pair: str, what: str) -> Tensor:
        return torch.stack([row.layers(pair, what).mean() for row in rows])

    filters = torch.cat([row.layers(FILTERS) for row in rows])
    return {
        **{
            f"{shown}{name}": by(names, series(pair, f"{prefix}{what}"))
            for shown, what in (("Pearson", "pearson"), ("cosine", "cosine"))
            for name, (pair, prefix) in COLUMNS.items()
        },
        "Pearson of initial and trained filters": by(names, series(FILTERS, "pearson")),
        "share of layers below 0.5": float((filters < 0.5).double().mean()),
    }


def _by_group(what: str, groups: Mapping[Point, Networks]) -> Measured:
    """Means over layers and over the networks of each group."""
    return {
        f"cosine by {what}{name}": by(
            groups,
            [
                float(torch.cat([n.layers(pair, f"{prefix}cosine") for n in g.values()]).mean())
                for g in groups.values()
            ],
        )
        for name, (pair, prefix) in COLUMNS.items()
    }


SHARED = common.NetworkPlan(data="fashion_mnist", n=6000)  # as in ansatz_small_networks


@study("cnfa.fig2.visual")
class VisualMaps(Study):
    """Do feature matrix and gradients highlight the same places, and is the first layer an edge detector?"""

    # At desk scale a network of ansatz_small_networks, which the store holds by then.
    network: common.NetworkPlan = SHARED
    images: int = 64

    scales = {"smoke": dict(network=common.NetworkPlan(data="photos", n=64, channels=4, epochs=1), images=8)}

    def run(self) -> Measured:
        """Train, then compare the maps on unseen images; the initial network is the control."""
        spec, trained, test = common.trained_network(replace(self.network, seed=self.seed))
        networks = {"": trained.into(spec(self.seed)), " of the initial network": spec(self.seed)}
        images = test.sample(min(self.images, len(test)), seed=self.seed).x
        measured: dict[str, Series | float] = {"test accuracy": accuracy(networks[""], test)}
        for name, model in networks.items():
            layers = patch_gradients(model, images, layers="convolutions", seed=self.seed, show=False).layers
            maps = layer_maps(model, layers, images)
            points = range(1, len(maps) + 1)
            measured[f"agreement of maps{name}"] = by(points, [float(m.agreement.mean()) for m in maps])
            measured[f"agreement with edges{name}"] = by(points, [float(m.sobel.mean()) for m in maps])
        return measured


GEOMETRIES = ((8, 3, 1, 1), (40, 3, 2, 0), (5, 5, 1, 2), (64, 7, 2, 3))  # filters, size, stride, padding


@study("vis.cnfm_is_preactivation_norm")
class VisualPreactivation(Study):
    """Is the patch map of W^T W the norm of the pre-activations?"""

    # Random images for random convolutions.
    n_images: int = 3
    side: int = 12

    scales = {"desk": dict(n_images=8, side=32)}

    def run(self) -> Measured:
        """Compare the two on convolutions of several geometries."""
        shape = (self.n_images, 3, self.side, self.side)
        x = torch.rand(shape, generator=generator_from("maps", self.seed), dtype=torch.float64)
        differences = []
        for filters, size, stride, padding in GEOMETRIES:
            with global_seed("maps", self.seed):
                conv = nn.Conv2d(3, filters, size, stride=stride, padding=padding, bias=False).double()
            seen = patch_operator_map(feature_matrix(conv), x, PatchGeometry.of(conv))
            norm = conv(x).detach().square().sum(1).sqrt()
            differences.append(float(((seen - norm).abs() / norm).max()))
        points = [f"{k} of {q}x{q}, stride {s}" for k, q, s, _ in GEOMETRIES]
        return {"relative difference": by(points, differences)}
