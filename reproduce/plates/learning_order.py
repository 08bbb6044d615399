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
from reproduce.plates.registry import Ledger, Line, Panels, line_plate, numbers, pictures, studied
from reproduce.studies.learning_order.common import (
    FREQUENCIES,
    critical_frequency,
    frequency_data,
    frequency_points,
    partial_sums,
    random_directions,
)
from reproduce.studies.learning_order.principal_components import Amplification, ComponentProjection

PAPER = "PCBias"
SIDE = 90  # pixels of a map of the frequency task
BLUE, ORANGE, WHITE = (0.0, 0.45, 0.70), (0.84, 0.37, 0.0), (1.0, 1.0, 1.0)


@cache
def _photographs() -> ImageData:
    return load("cifar10", split="train", n=2000, seed=0)


@pictures(
    PAPER,
    "Figure 1",
    "Images as they are, on the 20 leading principal components of 2000 images, and blurred by a Gaussian "
    "of three pixels. The last row, the null, keeps 20 random directions.",
)
def lowpass() -> Panels:
    data = _photographs()
    part, pca = data.take(torch.arange(10)), image_pca(data.x).truncated(20)
    kept, random = (
        ComponentProjection.fit(data, 20, pca=p).transform(part).x
        for p in (pca, random_directions(pca, seed=0))
    )
    blurred = torch.from_numpy(np.ascontiguousarray(gaussian_filter(part.x.numpy(), sigma=(0, 0, 3, 3))))
    rows = {
        "image": part.x,
        "20 components": kept.clamp(0, 1),
        "blurred": blurred,
        "20 random": random.clamp(0, 1),
    }
    return {"Components and blur": picture_rows(rows, title="Images, their leading components, and blurred")}


def _spread(ledger: Ledger, panels: dict[str, tuple[str, str, str]], *, y: str) -> Panels:
    return {
        title: line_plate(
            ledger,
            [
                Line(name="natural", claim=claim, measurement=measured, at="natural images"),
                Line(name="whitened", claim=claim, measurement=null, role="null", at="whitened images"),
            ],
            title=title,
            y=y,
        )
        for title, (claim, measured, null) in panels.items()
    }


@numbers(
    PAPER,
    "Figure 2",
    "Does the spread over networks vanish component by component? The rank correlation of component and "
    "remaining spread, 1 where leading components settle first; whitened images are the null.",
)
def spread_by_epoch(ledger: Ledger) -> Panels:
    left, right = "order of the spread left with one layer", "order of the spread left"
    panels = {
        "One linear layer": ("deeplin.fig2.left", left, f"{left} when whitened"),
        "Two layers with ReLU": ("relu2.fig2.right", right, f"{right} when whitened"),
    }
    return _spread(ledger, panels, y="rank correlation")


studied(
    PAPER,
    "Figure 3",
    "learning_order/scale_matrices",
    "How far the gradient scale matrices of a five-layer linear network stray from multiples of the "
    "identity while it trains.",
)
studied(
    PAPER,
    "Figure 4",
    "learning_order/component_spread",
    "Spread of the compact weights over networks along each principal component, for natural and for "
    "whitened images.",
)


@numbers(
    PAPER,
    "Figure 5",
    "The epoch of highest test accuracy when test images keep P leading components; random directions are "
    "the null.",
)
def projections(ledger: Ledger) -> Panels:
    panels = {
        "Two classes": ("pcbias.fig5a", ""),
        "Ten classes": ("pcbias.fig5b", " with ten classes"),
    }
    return {
        title: line_plate(
            ledger,
            [
                Line(name="leading components", claim=claim, measurement=f"peak time{end}"),
                Line(
                    name="random directions",
                    claim=claim,
                    measurement=f"peak time on random directions{end}",
                    role="null",
                ),
            ],
            title=title,
            x="P",
            y="epoch of the highest accuracy",
        )
        for title, (claim, end) in panels.items()
    }


@numbers(
    PAPER,
    "Figure 6",
    "Correlation of the order in which networks learn examples with that of linear networks, and with the "
    "component that decides an example; reported values beside.",
)
def order_correlations(ledger: Ledger) -> Panels:
    a, b = "correlation with linear networks", "correlation with the critical component smoothed"
    lines = [
        Line(name="measured", claim="loc.fig6a", measurement=a, at="linear networks"),
        Line(
            name="shuffled labels",
            claim="loc.fig6a",
            measurement=f"{a} on shuffled labels",
            role="null",
            at="linear networks",
        ),
        Line(
            name="measured, components",
            claim="loc.fig6b",
            measurement=b,
            at="critical component",
            role="other",
        ),
        Line(
            name="whitened",
            claim="loc.fig6b",
            measurement=f"{b} when whitened",
            role="null",
            at="critical component",
        ),
        Line(name="reported", role="theory", reported={"linear networks": 0.85, "critical component": -0.93}),
    ]
    return {
        "Accessibility against two predictors": line_plate(
            ledger, lines, title="Two predictors", y="correlation"
        )
    }


studied(
    PAPER,
    "Figure 7",
    "learning_order/whitened_order",
    "Agreement in order of two groups of networks up to each epoch, on natural and on whitened images.",
)


@numbers(
    PAPER,
    "Figure 8",
    "Correlation of the critical frequency of a point with when it is learned, and with how many neighbours "
    "share its label.",
)
def frequencies(ledger: Ledger) -> Panels:
    a, b = "accessibility against frequency", "neighbours against frequency"
    dealt = " with frequencies dealt at random"
    lines = [
        Line(name="accessibility", claim="spectral.fig8a", measurement=a, at="accessibility"),
        Line(
            name="dealt at random",
            claim="spectral.fig8a",
            measurement=a + dealt,
            role="null",
            at="accessibility",
        ),
        Line(name="neighbours", claim="spectral.fig8b", measurement=b, role="other"),
        Line(name="reported", role="theory", reported={"accessibility": -0.93, "10": -0.8}),
    ]
    words = "Correlation with the critical frequency (numbers are neighbours)"
    return {words: line_plate(ledger, lines, title=words, y="correlation")}


studied(
    PAPER,
    "Figure 9",
    "learning_order/amplified",
    "Test accuracy of linear networks over time when the highest or the lowest components of the images are "
    "amplified.",
)
studied(
    PAPER,
    "Figure 10",
    "learning_order/shuffled_speed",
    "Training accuracy with true and with shuffled labels, on natural and on whitened images.",
)
studied(
    PAPER,
    "Figure 11",
    "learning_order/relabelled",
    "Training accuracy over epochs on labels that are linearly separable in P components; the more "
    "components, the later.",
)
studied(
    PAPER,
    "Figure 12",
    "learning_order/initial_speed",
    "Loss of a wide linear network from Glorot's initial weights and from those of definition 3.",
)


# ---------------------------------------------------------------- the frequency task


def _map(shares: Tensor) -> Tensor:
    """Shares of "below" between 0 and 1 as a picture: orange above, white undecided, blue below."""
    orange, white, blue = (torch.tensor(colour)[:, None, None] for colour in (ORANGE, WHITE, BLUE))
    low, high = (shares / 0.5).clamp(0, 1), ((shares - 0.5) / 0.5).clamp(0, 1)
    return torch.where(shares < 0.5, orange + (white - orange) * low, white + (blue - white) * high)


def _grid() -> Tensor:
    """Points of a map, top row first, from -1 to 1 and from 2π down to -2π."""
    z = torch.linspace(-1, 1, SIDE)
    v = torch.linspace(2 * torch.pi, -2 * torch.pi, SIDE)
    return torch.stack([z.expand(SIDE, SIDE), v[:, None].expand(SIDE, SIDE)], -1).reshape(-1, 2)


@pictures(
    PAPER,
    "Figure 13",
    "The border that a fully connected network has learned after more and more epochs (blue: below), beside "
    "the curve of ten "
    'sinusoids that it is taught. The share of three networks that say "below" is the depth of the colour.',
)
def decision_maps() -> Panels:
    data, points = frequency_data(10_000, seed=0), _grid()
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
    truth = (points[:, 1] <= partial_sums(points[:, 0])[:, -1]).float()
    maps = torch.stack([_map(share.reshape(SIDE, SIDE)) for share in (*shares.values(), truth)])
    words = f"After {', '.join(map(str, moments))} epochs; at the right, the task itself"
    return {words: picture_rows({"": maps}, title=words)}


@pictures(
    PAPER,
    "Figure 14",
    "Images as they are, and with the highest or the lowest 1.5 % of their principal components amplified "
    "ten times. The paper shows small mammals of CIFAR-100; these are cats and dogs of CIFAR-10.",
)
def amplified_pictures() -> Panels:
    data = load("cats_dogs", split="train", n=2000, seed=0)
    pca, part = image_pca(data.x), data.take(torch.arange(10))
    top, bottom = (Amplification.fit(data, end=end, pca=pca).transform(part).x for end in ("top", "bottom"))
    rows = {"image": part.x, "top amplified": top, "bottom amplified": bottom}
    return {
        "Amplified components": picture_rows(
            {k: stretched(v) for k, v in rows.items()}, title="Amplified components"
        )
    }


@pictures(
    PAPER,
    "Figure 15",
    "The data set: points below a curve that adds ten sinusoids (blue) and above it (orange), and the curve "
    "after 2, 4 and 7 of them.",
)
def frequency_task() -> Panels:
    points = _grid()
    sums = partial_sums(points[:, 0])
    maps = torch.stack([_map((points[:, 1] <= sums[:, k]).float().reshape(SIDE, SIDE)) for k in (1, 3, 6, 9)])
    words = "Border of 2, 4, 7 and all 10 sinusoids"
    return {words: picture_rows({"": maps}, title=words)}


@pictures(
    PAPER,
    "Figure 16",
    "Where the points lie whose label is right from the first sinusoid on (critical frequency 0), and those "
    "that need the second (1); grey points are all others, and the second panel counts every frequency.",
)
def critical_points() -> Panels:
    points, _ = frequency_points(10_000, seed=0)
    critical = critical_frequency(points)
    maps = []
    for wanted in (0, 1):
        canvas = torch.ones(3, SIDE, SIDE)
        column = ((points[:, 0] + 1) / 2 * (SIDE - 1)).round().long()
        row = ((1 - points[:, 1] / (2 * torch.pi)) / 2 * (SIDE - 1)).round().long()
        canvas[:, row, column] = 0.85
        chosen = critical == wanted
        canvas[:, row[chosen], column[chosen]] = torch.tensor(BLUE)[:, None]
        maps.append(canvas)
    counts = torch.bincount(critical, minlength=len(FREQUENCIES)).double()[None] / len(critical)
    words = "Critical frequency 0 and 1"
    return {
        words: picture_rows({"": torch.stack(maps)}, title=words),
        "Share of the points by critical frequency": curves(
            [Curve(name="share", values=counts)],
            x="critical frequency",
            y="share of the points",
            at=[float(f) for f in FREQUENCIES],
            title="Share of the points by critical frequency",
            alt="Share of the points against critical frequency: three in four need none but the first",
        ),
    }


@numbers(
    PAPER,
    "Table 1",
    "Correlation of when an example is learned with how many of its neighbours share its class, in pixels "
    "and in the last hidden layer. The data sets of the paper need an account or an own copy; the column "
    "that ran is CIFAR-10's cats and dogs.",
)
def discriminabilities(ledger: Ledger) -> Panels:
    raw, last = "discriminability in pixels", "discriminability in the last hidden layer"
    published = {
        "pixels": {"small mammals": 0.46, "ImageNet-20": 0.01, "CIFAR-100": 0.51, "STL-10": 0.44},
        "last hidden layer": {"small mammals": 0.85, "ImageNet-20": 0.54, "CIFAR-100": 0.85, "STL-10": 0.7},
    }
    lines = [
        Line(name="pixels", claim="spectral.table1.raw", measurement=raw),
        Line(name="last hidden layer", claim="spectral.table1.penultimate", measurement=last, role="other"),
        Line(
            name="before training",
            claim="spectral.table1.penultimate",
            measurement=f"{last} before training",
            role="null",
            at="cats_dogs",
        ),
        *(Line(name=f"reported, {where}", role="theory", reported=row) for where, row in published.items()),
    ]
    return {"Neighbours and order": line_plate(ledger, lines, title="Neighbours and order", y="correlation")}
