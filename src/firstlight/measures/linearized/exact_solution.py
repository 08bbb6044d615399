"""The linearised network solved exactly, as a model to call like any other."""

import copy
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.devices import in_double, on_cpu, placed
from firstlight._internal.errors import InvalidInput
from firstlight._internal.shapes import Images
from firstlight.measures.linearized.tangent_kernel import jacobian, ntk_gram
from firstlight.models.linearized import LinearizedModel, linearize
from firstlight.theory.linearized import LinearFit, fit_from_gram, fit_from_jacobian

_BLOCK = 128


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearSolution:
    """A linearised network with its least-squares problem decomposed; every answer is a model.

    Parameters
    ----------
    line : LinearizedModel
        The linearised network in float64, at u = 0.
    images, n_outputs : Tensor of shape (n, c, h, w) or int
        What it is fitted to.
    fit : LinearFit
        The problem in the eigenbasis of the tangent kernel.
    form : str
        "dual" (from the Gram matrix) or "primal" (from the Jacobian).
    """

    line: LinearizedModel
    images: Images
    n_outputs: int
    fit: LinearFit
    form: str

    def solution(self, *, ridge: float = 0.0) -> LinearizedModel:
        """The least-squares model of smallest displacement, or of ridge regression."""
        return self._displaced(self.fit.solution(ridge=ridge))

    def after(self, *, steps: float, rate: float) -> LinearizedModel:
        """The model after full-batch gradient descent; see :func:`firstlight.theory.linearized.rate_of`."""
        return self._displaced(self.fit.after(steps=steps, rate=rate))

    def at_time(self, time: float) -> LinearizedModel:
        """The model at a time of gradient flow."""
        return self._displaced(self.fit.at_time(time))

    def _displaced(self, coefficients: Float[Tensor, "rows 1"]) -> LinearizedModel:
        # u = Jᵀ α, one vector-Jacobian product per block of images: J itself is never formed
        rows = coefficients.reshape(len(self.images), self.n_outputs)
        total: dict[str, Tensor] = {}
        with placed(self.line) as device:
            for images, part in zip(torch.split(self.images, _BLOCK), torch.split(rows, _BLOCK), strict=True):
                for name, value in self.line.pullback(part.to(device), images.to(device)).items():
                    total[name] = total[name] + value if name in total else value
        return copy.deepcopy(self.line).displace(on_cpu(total))


def solve_linearized(
    model: nn.Module,
    images: Images,
    targets: Float[Tensor, "n outputs"],
    *,
    form: str = "auto",
    show: bool | None = None,
) -> LinearSolution:
    r"""Least squares of a linearised network, :math:`u = J^+ (y - f(w_0, X))`, without training.

    Parameters
    ----------
    model : torch.nn.Module
        The network, at the weights to linearise at; a copy in float64 is used.
    images, targets : Tensor of shape (n, c, h, w) or Tensor of shape (n, outputs)
        One row of targets per image, as many columns as the network has outputs.
    form : str, default 'auto'
        "dual" decomposes the Gram matrix, (n c)² numbers; "primal" the Jacobian, n c times weights;
        "auto" takes the smaller.
    show : bool, optional
        Force the progress bar on or off.

    Notes
    -----
    The only approximation is rounding. Cost O((n c)³) in the dual: 600 images of 10 classes take about
    half a minute, most of it the eigenvectors. Gradients are computed on the device of the network or of
    ``firstlight.computing_on``, the decomposition on the CPU.

    References
    ----------
    .. [1] Linearized, section 4.1 (SciPy's solver on J). We prefer the kernel where it is smaller.
    """
    if form not in ("auto", "dual", "primal"):
        raise InvalidInput(f"`form` must be 'auto', 'dual' or 'primal'; got {form!r}.")
    # float64, for eigenvalues of JJᵀ span more digits than float32 has
    twin = in_double(model).eval()
    line, x = linearize(twin), images.detach().cpu().double()
    targets = targets.cpu()
    with placed(line) as device:
        start = torch.cat([line.start_outputs(part.to(device)).cpu() for part in torch.split(x, _BLOCK)])
    if start.shape != targets.shape:
        raise InvalidInput(
            f"`targets` must have the shape of the outputs, {tuple(start.shape)}; got {tuple(targets.shape)}."
        )
    # r = y - f(w0, X): u = J⁺ r is the displacement of least norm
    residuals = (targets.double() - start).reshape(-1, 1)
    weights = sum(p.numel() for p in line.parameters())
    if form == "auto":
        # the smaller problem: n·outputs squared for JJᵀ, or weights squared for JᵀJ
        form = "primal" if weights < len(residuals) else "dual"
    if form == "dual":
        # α = (JJᵀ)⁺ r and u = Jᵀα, without the memory of J
        kernel = ntk_gram(twin, x, outputs="full", show=show)
        fit = fit_from_gram(kernel, residuals)
    else:
        fit = fit_from_jacobian(jacobian(twin, x), residuals)
    return LinearSolution(line=line, images=x, n_outputs=start.shape[1], fit=fit, form=form)
