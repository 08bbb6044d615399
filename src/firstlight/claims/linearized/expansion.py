"""What holds exactly for the linear expansion of a network in its weights."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight.claims.linearized.counts import jacobian
from firstlight.claims.study import Rule, study
from firstlight.core.parallel import single_thread
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.figures import Curve, Figure, curves
from firstlight.measures.linearized import ntk_gram, solve_linearized
from firstlight.models import LinearizedModel, build, linearize

SIDE = 28
STEPS = (1e-1, 1e-2, 1e-3, 1e-4)


@dataclass(frozen=True, kw_only=True)
class Expansion(Result):
    """Deviations from what must hold.

    Parameters
    ----------
    start, derivative : float
        f_lin(0) from f(w0), and its derivative along a unit vector from J u; float32.
    gradient : float
        Of the summed squared loss from the sum over outputs, relative.
    asymmetry, lowest : float
        Of the tangent kernel, relative to its largest entry and eigenvalue.
    definition : float
        Of the tangent kernel from the product of Jacobians, relative.
    residual, outside : float
        Of the exact solution: error on the training images, and the part of it that no image can see,
        both relative.
    remainder, kinked : Tensor of shape (steps,)
        Error of the expansion over the square of the step, for smooth activations and for ReLU.
    """

    start: float
    derivative: float
    gradient: float
    asymmetry: float
    lowest: float
    definition: float
    residual: float
    outside: float
    remainder: Float[Tensor, " steps"]
    kinked: Float[Tensor, " steps"]


def _images(n: int, seed: int, *purpose: str) -> Tensor:
    generator = generator_from("expansion", *purpose, seed)
    return torch.randn(n, 1, SIDE, SIDE, generator=generator, dtype=torch.float64)


def _lenet(width: float, seed: int) -> nn.Module:
    return build("lenet", shape=(1, SIDE, SIDE), width=width, seed=seed).double()


def _smooth(model: nn.Module) -> nn.Module:
    """Tanh in place of ReLU, means in place of maxima."""
    for name, module in list(model.named_children()):
        if isinstance(module, nn.ReLU):
            setattr(model, name, nn.Tanh())
        elif isinstance(module, nn.MaxPool2d):
            setattr(model, name, nn.AvgPool2d(2))
    return model


def _direction(model: LinearizedModel, seed: int, *, norm: float) -> dict[str, Tensor]:
    """A random displacement of given length, by name."""
    generator = generator_from("direction", seed)
    own = dict(model.displacement.named_parameters())
    drawn = {name: torch.randn(u.shape, generator=generator, dtype=torch.float64) for name, u in own.items()}
    length = torch.stack([u.square().sum() for u in drawn.values()]).sum().sqrt()
    return {name: (norm / length * u).to(own[name].dtype) for name, u in drawn.items()}


def _flat(tensors: dict[str, Tensor]) -> Tensor:
    return torch.cat([t.flatten() for t in tensors.values()])


def _at_start(width: float, seed: int) -> tuple[float, float]:
    model, images = _lenet(width, seed).float(), _images(4, seed, "start").float()
    line = linearize(model)
    with torch.no_grad():
        before = model(images)
        start = float((line(images) - before).abs().max())
        u = _direction(line, seed, norm=1.0)
        moved = line.displace(u)(images) - before
        expected = jacobian(model, images) @ _flat(u)
    return start, float((moved.flatten() - expected).abs().max())


def _gradient(width: float, seed: int) -> float:
    model, images = _lenet(width, seed), _images(4, seed, "gradient")
    targets = torch.eye(10, dtype=torch.float64)[torch.arange(4) % 10]
    line = linearize(model)
    line.displace(_direction(line, seed, norm=1.0))
    outputs = line(images)
    (outputs - targets).square().sum().backward()
    found = torch.cat([u.grad.flatten() for u in line.parameters() if u.grad is not None])
    rows = jacobian(model, images).reshape(4, 10, -1)
    wanted = torch.zeros_like(found)
    for i in range(4):
        for output in range(10):
            wanted += 2 * rows[i, output] * (outputs[i, output] - targets[i, output]).detach()
    return float((found - wanted).norm() / wanted.norm())


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
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    v = _direction(line, seed, norm=float(_flat(start).norm()))
    found = []
    with torch.no_grad():
        for s in STEPS:
            moved = {name: start[name] + s * v[name] for name in names}
            exact_outputs = torch.func.functional_call(model, moved, images)
            error = exact_outputs - line.displace({name: s * v[name] for name in names})(images)
            found.append(error.norm() / s**2)
    return torch.stack(found)


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
class LinearExpansion:
    """Does the linearised model do what its formulas say?

    Every number is compared with dense Jacobians, one output of one image at a time.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        width: float = 0.25
        kernel_width: float = 0.5
        n: int = 60  # images of the kernel
        n_solved: int = 100  # images of the exact solution: a thousand equations
        seed: int = 0

    scales: ClassVar = {"smoke": Config(), "desk": Config(), "paper": Config()}

    @staticmethod
    def run(cfg: Config) -> Expansion:
        """Check one after the other."""
        with single_thread():
            start, derivative = _at_start(cfg.width, cfg.seed)
            asymmetry, lowest, definition = _kernel(cfg.kernel_width, cfg.n, cfg.seed)
            residual, outside = _least_norm(cfg.width, cfg.n_solved, cfg.seed)
            return Expansion(
                start=start,
                derivative=derivative,
                gradient=_gradient(cfg.width, cfg.seed),
                asymmetry=asymmetry,
                lowest=lowest,
                definition=definition,
                residual=residual,
                outside=outside,
                remainder=_remainders(_smooth(_lenet(cfg.width, cfg.seed)), cfg.seed),
                kinked=_remainders(_lenet(cfg.width, cfg.seed), cfg.seed),
            )

    @staticmethod
    def figure(result: Expansion) -> Figure:
        """Error of the expansion over the square of the step."""
        return curves(
            [
                Curve(name="smooth activations", values=result.remainder[None]),
                Curve(name="ReLU and maxima", values=result.kinked[None], role="null"),
            ],
            title="The error of the expansion is of second order",
            alt="Error over the squared step against the step, flat for smooth activations",
            x="step, relative to the length of the weights",
            y="error / step²",
            at=STEPS,
            log_x=True,
        )

    rules: ClassVar = {
        "lin.flin.zero": Rule(
            measured=lambda r: {"at zero": r.start, "derivative": r.derivative},
            reproduced=lambda r: max(r.start, r.derivative) < 1e-6,
        ),
        "lin.gradient": Rule(
            measured=lambda r: {"relative deviation": r.gradient},
            reproduced=lambda r: r.gradient < 1e-5,
        ),
        "lin.ntk_gram": Rule(
            measured=lambda r: {
                "asymmetry": r.asymmetry,
                "lowest eigenvalue": r.lowest,
                "from the product of Jacobians": r.definition,
            },
            reproduced=lambda r: r.asymmetry < 1e-10 and r.lowest > -1e-10 and r.definition < 1e-10,
        ),
        "lin.min_norm": Rule(
            measured=lambda r: {"residual": r.residual, "part outside the row space": r.outside},
            reproduced=lambda r: max(r.residual, r.outside) < 1e-6,
        ),
        "lin.lazy_limit": Rule(
            measured=lambda r: {f"step {s:g}": float(v) for s, v in zip(STEPS, r.remainder, strict=True)},
            reproduced=lambda r: float(r.remainder.max()) <= 1.2 * float(r.remainder.min()),
            null=lambda r: {f"ReLU, step {s:g}": float(v) for s, v in zip(STEPS, r.kinked, strict=True)},
        ),
    }
