"""Studies of exact solutions, spectra and counts."""

import math
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from firstlight._internal.executor import map_tasks, single_thread
from firstlight._internal.seeds import generator_from
from firstlight.measures.linearized.exact_solution import solve_linearized
from firstlight.measures.linearized.tangent_kernel import ntk_gram
from firstlight.measures.linearized.tangent_kernel_summary import effective_rank
from firstlight.models import LinearizedModel, build, linearize, parameter_count
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by
from reproduce.studies.linearized.common import (
    DESK_BINARY,
    SHIFT,
    SMOKE_BINARY,
    CaseSpectrum,
    factor,
    gaussian_condition,
    pairs_by_width,
    rank_readings,
    spectra,
)
from reproduce.studies.linearized.pairs import Pair, Plan, Task, parts_of, solved

PHOTOGRAPHS = Task(data="photos224", n=100, n_valid=8, n_test=8, side=64)


@study("lin.fig6.alexnet_rank")
class AlexnetRank(Study):
    """Does the tangent kernel of AlexNet gain rank with width?

    The published numbers are for snakes of ImageNet, which cannot be had: large crops of photographs,
    brought to the smallest side that AlexNet takes. Ranks are shares of the number of rows.
    """

    # Untrained networks on photographs.
    task: Task = PHOTOGRAPHS
    widths: tuple[float, ...] = (0.125, 0.25, 0.5)  # four-fold, as published

    scales = {
        "smoke": dict(task=Task(data="photos", n=8, n_valid=8, n_test=8, side=64), widths=(0.03125, 0.0625))
    }

    def run(self) -> Measured:
        """Kernels of untrained networks."""
        return rank_readings(spectra(self.task, self.widths, model="alexnet", seed=self.seed), "photographs")


SIZE = 50  # of the matrices with known rank


class UntrainedLenets(Study):
    """Settings of studies of untrained networks on digits, shifted or not."""

    task: Task = Task(n=300, n_valid=10, n_test=10)
    widths: tuple[float, ...] = (1, 2, 4)

    scales = {
        "smoke": dict(task=Task(data="photos", n=8, n_valid=8, n_test=8), widths=(0.5, 1)),
        # x60 takes more than twice as long as all
        "night": dict(task=Task(n=600, n_valid=10, n_test=10), widths=(1, 2, 5, 10, 25)),
    }

    def spectra(self, *, shift: int = 0) -> dict[float, CaseSpectrum]:
        """Kernels by width factor, shared by the studies."""
        return spectra(replace(self.task, shift=shift), self.widths, model="lenet", seed=self.seed)


@study("lin.effective_rank.def", "lin.fig6.lenet_rank", "lin.fig6.shifted_rank")
class EffectiveRanks(UntrainedLenets):
    """Does the tangent kernel of LeNet gain rank with width?

    Effective rank from the kernel and from the Jacobian side by side: they differ several-fold. All ranks
    are shares of the number of rows.
    """

    def run(self) -> Measured:
        """Kernels of untrained networks."""
        equal = torch.ones(SIZE, dtype=torch.float64)
        one = torch.nn.functional.pad(equal[:1], (0, SIZE - 1))
        return {
            **rank_readings(self.spectra(), "digits"),
            **rank_readings(self.spectra(shift=SHIFT), "shifted digits"),
            "effective rank of 50 equal values": effective_rank(equal),
            "effective rank of one value": effective_rank(one),
        }


SHARES = 50
"""Points at which the distribution of the singular values is drawn."""


@study("lin.fig7.conditioning")
class Conditioning(UntrainedLenets):
    """Does width raise the smallest singular values of the Jacobian and improve its condition?

    The kernels are those of the effective ranks. The figure shows the whole distribution.
    """

    drawn = "distribution"
    axes = ("share of the singular values below", "singular value")
    at = "shares"
    log_axes = "y"

    def run(self) -> Measured:
        """Kernels of untrained networks."""
        digits = self.spectra()
        points = [factor(width) for width in self.widths]
        shares = torch.linspace(0, 1, SHARES, dtype=torch.float64)
        return {
            "condition number": by(points, [one.condition for one in digits.values()]),
            "condition number of independent numbers": by(
                points, [gaussian_condition(len(one.values), one.weights) for one in digits.values()]
            ),
            "smallest singular value": by(points, [float(one.singular[-1]) for one in digits.values()]),
            **{
                f"distribution at x{point}": one.singular.quantile(shares)
                for point, one in zip(points, digits.values(), strict=True)
            },
            "shares": shares,
        }


PUBLISHED = {"LeNet x1": 60e3, "LeNet x60": 216e6, "AlexNet x1": 60e6, "AlexNet x4": 960e6}
RATIO = "weights over the published number"
FULL = "rank over its bound"


def jacobian(model: nn.Module, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "rows p"]:
    """Derivative of every output by every weight, one dense block: the definition, for small cases."""
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def outputs(w: dict[str, Tensor], image: Tensor) -> Tensor:
        row: Tensor = functional_call(model, w, image[None])[0]
        return row

    blocks = vmap(jacrev(outputs), in_dims=(None, 0))(weights, images)
    return torch.cat([block.flatten(2).flatten(0, 1) for block in blocks.values()], dim=1)


def smooth(model: nn.Module) -> nn.Module:
    """Tanh in place of ReLU, means in place of maxima."""
    for name, module in list(model.named_children()):
        if isinstance(module, nn.ReLU):
            setattr(model, name, nn.Tanh())
        elif isinstance(module, nn.MaxPool2d):
            setattr(model, name, nn.AvgPool2d(2))
    return model


def rank_over_bound(model: nn.Module, n: int, *, seed: int) -> float:
    """Rank of the Jacobian on random images over min(p, rows)."""
    generator = generator_from("rank", seed)
    images = torch.randn(n, 1, 28, 28, generator=generator, dtype=torch.float64)
    rows = jacobian(model, images)
    values = torch.linalg.svdvals(rows)
    return int((values > 1e-10 * values[0]).sum()) / min(rows.shape)


@study("lin.counts", "lin.rank_bound")
class Counts(Study):
    """How many weights have LeNet and AlexNet at each width, and can so many fit any labels?"""

    # Counts need no memory; the ranks are those of one narrow network.
    lenet_widths: tuple[int, ...] = (1, 2, 5, 10, 25, 60)
    alexnet_widths: tuple[int, ...] = (1, 4)
    narrow: float = 0.125
    few: int = 20  # images with fewer rows than weights
    many: int = 115  # with more

    def run(self) -> Measured:
        """Count without allocating; ranks of small Jacobians in float64."""
        weights = {
            width: parameter_count(build("lenet", shape=(1, 28, 28), width=width, device="meta"))
            for width in self.lenet_widths
        }
        counts = {f"LeNet x{width}": count for width, count in weights.items()} | {
            f"AlexNet x{width}": parameter_count(
                build("alexnet", classes=1000, shape=(3, 224, 224), width=width, device="meta")
            )
            for width in self.alexnet_widths
        }

        def narrow() -> nn.Module:
            return build("lenet", shape=(1, 28, 28), width=self.narrow, seed=self.seed).double()

        ranks = {
            "smooth units and few images": rank_over_bound(smooth(narrow()), self.few, seed=self.seed),
            "smooth units and many images": rank_over_bound(smooth(narrow()), self.many, seed=self.seed),
        }
        return {
            "weights of LeNet": by(weights, list(weights.values())),
            RATIO: by(PUBLISHED, [counts[name] / number for name, number in PUBLISHED.items()]),
            FULL: by(ranks, list(ranks.values())),
        }


ZERO_OR_NOT = Task(n_valid=200, n_test=2000, binary=True)


def _case(n: int, *, task: Task, width: float, seed: int) -> tuple[float, float]:
    parts = parts_of(replace(task, n=n), seed=seed)
    model = build("lenet", classes=1, shape=parts[0].shape, width=width, seed=seed)
    solution = solved(model, *parts)
    return solution.least_norm[1], solution.ridge[1]


@study("lin.solver.double_descent")
class DoubleDescent(Study):
    """Is the exact solution worst where there are as many weights as equations?

    Zero against the rest. A ridge chosen on validation images is the control: if the threshold itself
    were hard, it would not help.
    """

    # One narrow LeNet, solved for growing numbers of images.
    task: Task = ZERO_OR_NOT
    counts: tuple[int, ...] = (300, 600, 800, 1000, 1250, 1500, 3000)  # training images; p = 1014
    width: float = 0.125

    scales = {
        "smoke": dict(
            task=Task(data="photos", n_valid=16, n_test=16, binary=True), counts=(16, 32), width=0.0625
        )
    }
    n_seeds = 10  # where the worst lies differs from seed to seed

    def run(self) -> Measured:
        """Solve for every number of images; the threshold is the one nearest to the number of weights."""
        case = partial(_case, task=self.task, width=self.width, seed=self.seed)
        plain, ridge = zip(*map_tasks(case, list(self.counts), label="Exact solutions"), strict=True)
        test = parts_of(replace(self.task, n=self.counts[0]), seed=self.seed)[2]
        model = build("lenet", classes=1, shape=test.shape, width=self.width, device="meta")
        ratios = [parameter_count(model) / n for n in self.counts]
        threshold = min(range(len(ratios)), key=lambda i: abs(math.log(ratios[i])))
        ends = (0, len(ratios) - 1)
        return {
            "solved": by(self.counts, plain),
            "weights per image where it is worst": ratios[min(range(len(ratios)), key=lambda i: plain[i])],
            "accuracy at the threshold": plain[threshold],
            "dip at the threshold": min(plain[i] for i in ends) - plain[threshold],
            "dip with ridge": min(ridge[i] for i in ends) - ridge[threshold],
        }


SIDE = 28
STEPS = (1e-1, 1e-2, 1e-3, 1e-4)


def _images(n: int, seed: int, *purpose: str) -> Tensor:
    generator = generator_from("expansion", *purpose, seed)
    return torch.randn(n, 1, SIDE, SIDE, generator=generator, dtype=torch.float64)


def _lenet(width: float, seed: int) -> nn.Module:
    return build("lenet", shape=(1, SIDE, SIDE), width=width, seed=seed).double()


def _direction(model: LinearizedModel, seed: int, *, norm: float) -> dict[str, Tensor]:
    """A random displacement of given length, by name."""
    generator = generator_from("direction", seed)
    own = dict(model.displacement.named_parameters())
    drawn = {name: torch.randn(u.shape, generator=generator, dtype=torch.float64) for name, u in own.items()}
    length = torch.stack([u.square().sum() for u in drawn.values()]).sum().sqrt()
    return {name: (norm / length * u).to(own[name].dtype) for name, u in drawn.items()}


def _flat(tensors: dict[str, Tensor]) -> Tensor:
    return torch.cat([t.flatten() for t in tensors.values()])


def _initial(width: float, seed: int) -> tuple[float, float]:
    model, images = _lenet(width, seed).float(), _images(4, seed, "start").float()
    line = linearize(model)
    with torch.no_grad():
        before = model(images)
        apart = float((line(images) - before).abs().max())
        u = _direction(line, seed, norm=1.0)
        moved = line.displace(u)(images) - before
        expected = jacobian(model, images) @ _flat(u)
    return apart, float((moved.flatten() - expected).abs().max())


def _gradient(width: float, seed: int) -> float:
    model, images = _lenet(width, seed), _images(4, seed, "gradient")
    targets = torch.eye(10, dtype=torch.float64)[torch.arange(4) % 10]
    line = linearize(model)
    line.displace(_direction(line, seed, norm=1.0))
    outputs = line(images)
    (outputs - targets).square().sum().backward()
    gradient = torch.cat([u.grad.flatten() for u in line.parameters() if u.grad is not None])
    rows = jacobian(model, images).reshape(4, 10, -1)
    wanted = torch.zeros_like(gradient)
    for i in range(4):
        for output in range(10):
            wanted += 2 * rows[i, output] * (outputs[i, output] - targets[i, output]).detach()
    return float((gradient - wanted).norm() / wanted.norm())


def _kernel(width: float, n: int, seed: int) -> tuple[float, float, float]:
    model, images = _lenet(width, seed), _images(n, seed, "kernel")
    gram = ntk_gram(model, images, outputs="full")
    values = torch.linalg.eigvalsh(gram)
    rows = jacobian(model, images)
    return (
        float((gram - gram.T).abs().max() / gram.abs().max()),
        float(values[0] / values[-1]),
        float((gram - rows @ rows.T).abs().max() / gram.abs().max()),
    )


def _remainders(model: nn.Module, seed: int) -> Tensor:
    """Distance of network and expansion over the square of the step, as a share of the weights' length."""
    images = _images(4, seed, "remainder")
    line = linearize(model)
    names = [name for name, _ in line.displacement.named_parameters()]
    initial = {name: p.detach().clone() for name, p in model.named_parameters()}
    v = _direction(line, seed, norm=float(_flat(initial).norm()))
    quotients = []
    with torch.no_grad():
        for s in STEPS:
            moved = {name: initial[name] + s * v[name] for name in names}
            exact_outputs = torch.func.functional_call(model, moved, images)
            error = exact_outputs - line.displace({name: s * v[name] for name in names})(images)
            quotients.append(error.norm() / s**2)
    return torch.stack(quotients)


def _least_norm(width: float, n: int, seed: int) -> tuple[float, float]:
    """Residual of the solver, and the part of its displacement outside the row space of the Jacobian."""
    model, images = _lenet(width, seed), _images(n, seed, "solve")
    y = torch.eye(10, dtype=torch.float64)[torch.arange(n) % 10]
    line = solve_linearized(model, images, y, show=False).solution()
    rows = jacobian(model, images)
    u = torch.cat([p.detach().flatten() for p in line.displacement.parameters()])
    seen = torch.linalg.lstsq(rows.T, u[:, None]).solution
    with torch.no_grad():
        left = float((line(images) - y).norm() / y.norm())
    return left, float((u - (rows.T @ seen)[:, 0]).norm() / u.norm())


@study("lin.flin.zero", "lin.gradient", "lin.ntk_gram", "lin.min_norm", "lin.lazy_limit")
class Expansion(Study):
    """Does the linearised model do what its formulas say?

    Every number is compared with dense Jacobians, one output of one image at a time.
    """

    # Narrow LeNets on random images, small enough for dense Jacobians.
    width: float = 0.25
    kernel_width: float = 0.5
    n: int = 60  # images of the kernel
    n_solved: int = 100  # images of the exact solution: a thousand equations

    def run(self) -> Measured:
        """Check one after the other."""
        with single_thread():
            initial, derivative = _initial(self.width, self.seed)
            asymmetry, lowest, definition = _kernel(self.kernel_width, self.n, self.seed)
            residual, outside = _least_norm(self.width, self.n_solved, self.seed)
            remainder = _remainders(smooth(_lenet(self.width, self.seed)), self.seed)
            return {
                "distance from the network": initial,
                "distance of the derivative from J u": derivative,
                "relative distance of the gradient": _gradient(self.width, self.seed),
                "asymmetry of the kernel": asymmetry,
                "lowest over largest eigenvalue": lowest,
                "distance of the kernel from the product of Jacobians": definition,
                "residual of the solution": residual,
                "part outside the row space": outside,
                "error over the squared step": by(STEPS, remainder),
                "error over the squared step with ReLU": by(
                    STEPS, _remainders(_lenet(self.width, self.seed), self.seed)
                ),
            }


FEW = replace(DESK_BINARY, task=replace(DESK_BINARY.task, n=500, n_test=1000), epochs=20, solve=False)
OTHER = 1000  # added to the seed of the pairs that the null compares with
DOUBLE, OTHER_SEED = "largest change by double precision", "largest change by another seed"


def largest_change(before: list[Pair], after: list[Pair]) -> float:
    """Largest absolute difference in test accuracy, over both models and all widths."""
    return max(
        max(abs(a.network[1] - b.network[1]), abs(a.linearised[1] - b.linearised[1]))
        for a, b in zip(before, after, strict=True)
    )


@study("lin.precision")
class Precision(Study):
    """Does double precision change what is found about linearised networks?"""

    # Pairs by width, from the same numbers in either precision.
    plan: Plan = FEW
    widths: tuple[float, ...] = (0.25, 0.5)

    scales = {"smoke": dict(plan=replace(SMOKE_BINARY, solve=False), widths=(0.25,))}

    def run(self) -> Measured:
        """Pairs of equal initial weights and order, twice; and of others."""
        double = replace(self.plan, double=True)
        single = pairs_by_width("single precision", self.plan, self.widths, seed=self.seed)
        others = pairs_by_width("another seed", self.plan, self.widths, seed=self.seed + OTHER)
        exact = pairs_by_width("double precision", double, self.widths, seed=self.seed)
        return {DOUBLE: largest_change(single, exact), OTHER_SEED: largest_change(single, others)}
