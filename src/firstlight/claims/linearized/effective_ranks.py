"""Spectra of tangent kernels at initialisation, by width."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.linearized.plans import PUBLISHED_WIDTHS, SHIFT
from firstlight.claims.linearized.sweep import is_rising, label
from firstlight.claims.linearized.tasks import Task, parts_of
from firstlight.claims.spread import sd
from firstlight.claims.study import Rule, study
from firstlight.core.parallel import map_tasks
from firstlight.core.result import Result
from firstlight.figures import Curve, Figure, curves
from firstlight.measures.linearized import effective_rank, ntk_gram
from firstlight.models import build, parameter_count

OUTPUTS = 10
DIGITS = Task(n=300, n_valid=10, n_test=10)


@dataclass(frozen=True, kw_only=True)
class Spectra(Result):
    """Numbers from the spectrum of one kernel per seed and width.

    Parameters
    ----------
    kernel_rank, jacobian_rank : Tensor of shape (seeds, widths)
        Effective rank from the eigenvalues of the kernel and from their roots, the singular values of the
        Jacobian. The paper names the one and computes the other (E-84).
    condition : Tensor of shape (seeds, widths)
        Largest over smallest singular value of the Jacobian.
    smallest : Tensor of shape (seeds, widths)
        Smallest singular value.
    rows : int
        Of the Jacobian.
    gaussian : tuple of float
        Effective kernel rank of a Jacobian of independent numbers with as many weights.
    """

    widths: tuple[float, ...]
    kernel_rank: Float[Tensor, "seeds widths"]
    jacobian_rank: Float[Tensor, "seeds widths"]
    condition: Float[Tensor, "seeds widths"]
    smallest: Float[Tensor, "seeds widths"]
    rows: int
    gaussian: tuple[float, ...]

    def ranks(self) -> dict[str, float]:
        """Both effective ranks by width, mean over seeds."""
        return {**self.named("kernel", self.kernel_rank), **self.named("Jacobian", self.jacobian_rank)}

    def named(self, what: str, values: Float[Tensor, "seeds widths"]) -> dict[str, float]:
        """Means over seeds under names that say the width."""
        return {f"{what} {label(w)}": float(v) for w, v in zip(self.widths, values.mean(0), strict=True)}

    def spread(self, what: str, values: Float[Tensor, "seeds widths"]) -> dict[str, float]:
        """Standard deviations over seeds, by the same names."""
        return {f"{what} {label(w)}": sd(v) for w, v in zip(self.widths, values.T, strict=True)}

    @property
    def growth(self) -> float:
        """Effective kernel rank of the widest over that of the narrowest."""
        mean = self.kernel_rank.mean(0)
        return float(mean[-1] / mean[0])

    def context(self) -> dict[str, float]:
        """What independent numbers would give, and the number of rows."""
        independent = {
            f"independent numbers {label(w)}": g for w, g in zip(self.widths, self.gaussian, strict=True)
        }
        return {"rows": self.rows, **independent}


def gaussian_rank(rows: int, weights: int) -> float:
    r"""Effective kernel rank of a rows x weights matrix of independent Gaussian numbers.

    Page's entropy: :math:`\log m - m / (2 n)` for m at most n, up to terms of order 1/n.
    """
    m, n = sorted((rows, weights))
    return math.exp(math.log(m) - m / (2 * n))


def spectrum(
    case: tuple[float, int], *, task: Task, model: str, outputs: int = OUTPUTS
) -> tuple[float, float, float, float]:
    """Effective ranks of kernel and Jacobian, condition number and smallest singular value, float64."""
    width, seed = case
    images = parts_of(task, seed=seed)[0].x.double()
    shape = tuple(images.shape[1:])
    network = build(model, classes=outputs, shape=shape, width=width, seed=seed).double()
    values = torch.linalg.eigvalsh(ntk_gram(network, images, outputs="full", show=False)).clamp(min=0).flip(0)
    singular = values.sqrt()
    return (
        effective_rank(values),
        effective_rank(singular),
        float(singular[0] / singular[-1].clamp(min=1e-300)),
        float(singular[-1]),
    )


def spectra(task: Task, widths: tuple[float, ...], *, model: str, seeds: int, seed: int) -> Spectra:
    """One kernel per seed and width."""
    cases = [(w, s) for s in range(seed, seed + seeds) for w in widths]
    rows = map_tasks(partial(spectrum, task=task, model=model), cases, label=f"Kernels of {model}")
    table = torch.tensor(rows, dtype=torch.float64).reshape(seeds, len(widths), -1)
    shape = parts_of(task, seed=seed)[0].shape
    counts = [
        parameter_count(build(model, classes=OUTPUTS, shape=shape, width=w, device="meta")) for w in widths
    ]
    return Spectra(
        widths=widths,
        kernel_rank=table[..., 0],
        jacobian_rank=table[..., 1],
        condition=table[..., 2],
        smallest=table[..., 3],
        rows=OUTPUTS * task.n,
        gaussian=tuple(gaussian_rank(OUTPUTS * task.n, p) for p in counts),
    )


@dataclass(frozen=True, kw_only=True)
class LeNetSpectra(Result):
    """Spectra with and without shifts, and the definition on two known matrices."""

    standard: Spectra
    shifted: Spectra
    of_equal: float
    of_one: float
    size: int


@study("lin.effective_rank.def", "lin.fig6.lenet_rank", "lin.fig6.shifted_rank", "lin.fig7.conditioning")
class LeNetRanks:
    """Does the tangent kernel of LeNet gain rank and lose condition number with width?

    Effective rank from the kernel and from the Jacobian side by side: they differ several-fold.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        task: Task = DIGITS
        widths: tuple[float, ...] = (1.0, 2.0, 4.0)
        seeds: int = 3
        size: int = 50  # of the matrices with known rank
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(task=Task(data="photos", n=8, n_valid=8, n_test=8), widths=(0.5, 1.0), seeds=1),
        "desk": Config(),
        "paper": Config(task=Task(n=600, n_valid=10, n_test=10), widths=PUBLISHED_WIDTHS, seeds=5),
    }

    @staticmethod
    def run(cfg: Config) -> LeNetSpectra:
        """Kernels of untrained networks."""
        both = [
            spectra(replace(cfg.task, shift=s), cfg.widths, model="lenet", seeds=cfg.seeds, seed=cfg.seed)
            for s in (0, SHIFT)
        ]
        equal = torch.ones(cfg.size, dtype=torch.float64)
        return LeNetSpectra(
            standard=both[0],
            shifted=both[1],
            of_equal=effective_rank(equal),
            of_one=effective_rank(torch.nn.functional.pad(equal[:1], (0, cfg.size - 1))),
            size=cfg.size,
        )

    @staticmethod
    def figure(result: LeNetSpectra) -> Figure:
        """Effective ranks as a share of the rows, against width."""
        rows = result.standard.rows
        pairs = (("digits", result.standard, "trained"), ("shifted", result.shifted, "random labels"))
        gaussian = torch.tensor([result.standard.gaussian], dtype=torch.float64) / rows
        return curves(
            [
                *[Curve(name=f"{n}, kernel", values=s.kernel_rank / rows, role=role) for n, s, role in pairs],
                Curve(name="digits, Jacobian", values=result.standard.jacobian_rank / rows, role="theory"),
                Curve(name="shifted, Jacobian", values=result.shifted.jacobian_rank / rows, role="other"),
                Curve(name="independent numbers, kernel", values=gaussian, role="null"),
            ],
            title="Effective rank grows with width, from kernel and from Jacobian",
            alt="Effective rank over rows against width, two definitions, digits and shifted digits",
            x="width factor",
            y="effective rank / rows",
            at=result.standard.widths,
            log_x=True,
        )

    rules: ClassVar = {
        "lin.effective_rank.def": Rule(
            measured=lambda r: {"equal values": r.of_equal, "one value": r.of_one},
            reproduced=lambda r: abs(r.of_equal - r.size) < 1e-9 and abs(r.of_one - 1) < 1e-9,
        ),
        "lin.fig6.lenet_rank": Rule(
            measured=lambda r: r.standard.ranks(),
            reproduced=lambda r: (
                is_rising(r.standard.kernel_rank.mean(0).tolist())
                and float(r.standard.kernel_rank.max()) < r.standard.rows / 2
            ),
            partly=lambda r: (
                is_rising(r.standard.kernel_rank.mean(0).tolist())
                and float(r.standard.kernel_rank.max()) < r.standard.rows
            ),
            spread=lambda r: {
                **r.standard.spread("kernel", r.standard.kernel_rank),
                **r.standard.spread("Jacobian", r.standard.jacobian_rank),
            },
            null=lambda r: r.standard.context(),
            note="half the rows stand for the 3000 of 6000; judged on the kernel, from which the paper computes; "
            "from the Jacobian, which it names, the rank is not far below the rows",
        ),
        "lin.fig6.shifted_rank": Rule(
            measured=lambda r: {
                **r.shifted.ranks(),
                "growth, shifted": r.shifted.growth,
                "growth, digits": r.standard.growth,
            },
            reproduced=lambda r: is_rising(r.shifted.kernel_rank.mean(0).tolist()),
            partly=lambda r: is_rising(r.shifted.kernel_rank.mean(0).tolist()),
            spread=lambda r: r.shifted.spread("kernel", r.shifted.kernel_rank),
            null=lambda r: r.shifted.context(),
            note="the rule is on the rise only; whether it is less marked than without shifts is in the two growths",
        ),
        "lin.fig7.conditioning": Rule(
            measured=lambda r: {
                **r.standard.named("condition", r.standard.condition),
                **r.standard.named("smallest singular value", r.standard.smallest),
            },
            reproduced=lambda r: bool((r.standard.condition.mean(0).diff() < 0).all()),
            partly=lambda r: bool((r.standard.condition.mean(0).diff() < 0).all()),
            spread=lambda r: r.standard.spread("condition", r.standard.condition),
            null=lambda r: r.shifted.named("condition, shifted", r.shifted.condition),
        ),
    }
