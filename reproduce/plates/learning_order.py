"""Plates of "Principal Components Bias"."""

from functools import cache

import numpy as np
import torch
from scipy.ndimage import gaussian_filter
from torch import Tensor

from firstlight.data import ImageData, load
from firstlight.maths import image_pca
from firstlight.models import ModelSpec
from firstlight.pages.figures import Curve, curves
from firstlight.training import Recipe, train
from reproduce.plates.grids import picture_rows, stretched
from reproduce.plates.registry import Ledger, Line, Panels, Plates, line_plate, reported
from reproduce.studies.learning_order import common as task
from reproduce.studies.learning_order.principal_components import Amplification, ComponentProjection

plates = Plates("PCBias")
SIDE = 90  # pixels of a map of the frequency task
BLUE, ORANGE, WHITE = (0.0, 0.45, 0.70), (0.84, 0.37, 0.0), (1.0, 1.0, 1.0)


@cache
def _photographs() -> ImageData:
    return load("cifar10", split="train", n=2000, seed=0)


@plates.pictures("Figure 1")
def lowpass() -> Panels:
    """Images as they are, on the 20 leading principal components of 2000 images, and blurred.

    The blur is a Gaussian of three pixels; the last row, the null, keeps 20 random directions.
    """
    data = _photographs()
    part, pca = data.take(torch.arange(10)), image_pca(data.x).truncated(20)
    kept, random = (
        ComponentProjection.fit(data, 20, pca=p).transform(part).x.clamp(0, 1)
        for p in (pca, task.random_directions(pca, seed=0))
    )
    blurred = torch.from_numpy(np.ascontiguousarray(gaussian_filter(part.x.numpy(), sigma=(0, 0, 3, 3))))
    rows = {"image": part.x, "20 components": kept, "blurred": blurred, "20 random": random}
    return [picture_rows(rows, title="Components and blur")]


@plates.numbers("Figure 2")
def spread_by_epoch(ledger: Ledger) -> Panels:
    """Does the spread over networks vanish component by component?

    The rank correlation of component and remaining spread, 1 where leading components settle first; whitened
    images are the null.
    """
    right = "order of the spread left"
    panels = {
        "One linear layer": ("deeplin.fig2.left", f"{right} with one layer"),
        "Two layers with ReLU": ("relu2.fig2.right", right),
    }
    return [
        line_plate(
            ledger,
            title,
            [
                Line("natural", claim, measured, at="natural images"),
                Line("whitened", claim, f"{measured} when whitened", role="null", at="whitened images"),
            ],
            y="rank correlation",
        )
        for title, (claim, measured) in panels.items()
    ]


plates.add(
    "Figure 3",
    "How far the gradient scale matrices of a five-layer linear network stray from multiples of the identity while it "
    "trains.",
    study="learning_order/scale_matrices",
)
plates.add(
    "Figure 4",
    "Spread of the compact weights over networks along each principal component, for natural and for whitened images.",
    study="learning_order/component_spread",
)


@plates.numbers("Figure 5")
def projections(ledger: Ledger) -> Panels:
    """The epoch of highest test accuracy when test images keep P leading components; random directions are the null."""
    panels = {
        "Two classes": ("pcbias.fig5a", ""),
        "Ten classes": ("pcbias.fig5b", " with ten classes"),
    }
    return [
        line_plate(
            ledger,
            title,
            [
                Line("leading components", claim, f"peak time{end}"),
                Line("random directions", claim, f"peak time on random directions{end}", role="null"),
            ],
            x="P",
            y="epoch of the highest accuracy",
        )
        for title, (claim, end) in panels.items()
    ]


@plates.numbers("Figure 6")
def order_correlations(ledger: Ledger) -> Panels:
    """Correlation of the order in which networks learn examples with two predictors; reported values beside.

    The order of linear networks, and the component that decides an example.
    """
    a, b = "correlation with linear networks", "correlation with the critical component smoothed"
    linear, critical = "linear networks", "critical component"
    lines = [
        Line("measured", "loc.fig6a", a, at=linear),
        Line("shuffled labels", "loc.fig6a", f"{a} on shuffled labels", role="null", at=linear),
        Line("measured, components", "loc.fig6b", b, role="other", at=critical),
        Line("whitened", "loc.fig6b", f"{b} when whitened", role="null", at=critical),
        reported({linear: 0.85, critical: -0.93}),
    ]
    return [line_plate(ledger, "Accessibility against two predictors", lines, y="correlation")]


plates.add(
    "Figure 7",
    "Agreement in order of two groups of networks up to each epoch, on natural and on whitened images.",
    study="learning_order/whitened_order",
)


@plates.numbers("Figure 8")
def frequencies(ledger: Ledger) -> Panels:
    """Correlation of the critical frequency of a point with when it is learned, and with its neighbours.

    Neighbours: how many of them share its label.
    """
    a, learned = "accessibility against frequency", "accessibility"
    dealt = f"{a} with frequencies dealt at random"
    lines = [
        Line("accessibility", "spectral.fig8a", a, at=learned),
        Line("dealt at random", "spectral.fig8a", dealt, role="null", at=learned),
        Line("neighbours", "spectral.fig8b", "neighbours against frequency", role="other"),
        reported({learned: -0.93, "10": -0.8}),
    ]
    title = "Correlation with the critical frequency (numbers are neighbours)"
    return [line_plate(ledger, title, lines, y="correlation")]


plates.add(
    "Figure 9",
    "Test accuracy of linear networks over time when the highest or the lowest components of the images are amplified.",
    study="learning_order/amplified",
)
plates.add(
    "Figure 10",
    "Training accuracy with true and with shuffled labels, on natural and on whitened images.",
    study="learning_order/shuffled_speed",
)
plates.add(
    "Figure 11",
    "Training accuracy over epochs on labels that are linearly separable in P components; the more, the later.",
    study="learning_order/relabelled",
)
plates.add(
    "Figure 12",
    "Loss of a wide linear network from Glorot's initial weights and from those of definition 3.",
    study="learning_order/initial_speed",
)


# ---------------------------------------------------------------- the frequency task


def _map(shares: Tensor) -> Tensor:
    """Shares of "below" between 0 and 1 as a picture: orange above, white undecided, blue below."""
    orange, white, blue = (torch.tensor(colour)[:, None, None] for colour in (ORANGE, WHITE, BLUE))
    shares = shares.reshape(SIDE, SIDE)
    low, high = (shares / 0.5).clamp(0, 1), ((shares - 0.5) / 0.5).clamp(0, 1)
    return torch.where(shares < 0.5, orange + (white - orange) * low, white + (blue - white) * high)


def _grid() -> Tensor:
    """Points of a map, top row first, from -1 to 1 and from 2π down to -2π."""
    z = torch.linspace(-1, 1, SIDE)
    v = torch.linspace(2 * torch.pi, -2 * torch.pi, SIDE)
    return torch.stack([z.expand(SIDE, SIDE), v[:, None].expand(SIDE, SIDE)], -1).reshape(-1, 2)


@plates.pictures("Figure 13")
def decision_maps() -> Panels:
    """The border that a fully connected network has learned after more and more epochs (blue: below), beside its task.

    The task is the curve of ten sinusoids that it is taught. The share of three networks that say "below" is
    the depth of the colour.
    """
    data, points = task.frequency_data(10_000, seed=0), _grid()
    moments = (1, 3, 10, 30, 100)
    spec = ModelSpec(name="fcn", classes=2, shape=(2, 1, 1), options={"depth": 3, "units": 128})
    shares = {moment: torch.zeros(SIDE * SIDE) for moment in moments}
    for seed in range(3):
        model, done = spec(seed), 0
        for moment in moments:
            recipe = Recipe(optimiser="adam", lr=3e-3, batch_size=256, epochs=moment - done, seed=seed)
            train(model, data.x, data.y, recipe, show=False)
            done = moment
            with torch.no_grad():
                shares[moment] += model(points[:, :, None, None]).argmax(1).float() / 3
    truth = (points[:, 1] <= task.partial_sums(points[:, 0])[:, -1]).float()
    maps = torch.stack([_map(share) for share in (*shares.values(), truth)])
    words = f"After {', '.join(map(str, moments))} epochs; at the right, the task itself"
    return [picture_rows({"": maps}, title=words)]


@plates.pictures("Figure 14")
def amplified_pictures() -> Panels:
    """Images as they are, and with the highest or the lowest 1.5 % of their principal components amplified ten times.

    The paper shows small mammals of CIFAR-100; these are cats and dogs of CIFAR-10.
    """
    data = load("cats_dogs", split="train", n=2000, seed=0)
    pca, part = image_pca(data.x), data.take(torch.arange(10))
    top, bottom = (Amplification.fit(data, end=end, pca=pca).transform(part).x for end in ("top", "bottom"))
    rows = {"image": part.x, "top amplified": top, "bottom amplified": bottom}
    return [picture_rows({k: stretched(v) for k, v in rows.items()}, title="Amplified components")]


@plates.pictures("Figure 15")
def frequency_task() -> Panels:
    """The data set: points below a curve that adds ten sinusoids (blue) and above it (orange).

    The first three show the curve after 2, 4 and 7 of them.
    """
    points = _grid()
    sums = task.partial_sums(points[:, 0])
    maps = torch.stack([_map((points[:, 1] <= sums[:, k]).float()) for k in (1, 3, 6, 9)])
    return [picture_rows({"": maps}, title="Border of 2, 4, 7 and all 10 sinusoids")]


@plates.pictures("Figure 16")
def critical_points() -> Panels:
    """Where the points lie whose label is right from the first sinusoid on, and those that need the second.

    These have the critical frequencies 0 and 1; grey points are all others, and the second panel counts every
    frequency.
    """
    points, _ = task.frequency_points(10_000, seed=0)
    critical = task.critical_frequency(points)
    maps = []
    for wanted in (0, 1):
        canvas = torch.ones(3, SIDE, SIDE)
        column = ((points[:, 0] + 1) / 2 * (SIDE - 1)).round().long()
        row = ((1 - points[:, 1] / (2 * torch.pi)) / 2 * (SIDE - 1)).round().long()
        canvas[:, row, column] = 0.85
        chosen = critical == wanted
        canvas[:, row[chosen], column[chosen]] = torch.tensor(BLUE)[:, None]
        maps.append(canvas)
    counts = torch.bincount(critical, minlength=len(task.FREQUENCIES)).double()[None] / len(critical)
    return [
        picture_rows({"": torch.stack(maps)}, title="Critical frequency 0 and 1"),
        curves(
            [Curve(name="share", values=counts)],
            x="critical frequency",
            y="share of the points",
            at=[float(f) for f in task.FREQUENCIES],
            title="Share of the points by critical frequency",
            alt="Share of the points against critical frequency: three in four need none but the first",
        ),
    ]


@plates.numbers("Table 1")
def discriminabilities(ledger: Ledger) -> Panels:
    """Correlation of when an example is learned with how many of its neighbours share its class.

    Neighbours are those in pixels, and in the last hidden layer. The data sets of the paper need an account
    or an own copy; the column that ran is CIFAR-10's cats and dogs.
    """
    hidden, last = "spectral.table1.penultimate", "discriminability in the last hidden layer"
    lines = [
        Line("pixels", "spectral.table1.raw", "discriminability in pixels"),
        Line("last hidden layer", hidden, last, role="other"),
        Line("before training", hidden, f"{last} before training", role="null", at="cats_dogs"),
        reported({"small mammals": 0.46, "ImageNet-20": 0.01, "CIFAR-100": 0.51, "STL-10": 0.44}, "pixels"),
        reported(
            {"small mammals": 0.85, "ImageNet-20": 0.54, "CIFAR-100": 0.85, "STL-10": 0.7},
            "last hidden layer",
        ),
    ]
    return [line_plate(ledger, "Neighbours and order", lines, y="correlation")]
