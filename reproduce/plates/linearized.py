"""Plates on linearisation: accuracies of networks and linearised ones by width, reported values beside."""

from reproduce.plates.registry import Ledger, Line, Panels, Plates, line_plate, reported
from reproduce.studies.linearized.gaps import DIGITS, TABLES, ZERO_SHIFTED

plates = Plates("Linearized")
DIFFERENCE = {"x": "width factor", "y": "difference of test accuracies"}


def _accuracies(ledger: Ledger, where: str, title: str) -> Panels:
    lines = [
        Line("network", "lin.width_effect", f"network on {where}"),
        Line("linearised", "lin.width_effect", f"linearised on {where}", role="other"),
    ]
    return [line_plate(ledger, title, lines, x="width factor", y="test accuracy")]


@plates.numbers("Figure 1")
def regimes(ledger: Ledger) -> Panels:
    """Test accuracy of a network and of its linearisation, as both get wider: digits, and CIFAR-10."""
    return _accuracies(ledger, "digits", "Digits") + _accuracies(ledger, "CIFAR-10", "CIFAR-10")


plates.add(
    "Figure 2",
    "LeNet and its linearisation on MNIST by width; the grey line is logistic regression.",
    study="linearized/mnist_gap",
)


@plates.numbers("Figure 3")
def shifted(ledger: Ledger) -> Panels:
    """LeNet and its linearisation on digits shifted by up to seven pixels, and their difference beside the reported."""
    lines = [
        Line("network - linearised", "lin.fig3.shift_gap", "extra gap by shifts"),
        reported({"1": (27.65 - 4.67) / 100, "60": (3.91 - 0.48) / 100}),
    ]
    return [
        *_accuracies(ledger, "shifted digits", "Shifted digits"),
        line_plate(ledger, "What shifts add to the difference", lines, **DIFFERENCE),
    ]


@plates.numbers("Figure 4")
def cifar(ledger: Ledger) -> Panels:
    """The difference between LeNet and its linearisation on CIFAR-10, the reported one, and the small-data null."""
    claim = "lin.fig4.cifar_gap"
    lines = [
        Line("network - linearised", claim, "gap on CIFAR-10"),
        Line("null", claim, "exact gap on few of CIFAR-10", role="null", at="1"),
        reported({"1": 0.2022, "60": 0.1317}),
    ]
    return [line_plate(ledger, "CIFAR-10", lines, **DIFFERENCE)]


@plates.numbers("Figure 5")
def alexnet(ledger: Ledger) -> Panels:
    """The difference between AlexNet and its linearisation, tuned and with equal settings, on photographs.

    The ten snakes of ImageNet need an account.
    """
    claim = "lin.fig5.alexnet_gap"
    lines = [
        Line("tuned", claim, "gap on photographs"),
        Line("equal settings", "lin.fig5.equal_rate", "gap with equal settings", role="other"),
        Line("two equal models", claim, "chance gap of equal models", role="null", at="0.125"),
        reported({"1": 0.204, "4": 0.1856}, "tuned"),
    ]
    return [line_plate(ledger, "AlexNet", lines, **DIFFERENCE)]


@plates.numbers("Figure 6")
def ranks(ledger: Ledger) -> Panels:
    """Effective rank of the tangent features of 300 images, 600 in the paper, relative to the full rank.

    Random numbers of the same size in grey.
    """
    small, large = "lin.fig6.shifted_rank", "lin.fig6.alexnet_rank"
    null = "rank of independent numbers like"
    lenet = [
        Line("digits", small, "kernel rank of digits"),
        Line("shifted digits", small, "kernel rank of shifted digits", role="other"),
        Line("independent numbers", small, f"{null} shifted digits", role="null"),
    ]
    alexnet = [
        Line("photographs", large, "kernel rank of photographs"),
        Line("independent numbers", large, f"{null} photographs", role="null"),
    ]
    return [
        line_plate(ledger, title, lines, x="width factor", y="effective rank / full rank")
        for title, lines in {"LeNet": lenet, "AlexNet": alexnet}.items()
    ]


plates.add(
    "Figure 7",
    "Singular values of the tangent features of LeNet by width, from the smallest to the largest.",
    study="linearized/conditioning",
)


def _table(ledger: Ledger, table: str, where: str, solver: tuple[float, ...]) -> Panels:
    kinds = {
        "solver": ("solver", f"solved on {where}", "random labels"),
        "linearised": ("lin", f"linearised on {where}", "other"),
        "network": ("lenet", f"network on {where}", "trained"),
    }
    lines = [Line(k, f"lin.{table}.{id}", name, role) for k, (id, name, role) in kinds.items()]
    printed = {"solver": dict(zip((1, 2, 5), solver, strict=True))}
    printed |= {kind: TABLES[f"{kind} on {where}"] for kind in ("linearised", "network")}
    for kind, row in printed.items():
        lines.append(reported({str(width): value / 100 for width, value in row.items()}, kind))
    return [line_plate(ledger, "Test accuracy by width", lines, x="width factor", y="test accuracy")]


@plates.numbers("Table 1")
def binary(ledger: Ledger) -> Panels:
    """Zero or not: LeNet, its linearisation by descent, and the exact solution, by width; reported values beside."""
    return _table(ledger, "table1", DIGITS, (97.8, 99.86, 99.89))


@plates.numbers("Table 2")
def binary_shifted(ledger: Ledger) -> Panels:
    """As Table 1, with digits shifted by up to seven pixels."""
    return _table(ledger, "table2", ZERO_SHIFTED, (86.05, 98.7, 99.17))
