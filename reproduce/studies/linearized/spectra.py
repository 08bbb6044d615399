"""Spectra of tangent kernels of untrained networks, by width; kept, so that several studies read them."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.executor import map_tasks
from firstlight._internal.result import Result
from firstlight._internal.store.runs import RunSpec, Store
from firstlight.measures.linearized import effective_rank, ntk_gram
from firstlight.models import build, parameter_count
from reproduce.evidence import Series, by
from reproduce.studies.linearized.common import factor
from reproduce.studies.linearized.pairs import Task, parts_of

OUTPUTS = 10


@dataclass(frozen=True, kw_only=True)
class Case:
    """Everything that decides one kernel."""

    task: Task
    model: str
    width: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class CaseSpectrum(Result):
    """Eigenvalues of one tangent kernel, largest first, and the number of weights behind them."""

    values: Float[Tensor, " rows"]
    weights: int

    @property
    def singular(self) -> Float[Tensor, " rows"]:
        """Singular values of the Jacobian."""
        return self.values.sqrt()

    @property
    def condition(self) -> float:
        """Largest over smallest singular value of the Jacobian."""
        return float(self.singular[0] / self.singular[-1].clamp(min=1e-300))


def spectrum(case: Case) -> CaseSpectrum:
    """Eigenvalues of the kernel with all outputs, in float64."""
    images = parts_of(case.task, seed=case.seed)[0].x.double()
    shape = tuple(images.shape[1:])
    network = build(case.model, classes=OUTPUTS, shape=shape, width=case.width, seed=case.seed).double()
    values = torch.linalg.eigvalsh(ntk_gram(network, images, outputs="full", show=False)).clamp(min=0).flip(0)
    return CaseSpectrum(values=values, weights=parameter_count(network))


def spectra(task: Task, widths: Sequence[float], *, model: str, seed: int) -> dict[float, CaseSpectrum]:
    """One kernel per width factor, or fetched from the store."""
    cases = [Case(task=task, model=model, width=float(width), seed=seed) for width in widths]
    rows = map_tasks(_stored, cases, label=f"Kernels of {model}")
    return dict(zip(widths, rows, strict=True))


def _stored(case: Case) -> CaseSpectrum:
    spec = RunSpec(what="linearized spectrum", config=dataclasses.asdict(case))
    kept: CaseSpectrum = Store().fetch_or_run(spec, lambda scratch: spectrum(case)).result
    return kept


def rank_readings(spectra: dict[float, CaseSpectrum], of: str) -> dict[str, Series]:
    """Effective ranks over the number of rows, by width factor.

    From the eigenvalues of the kernel and from their roots, the singular values of the Jacobian: the paper
    names the one and computes the other (E-84).
    """
    points = [factor(width) for width in spectra]
    rows = [len(one.values) for one in spectra.values()]
    ranks = {
        f"kernel rank of {of}": [effective_rank(one.values) for one in spectra.values()],
        f"Jacobian rank of {of}": [effective_rank(one.singular) for one in spectra.values()],
        f"rank of independent numbers like {of}": [
            gaussian_rank(m, one.weights) for m, one in zip(rows, spectra.values(), strict=True)
        ],
    }
    return {
        name: by(points, [r / m for r, m in zip(column, rows, strict=True)]) for name, column in ranks.items()
    }


def gaussian_rank(rows: int, weights: int) -> float:
    r"""Effective kernel rank of a rows x weights matrix of independent Gaussian numbers.

    Page's entropy: :math:`\log m - m / (2 n)` for m at most n, up to terms of order 1/n.
    """
    m, n = sorted((rows, weights))
    return math.exp(math.log(m) - m / (2 * n))


def gaussian_condition(rows: int, weights: int) -> float:
    r"""Condition number of a rows x weights matrix of independent Gaussian numbers, :math:`(1 + q) / (1 - q)`.

    The edges of the law of Marchenko and Pastur, with q² = rows / weights, the smaller over the larger.
    """
    m, n = sorted((rows, weights))
    q = math.sqrt(m / n)
    return (1 + q) / max(1 - q, 1e-300)
