"""Studies of what is exact: deep linear networks, interventions, ReLU networks."""

import torch
from torch import Tensor

from firstlight import data, models
from firstlight._internal.seeds import generator_from
from firstlight.data import ImageData
from firstlight.maths import image_pca
from firstlight.models.fully_connected import TwoLayerReLU
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by
from reproduce.studies.learning_order import deep_linear as dl
from reproduce.studies.learning_order import two_layer_relu as theory
from reproduce.studies.learning_order.principal_components import Amplification, ZCAWhitening
from reproduce.studies.learning_order.separator_labels import SeparatorLabels

RATES = (1e-3, 1e-4, 1e-5)
DIMS = (7, 11, 13, 12, 3)
SMALL = (5, 6, 7, 4, 3)
CHUNK = 250  # networks drawn at a time


@study(
    "deeplin.thm1",
    "deeplin.gradient",
    "deeplin.L1.closed_form",
    "deeplin.thm3",
    "deeplin.lemma2",
    "deeplin.def3.unit_scale",
    "deeplin.thm6.drift",
)
class DeepLinearExact(Study):
    """Do the identities of deep linear networks hold as corrected?"""

    # Sizes of the Monte-Carlo checks.
    draws: int = 4000  # networks for the means of A and B
    drift_draws: int = 3000  # networks for the drift in the first step
    width: int = 120  # of their hidden layers

    def run(self) -> Measured:
        """Check every identity."""
        closed, printed = _closed_form_errors(self.seed)
        scales, product = _means(self.draws, self.seed)
        left, right, drift_printed = _drift(self.width, self.drift_draws, self.seed)
        return {
            "scaled remainder": by(RATES, _remainders(self.seed)),
            "gradient error": _gradient_error(self.seed),
            "closed-form error": closed,
            "closed-form error as printed": printed,
            "deviation of the mean A and B": scales,
            "deviation of the product's variance": product,
            "deviation from 1 with equal widths": _unit_deviation((5, 100, 100, 100, 3)),
            "deviation from 1 with widths 100-104-98": _unit_deviation((5, 100, 104, 98, 3)),
            "relative drift of A": by(range(1, len(left) + 1), left),
            "relative drift of B": by(range(2, len(right) + 2), right),
            "drift error": float((right - 1).abs().max()),
            "drift error as printed": drift_printed,
        }


def _problem(q: int, k: int, n: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = generator_from("deep linear", seed)
    x = torch.randn(n, q, generator=generator, dtype=torch.float64)
    return x, torch.randn(n, k, generator=generator, dtype=torch.float64)


def _remainders(seed: int) -> Tensor:
    x, y = _problem(DIMS[0], DIMS[-1], 20, seed)
    sxx, syx = x.T @ x, y.T @ x
    generator = generator_from("layers", seed)
    layers = dl.drawn_layers(DIMS, dl.definition3_variances(DIMS), generator=generator)
    remainders = []
    for rate in RATES:
        after = dl.compact(dl.gradient_step(layers, sxx, syx, rate=rate))
        first = dl.compact(layers) + dl.first_order_change(layers, sxx, syx, rate=rate)
        remainders.append((after - first).norm() / rate**2)
    return torch.stack(remainders)


def _gradient_error(seed: int) -> float:
    x, y = _problem(DIMS[0], DIMS[-1], 20, seed)
    generator = generator_from("layers", seed)
    layers = dl.drawn_layers(DIMS, dl.definition3_variances(DIMS), generator=generator)
    slopes = dl.layer_gradients(layers, x.T @ x, y.T @ x)
    step, worst = 1e-5, 0.0

    def loss(index: int, change: Tensor) -> float:
        moved = [w + change if i == index else w for i, w in enumerate(layers)]
        return 0.5 * float((x @ dl.compact(moved).T - y).square().sum())

    for index, slope in enumerate(slopes):
        direction = torch.randn(slope.shape, generator=generator, dtype=torch.float64)
        numeric = (loss(index, step * direction) - loss(index, -step * direction)) / (2 * step)
        worst = max(worst, abs(numeric / float((slope * direction).sum()) - 1))
    return worst


def _closed_form_errors(seed: int) -> tuple[float, float]:
    x, y = _problem(7, 3, 20, seed)
    moments = dl.principal_moments(x, y)
    rate = 0.5 / float(moments.values[0])
    initial = torch.randn(3, 7, generator=generator_from("start", seed), dtype=torch.float64)
    weights = initial @ moments.basis.T
    for _ in range(50):
        weights = weights - rate * (weights @ (x.T @ x) - y.T @ x)
    columns = moments.rotated(weights)
    errors = [
        float((columns - dl.columns_at(initial, moments, rate=rate, steps=s)).abs().max()) for s in (50, 51)
    ]
    return errors[0], errors[1]


def _means(draws: int, seed: int) -> tuple[float, float]:
    variances = [0.3, 0.2, 0.5, 0.4]
    layers = dl.drawn_layers(SMALL, variances, generator=generator_from("means", seed), draws=(draws,))
    expected, scales = dl.expected_scales(SMALL, variances), dl.scale_matrices(layers)
    pairs = [*zip(scales.left, expected.left, strict=True), *zip(scales.right, expected.right, strict=True)]
    worst = max(abs(float(m.mean(0).diagonal().mean()) / scale - 1) for m, scale in pairs)
    return worst, abs(float(dl.compact(layers).square().mean()) / expected.product_variance - 1)


def _unit_deviation(widths: tuple[int, ...]) -> float:
    variances = dl.definition3_variances(widths)
    outputs = [widths[i + 1] * variances[i] for i in range(len(variances) - 1)]
    inputs = [widths[i] * variances[i] for i in range(1, len(variances))]
    return max(abs(v - 1) for v in outputs + inputs)


def _drift(width: int, draws: int, seed: int) -> tuple[Tensor, Tensor, float]:
    q, k, depth, rate = 3, 2, 5, 1e-5
    x, y = _problem(q, k, 30, seed)
    sxx, syx = x.T @ x, y.T @ x
    widths = (q, *[width] * (depth - 1), k)
    expected = dl.expected_drift(widths, sxx, rate=rate)
    generator = generator_from("drift", seed)
    left, right = torch.zeros(depth).double(), torch.zeros(depth).double()
    for start in range(0, draws, CHUNK):
        count = min(CHUNK, draws - start)
        variances = dl.definition3_variances(widths)
        layers = dl.drawn_layers(widths, variances, generator=generator, draws=(count,))
        before, after = (
            dl.scale_matrices(layers),
            dl.scale_matrices(dl.gradient_step(layers, sxx, syx, rate=rate)),
        )
        for i in range(depth):
            left[i] += (before.left[i] - after.left[i]).diagonal(dim1=-2, dim2=-1).sum() / draws
            right[i] += (before.right[i] - after.right[i]).diagonal(dim1=-2, dim2=-1).sum() / draws
    a = torch.stack([left[i] / expected.left[i].trace() for i in range(depth - 1)])
    b = torch.stack([right[i] / expected.right[i].trace() for i in range(1, depth)])
    level = torch.arange(2, depth + 1).double()
    printed = (right[1:] / (rate * 2 * level * k / width * q) - 1).abs().max()  # 2 mu l K/m I
    return a, b, float(printed)


@study("interv.relabel_separable", "interv.whitening_identity", "interv.amplify_factor")
class InterventionsExact(Study):
    """Do relabelling, whitening and amplification do exactly what they say?"""

    # Size of the data.
    n: int = 500
    components: int = 10  # P of the relabelling

    def run(self) -> Measured:
        """Check on photographs and on Gaussian data."""
        photos = data.load("photos:coffee/flower", n=self.n, seed=self.seed)
        labels = SeparatorLabels.fit(photos, self.components)
        new = labels.transform(photos)
        scores = labels.pca.project(new.x.flatten(1)) @ labels.weights + labels.bias
        generator = generator_from("interventions", self.seed)
        scales = torch.logspace(1, -1, 20, dtype=torch.float64).reshape(1, 4, 5)
        x = torch.randn(self.n, 1, 4, 5, generator=generator, dtype=torch.float64) * scales
        cloud = ImageData(x, torch.zeros(self.n).long(), ("all",))
        white = ZCAWhitening.fit(cloud, eps=0.0).transform(cloud).x.flatten(1)
        rows = white - white.mean(0)
        pca = image_pca(x)
        stretch = Amplification.fit(cloud, share=0.15, standardise=False, pca=pca)
        after = pca.project(stretch.transform(cloud).x.flatten(1)).var(0, correction=0)
        ratio, count = after / pca.variances, stretch.last - stretch.first
        expected = torch.cat([torch.full((count,), 100.0), torch.ones(len(ratio) - count)]).double()
        return {
            "separator errors": float(((scores > 0).long() != new.y).sum()),
            "separator errors before relabelling": float(((scores > 0).long() != photos.y).sum()),
            "largest |cov - I|": float((rows.T @ rows / self.n - torch.eye(20).double()).abs().max()),
            "variance ratio amplified": float(ratio[:count].mean()),
            "worst ratio error": float((ratio / expected - 1).abs().max()),
        }


@study("relu2.psi0", "relu2.step")
class ReluExact(Study):
    """Is the paired two-layer ReLU network a linear map before training, and is its first step as corrected?"""

    # Size of the model.
    units: int = 8
    points: int = 40  # mirrored: twice as many

    def run(self) -> Measured:
        """Compare with autograd in float64."""
        generator = generator_from("relu", self.seed)
        half = torch.randn(self.points, 5, generator=generator, dtype=torch.float64)
        x = torch.cat([half, -half])
        y = 2.0 * torch.randint(2, (len(x),), generator=generator).double() - 1
        model, loose = _built(self, paired=True), _built(self, paired=False)
        a, w = model.readout.double(), model.hidden.weight.detach()
        outputs = model(x[:, :, None, None])[:, 0]
        (0.5 * (outputs - y).square().sum()).backward()
        assert model.hidden.weight.grad is not None
        slope = -model.hidden.weight.grad
        step = theory.first_step(a, w, x, y, rate=1.0)
        printed = step - torch.outer(a, a) @ w @ (x.T @ x) / 4
        loose_map = loose.readout.double() @ loose.hidden.weight.detach() / 2
        predicted = x @ theory.linear_map(a, w)
        return {
            "deviation from the linear map": float((outputs.detach() - predicted).abs().max()),
            "deviation without pairing": float(
                (loose(x[:, :, None, None])[:, 0].detach() - x @ loose_map).abs().max()
            ),
            "error of the first step": float((step - slope).abs().max()),
            "error with the printed constant": float((printed - slope).abs().max()),
        }


def _built(cfg: ReluExact, *, paired: bool) -> TwoLayerReLU:
    model = models.build(
        "two_layer_relu", classes=1, shape=(5, 1, 1), units=cfg.units, paired=paired, seed=cfg.seed
    )
    assert isinstance(model, TwoLayerReLU)
    return model.double()
