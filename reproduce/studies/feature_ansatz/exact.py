"""Studies of what is exact: the theorem of one step, the formulas of the kernels, and their limits."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from firstlight._internal.executor import report_fraction
from firstlight._internal.seeds import generator_from
from firstlight.kernels import ConvKernel, PatchKernel, kernel_agop, kernel_gram
from firstlight.maths import PatchGeometry, cosine, extract_patches, psd_sqrt
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured


@study("cnfa.thm1", "cnfa.thm1.relaxed")
class AnsatzTheorem(Study):
    """Are filters and gradients proportional after one step from zero, and what does it take?"""

    # Sizes of the tanh networks.
    n_examples: int = 7
    n_patches: int = 6
    patch: int = 5
    filters: int = 4
    points: int = 5  # at which the gradients are evaluated
    lr: float = 1e-3  # larger steps saturate the tanh, and a gradient of zero points nowhere

    scales = {"desk": dict(points=50)}

    def run(self) -> Measured:
        """Take the step by automatic differentiation and compare at random points."""
        generator = generator_from("one step", self.seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        patches, targets = draw(self.n_examples, self.n_patches, self.patch), draw(self.n_examples)
        points = draw(self.points, self.n_patches, self.patch)
        read, mix, bend = draw(6), draw(6, self.filters), draw(self.n_patches, 1)
        omega, mixes = draw(self.n_patches, 1), draw(self.n_patches, 6, self.filters)

        def equal(z: Tensor) -> Tensor:  # patches differ, but not in their slope at zero
            return torch.tanh((torch.tanh(z) + bend * z.square()).sum(-2) @ mix.T) @ read

        def scaled(z: Tensor) -> Tensor:
            return torch.tanh((torch.tanh(omega * z)).sum(-2) @ mix.T) @ read

        def different(z: Tensor) -> Tensor:
            return torch.tanh(torch.einsum("...mk,mjk->...j", torch.tanh(z), mixes)) @ read

        networks = {"equal": equal, "scaled": scaled, "different": different}
        steps = {name: _one_step(g, patches, targets, self.lr, self.filters) for name, g in networks.items()}
        distances = {name: _distances(g, steps[name], points) for name, g in networks.items()}
        return {f"distance with {name} slopes": float(d.max()) for name, d in distances.items()}


def _one_step(
    g: Callable[[Tensor], Tensor], patches: Tensor, targets: Tensor, lr: float, filters: int
) -> Tensor:
    w = torch.zeros(filters, patches.shape[2], dtype=torch.float64, requires_grad=True)
    loss = 0.5 * (targets - g(patches @ w.T)).square().sum()
    (gradient,) = torch.autograd.grad(loss, w)
    return -lr * gradient


def _distances(g: Callable[[Tensor], Tensor], w: Tensor, points: Tensor) -> Tensor:
    """1 minus the cosine of feature matrix and gradient outer product, at every point."""
    moved = points.clone().requires_grad_()
    (gradients,) = torch.autograd.grad(g(moved @ w.T).sum(), moved)
    outer = torch.einsum("pma,pmb->pab", gradients, gradients).flatten(1)
    return 1 - cosine(outer, (w.T @ w).flatten().expand_as(outer))


@study("kernel.relu_dual", "kernel.nngp_one_layer", "kernel.patch_gradient", "convrfm.expansion")
class KernelFormulas(Study):
    """Are the dual activation, the one-layer kernel, its gradients and the patch expansion right as corrected?

    The relative deviation of 4 million samples has a standard error near 0.1 %.
    """

    # Pairs of Gaussian vectors for the dual activation; everything else is deterministic.
    samples: int = 4_000_000
    dimension: int = 6  # of the vectors a and b

    def run(self) -> Measured:
        """Measure every formula once."""
        generator = generator_from("kernel formulas", self.seed)
        a, b = torch.randn(2, self.dimension, generator=generator, dtype=torch.float64)
        sampled, blocks = 0.0, 40
        for _ in range(blocks):
            w = torch.randn(self.samples // blocks, self.dimension, generator=generator, dtype=torch.float64)
            sampled += float(2 * (torch.relu(w @ a) * torch.relu(w @ b)).mean()) / blocks
        t, product = float(a @ b), float(a.norm() * b.norm())
        angle = math.acos(t / product)
        x, z = torch.randn(2, 3, 2, 6, 7, generator=generator, dtype=torch.float64)
        return {
            "sampled": sampled,
            "formula": (t * (math.pi - angle) + math.sqrt(product**2 - t**2)) / math.pi,
            "printed formula": (t * (math.pi - angle) + math.sqrt(max(product**2 - t, 0.0))) / math.pi,
            "difference of one layer": _one_layer(x, z),
            "error of the NNGP gradient": _gradient_error(
                ConvKernel(depth=1, kind="nngp"), x[:1], z[:1], generator
            ),
            "error of the Laplace gradient": _gradient_error(
                PatchKernel(bandwidth=2.0), x[:1], z[:1], generator
            ),
            "deviation of the expansion": _expansion(x, z, generator),
        }


def _one_layer(x: Tensor, z: Tensor) -> float:
    """Closed form over positions against the general engine at depth one."""
    a, b = (extract_patches(v, PatchGeometry.square(3)) / math.sqrt(v.shape[1]) for v in (x, z))
    norms = a.norm(dim=2)[:, None] * b.norm(dim=2)[None]
    t = torch.einsum("ipd,jpd->ijp", a, b)
    angle = (t / norms).acos()
    closed = ((t * (math.pi - angle) + (norms**2 - t**2).sqrt()) / math.pi).mean(2)
    general = kernel_gram(x, z, kernel=ConvKernel(depth=1, kind="nngp"), dtype=torch.float64, show=False)
    return float((general - closed).abs().max() / closed.abs().max())


def _gradient_error(
    kernel: ConvKernel | PatchKernel, x: Tensor, z: Tensor, generator: torch.Generator
) -> float:
    """Analytic gradient outer product of one pair against central differences of one free patch.

    The images have the size of one patch, so that a pixel is a patch entry.
    """
    a, b = x[:, :, :3, :3], z[:, :, :3, :3]
    d = a[0].numel()
    factor = torch.randn(d, d, generator=generator, dtype=torch.float64)
    metric = factor @ factor.T / d
    one = torch.ones(1, 1, dtype=torch.float64)
    outer = kernel_agop(a, one, b, kernel=kernel, metric=metric, dtype=torch.float64, show=False)
    step, gradient = 1e-5, torch.empty(d, dtype=torch.float64)
    for k in range(d):
        nudge = torch.zeros(d, dtype=torch.float64)
        nudge[k] = step
        up, down = (
            kernel_gram(
                a,
                b + sign * nudge.reshape(b.shape),
                kernel=kernel,
                metric=metric,
                dtype=torch.float64,
                show=False,
            )
            for sign in (1, -1)
        )
        gradient[k] = float(up - down) / (2 * step)
    return float((outer - torch.outer(gradient, gradient)).abs().max())


def _expansion(x: Tensor, z: Tensor, generator: torch.Generator) -> float:
    """Tiles times root of M under a stride of the patch size, against the kernel with metric M."""
    d = x.shape[1] * 9
    factor = torch.randn(d, d, generator=generator, dtype=torch.float64)
    metric = factor @ factor.T / d
    root = psd_sqrt(metric)

    def tiles(images: Tensor) -> Tensor:
        n, c, h, w = images.shape
        patches = extract_patches(images, PatchGeometry.square(3)) @ root
        grid = patches.reshape(n, h - 2, w - 2, c, 3, 3)
        return grid.permute(0, 3, 1, 4, 2, 5).reshape(n, c, 3 * (h - 2), 3 * (w - 2))

    plain = kernel_gram(
        tiles(x), tiles(z), kernel=ConvKernel(depth=2, stride=3), dtype=torch.float64, show=False
    )
    learned = kernel_gram(x, z, kernel=ConvKernel(depth=2), metric=metric, dtype=torch.float64, show=False)
    return float((plain - learned).abs().max())


READOUTS = {"flattened": "flatten", "pooled": "gap"}


@study("kernel.cntk.flatten", "kernel.cntk.gap")
class KernelLimits(Study):
    """Does the recursion give the infinite-width limit of the tangent kernel, flattened and pooled?"""

    # Wide networks whose mean is compared with the limit.
    width: int = 1200  # channels of both hidden layers
    draws: int = 40  # networks

    def run(self) -> Measured:
        """Compute the limit once and the tangent kernels of many networks."""
        generator = generator_from("kernel limits", self.seed)
        x, z = torch.randn(2, 2, 6, 7, generator=generator, dtype=torch.float64)
        pair = torch.stack([x, z])
        tangents = []
        for draw in range(self.draws):
            tangents.append(_tangent_kernels(pair.float(), self.width, generator))
            report_fraction((draw + 1) / self.draws)
        measured: dict[str, float] = {}
        for (name, readout), draws in zip(
            READOUTS.items(), torch.tensor(tangents, dtype=torch.float64).T, strict=True
        ):
            for kind in ("ntk", "nngp"):
                kernel = ConvKernel(depth=2, readout=readout, kind=kind)
                limit = kernel_gram(pair[:1], pair[1:], kernel=kernel, dtype=torch.float64, show=False)
                measured[f"{name} {kind.upper()}"] = float(limit)
            measured[f"{name} networks"] = float(draws.mean())
            measured[f"standard error of {name} networks"] = float(draws.std() / len(draws) ** 0.5)
        return measured


def _tangent_kernels(pair: Tensor, width: int, generator: torch.Generator) -> tuple[float, float]:
    """Empirical tangent kernels of one network in NTK parametrisation, for both read-outs.

    Inner products of weight gradients are inner products of inputs times those of back-propagated
    errors, position by position, so no gradient of the size of the weights is formed.
    """
    w1 = torch.randn(width, pair.shape[1], 3, 3, generator=generator)
    w2 = torch.randn(width, width, 3, 3, generator=generator)
    first = (F.conv2d(pair, w1) / math.sqrt(pair.shape[1])).requires_grad_(True)
    second = F.conv2d(math.sqrt(2) * F.relu(first), w2) / math.sqrt(width)
    hidden = math.sqrt(2) * F.relu(second)
    fixed = hidden.detach()
    n_positions = hidden.shape[2] * hidden.shape[3]
    kernels = []
    for pooled in (False, True):
        if pooled:
            top = hidden.mean((2, 3))
            read = torch.randn(width, generator=generator)
            value = (top @ read).sum() / math.sqrt(width)
            last = float(fixed.mean((2, 3))[0] @ fixed.mean((2, 3))[1]) / width
        else:
            read = torch.randn(hidden[0].numel(), generator=generator)
            value = (hidden.flatten(1) @ read).sum() / math.sqrt(width * n_positions)
            last = float(fixed[0].flatten() @ fixed[1].flatten()) / (width * n_positions)
        to_first, to_second = torch.autograd.grad(value, [first, second], retain_graph=True)
        lower = _layer_part(pair, to_first) / pair.shape[1]
        upper = _layer_part(math.sqrt(2) * F.relu(first.detach()), to_second) / width
        kernels.append(last + lower + upper)
    return kernels[0], kernels[1]


def _layer_part(inputs: Tensor, errors: Tensor) -> float:
    """Inner product of the two images' gradients by one convolution's weights."""
    x, z = (F.unfold(v[None], 3)[0] for v in inputs)
    a, b = (v.flatten(1) for v in errors)
    return float(((x.T @ z) * (a.T @ b)).sum())
