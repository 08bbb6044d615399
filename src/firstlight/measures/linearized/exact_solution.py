"""The linearised network solved exactly, as a model to call like any other."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.devices import in_double, on_cpu, placed
from firstlight._internal.errors import Diverged, InvalidInput
from firstlight._internal.progress import progress
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
    twin, line, x, residuals = _least_squares(model, images, targets)
    n_outputs, residuals = residuals.shape[1], residuals.reshape(-1, 1)
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
    return LinearSolution(line=line, images=x, n_outputs=n_outputs, fit=fit, form=form)


def _least_squares(
    model: nn.Module, images: Images, targets: Float[Tensor, "n outputs"]
) -> tuple[nn.Module, LinearizedModel, Images, Float[Tensor, "n outputs"]]:
    """The network in float64, its linearisation, the images, and r = y - f(w0, X): J⁺ r has the least norm."""
    # eigenvalues of JJᵀ span more digits than float32 has
    twin = in_double(model).eval()
    line, x = linearize(twin), images.detach().cpu().double()
    targets = targets.cpu()
    with placed(line) as device:
        start = torch.cat([line.start_outputs(part.to(device)).cpu() for part in torch.split(x, _BLOCK)])
    if start.shape != targets.shape:
        raise InvalidInput(
            f"`targets` must have the shape of the outputs, {tuple(start.shape)}; got {tuple(targets.shape)}."
        )
    residuals = targets.double() - start
    if not residuals.isfinite().all():
        raise InvalidInput("`targets` and the outputs for `images` must be finite; some are NaN or infinite.")
    return twin, line, x, residuals


@dataclass(frozen=True, kw_only=True, eq=False)
class IterativeSolution:
    """A ridge regression of a linearised network, solved by steps.

    Parameters
    ----------
    ridge : float
        As a share of the largest eigenvalue of the tangent kernel.
    model : LinearizedModel
        The linearised network at the solution.
    steps : int
        Steps taken for this ridge, each one product with J and one with its transpose.
    residual : float
        What is left of the gradient of the loss, as a share of that at u = 0.
    """

    ridge: float
    model: LinearizedModel
    steps: int
    residual: float


def solve_linearized_by_steps(
    model: nn.Module,
    images: Images,
    targets: Float[Tensor, "n outputs"],
    *,
    ridges: Sequence[float],
    tolerance: float = 1e-6,
    most: int = 500,
    show: bool | None = None,
) -> Iterator[IterativeSolution]:
    r"""Ridge regression of a linearised network without its tangent kernel, for any number of images.

    .. math:: \min_u \|J u - r\|^2 + \lambda \lambda_{max}(J J^\top)\, \|u\|^2

    Only products :math:`J u` (a pass forwards) and :math:`J^\top r` (a pass backwards) are taken, by LSMR in float64:
    memory for a few copies of the weights, and a time per step of about two epochs of training. The number of steps
    grows with :math:`1/\sqrt\lambda`.

    Parameters
    ----------
    model, images, targets
        As for :func:`solve_linearized`.
    ridges : sequence of float
        Each relative to the largest eigenvalue of the tangent kernel, positive.
    tolerance : float, default 1e-06
        Where LSMR stops.
    most : int, default 500
        Steps after which :class:`firstlight._internal.errors.Diverged` is raised.
    show : bool, optional
        Force the progress bar on or off.

    Yields
    ------
    IterativeSolution
        One for each ridge, as soon as it is found.

    References
    ----------
    .. [1] D. C.-L. Fong, M. Saunders: LSMR: An iterative algorithm for sparse least-squares problems, 2011.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh, lsmr

    if not all(0 < ridge < float("inf") for ridge in ridges):
        raise InvalidInput(f"`ridges` must be finite and positive; got {tuple(ridges)}.")
    _, line, x, residuals = _least_squares(model, images, targets)
    shapes = {name: u.shape for name, u in line.displacement.named_parameters()}
    sizes, wanted = [shape.numel() for shape in shapes.values()], residuals.numpy().ravel()

    def by_name(flat: np.ndarray) -> dict[str, Tensor]:
        parts = torch.split(torch.from_numpy(flat.ravel()), sizes)
        return {name: part.reshape(shapes[name]) for name, part in zip(shapes, parts, strict=True)}

    with placed(line) as device, progress("Linearised network", total=most, unit="steps", show=show) as bar:

        def push(flat: np.ndarray) -> np.ndarray:  # u → J u
            bar.advance()
            moved = {name: part.to(device) for name, part in by_name(flat).items()}
            blocks = [line.pushforward(moved, part.to(device)).cpu() for part in torch.split(x, _BLOCK)]
            return torch.cat(blocks).numpy().ravel()

        def pull(flat: np.ndarray) -> np.ndarray:  # r → Jᵀ r
            rows = torch.from_numpy(flat.ravel()).reshape(residuals.shape)
            total = torch.zeros(sum(sizes), dtype=torch.float64)
            for part, cotangents in zip(torch.split(x, _BLOCK), torch.split(rows, _BLOCK), strict=True):
                pulled = line.pullback(cotangents.to(device), part.to(device))
                total += torch.cat([value.flatten().cpu() for value in pulled.values()])
            return total.numpy()

        line(x[:1].to(device))  # checks once that forwards and backwards have one derivative
        jacobian = LinearOperator((wanted.size, sum(sizes)), matvec=push, rmatvec=pull, dtype=np.float64)
        gradient = pull(wanted)
        squared = LinearOperator(
            (sum(sizes),) * 2, matvec=lambda flat: pull(push(flat)), dtype=np.float64
        )  # JᵀJ, whose largest eigenvalue a ridge needs to a few per cent only
        slope = np.linalg.norm(gradient)
        (largest,) = (
            eigsh(squared, k=1, v0=gradient, tol=1e-2, return_eigenvectors=False) if slope else (0.0,)
        )
        for ridge in ridges:
            bar.update(completed=0, note=f"ridge {ridge:g}")
            found, reason, steps, _, left, *_ = lsmr(
                jacobian, wanted, damp=(ridge * largest) ** 0.5, atol=tolerance, btol=tolerance, conlim=0.0,
                maxiter=most,
            )  # fmt: skip
            if reason == 7:
                raise Diverged(
                    f"LSMR did not reach {tolerance:g} in {most} steps. Raise the ridge (now {ridge:g}) or `most`."
                )
            solved = copy.deepcopy(line).displace(
                {name: part.to(device) for name, part in by_name(found).items()}
            )
            yield IterativeSolution(
                ridge=ridge, model=solved, steps=steps, residual=float(left / slope) if slope else 0.0
            )
