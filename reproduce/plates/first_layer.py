"""Plates on the first layer: filters, and their energy along the principal components of patches."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from firstlight.data import ImageData, load
from firstlight.data.interventions import random_labels
from firstlight.maths import pearson
from firstlight.measures.first_layer.energy_profile import energy_profile
from firstlight.models import ModelSpec
from firstlight.networks.bank import load_network, network_names
from firstlight.pages.figures import Curve, Figure, curves
from firstlight.training import Recipe
from reproduce.plates.grids import picture_rows, signed
from reproduce.plates.registry import Ledger, Line, Panels, absent, line_plate, numbers, pictures, studied
from reproduce.studies.first_layer.common import bank, basis
from reproduce.studies.first_layer.linear_pairs import CIFAR_PAIRS
from reproduce.weights.first_layers import stem_filters
from reproduce.weights.resnet50 import resnet50_imagenet

PAPER = "FirstLayer"
ARCHITECTURES = ("resnet20-cifar10-0", "small-cifar10-0", "resnet14-cifar10-0", "vgg7-cifar10-0")
"""Networks of the bank on CIFAR-10; those that are not there are left out."""

OF_CIFAR10 = ("resnet20-cifar10-0", "small-cifar10-0")
ACCOUNT = "CIFAR-100, CelebA and ImageNet need an account or an own copy"
PAIRS = tuple(pair.split(":")[1] for pair in CIFAR_PAIRS)


def _first_layer(model: nn.Module) -> Tensor:
    return next(m for m in model.modules() if isinstance(m, nn.Conv2d)).weight.detach()


def _filters(filters: Tensor, n: int = 48) -> Tensor:
    """The strongest filters of a first layer, as signed colour pictures."""
    return signed(filters[filters.flatten(1).norm(dim=1).argsort(descending=True)][:n].float())


def _in_rows(filters: Tensor, name: str) -> dict[str, Tensor]:
    parts = torch.split(_filters(filters), 16)
    return {name if not i else " " * i: part for i, part in enumerate(parts)}


@pictures(
    PAPER,
    "Figure 1",
    "First-layer filters of trained networks, the strongest first, beside random ones: ResNet-50 trained on "
    "ImageNet (7 x 7), and two networks of our own trained on CIFAR-10 (3 x 3) with their untrained "
    "filters.",
)
def filters() -> Panels:
    stem = _first_layer(resnet50_imagenet())
    start = torch.randn(stem.shape, generator=torch.Generator().manual_seed(0))
    panels = {
        "7 x 7: ResNet-50 on ImageNet": picture_rows(
            _in_rows(stem, "trained") | {"random": signed(start[:16])}, title="ResNet-50"
        )
    }
    for name in OF_CIFAR10:
        network = load_network(name)
        rows = {
            "trained": _filters(_first_layer(network.model), 16),
            "untrained": _filters(_first_layer(network.initial), 16),
        }
        panels[f"3 x 3: {network.title}"] = picture_rows(rows, title=network.title)
    return panels


# ---------------------------------------------------------------- profiles


def _profiles(named: Mapping[str, tuple[Tensor, str]], pca: object, *, title: str) -> Figure:
    """Energy profiles over components, each relative to its highest; correlations with the first stand in the key."""
    found = {name: energy_profile(f.flatten(1).double(), pca.basis) for name, (f, _) in named.items()}  # type: ignore[attr-defined]
    first = next(iter(found.values()))
    series = [
        Curve(
            name=name if row is first else f"{name} (r = {float(pearson(first, row)):.2f})",
            values=(row / row.max())[None],
            role=named[name][1],
        )
        for name, row in found.items()
    ]
    return curves(
        series,
        x="patch component, by falling variance",
        y="energy / highest",
        title=title,
        alt=f"Energy against patch component: {', '.join(found)}",
    )


def _images(n: int = 2000) -> ImageData:
    return load("cifar10", split="train", n=n, seed=0)


def _owl(frequency: Tensor) -> Tensor:
    """Human contrast sensitivity by cycles per degree, Mannos and Sakrison's formula."""
    scaled = 0.114 * frequency
    return 2.6 * (0.0192 + scaled) * torch.exp(-(scaled**1.1))


@pictures(
    PAPER,
    "Figure 2",
    "How much energy the first layer puts on each principal component of the patches: two architectures "
    "trained on CIFAR-10, before and after training. Trained ones are weak at the lowest and the highest "
    "components. The second panel is the contrast sensitivity of human vision, by Mannos and Sakrison's "
    "formula of 1974.",
)
def consistent_profiles() -> Panels:
    named: dict[str, tuple[Tensor, str]] = {}
    for name, role in zip(OF_CIFAR10, ("trained", "other"), strict=True):
        network = load_network(name)
        named[network.title] = (_first_layer(network.model), role)
        named[f"{network.title}, untrained"] = (_first_layer(network.initial), "initial")
    cycles = torch.logspace(-0.7, 1.8, 60)
    return {
        "CIFAR-10": _profiles(named, basis(_images()), title="Energy profiles on CIFAR-10"),
        "Human contrast sensitivity": curves(
            [Curve(name="sensitivity", values=_owl(cycles)[None].double(), role="theory")],
            x="cycles per degree",
            y="sensitivity",
            at=cycles.tolist(),
            log_x=True,
            title="Human contrast sensitivity",
            alt="Sensitivity against spatial frequency: highest at about eight cycles per degree",
        ),
    }


studied(
    PAPER,
    "Figure 3",
    "first_layer/frozen",
    "Training and test loss of one network trained in full and of the same with its first layer frozen as "
    "it was drawn.",
)


@numbers(
    PAPER,
    "Figure 4",
    "Linear networks on pairs of classes: how similar the profile learned from true labels is to that "
    "learned from random ones, and to the best possible one. The root of the variances, in grey, is what "
    "any profile follows.",
)
def linear_profiles(ledger: Ledger) -> Panels:
    lines = [
        Line(name="true and random labels", claim="linear.table3.true_random", measurement="true and random"),
        Line(
            name="true labels and the optimum",
            claim="linear.table3.true_optimal",
            measurement="true and optimal",
            role="other",
        ),
        Line(
            name="true labels and root of the variances",
            claim="linear.table3.true_random",
            measurement="true and root of variances",
            role="null",
        ),
    ]
    return {
        "By pair of classes": line_plate(
            ledger, lines, title="By pair of classes", y="correlation of profiles"
        )
    }


studied(
    PAPER,
    "Figure 5",
    "first_layer/label_correlation",
    "Correlation of the average patch of an image, component by component, with membership in each class of "
    "CIFAR-10.",
)
studied(
    PAPER,
    "Figure 6",
    "first_layer/random_labels",
    "Profiles of networks trained on CIFAR-10 with true and with random labels. CIFAR-100 and CelebA need "
    "an own copy.",
)
studied(
    PAPER,
    "Figure 7",
    "first_layer/relabelled",
    "A linear network whose labels were made from one patch component puts its energy there; with shuffled "
    "labels it does not.",
)


@pictures(
    PAPER,
    "Figure 8",
    "Profiles of linear networks on four more pairs of classes, in closed form: true labels, random labels, "
    "and the optimum.",
)
def more_pairs() -> Panels:
    from firstlight.maths import PatchGeometry, mean_patches, patch_pca
    from firstlight.theory import least_squares as ls

    panels = {}
    for name in CIFAR_PAIRS[1:]:
        data = load(name, split="train", n=5000, seed=0)
        geometry = PatchGeometry.square(3)
        pca, root = patch_pca(data.x, geometry), len(data) ** 0.5
        spectral = ls.spectrum(mean_patches(data.x, geometry) @ pca.basis / root)
        y = data.y.double() / root
        coins = (
            torch.bernoulli(
                torch.full((len(data),), 0.5), generator=torch.Generator().manual_seed(0)
            ).double()
            / root
        )
        steps = -(-len(data) // 256) * 150
        rows = {
            "true labels": (ls.weights(spectral, y, rate=0.1 * 2 / 64, steps=steps).abs(), "trained"),
            "random labels": (
                ls.weights(spectral, coins, rate=0.1 * 2 / 64, steps=steps).abs(),
                "random labels",
            ),
            "optimum": (ls.optimal_weights(spectral, y).abs(), "theory"),
        }
        words = name.split(":")[1]
        panels[words] = curves(
            [Curve(name=n, values=(row / row.max())[None], role=role) for n, (row, role) in rows.items()],
            x="patch component, by falling variance",
            y="energy / highest",
            title=words,
            alt=f"Energy against patch component for {words}: true labels, random labels, optimum",
        )
    return panels


@numbers(
    PAPER,
    "Figure 9",
    "Training and test accuracy of one network trained in full and of the same with its first layer frozen.",
)
def frozen_accuracy(ledger: Ledger) -> Panels:
    claim = "profile.fig9.frozen_acc"
    lines = [
        Line(name="full", claim=claim, measurement="test accuracy of full", at="test"),
        Line(name="frozen", claim=claim, measurement="test accuracy of frozen", at="test", role="other"),
        Line(name="full, training", claim=claim, measurement="training accuracy of full", at="training"),
        Line(
            name="frozen, training",
            claim="profile.fig3.frozen_loss",
            measurement="training accuracy of frozen",
            at="training",
            role="other",
        ),
        Line(
            name="difference of two full networks",
            claim=claim,
            measurement="distance of two full networks",
            role="null",
            at="chance",
        ),
    ]
    return {"Accuracy": line_plate(ledger, lines, title="Accuracy", y="accuracy")}


@pictures(
    PAPER,
    "Figure 10",
    "Profiles of first layers with 7 x 7 filters, trained on ImageNet, in the components of patches of "
    "large photographs; random filters are the null.",
)
def imagenet_seven() -> Panels:
    stem = _first_layer(resnet50_imagenet())
    random = torch.randn(stem.shape, generator=torch.Generator().manual_seed(0))
    named = {
        "ResNet-50": (stem, "trained"),
        "ResNet-50 of a content filter": (stem_filters("open_nsfw"), "other"),
        "random filters": (random, "null"),
    }
    data = load("photos224", split="train", n=32, seed=0)
    return {
        "7 x 7 filters": _profiles(named, basis(data, size=7, padding=3), title="7 x 7 filters on ImageNet")
    }


studied(
    PAPER,
    "Figure 11",
    "first_layer/pretrained",
    "Profiles of first layers with 3 x 3 filters that others trained on ImageNet, in the components of "
    "patches of photographs.",
)


@pictures(
    PAPER,
    "Figure 12",
    "Profiles of 3 x 3 first layers trained on CIFAR-10 against random ones, over several architectures and "
    "seeds.",
)
def cifar_architectures() -> Panels:
    named: dict[str, tuple[Tensor, str]] = {}
    for name, role in zip(ARCHITECTURES, ("trained", "other", "random labels", "theory"), strict=True):
        if name in network_names():
            network = load_network(name)
            named[network.title] = (_first_layer(network.model), role)
    random = torch.randn(64, 3, 3, 3, generator=torch.Generator().manual_seed(0))
    named["random filters"] = (random, "null")
    return {"CIFAR-10": _profiles(named, basis(_images()), title="Architectures on CIFAR-10")}


absent(
    PAPER,
    "Figure 13",
    "Profiles of first layers trained on CIFAR-100 by several architectures.",
    "CIFAR-100 needs an own copy; Figure 12 shows the same for CIFAR-10",
)
studied(
    PAPER,
    "Figure 14",
    "first_layer/across_data",
    "Profiles of networks trained on two disjoint halves of the photographs, each in the components of its "
    "own patches.",
)


@numbers(
    PAPER,
    "Figure 15",
    "Agreement of 7 x 7 profiles over all 147 components, and over components 25 to 52 alone; unrelated "
    "profiles in grey.",
)
def window(ledger: Ledger) -> Panels:
    claim = "profile.fig15.window"
    lines = [
        Line(name="all components", claim=claim, measurement="all 147 components", at="all 147"),
        Line(name="a window", claim=claim, measurement="components 25 to 52", at="25 to 52", role="other"),
        Line(
            name="unrelated profiles",
            claim=claim,
            measurement="unrelated windows",
            at="25 to 52",
            role="null",
        ),
    ]
    return {"Agreement": line_plate(ledger, lines, title="Agreement of profiles", y="correlation")}


@pictures(
    PAPER,
    "Figure 16",
    "Profiles of a small network trained on CIFAR-10 with cross-entropy and with squared error, with true "
    "and with random labels. The initial weights are subtracted, as the paper does.",
)
def two_losses() -> Panels:
    data = load("cifar10", split="train", n=1000, seed=0)
    pca = basis(data)
    spec = ModelSpec(name="small", classes=10, shape=data.shape, options={"batch_norm": True})
    panels = {}
    for words, labelled in (("True labels", data), ("Random labels", random_labels(data, seed=0))):
        rows = {}
        for loss, role in (("cross_entropy", "trained"), ("mse", "other")):
            rate = 0.1 if loss == "cross_entropy" else 0.01  # the squared loss diverges at 0.1
            recipe = Recipe(lr=rate, batch_size=32, epochs=12, loss=loss, seed=0)
            nets = bank(spec, 1, labelled, recipe, label=f"{words}, {loss}")
            rows[loss.replace("_", "-")] = (nets.profiles(pca, subtract=True), role)
            rows["untrained"] = (nets.initial_profiles(pca), "initial")
        reference = rows["cross-entropy"][0][0]
        panels[words] = curves(
            [
                Curve(
                    name=name
                    if name == "cross-entropy"
                    else f"{name} (r = {float(pearson(reference, row[0])):.2f})",
                    values=row / row.amax(),
                    role=role,
                )
                for name, (row, role) in rows.items()
            ],
            x="patch component, by falling variance",
            y="energy / highest",
            title=words,
            alt=f"{words}: energy against patch component for two losses",
        )
    return panels


def _random_label_plate(ledger: Ledger, claim: str, point: str) -> Panels:
    lines = [
        Line(name="true and random labels", claim=claim, measurement="true and random"),
        Line(
            name="random labels and root of the variances",
            claim=claim,
            measurement="random and root of variances",
            role="null",
        ),
    ]
    return {point: line_plate(ledger, lines, title=point, y="correlation of profiles")}


@numbers(
    PAPER,
    "Figure 17",
    "Two classes of CIFAR-10: agreement of the profiles learned from true and from random labels, and the "
    "null.",
)
def two_classes(ledger: Ledger) -> Panels:
    return _random_label_plate(ledger, "profile.fig17.binary_vgg", "Two classes")


@numbers(
    PAPER,
    "Figure 18",
    f"Residual networks on CIFAR-10: agreement of the profiles learned from true and from random labels, "
    f"and the null. {ACCOUNT}.",
)
def residual(ledger: Ledger) -> Panels:
    return _random_label_plate(ledger, "profile.fig18.resnet_random", "Residual networks")


# ---------------------------------------------------------------- tables


@numbers(
    PAPER,
    "Table 1",
    "Agreement of first-layer profiles over seeds, widths and architectures, with initial filters, and the "
    "nulls.",
)
def consistency(ledger: Ledger) -> Panels:
    rows = {
        "seeds": "between seeds",
        "widths": "between widths",
        "architectures": "between architectures",
        "initial filters": "with initial",
    }
    claims = {"seeds": "seeds", "widths": "width", "architectures": "arch", "initial filters": "init"}
    lines = [
        Line(
            name=words,
            claim=f"profile.table1.{claims[words]}",
            measurement=name,
            at=words,
            role="initial" if words == "initial filters" else "trained",
        )
        for words, name in rows.items()
    ]
    lines.append(
        Line(
            name="root of the variances",
            claim="profile.table1.seeds",
            measurement="root of variances",
            at="seeds",
            role="null",
        )
    )
    lines.append(Line(name="reported", role="theory", reported={"seeds": 0.98, "architectures": 0.98}))
    return {
        "Correlation of profiles": line_plate(ledger, lines, title="Correlation of profiles", y="correlation")
    }


@numbers(
    PAPER,
    "Table 2",
    "Agreement of profiles from true labels, from random labels, and of the initial filters, on ten classes.",
)
def random_label_table(ledger: Ledger) -> Panels:
    a, b = "profile.table2.random_labels", "profile.table2.random_vs_init"
    lines = [
        Line(name="true and random labels", claim=a, measurement="true and random"),
        Line(name="two draws of random labels", claim=b, measurement="random and random", role="other"),
        Line(
            name="random labels and initial filters",
            claim=b,
            measurement="random and initial",
            role="initial",
        ),
        Line(
            name="random labels and root of the variances",
            claim=a,
            measurement="random and root of variances",
            role="null",
        ),
        Line(name="reported, at least", role="theory", reported={"ten classes": 0.9}),
    ]
    return {
        "Correlation of profiles": line_plate(ledger, lines, title="Correlation of profiles", y="correlation")
    }


@numbers(
    PAPER,
    "Table 3",
    "Linear networks on five pairs of classes: true labels against random labels, the optimum and initial "
    "filters; reported values beside.",
)
def linear_table(ledger: Ledger) -> Panels:
    columns = {
        "true and random": ("true_random", "trained", (0.97, 0.96, 0.95, 0.94, 0.94)),
        "true and optimal": ("true_optimal", "other", (-0.16, -0.22, -0.25, 0.26, -0.26)),
        "true and initial": ("true_init", "initial", (0.03, -0.09, 0.08, -0.26, -0.08)),
    }
    lines = []
    for name, (claim, role, reported) in columns.items():
        lines.append(Line(name=name, claim=f"linear.table3.{claim}", measurement=name, role=role))
        lines.append(
            Line(name=f"reported, {name}", role="theory", reported=dict(zip(PAIRS, reported, strict=True)))
        )
    return {"By pair of classes": line_plate(ledger, lines, title="By pair of classes", y="correlation")}


@numbers(
    PAPER,
    "Table 4",
    "Agreement of profiles learned with cross-entropy and with squared error, beside the reported one; "
    "other data need own copies.",
)
def loss_table(ledger: Ledger) -> Panels:
    entry = ledger.get("profile.table4.loss")
    names = [n for n in ({**entry.measured, **entry.null} if entry else {}) if "accuracy" not in n]
    lines = [
        Line(
            name=name,
            claim="profile.table4.loss",
            measurement=name,
            at=name,
            role="null" if entry and name in entry.null else "trained",
        )
        for name in names
    ]
    lines.append(Line(name="reported, CIFAR-10", role="theory", reported={"reported, CIFAR-10": 0.96}))
    return {"Two losses": line_plate(ledger, lines, title="Two losses", y="correlation")}
