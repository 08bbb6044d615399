"""Kernels that learn their metric: alternate ridge regression and gradient outer products."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import Diverged, InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight._internal.shapes import Images
from firstlight.kernels.gradients import kernel_agop
from firstlight.kernels.gram import kernel_gram
from firstlight.kernels.kernel import Kernel, check_gradients
from firstlight.kernels.ridge import check_ridge, ridge_solver, scaled_gram

Solution = TypeVar("Solution")
RIDGES = (1e-8, 1e-5, 1e-3)
"""Ridges that are tried by default."""


@dataclass(frozen=True, kw_only=True)
class Round(Result):
    """One round: a kernel with its metric, and how well it did on images it was not fitted to.

    Parameters
    ----------
    number : int
        0 is the plain kernel.
    metric : Tensor of shape (d, d)
        M of this round; the identity, scaled to Frobenius norm 1, in round 0.
    ridge : float
        The best of the grid, by validation squared error.
    error, accuracy : float
        Squared error (mean over images, sum over outputs) and share of right arg-maxima on validation
        images.
    errors : tuple of float
        Validation squared error of every ridge.
    """

    number: int
    metric: Float[Tensor, "d d"]
    ridge: float
    error: float
    accuracy: float
    errors: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Rounds(Result):
    """All rounds of a recursive feature machine, and which is the best by validation squared error."""

    rounds: tuple[Round, ...]
    best: int

    @property
    def chosen(self) -> Round:
        """The round of lowest validation squared error."""
        return self.rounds[self.best]


def learn_metric(
    x: Images,
    y: Float[Tensor, "n k"],
    x_valid: Float[Tensor, "m _c _h _w"],
    y_valid: Float[Tensor, "m _k"],
    *,
    kernel: Kernel,
    rounds: int = 5,
    ridges: Sequence[float] = RIDGES,
    agop_images: int | None = None,
    patience: int | None = 2,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    listen: Callable[[Round], None] = lambda finished: None,
    n_jobs: int | None = None,
    show: bool | None = None,
) -> Rounds:
    r"""Rounds of kernel ridge regression and :math:`M \leftarrow \mathrm{AGOP} / \|\mathrm{AGOP}\|_F`.

    Parameters
    ----------
    x, y : Tensor of shape (n, c, h, w) or Tensor of shape (n, k)
        Images and targets (one-hot rows for classes).
    x_valid, y_valid : Tensor of shape (m, _c, _h, _w) or Tensor of shape (m, _k)
        Images that choose ridge and round, by squared error. The papers chose on the test set by
        accuracy, so that no round could ever look worse than the plain kernel.
    kernel : Kernel
        The family; its matrices are divided by their largest entry, as in the published code.
    rounds : int, default 5
        Number of updates of M; round 0 is the plain kernel.
    ridges : sequence of float, default RIDGES
        Grid, relative to the largest entry.
    agop_images : int, optional
        Number of training images at which gradients are taken (the papers: 20); all by default.
    patience : int or None, default 2
        Stop after this many rounds without improvement; None runs all rounds. With 1 the first round that is worse than
        the plain kernel would end it, and M stay the identity, where the next may be better.
    seed : int, default 0
        Seed for the choice of `agop_images`.
    listen : callable, default lambda finished: None
        Called with every round as it ends.

    References
    ----------
    .. [1] CNFA, algorithm 1.
    """
    for ridge in ridges:
        check_ridge(ridge)
    if rounds < 0 or not ridges:
        raise InvalidInput(f"`rounds` must be at least 0 and `ridges` not empty; got {rounds} and {ridges}.")
    if rounds:
        check_gradients(kernel)
    d = kernel.geometry.dimension(x.shape[1])
    metric = torch.eye(d, dtype=torch.float64)
    metric /= metric.norm()
    some = round_subset(len(x), agop_images, seed)
    done: list[Round] = []
    for number in range(rounds + 1):
        plain = {"kernel": kernel, "metric": metric, "dtype": dtype, "n_jobs": n_jobs, "show": show}
        # ridges are relative to the largest entry, so one grid serves every metric
        inner, largest = scaled_gram(x, **plain)  # type: ignore[arg-type]
        if not inner[0].any() and not inner.any():
            raise InvalidInput("the kernel matrix is zero: all images are empty where the filters look.")
        outer = kernel_gram(x_valid, x, **plain).div_(largest)  # type: ignore[arg-type]
        tried = list(_solutions(inner, outer, y, ridges))
        finished, alpha = judged_round(number, metric, tried, y_valid)
        done.append(finished)
        listen(finished)
        if is_last(done, rounds, patience):
            break
        # α solves for K / largest: f = Σ (α / largest) K(x_i, ·)
        metric = kernel_agop(x, alpha / largest, x[some], **plain)  # type: ignore[arg-type]
        size = float(metric.norm())
        if size == 0:
            break  # a constant predictor: there is nothing to learn from
        metric = metric / size
    return Rounds(rounds=tuple(done), best=best_round(done))


def _solutions(
    inner: Tensor, outer: Tensor, y: Tensor, ridges: Sequence[float]
) -> Iterator[tuple[float, Tensor, Tensor]]:
    """Every ridge with the outputs for the validation images and the coefficients that gave them."""
    solver = ridge_solver(inner, y)
    for ridge in ridges:
        try:
            alpha = solver(ridge)
        except Diverged:  # above the memory the smallest ridges may be out of reach; the others are not
            alpha = torch.full_like(y, math.nan, dtype=torch.float64)
        yield ridge, outer @ alpha, alpha


def judged_round(
    number: int, metric: Tensor, tried: Sequence[tuple[float, Tensor, Solution]], y_valid: Tensor
) -> tuple[Round, Solution]:
    """The round with the ridge of lowest validation squared error, of (ridge, guesses, solution) for each."""
    squares = [float((guess - y_valid).square().sum(1).mean()) for _, guess, _ in tried]
    errors = [error if math.isfinite(error) else math.inf for error in squares]
    best = min(range(len(tried)), key=errors.__getitem__, default=None)
    if best is None or errors[best] == math.inf:
        raise Diverged(
            "No ridge that was tried could be solved in memory. Add a larger one, or use fewer images."
        )
    ridge, guess, solution = tried[best]
    accuracy = (guess.argmax(1) == y_valid.argmax(1)).double().mean()
    finished = Round(
        number=number, metric=metric, ridge=float(ridge), error=errors[best], accuracy=float(accuracy),
        errors=tuple(errors),
    )  # fmt: skip
    return finished, solution


def is_last(done: Sequence[Round], rounds: int, patience: int | None) -> bool:
    """Whether no round follows: there were enough, or too many without a lower error."""
    return len(done) > rounds or (patience is not None and len(done) - 1 - best_round(done) >= patience)


def best_round(done: Sequence[Round]) -> int:
    """Number of the round of lowest squared error, the first of several."""
    return min(range(len(done)), key=lambda i: done[i].error)


def round_subset(n: int, wanted: int | None, seed: int) -> Tensor:
    """Indices of the images at which gradients are taken, in order; all of them by default."""
    if wanted is None or wanted >= n:
        return torch.arange(n)
    if wanted < 1:
        raise InvalidInput(f"`agop_images` must be at least 1; got {wanted}.")
    return torch.randperm(n, generator=generator_from("agop", seed))[:wanted].sort().values


def random_filters(
    metric: Float[Tensor, "d d"], n: int, *, seed: int, shape: tuple[int, int, int]
) -> Float[Tensor, "n c q q"]:
    r"""Filters :math:`Z M^{1/2}` with standard normal Z: covariance M, as a convolution's weight."""
    from firstlight.maths.psd import psd_sqrt

    noise = torch.randn(n, len(metric), generator=generator_from("filters", seed), dtype=torch.float64)
    # rows z M^½ have the covariance M^½ E[zᵀz] M^½ = M
    return (noise @ psd_sqrt(metric.double())).reshape(n, *shape)
