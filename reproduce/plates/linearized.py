"""Plates on linearisation: accuracies of networks and linearised ones by width, reported values beside."""

from reproduce.plates.registry import Ledger, Line, Panels, line_plate, numbers, studied

PAPER = "Linearized"
WIDTHS = ("1", "2", "5", "10", "25", "60")


def _gaps(
    ledger: Ledger, claim: str, reported: dict[str, float], *, title: str, gap: str, null: str = ""
) -> Panels:
    lines = [Line(name="network - linearised", claim=claim, measurement=gap)]
    lines += [Line(name="null", claim=claim, measurement=null, role="null", at="1")] if null else []
    share = {width: points / 100 for width, points in reported.items()}
    lines += [Line(name="reported", role="theory", reported=share)] if share else []
    return {
        title: line_plate(ledger, lines, title=title, x="width factor", y="difference of test accuracies")
    }


def _accuracies(ledger: Ledger, where: str, *, title: str) -> Panels:
    lines = [
        Line(name="network", claim="lin.width_effect", measurement=f"network on {where}"),
        Line(name="linearised", claim="lin.width_effect", measurement=f"linearised on {where}", role="other"),
    ]
    return {title: line_plate(ledger, lines, title=title, x="width factor", y="test accuracy")}


@numbers(
    PAPER,
    "Figure 1",
    "Test accuracy of a network and of its linearisation, as both get wider: digits, and CIFAR-10.",
)
def regimes(ledger: Ledger) -> Panels:
    return _accuracies(ledger, "digits", title="Digits") | _accuracies(ledger, "CIFAR-10", title="CIFAR-10")


studied(
    PAPER,
    "Figure 2",
    "linearized/mnist_gap",
    "LeNet and its linearisation on MNIST by width; the grey line is logistic regression.",
)


@numbers(
    PAPER,
    "Figure 3",
    "LeNet and its linearisation on digits shifted by up to seven pixels, and their difference beside the "
    "reported one.",
)
def shifted(ledger: Ledger) -> Panels:
    return _accuracies(ledger, "shifted digits", title="Shifted digits") | _gaps(
        ledger,
        "lin.fig3.shift_gap",
        {"1": 27.65 - 4.67, "60": 3.91 - 0.48},
        title="What shifts add to the difference",
        gap="extra gap by shifts",
    )


@numbers(
    PAPER,
    "Figure 4",
    "The difference between LeNet and its linearisation on CIFAR-10, beside the reported one, and the "
    "small-data null.",
)
def cifar(ledger: Ledger) -> Panels:
    return _gaps(
        ledger,
        "lin.fig4.cifar_gap",
        {"1": 20.22, "60": 13.17},
        title="CIFAR-10",
        gap="gap on CIFAR-10",
        null="exact gap on few of CIFAR-10",
    )


@numbers(
    PAPER,
    "Figure 5",
    "The difference between AlexNet and its linearisation, tuned and with equal settings, on photographs: "
    "the ten snakes of ImageNet need an account.",
)
def alexnet(ledger: Ledger) -> Panels:
    lines = [
        Line(name="tuned", claim="lin.fig5.alexnet_gap", measurement="gap on photographs"),
        Line(
            name="equal settings",
            claim="lin.fig5.equal_rate",
            measurement="gap with equal settings",
            role="other",
        ),
        Line(
            name="two equal models",
            claim="lin.fig5.alexnet_gap",
            measurement="chance gap of equal models",
            role="null",
            at="0.125",
        ),
        Line(name="reported, tuned", role="theory", reported={"1": 0.204, "4": 0.1856}),
    ]
    title = "AlexNet"
    return {
        title: line_plate(ledger, lines, title=title, x="width factor", y="difference of test accuracies")
    }


@numbers(
    PAPER,
    "Figure 6",
    "Effective rank of the tangent features of 300 images, 600 in the paper, relative to the full rank; "
    "random numbers of the same size in grey.",
)
def ranks(ledger: Ledger) -> Panels:
    lenet = [
        Line(name="digits", claim="lin.fig6.shifted_rank", measurement="kernel rank of digits"),
        Line(
            name="shifted digits",
            claim="lin.fig6.shifted_rank",
            measurement="kernel rank of shifted digits",
            role="other",
        ),
        Line(
            name="independent numbers",
            claim="lin.fig6.shifted_rank",
            measurement="rank of independent numbers like shifted digits",
            role="null",
        ),
    ]
    alexnet = [
        Line(name="photographs", claim="lin.fig6.alexnet_rank", measurement="kernel rank of photographs"),
        Line(
            name="independent numbers",
            claim="lin.fig6.alexnet_rank",
            measurement="rank of independent numbers like photographs",
            role="null",
        ),
    ]
    return {
        title: line_plate(ledger, lines, title=title, x="width factor", y="effective rank / full rank")
        for title, lines in {"LeNet": lenet, "AlexNet": alexnet}.items()
    }


studied(
    PAPER,
    "Figure 7",
    "linearized/conditioning",
    "Singular values of the tangent features of LeNet by width, from the smallest to the largest.",
)


def _table(ledger: Ledger, table: str, where: str, test: dict[str, tuple[float, ...]]) -> Panels:
    claims = {
        "solver": f"lin.{table}.solver",
        "linearised": f"lin.{table}.lin",
        "network": f"lin.{table}.lenet",
    }
    names = {
        "solver": f"solved on {where}",
        "linearised": f"linearised on {where}",
        "network": f"network on {where}",
    }
    roles = {"solver": "random labels", "linearised": "other", "network": "trained"}
    lines = [Line(name=k, claim=claims[k], measurement=names[k], role=roles[k]) for k in names]
    lines += [
        Line(
            name=f"reported, {k}",
            role="theory",
            reported={w: row / 100 for w, row in zip(WIDTHS, values, strict=False)},
        )
        for k, values in test.items()
    ]
    return {
        "Test accuracy by width": line_plate(
            ledger, lines, title="Zero or not", x="width factor", y="test accuracy"
        )
    }


@numbers(
    PAPER,
    "Table 1",
    "Zero or not zero: LeNet, its linearisation by descent, and the exact solution, by width; reported "
    "values beside.",
)
def binary(ledger: Ledger) -> Panels:
    reported = {
        "solver": (97.8, 99.86, 99.89),
        "linearised": (99.61, 99.75, 99.81, 99.85, 99.85, 99.89),
        "network": (99.89, 99.89, 99.88, 99.89, 99.89, 99.88),
    }
    return _table(ledger, "table1", "zero or not", reported)


@numbers(PAPER, "Table 2", "As Table 1, with digits shifted by up to seven pixels.")
def binary_shifted(ledger: Ledger) -> Panels:
    reported = {
        "solver": (86.05, 98.7, 99.17),
        "linearised": (95.48, 98.51, 98.97, 99.31, 99.51, 99.55),
        "network": (99.72, 99.80, 99.82, 99.77, 99.82, 99.86),
    }
    return _table(ledger, "table2", "shifted zero or not", reported)
