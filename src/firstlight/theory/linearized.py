r"""Least squares of a linearised network: solved directly, and at any time of its training.

With residuals :math:`r = y - f(w_0, X)` and Jacobian J the loss is ``1/2 |J u - r|^2``. Whatever gradient
descent reaches has the form :math:`u = J^\top \alpha`, so the kernel :math:`\Theta = J J^\top` is enough.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput, unknown_name
from firstlight._internal.result import Result
from firstlight.theory.least_squares import filter_function, flow_filter, spectrum


@dataclass(frozen=True, kw_only=True)
class LinearFit(Result):
    r"""Residuals in the eigenbasis of :math:`\Theta`: every solution is a function of its eigenvalues.

    All methods return coefficients :math:`\alpha` of the rows of J: the displacement is
    :math:`J^\top \alpha`, the prediction :math:`f(w_0, x) + \Theta(x, X)\,\alpha`.

    Parameters
    ----------
    values : Tensor of shape (r,)
        Eigenvalues of :math:`\Theta` that are not zero, descending.
    vectors : Tensor of shape (n, r)
        Eigenvectors, one per column.
    moment : Tensor of shape (r, k)
        Residuals in that basis.
    """

    values: Float[Tensor, " r"]
    vectors: Float[Tensor, "n r"]
    moment: Float[Tensor, "r k"]

    @property
    def largest(self) -> float:
        """The largest eigenvalue, which bounds the stable rates: rate * largest < 2."""
        return float(self.values[0]) if len(self.values) else 0.0

    @property
    def condition(self) -> float:
        """Largest over smallest eigenvalue that is not zero; the time that descent needs, in steps."""
        return self.largest / float(self.values[-1]) if len(self.values) else float("nan")

    def solution(self, *, ridge: float = 0.0) -> Float[Tensor, "n k"]:
        r"""Minimum-norm least squares :math:`\Theta^+ r`, or :math:`(\Theta + \lambda I)^{-1} r` in its range.

        `ridge` is added to the eigenvalues as they are; weight decay λ amounts to λ / rate_of(1).
        """
        if not 0 <= ridge < float("inf"):
            raise InvalidInput(f"`ridge` must be finite and at least 0; got ridge={ridge}.")
        return self._filtered(1 / (self.values + ridge))

    def after(self, *, steps: float, rate: float) -> Float[Tensor, "n k"]:
        """After `steps` steps of full-batch gradient descent from u = 0; see :func:`rate_of`."""
        return self._filtered(filter_function(self.values, rate=rate, steps=steps))

    def at_time(self, time: float) -> Float[Tensor, "n k"]:
        """At a time of gradient flow, the limit of small steps at rate * steps = time."""
        return self._filtered(flow_filter(self.values, time=time))

    def _filtered(self, function: Float[Tensor, " r"]) -> Float[Tensor, "n k"]:
        return self.vectors @ (function[:, None] * self.moment)


def fit_from_gram(gram: Float[Tensor, "n _n"], residuals: Float[Tensor, "m k"]) -> LinearFit:
    r"""Dual form, from :math:`\Theta`: for more weights than rows. Float64, cost O(n³).

    The condition number of J is squared on the way, so eigenvalues below n times the rounding unit of
    the matrix that came, relative to the largest, count as zero.

    Examples
    --------
    >>> fit = fit_from_gram(torch.diag(torch.tensor([4.0, 1.0])), torch.tensor([[2.0], [3.0]]))
    >>> fit.solution().flatten()
    tensor([0.5000, 3.0000], dtype=torch.float64)
    """
    _demand_rows(gram, residuals, "gram")
    if gram.shape[0] != gram.shape[1]:
        raise InvalidInput(f"`gram` must be square; got the shape {tuple(gram.shape)}.")
    values, vectors = torch.linalg.eigh(gram.double())
    values, vectors = values.flip(0), vectors.flip(1)
    share = len(gram) * torch.finfo(gram.dtype).eps
    rank = int((values > share * values[0].clamp(min=0)).sum())
    leading = vectors[:, :rank]
    return LinearFit(values=values[:rank], vectors=leading, moment=leading.T @ residuals.double())


def fit_from_jacobian(jacobian: Float[Tensor, "n p"], residuals: Float[Tensor, "m k"]) -> LinearFit:
    """Primal form, from J itself: for fewer weights than rows, without squaring. Cost O(n p²)."""
    _demand_rows(jacobian, residuals, "jacobian")
    decomposition = spectrum(jacobian)
    return LinearFit(
        values=decomposition.values[: decomposition.rank],
        vectors=decomposition.left,
        moment=decomposition.left.T @ residuals.double(),
    )


def rate_of(lr: float, *, n: int, loss: str = "mse_sum", n_outputs: int = 1) -> float:
    r"""Effective rate of a step of size `lr` on all `n` images, for the loss ``1/2 |J u - r|^2``.

    ``mse_sum`` is the mean over images of the sum over outputs, with gradient
    :math:`\frac2n J^\top(Ju - r)`; ``mse`` divides by the number of outputs too.

    Examples
    --------
    >>> rate_of(0.1, n=20), rate_of(0.1, n=20, loss="mse", n_outputs=10)
    (0.01, 0.001)
    """
    if loss not in ("mse_sum", "mse"):
        raise unknown_name("squared loss", loss, ("mse_sum", "mse"))
    return 2 * lr / (n * (n_outputs if loss == "mse" else 1))


def _demand_rows(matrix: Tensor, residuals: Tensor, name: str) -> None:
    if len(matrix) == 0 or len(matrix) != len(residuals):
        raise InvalidInput(
            f"`residuals` must hold one row per row of `{name}`, {len(matrix)}; got {len(residuals)}."
        )
    if not (matrix.isfinite().all() and residuals.isfinite().all()):
        raise InvalidInput(f"`{name}` and `residuals` must hold finite numbers; they do not.")
