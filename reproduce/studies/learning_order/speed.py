"""Studies of speed: initial steps, scale matrices, shuffled labels, wide networks."""

import torch
from torch import Tensor

from firstlight._internal.seeds import generator_from
from firstlight.data.interventions import shuffled_labels
from firstlight.training import geometric_steps
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by
from reproduce.studies.learning_order import common
from reproduce.studies.learning_order import deep_linear as dl
from reproduce.studies.learning_order.principal_components import ZCAWhitening

CHECKPOINTS = (5, 20, 59, 200)


@study("init.fig12")
class InitialSpeed(Study):
    """Does definition 3 train faster than Glorot's rule when one hidden layer is wide?"""

    # Data and network.
    data: str = "cats_dogs"
    n: int = 5000
    n_test: int = 2000
    halve: bool = True
    width: int = 3000
    steps: int = 500
    fraction: float = 0.5  # of the largest stable rate

    drawn = {"definition 3": "trained", "Glorot": "random labels", "Glorot redrawn": "null"}
    axes, log_axes = ("step", "excess loss / initial excess loss"), "y"
    scales = {"smoke": dict(data="photos:coffee/flower", n=100, n_test=50, width=100, steps=10)}

    def run(self) -> Measured:
        """Full-batch descent on the squared loss."""
        train, test = common.pair(self.data, self.n, self.n_test, seed=self.seed, halve=self.halve)
        x, z = common.centred(train, test)
        moments = dl.principal_moments(x, common.one_hot(train))
        seeds = {"definition 3": self.seed, "Glorot": self.seed, "Glorot redrawn": self.seed + 1000}
        runs, rates, starts = {}, {}, {}
        for name, seed in seeds.items():
            layers = _initial(self, x.shape[1], train.n_classes, name, seed)
            rates[name] = self.fraction * 2 / _curvature(layers, x.T @ x)
            runs[name] = _descent(layers, moments, rates[name], self.steps)
            starts[name] = _excess(layers, moments)
        layers = _initial(self, x.shape[1], train.n_classes, "definition 3", self.seed)
        runs["definition 3 with the rate of Glorot"] = _descent(layers, moments, rates["Glorot"], self.steps)
        frequencies = train.counts.double() / len(train)
        accuracies = [((z @ w.T + frequencies).argmax(1) == test.y).double().mean() for _, w in runs.values()]
        points = [t for t in CHECKPOINTS if t < self.steps]
        return {
            "test accuracy": by(runs, torch.stack(accuracies)),
            **{f"loss left from {name}": by(points, losses[points]) for name, (losses, _) in runs.items()},
            # the other reading: the curves as they would be drawn, each from where its network begins
            **{
                f"excess loss from {name}": by(points, starts[name] / len(x) * runs[name][0][points])
                for name in starts
            },
            **{name: losses for name, (losses, _) in runs.items()},
        }


def _initial(cfg: InitialSpeed, q: int, k: int, rule: str, seed: int) -> list[Tensor]:
    widths = (q, cfg.width, k)
    variances = dl.definition3_variances(widths) if rule == "definition 3" else dl.glorot_variances(widths)
    generator = generator_from("initial speed", seed)
    return dl.drawn_layers(widths, variances, generator=generator, distribution="uniform")


def _curvature(layers: list[Tensor], sxx: Tensor) -> float:
    """Largest factor by which a first-order step multiplies an error; rates up to 2 over it are stable."""
    scales = dl.scale_matrices(layers)
    probe = torch.ones(layers[-1].shape[0], sxx.shape[0], dtype=sxx.dtype)
    probe[0] *= -0.5
    size = torch.ones(())
    for _ in range(60):
        terms = [a @ probe @ sxx @ b for a, b in zip(scales.left, scales.right, strict=True)]
        probe = torch.stack(terms).sum(0)
        size = probe.norm()
        probe = probe / size
    return float(size)


def _excess(layers: list[Tensor], moments: dl.PrincipalMoments) -> Tensor:
    """Squared loss above that of the optimum."""
    gap = (moments.rotated(dl.compact(layers)) - moments.optimum) * moments.values.sqrt()
    return gap.square().sum()


def _descent(
    layers: list[Tensor], moments: dl.PrincipalMoments, rate: float, steps: int
) -> tuple[Tensor, Tensor]:
    """Loss above the optimum at each step, relative to the first, and the map at the end."""
    basis = moments.basis
    sxx, syx = (basis * moments.values) @ basis.T, moments.cross @ basis.T
    losses = []
    for _ in range(steps):
        losses.append(_excess(layers, moments))
        layers = dl.gradient_step(layers, sxx, syx, rate=rate)
    return torch.stack(losses) / losses[0], dl.compact(layers)


@study("deeplin.fig3.scale_matrices")
class ScaleMatrices(Study):
    """Do the gradient scale matrices stay near the identity until a deep linear network has converged?"""

    # Data, network, length.
    data: str = "mnist"
    n: int = 5000
    halve: bool = True
    depth: int = 5
    width: int = 512
    steps: int = 1500
    rate: float = 0.6  # of the stability limit 1 / (L d_1)

    drawn = {"A": "trained", "B": "random labels", "loss left": "null"}
    axes = ("step", "deviation (entries)")
    at, log_axes = "step", "xy"
    scales = {
        "smoke": dict(data="photos", n=300, width=64, steps=20, rate=0.3),
        "night": dict(halve=False, width=1024, steps=5000, rate=0.3),
    }

    def run(self) -> Measured:
        """Full-batch gradient descent through the moments of the data, in float64."""
        train = common.normalised(self.data, self.n, seed=self.seed, halve=self.halve)
        (x,) = common.centred(train)
        y = common.one_hot(train)
        moments = dl.principal_moments(x, y)
        sxx, syx = x.T @ x, y.T @ x
        rate = self.rate / (self.depth * float(moments.values[0]))
        widths = (x.shape[1], *[self.width] * (self.depth - 1), y.shape[1])
        generator = generator_from("scale matrices", self.seed)
        layers = dl.drawn_layers(widths, dl.definition3_variances(widths), generator=generator)
        wanted = geometric_steps(self.steps, count=16)
        losses, readings = [], []
        for step in range(self.steps + 1):
            if step in wanted:
                losses.append(_excess(layers, moments))
                readings.append(_read(layers))
            layers = dl.gradient_step(layers, sxx, syx, rate=rate)
        excess = torch.stack(losses) / losses[0]
        return _measured(excess, torch.stack(readings, dim=-1), tuple(sorted(wanted)))


def _read(layers: list[Tensor]) -> Tensor:
    """Mean diagonal and off-diagonal deviation over layers, of A and of B."""
    scales = dl.scale_matrices(layers)
    rows = []
    for side in (scales.left[:-1], scales.right[1:]):  # the others are the identity
        each = [dl.identity_distance(m) for m in side]
        rows.append(
            [sum(d.diagonal for d in each) / len(each), sum(d.off_diagonal for d in each) / len(each)]
        )
    return torch.tensor(rows, dtype=torch.float64)


def _measured(excess: Tensor, read: Tensor, steps: tuple[int, ...]) -> Measured:
    before = excess > 0.1  # convergence: a tenth of the excess loss is left
    measured: dict[str, float | Tensor] = {
        "excess loss left": float(excess[-1]),
        "step": torch.tensor(steps[1:]),
        "loss left": excess[1:],
    }
    for index, name in enumerate("AB"):
        diagonal, off = read[index]
        deviation = diagonal + off
        measured |= {
            f"largest diagonal deviation of {name} before convergence": float(diagonal[before].max()),
            f"largest off-diagonal of {name} before convergence": float(off[before].max()),
            f"initial deviation of {name}": float(deviation[0]),
            f"final deviation of {name}": float(deviation[-1]),
            name: deviation[1:],
        }
    return measured


@study("interv.fig10.slower", "interv.fig10.whitened")
class ShuffledSpeed(Study):
    """Are shuffled labels fitted more slowly than true ones, and does whitening remove the difference?"""

    # One layer, squared loss, closed form.
    data: str = "cats_dogs"
    n: int = 5000  # more than the 768 pixels, or every labelling is fitted alike
    halve: bool = True
    steps: int = 100_000
    rate: float = 0.3  # of the stability limit 1 / d_1, in both conditions

    drawn = {
        "true": "trained",
        "shuffled": "random labels",
        "true, whitened": "theory",
        "shuffled, whitened": "null",
    }
    axes = ("step", "training accuracy")
    at, log_axes = "step", "x"
    scales = {"smoke": dict(data="photos:coffee/flower", n=100, steps=100)}

    def run(self) -> Measured:
        """Exact at every time, without iterating. A ratio is that of steps to 90 % of the final accuracy."""
        steps = (0, *geometric_steps(self.steps, count=200)[1:])
        times = torch.tensor(steps).double()
        natural = common.normalised(self.data, self.n, seed=self.seed, halve=self.halve)
        accuracy = {}
        for kind, train in (("", natural), (", whitened", ZCAWhitening.fit(natural).transform(natural))):
            for name, part in (("true", train), ("shuffled", shuffled_labels(train, seed=self.seed))):
                accuracy[name + kind] = common.linear_accuracy(part, part, rate=self.rate, steps=steps)
        reached = {
            name: float(times[(row >= 0.9 * row[-1]).to(torch.uint8).argmax()]) + 1
            for name, row in accuracy.items()
        }
        ratios = [reached["shuffled" + kind] / reached["true" + kind] for kind in ("", ", whitened")]
        finals = [float(accuracy[name][-1]) for name in ("true", "shuffled")]
        return {
            "slowdown by shuffling": by(("natural", "whitened"), ratios),
            "final training accuracy": by(("true labels", "shuffled labels"), finals),
            "step": times[1:],
            **{name: row[1:] for name, row in accuracy.items()},
        }


DEPTHS = (1, 2, 4)
MATRICES = ("B_2", "B_5", "A_1")


@study("deeplin.eq10.deep", "deeplin.thm4.variance", "deeplin.depth_rate")
class WideNetworks(Study):
    """Do wide deep linear networks follow the closed form, and does depth multiply their rate?"""

    # Sizes.
    widths: tuple[int, ...] = (200, 800, 3200)  # for the closed form
    concentration_widths: tuple[int, ...] = (100, 1000, 4000)
    rate_width: int = 1000
    steps: int = 100
    rate_nets: int = 4  # the rate is that of their spread
    target: float = 0.1  # size of the targets of the rate, so that they do not dwarf the initial outputs

    scales = {
        "smoke": dict(
            widths=(50, 100, 200), concentration_widths=(50, 200), rate_width=200, steps=10, rate_nets=2
        )
    }

    def run(self) -> Measured:
        """Step the networks for real, in float64."""
        errors = [_closed_form_errors(w, self.steps, self.seed) for w in self.widths]
        off = torch.stack([_off_diagonals(w, self.seed) for w in self.concentration_widths], dim=1)
        x = torch.tensor(self.concentration_widths).double().log()
        x = x - x.mean()
        rates = [_leading_rate(depth, self, trained=depth) for depth in DEPTHS]
        alone = [_leading_rate(depth, self, trained=1) for depth in DEPTHS]
        return {
            "error of the closed form": by(self.widths, [e for e, _ in errors]),
            "error of the closed form without the factor L": by(self.widths, [e for _, e in errors]),
            "slope of the off-diagonals": by(MATRICES, (off.log() * x).sum(1) / x.square().sum()),
            "speed-up over depth 1": by(DEPTHS[1:], [r / rates[0] for r in rates[1:]]),
            "speed-up with one layer trained": by(DEPTHS[1:], [r / alone[0] for r in alone[1:]]),
        }


def _data(q: int, k: int, seed: int, *, size: float = 1.0) -> tuple[Tensor, Tensor]:
    generator = generator_from("wide", seed)
    x = torch.randn(200, q, generator=generator, dtype=torch.float64) * torch.logspace(0, -1, q).double()
    teacher = torch.randn(q, k, generator=generator, dtype=torch.float64) / q**0.5
    return x, size * (x @ teacher)


def _layers(widths: tuple[int, ...], seed: int) -> list[Tensor]:
    return dl.drawn_layers(widths, dl.definition3_variances(widths), generator=generator_from("layers", seed))


def _closed_form_errors(width: int, steps: int, seed: int) -> tuple[float, float]:
    """Relative error of the predicted columns, with the factor L of the rate and without it."""
    x, y = _data(20, 3, seed)
    sxx, syx, moments = x.T @ x, y.T @ x, dl.principal_moments(x, y)
    rate = 0.02 / (3 * float(moments.values[0]))
    layers = _layers((20, width, width, 3), seed)
    initial = moments.rotated(dl.compact(layers))
    for _ in range(steps):
        layers = dl.gradient_step(layers, sxx, syx, rate=rate)
    reached = moments.rotated(dl.compact(layers))
    expected = [dl.columns_at(initial, moments, rate=rate, steps=steps, depth=depth) for depth in (3, 1)]
    errors = [float((reached - e).norm() / expected[0].norm()) for e in expected]
    return errors[0], errors[1]


def _off_diagonals(width: int, seed: int) -> Tensor:
    scales = dl.scale_matrices(_layers((50, *[width] * 4, 10), seed))
    chosen = (scales.right[1], scales.right[4], scales.left[0])
    return torch.tensor([dl.identity_distance(m).off_diagonal_rms for m in chosen], dtype=torch.float64)


def _leading_rate(depth: int, cfg: WideNetworks, *, trained: int) -> float:
    """Initial decay rate of the leading column's spread when the first `trained` layers move."""
    x, y = _data(20, 3, cfg.seed, size=cfg.target)
    sxx, syx, moments = x.T @ x, y.T @ x, dl.principal_moments(x, y)
    rate, steps = 0.02 / float(moments.values[0]), 5
    columns = []
    for net in range(cfg.rate_nets):
        layers = _layers((20, *[cfg.rate_width] * (depth - 1), 3), 1000 * cfg.seed + net)
        before = dl.compact(layers)
        for _ in range(steps):
            layers = [*dl.gradient_step(layers, sxx, syx, rate=rate)[:trained], *layers[trained:]]
        columns.append(torch.stack([moments.rotated(w)[:, 0] for w in (before, dl.compact(layers))]))
    spread = torch.stack(columns).std(0).mean(1)
    return -float((spread[1] / spread[0]).log()) / steps
