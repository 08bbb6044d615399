"""What holds exactly for the linear expansion of a network in its weights."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from firstlight._internal.executor import single_thread
from firstlight._internal.seeds import generator_from
from firstlight.measures.linearized.exact_solution import solve_linearized
from firstlight.measures.linearized.tangent_kernel import ntk_gram
from firstlight.models.building import build
from firstlight.models.linearized import LinearizedModel, linearize
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by
from reproduce.studies.linearized.counts import jacobian, smooth

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

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Narrow LeNets on random images, small enough for dense Jacobians."""

        width: float = 0.25
        kernel_width: float = 0.5
        n: int = 60  # images of the kernel
        n_solved: int = 100  # images of the exact solution: a thousand equations
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config()}

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Check one after the other."""
        with single_thread():
            initial, derivative = _initial(cfg.width, cfg.seed)
            asymmetry, lowest, definition = _kernel(cfg.kernel_width, cfg.n, cfg.seed)
            residual, outside = _least_norm(cfg.width, cfg.n_solved, cfg.seed)
            remainder = _remainders(smooth(_lenet(cfg.width, cfg.seed)), cfg.seed)
            return {
                "distance from the network": initial,
                "distance of the derivative from J u": derivative,
                "relative distance of the gradient": _gradient(cfg.width, cfg.seed),
                "asymmetry of the kernel": asymmetry,
                "lowest over largest eigenvalue": lowest,
                "distance of the kernel from the product of Jacobians": definition,
                "residual of the solution": residual,
                "part outside the row space": outside,
                "error over the squared step": by(STEPS, remainder),
                "error over the squared step with ReLU": by(
                    STEPS, _remainders(_lenet(cfg.width, cfg.seed), cfg.seed)
                ),
            }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Error of the expansion over the square of the step."""
        return curves(
            [
                Curve(name="smooth activations", values=evidence.table("error over the squared step")),
                Curve(
                    name="ReLU and maxima",
                    values=evidence.table("error over the squared step with ReLU"),
                    role="null",
                ),
            ],
            title="The error of the expansion is of second order",
            alt="Error over the squared step against the step, flat for smooth activations",
            x="step, relative to the length of the weights",
            y="error / step²",
            at=STEPS,
            log_x=True,
        )
