"""Plates on the first layer: filters, and their energy along the principal components of patches."""

import torch
from torch import Tensor, nn

from firstlight.data import load
from firstlight.data.interventions import random_labels
from firstlight.maths import PCA, PatchGeometry, mean_patches, patch_pca, pearson
from firstlight.measures.first_layer.energy_profile import energy_profile
from firstlight.models import ModelSpec
from firstlight.networks.bank import load_network, network_names
from firstlight.pages.figures import Curve, Figure, curves
from firstlight.theory import least_squares as ls
from firstlight.training import Recipe
from reproduce.plates.grids import picture_rows, signed
from reproduce.plates.registry import Ledger, Line, Panels, Plates, line_plate, reported
from reproduce.studies.first_layer.common import bank, basis
from reproduce.studies.first_layer.linear_pairs import CIFAR_PAIRS
from reproduce.weights.first_layers import stem_filters
from reproduce.weights.resnet50 import resnet50_imagenet

plates = Plates("FirstLayer")
ARCHITECTURES = ("resnet20-cifar10-0", "small-cifar10-0", "resnet14-cifar10-0", "vgg7-cifar10-0")
"""Networks of the bank on CIFAR-10; those that are not there are left out."""

OF_CIFAR10 = ("resnet20-cifar10-0", "small-cifar10-0")
PAIRS = tuple(pair.split(":")[1] for pair in CIFAR_PAIRS)

Profiles = dict[str, tuple[Tensor, str]]
"""Profiles, or filters, and their colours by name."""


def _first_layer(model: nn.Module) -> Tensor:
    return next(m for m in model.modules() if isinstance(m, nn.Conv2d)).weight.detach()


def _random_like(filters: Tensor) -> Tensor:
    return torch.randn(filters.shape, generator=torch.Generator().manual_seed(0))


def _filters(filters: Tensor, n: int = 48) -> Tensor:
    """The strongest filters of a first layer, as signed colour pictures."""
    return signed(filters[filters.flatten(1).norm(dim=1).argsort(descending=True)][:n].float())


@plates.pictures("Figure 1")
def filters() -> Panels:
    """First-layer filters of trained networks, the strongest first, beside random ones.

    ResNet-50 trained on ImageNet (7 x 7), and two networks of our own trained on CIFAR-10 (3 x 3) with their
    untrained filters.
    """
    stem = _first_layer(resnet50_imagenet())
    rows = {" " * i or "trained": part for i, part in enumerate(torch.split(_filters(stem), 16))}
    rows["random"] = signed(_random_like(stem)[:16])
    panels = [picture_rows(rows, title="7 x 7: ResNet-50 on ImageNet")]
    for network in map(load_network, OF_CIFAR10):
        models = {"trained": network.model, "untrained": network.initial}
        rows = {name: _filters(_first_layer(model), 16) for name, model in models.items()}
        panels.append(picture_rows(rows, title=f"3 x 3: {network.title}"))
    return panels


# ---------------------------------------------------------------- profiles


def _by_component(rows: Profiles, title: str, *, compared: bool = True) -> Figure:
    """Energy over components, each row relative to its highest; correlations with the first stand in the key."""
    first = next(iter(rows.values()))[0]
    series = [
        Curve(
            name=name if row is first or not compared else f"{name} (r = {float(pearson(first, row)):.2f})",
            values=(row / row.max())[None],
            role=role,
        )
        for name, (row, role) in rows.items()
    ]
    return curves(
        series,
        x="patch component, by falling variance",
        y="energy / highest",
        title=title,
        alt=f"Energy against patch component: {', '.join(rows)}",
    )


def _profiles(filters: Profiles, pca: PCA, title: str) -> Figure:
    """Energy profiles of filters."""
    found = {n: (energy_profile(f.flatten(1).double(), pca.basis), role) for n, (f, role) in filters.items()}
    return _by_component(found, title)


def _basis_of_cifar10() -> PCA:
    return basis(load("cifar10", split="train", n=2000, seed=0))


def _owl(frequency: Tensor) -> Tensor:
    """Human contrast sensitivity by cycles per degree, Mannos and Sakrison's formula."""
    scaled = 0.114 * frequency
    return 2.6 * (0.0192 + scaled) * torch.exp(-(scaled**1.1))


@plates.pictures("Figure 2")
def consistent_profiles() -> Panels:
    """How much energy the first layer puts on each principal component of the patches.

    Two architectures trained on CIFAR-10, before and after training. Trained ones are weak at the lowest and
    the highest components. The second panel is the contrast sensitivity of human vision, by Mannos and
    Sakrison's formula of 1974.
    """
    named: Profiles = {}
    for network, role in zip(map(load_network, OF_CIFAR10), ("trained", "other"), strict=True):
        named[network.title] = (_first_layer(network.model), role)
        named[f"{network.title}, untrained"] = (_first_layer(network.initial), "initial")
    cycles = torch.logspace(-0.7, 1.8, 60)
    sensitivity = curves(
        [Curve(name="sensitivity", values=_owl(cycles)[None].double(), role="theory")],
        x="cycles per degree",
        y="sensitivity",
        at=cycles.tolist(),
        log_x=True,
        title="Human contrast sensitivity",
        alt="Sensitivity against spatial frequency: highest at about eight cycles per degree",
    )
    return [_profiles(named, _basis_of_cifar10(), "CIFAR-10"), sensitivity]


plates.add(
    "Figure 3",
    "Training and test loss of one network trained in full and of the same with its first layer frozen as drawn.",
    study="first_layer/frozen",
)


@plates.numbers("Figure 4")
def linear_profiles(ledger: Ledger) -> Panels:
    """Linear networks on pairs of classes: the profile learned from true labels beside others.

    How similar it is to that learned from random ones, and to the best possible one. The root of the variances,
    in grey, is what any profile follows.
    """
    random = "linear.table3.true_random"
    optimal = "linear.table3.true_optimal"
    lines = [
        Line("true and random labels", random, "true and random"),
        Line("true labels and the optimum", optimal, "true and optimal", role="other"),
        Line("true labels and root of the variances", random, "true and root of variances", role="null"),
    ]
    return [line_plate(ledger, "By pair of classes", lines, y="correlation of profiles")]


plates.add(
    "Figure 5",
    "Correlation of the average patch of an image, component by component, with membership in each class of CIFAR-10.",
    study="first_layer/label_correlation",
)
plates.add(
    "Figure 6",
    "Profiles of networks trained on CIFAR-10 with true and with random labels. CIFAR-100 and CelebA need an own copy.",
    study="first_layer/random_labels",
)
plates.add(
    "Figure 7",
    "A linear network whose labels were made from one patch component puts its energy there; with shuffled labels it "
    "does not.",
    study="first_layer/relabelled",
)


@plates.pictures("Figure 8")
def more_pairs() -> Panels:
    """Profiles of linear networks on four more pairs of classes: true labels, random labels, and the optimum."""
    panels = []
    for name in CIFAR_PAIRS[1:]:
        data = load(name, split="train", n=5000, seed=0)
        geometry = PatchGeometry.square(3)
        pca, root = patch_pca(data.x, geometry), len(data) ** 0.5
        spectral = ls.spectrum(mean_patches(data.x, geometry) @ pca.basis / root)
        y, half = data.y.double() / root, torch.full((len(data),), 0.5)
        coins = torch.bernoulli(half, generator=torch.Generator().manual_seed(0)).double() / root
        steps = -(-len(data) // 256) * 150
        true, random = (ls.weights(spectral, v, rate=0.1 * 2 / 64, steps=steps).abs() for v in (y, coins))
        rows = {
            "true labels": (true, "trained"),
            "random labels": (random, "random labels"),
            "optimum": (ls.optimal_weights(spectral, y).abs(), "theory"),
        }
        panels.append(_by_component(rows, name.split(":")[1], compared=False))
    return panels


@plates.numbers("Figure 9")
def frozen_accuracy(ledger: Ledger) -> Panels:
    """Training and test accuracy of one network trained in full and of the same with its first layer frozen."""
    claim, fitted = "profile.fig9.frozen_acc", "training accuracy of"
    lines = [
        Line("full", claim, "test accuracy of full", at="test"),
        Line("frozen", claim, "test accuracy of frozen", role="other", at="test"),
        Line("full, training", claim, f"{fitted} full", at="training"),
        Line("frozen, training", "profile.fig3.frozen_loss", f"{fitted} frozen", role="other", at="training"),
        Line("difference of two full networks", claim, "distance of two full networks", "null", at="chance"),
    ]
    return [line_plate(ledger, "Accuracy", lines, y="accuracy")]


@plates.pictures("Figure 10")
def imagenet_seven() -> Panels:
    """Profiles of first layers with 7 x 7 filters, trained on ImageNet, in the components of patches of photographs.

    Random filters are the null.
    """
    stem = _first_layer(resnet50_imagenet())
    named: Profiles = {
        "ResNet-50": (stem, "trained"),
        "ResNet-50 of a content filter": (stem_filters("open_nsfw"), "other"),
        "random filters": (_random_like(stem), "null"),
    }
    pca = basis(load("photos224", split="train", n=32, seed=0), size=7, padding=3)
    return [_profiles(named, pca, "7 x 7 filters")]


plates.add(
    "Figure 11",
    "Profiles of first layers with 3 x 3 filters that others trained on ImageNet, in the components of patches of "
    "photographs.",
    study="first_layer/pretrained",
)


@plates.pictures("Figure 12")
def cifar_architectures() -> Panels:
    """Profiles of 3 x 3 first layers trained on CIFAR-10 against random ones, over several architectures and seeds."""
    named: Profiles = {}
    for name, role in zip(ARCHITECTURES, ("trained", "other", "random labels", "theory"), strict=True):
        if name in network_names():
            network = load_network(name)
            named[network.title] = (_first_layer(network.model), role)
    named["random filters"] = (_random_like(torch.empty(64, 3, 3, 3)), "null")
    return [_profiles(named, _basis_of_cifar10(), "CIFAR-10")]


plates.add(
    "Figure 13",
    "Profiles of first layers trained on CIFAR-100 by several architectures.",
    absent="CIFAR-100 needs an own copy; Figure 12 shows the same for CIFAR-10",
)
plates.add(
    "Figure 14",
    "Profiles of networks trained on two disjoint halves of the photographs, in the components of their own patches.",
    study="first_layer/across_data",
)


@plates.numbers("Figure 15")
def window(ledger: Ledger) -> Panels:
    """Agreement of 7 x 7 profiles over all 147 components, and over 25 to 52 alone; unrelated profiles in grey."""
    claim, part = "profile.fig15.window", "25 to 52"
    lines = [
        Line("all components", claim, "all 147 components", at="all 147"),
        Line("a window", claim, "components 25 to 52", role="other", at=part),
        Line("unrelated profiles", claim, "unrelated windows", role="null", at=part),
    ]
    return [line_plate(ledger, "Agreement", lines, y="correlation")]


@plates.pictures("Figure 16")
def two_losses() -> Panels:
    """Profiles of a small network trained on CIFAR-10 with cross-entropy and with squared error.

    With true and with random labels. The initial weights are subtracted, as the paper does.
    """
    data = load("cifar10", split="train", n=1000, seed=0)
    pca = basis(data)
    spec = ModelSpec(name="small", classes=10, shape=data.shape, options={"batch_norm": True})
    panels = []
    for words, labelled in (("True labels", data), ("Random labels", random_labels(data, seed=0))):
        rows: Profiles = {}
        for loss, role, rate in (
            ("cross_entropy", "trained", 0.1),
            ("mse", "other", 0.01),
        ):  # mse diverges at 0.1
            recipe = Recipe(lr=rate, batch_size=32, epochs=12, loss=loss, seed=0)
            nets = bank(spec, 1, labelled, recipe, label=f"{words}, {loss}")
            rows[loss.replace("_", "-")] = (nets.profiles(pca, subtract=True)[0], role)
            rows["untrained"] = (nets.initial_profiles(pca)[0], "initial")
        panels.append(_by_component(rows, words))
    return panels


def _random_label_plate(ledger: Ledger, claim: str, title: str) -> Panels:
    lines = [
        Line("true and random labels", claim, "true and random"),
        Line("random labels and root of the variances", claim, "random and root of variances", role="null"),
    ]
    return [line_plate(ledger, title, lines, y="correlation of profiles")]


@plates.numbers("Figure 17")
def two_classes(ledger: Ledger) -> Panels:
    """Two classes of CIFAR-10: agreement of the profiles learned from true and from random labels, and the null."""
    return _random_label_plate(ledger, "profile.fig17.binary_vgg", "Two classes")


@plates.numbers("Figure 18")
def residual(ledger: Ledger) -> Panels:
    """Residual networks on CIFAR-10: agreement of the profiles learned from true and random labels, and the null.

    CIFAR-100, CelebA and ImageNet need an account or an own copy.
    """
    return _random_label_plate(ledger, "profile.fig18.resnet_random", "Residual networks")


# ---------------------------------------------------------------- tables

CORRELATION = "Correlation of profiles"


@plates.numbers("Table 1")
def consistency(ledger: Ledger) -> Panels:
    """Agreement of first-layer profiles over seeds, widths and architectures, with initial filters, and the nulls."""
    table = "profile.table1."
    lines = [
        Line("seeds", f"{table}seeds", "between seeds", at="seeds"),
        Line("widths", f"{table}width", "between widths", at="widths"),
        Line("architectures", f"{table}arch", "between architectures", at="architectures"),
        Line("initial filters", f"{table}init", "with initial", role="initial", at="initial filters"),
        Line("root of the variances", f"{table}seeds", "root of variances", role="null", at="seeds"),
        reported({"seeds": 0.98, "architectures": 0.98}),
    ]
    return [line_plate(ledger, CORRELATION, lines, y="correlation")]


@plates.numbers("Table 2")
def random_label_table(ledger: Ledger) -> Panels:
    """Agreement of profiles from true labels, from random labels, and of the initial filters, on ten classes."""
    a, b = "profile.table2.random_labels", "profile.table2.random_vs_init"
    lines = [
        Line("true and random labels", a, "true and random"),
        Line("two draws of random labels", b, "random and random", role="other"),
        Line("random labels and initial filters", b, "random and initial", role="initial"),
        Line("random labels and root of the variances", a, "random and root of variances", role="null"),
        reported({"ten classes": 0.9}, "at least"),
    ]
    return [line_plate(ledger, CORRELATION, lines, y="correlation")]


@plates.numbers("Table 3")
def linear_table(ledger: Ledger) -> Panels:
    """Linear networks on five pairs of classes; reported values beside.

    True labels against random labels, the optimum and initial filters.
    """
    columns = {
        "true and random": ("true_random", "trained", (0.97, 0.96, 0.95, 0.94, 0.94)),
        "true and optimal": ("true_optimal", "other", (-0.16, -0.22, -0.25, 0.26, -0.26)),
        "true and initial": ("true_init", "initial", (0.03, -0.09, 0.08, -0.26, -0.08)),
    }
    lines = []
    for name, (claim, role, values) in columns.items():
        lines.append(Line(name, f"linear.table3.{claim}", name, role))
        lines.append(reported(dict(zip(PAIRS, values, strict=True)), name))
    return [line_plate(ledger, "By pair of classes", lines, y="correlation")]


@plates.numbers("Table 4")
def loss_table(ledger: Ledger) -> Panels:
    """Agreement of profiles learned with cross-entropy and with squared error, beside the reported one.

    Other data need own copies.
    """
    claim, paper = "profile.table4.loss", "CIFAR-10"
    entry = ledger.get(claim)
    lines = (
        [
            Line(name, claim, name, role, at=name)
            for role, rows in (("trained", entry.measured), ("null", entry.null))
            for name in rows
            if "accuracy" not in name
        ]
        if entry
        else []
    )
    return [
        line_plate(
            ledger, "Two losses", [*lines, reported({f"reported, {paper}": 0.96}, paper)], y="correlation"
        )
    ]
