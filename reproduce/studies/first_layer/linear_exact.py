"""Studies of what is exact: invariances, and the closed forms of the linear CNN."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from firstlight._internal.seeds import generator_from
from firstlight.maths import PatchGeometry, mean_patches, pearson
from firstlight.measures.first_layer.energy_profile import energy_profile
from firstlight.models import build
from firstlight.theory import least_squares as ls
from firstlight.theory import linear_cnn as theory
from firstlight.training import Recipe, train
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by


@study("profile.invariance", "profile.cnfm_diagonal")
class Invariances(Study):
    """Is a profile blind to scale, order and rotation of the filters, and is it a diagonal of the feature matrix?"""

    # Random filters over random patches.
    filters: int = 64
    dimension: int = 27  # a 3 x 3 colour patch

    def run(self) -> Measured:
        """Draw filters and a basis, transform, compare."""
        generator = generator_from("invariances", self.seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        a = draw(self.filters, self.dimension)
        basis = torch.linalg.qr(draw(self.dimension, self.dimension)).Q
        mixer = torch.linalg.qr(draw(self.filters, self.filters)).Q
        order = torch.randperm(self.filters, generator=generator)
        profile = energy_profile(a, basis)
        changed = {"scaling": 7.3 * a, "permutation": a[order], "mixing": mixer @ a}
        deviations = [
            abs(1 - float(pearson(profile, energy_profile(other, basis)))) for other in changed.values()
        ]
        diagonal = (basis.mT @ a.mT @ a @ basis).diagonal()
        return {
            "change of the correlation": by(changed, deviations),
            "deviation from the diagonal": float((profile.square() - diagonal).abs().max()),
        }


Draw = Callable[..., Tensor]


def _iterate(k: Tensor, y: Tensor, *, rate: float, steps: int, initial: Tensor | None = None) -> Tensor:
    w = torch.zeros(k.shape[1], dtype=torch.float64) if initial is None else initial.clone()
    for _ in range(steps):
        w = w - rate * k.mT @ (k @ w - y)
    return w


def _error(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())


@study(
    "linear.thm41.optimal",
    "linear.thm42.spectral",
    "linear.thm42.lambda",
    "linear.AB_form",
    "linear.label_blind_limit",
)
class LinearClosedForms(Study):
    """Do the closed forms equal gradient descent on least squares, and where does the printed one fail?"""

    # Random matrices of full and of low rank.
    steps: tuple[int, ...] = (1, 10, 100, 1000, 3000)

    def run(self) -> Measured:
        """Compare on random matrices, full and low rank."""
        generator = generator_from("closed forms", self.seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        errors = []
        for n in (40, 15):
            k, y, initial = draw(n, 27), draw(n), draw(27)
            spectral = ls.spectrum(k)
            rate = 0.9 / spectral.largest
            for steps in self.steps:
                for begin in (None, initial):
                    closed = ls.weights(spectral, y, rate=rate, steps=steps, initial=begin)
                    errors.append(_error(closed, _iterate(k, y, rate=rate, steps=steps, initial=begin)))

        k, y = draw(60, 12), draw(60)
        spectral = ls.spectrum(k)
        rate = 0.9 / spectral.largest
        ridge = []
        for steps in (1, 10, 100):
            matrix = k.mT @ k + spectral.matrix(ls.regulariser(spectral.values, rate=rate, steps=steps))
            ridge.append(_error(torch.linalg.solve(matrix, k.mT @ y), _iterate(k, y, rate=rate, steps=steps)))
        best = ls.optimal_weights(spectral, y)
        loss = (k @ best - y).square().sum()
        others = [(k @ (best + 0.1 * draw(12)) - y).square().sum() for _ in range(20)]
        commuting, early, printed = _diagonal_form_errors(draw)
        return {
            "error of the spectral form": max(errors),
            "error of the regularised form": max(ridge),
            "gradient at the optimum": float((k.mT @ (k @ best - y)).abs().max()),
            "smallest excess loss": float(min(others) - loss),
            "error where the mean is an eigenvector": commuting,
            "error after 3 steps": early,
            "error as printed": printed,
            "error of the label-blind limit": _label_blind_error(draw),
        }


def _diagonal_form_errors(draw: Draw) -> tuple[float, float, float]:
    """Errors of the repaired A/B form, commuting and generic; and of the printed one."""
    scatter, moment = draw(8).abs() + 0.2, draw(8)
    eigen = torch.zeros(8, dtype=torch.float64)
    eigen[2] = 1.7

    def truth(mean: Tensor, rate: float, steps: int) -> Tensor:
        gram, w = torch.diag(scatter) + torch.outer(mean, mean), torch.zeros_like(moment)
        for _ in range(steps):
            w = w - rate * (gram @ w - moment)
        return w

    errors = []
    for mean, steps in ((eigen, 30), (draw(8), 3)):
        rate = 0.9 / float(scatter.max() + mean.square().sum())
        form = theory.diagonal_form(scatter, mean, moment, rate=rate, steps=steps)
        errors.append(_error(form, truth(mean, rate, steps)))
    rate = 0.9 / float(scatter.max() + eigen.square().sum())
    a = ls.filter_function(scatter, rate=rate, steps=30)
    b = ls.filter_function(scatter + eigen.square().sum(), rate=rate, steps=30)
    printed = a * moment + (b / eigen.square().sum() - a) * eigen * (eigen @ moment)  # E-07
    commuting, early = errors
    return commuting, early, _error(printed, truth(eigen, rate, 30))


def _label_blind_error(draw: Draw) -> float:
    k, y = draw(40, 9) + 0.5, draw(40).abs()
    centred = k - k.mean(0)
    y = y - centred @ torch.linalg.lstsq(centred, y - y.mean()).solution
    spectral = ls.spectrum(k)
    rate = 0.5 / spectral.largest
    true = ls.weights(spectral, y, rate=rate, steps=50)
    blind = y.mean() * ls.weights(spectral, torch.ones_like(y), rate=rate, steps=50)
    return float((true - blind).abs().max())


@study(
    "linear.thmA3.finiteM",
    "linear.thmA4.expectation",
    "linear.thmA5.direction",
    "linear.random_label_variance",
    "linear.shuffled_label_variance",
)
class LinearExpectations(Study):
    """Do the expected profiles over initial filters and over random labels follow the formulas?"""

    # Draws enough for errors of a few per mille.
    initial_draws: int = 40_000
    label_draws: int = 200_000
    permutations: int = 60_000

    def run(self) -> Measured:
        """Draw, average, compare."""
        generator = generator_from("expectations", self.seed)
        finite, infinite = _width_errors(self.initial_draws, generator)
        k = torch.randn(40, 9, generator=generator, dtype=torch.float64) + 0.5
        spectral = ls.spectrum(k)
        rate, steps = 0.5 / spectral.largest, 30

        coin = torch.bernoulli(torch.full((40, self.label_draws), 0.5), generator=generator).double()
        errors = {}
        for coding, labels in (
            (theory.LabelCoding.BERNOULLI, coin),
            (theory.LabelCoding.SIGNS, 2 * coin - 1),
        ):
            squares = ls.weights(spectral, labels, rate=rate, steps=steps).square().mean(1)
            moments = theory.random_label_moments(spectral, rate=rate, steps=steps, coding=coding)
            errors[coding] = float((squares / moments.squared_profile - 1).abs().max())

        small = k[:30, :6]
        spectral_small = ls.spectrum(small)
        rate = 0.5 / spectral_small.largest
        order = torch.rand(30, self.permutations, generator=generator).argsort(0)
        weights = ls.weights(spectral_small, (order < 15).double(), rate=rate, steps=steps)
        moments = theory.random_label_moments(
            spectral_small, rate=rate, steps=steps, coding=theory.LabelCoding.SHUFFLED
        )
        shuffled = float((torch.cov(weights) - moments.covariance).norm() / moments.covariance.norm())
        return {
            "error at finite width": finite,
            "error of the infinite width": infinite,
            "error with equal means": _equal_means_error(generator),
            "error of the direction": _direction_error(generator),
            "error with 0/1 labels": errors[theory.LabelCoding.BERNOULLI],
            "error with signs": errors[theory.LabelCoding.SIGNS],
            "error with shuffled labels": shuffled,
        }


def _width_errors(draws: int, generator: torch.Generator) -> tuple[float, float]:
    """Deviation from the formula at 5 filters, and from the paper's limit of infinitely many."""
    m, d, sigma, steps = 5, 6, 0.3, 8
    k = torch.randn(12, d, generator=generator, dtype=torch.float64) + 0.5
    y = (torch.arange(12) % 2).double()
    spectral = ls.spectrum(k)
    rate = 0.7 / spectral.largest
    initial = sigma * torch.randn(draws, m, d, generator=generator, dtype=torch.float64)
    start = initial.mean(1)
    kept = spectral.apply(ls.decay(spectral.values, rate=rate, steps=steps), start.mT).mT
    reached = ls.weights(spectral, y, rate=rate, steps=steps)
    profile = (initial + (reached + kept - start)[:, None]).square().mean((0, 1))
    expected = theory.expected_squared_profile(spectral, y, rate=rate, steps=steps, sigma=sigma, width=m)
    limit = reached.square() + sigma**2
    return float((profile / expected - 1).abs().max()), float((profile / limit - 1).abs().max())


def _equal_means_error(generator: torch.Generator) -> float:
    k = torch.randn(40, 9, generator=generator, dtype=torch.float64) + 0.5
    k[:20] += k[20:].mean(0) - k[:20].mean(0)
    y = (torch.arange(40) < 20).double()
    spectral = ls.spectrum(k)
    rate = 0.9 / spectral.largest
    errors = [float((k.mT @ y - 0.5 * k.sum(0)).abs().max())]
    for steps in (1, 10, 1000):
        true = ls.weights(spectral, y, rate=rate, steps=steps)
        random = theory.random_label_moments(spectral, rate=rate, steps=steps).mean
        errors.append(float((true - random).abs().max()))
    return max(errors)


def _direction_error(generator: torch.Generator) -> float:
    root = torch.randn(6, 6, generator=generator, dtype=torch.float64)
    sigma = root @ root.mT + torch.eye(6)
    mu = torch.randn(6, generator=generator, dtype=torch.float64)
    inverse = torch.linalg.inv(sigma)
    # the printed expression: inverse by Woodbury, applied to mu, term by term
    size = mu @ inverse @ mu
    printed = inverse @ mu - inverse @ torch.outer(mu, mu) @ inverse @ mu / (1 + size)
    short = theory.random_label_direction(sigma, mu)
    direct = torch.linalg.solve(sigma + torch.outer(mu, mu), mu)
    return max(float((v - direct).norm() / direct.norm()) for v in (printed, short))


@study("linear.lemmaA1", "linear.lemmaA2", "linear.eta_eff", "linear.thmA3.profile")
class LinearLemmas(Study):
    """Is the linear CNN regression on average patches, with filters that move rigidly?"""

    # A network small enough to be trained in float64 in a second.
    images: int = 12
    height: int = 10
    width: int = 11
    filters: int = 5
    steps: int = 200
    lr: float = 0.5

    def run(self) -> Measured:
        """Train the network for real, in float64, and compare."""
        generator = generator_from("lemmas", self.seed)
        x = torch.rand(self.images, 3, self.height, self.width, generator=generator, dtype=torch.float64)
        y = (torch.arange(self.images) % 2).double()[:, None]
        shape = (3, self.height, self.width)
        model = build("linear_cnn", classes=1, shape=shape, filters=self.filters, seed=self.seed).double()
        readout = torch.full((self.filters,), 1 / self.filters, dtype=torch.float64)
        model.readout = readout  # built in single precision, where 1/5 is not 1/5
        conv = next(m for m in model.modules() if isinstance(m, nn.Conv2d))
        k = mean_patches(x, PatchGeometry.of(conv))
        initial = conv.weight.detach().flatten(1).clone()
        output = (model(x).detach()[:, 0] - k @ initial.mean(0)).abs().max()

        loss = (model(x) - y).square().mean()
        (gradient,) = torch.autograd.grad(loss, conv.weight)
        spread = (gradient - gradient.mean(0)).abs().max()

        recipe = Recipe(lr=self.lr, steps=self.steps, batch_size=None, loss="mse")
        train(model, x, y, recipe, show=False)
        end = conv.weight.detach().flatten(1)
        rate = theory.effective_rate(self.lr, readout=readout, n=self.images, loss="mse")
        closed = ls.weights(ls.spectrum(k), y[:, 0], rate=rate, steps=self.steps, initial=initial.mean(0))
        filters = theory.filters_at(k, y[:, 0], initial=initial, readout=readout, rate=rate, steps=self.steps)
        eye = torch.eye(k.shape[1], dtype=torch.float64)
        profile = energy_profile(end, eye)
        parts = end.mean(0).square() + initial.var(0, correction=0)
        return {
            "deviation of the output": float(output),
            "deviation between gradients": float(spread),
            "change of the covariance": float((torch.cov(end.mT) - torch.cov(initial.mT)).abs().max()),
            "deviation of the mean filter": float((end.mean(0) - closed).abs().max()),
            "deviation of all filters": float((end - filters).abs().max()),
            "deviation of the profile": float((profile.square() / self.filters - parts).abs().max()),
            "movement": float((end - initial).norm() / initial.norm()),
        }
