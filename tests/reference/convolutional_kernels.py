"""Convolutional kernels and their gradients straight from the recursion; shares no code with the package.

All pairs of positions are kept for both read-outs, and plain loops run over filter offsets.
"""

import math

import torch
from torch import Tensor


def patches(images: Tensor, size: int, stride: int, padding: int) -> Tensor:
    """n, rows, columns, d."""
    n, c, h, w = images.shape
    padded = torch.zeros(n, c, h + 2 * padding, w + 2 * padding, dtype=images.dtype)
    padded[:, :, padding : padding + h, padding : padding + w] = images
    rows = (h + 2 * padding - size) // stride + 1
    columns = (w + 2 * padding - size) // stride + 1
    out = torch.empty(n, rows, columns, c * size * size, dtype=images.dtype)
    for i in range(rows):
        for j in range(columns):
            top, left = i * stride, j * stride
            out[:, i, j] = padded[:, :, top : top + size, left : left + size].reshape(n, -1)
    return out


def box(values: Tensor, size: int, padding: int) -> Tensor:
    """Sums over common offsets of both positions; values is (h, w, h, w)."""
    h, w = values.shape[:2]
    hh, ww = h + 2 * padding - size + 1, w + 2 * padding - size + 1
    padded = torch.nn.functional.pad(values, (padding,) * 8)
    total = torch.zeros(hh, ww, hh, ww, dtype=values.dtype)
    for i in range(size):
        for j in range(size):
            total = total + padded[i : i + hh, j : j + ww, i : i + hh, j : j + ww]
    return total


def norms(
    x: Tensor, metric: Tensor, depth: int, size: int, padding: int, scale: float, factor: float, bias: float
):
    """Diagonals Λ(x, x)[p, p] of every layer."""
    diagonal = factor * torch.einsum("ijd,de,ije->ij", x, metric, x) + bias
    found = [diagonal]
    for _ in range(depth - 1):
        h, w = diagonal.shape
        padded = torch.nn.functional.pad(diagonal, (padding,) * 4)
        hh, ww = h + 2 * padding - size + 1, w + 2 * padding - size + 1
        total = torch.zeros(hh, ww, dtype=x.dtype)
        for i in range(size):
            for j in range(size):
                total = total + padded[i : i + hh, j : j + ww]
        diagonal = scale * total + bias
        found.append(diagonal)
    return found


def pair_value(
    x: Tensor,
    z: Tensor,
    metric: Tensor,
    *,
    depth: int,
    size: int,
    padding: int,
    scale: float,
    factor: float,
    bias: float,
    kind: str,
    readout: str,
) -> Tensor:
    """K of two images given as patches (rows, columns, d); differentiable.

    Where a patch is zero, value and gradient are zero; where two patches are identical, the terms with
    infinite slope are left out. Both are masks, chosen before anything is divided.
    """
    nx, nz = (norms(v, metric, depth, size, padding, scale, factor, bias) for v in (x, z))
    covariance = factor * torch.einsum("ijd,de,kle->ijkl", x, metric, z) + bias
    tangent = torch.zeros_like(covariance)
    for layer in range(depth):
        a2, b2 = nx[layer][:, :, None, None], nz[layer][None, None]
        there = (a2 > 0) & (b2 > 0)
        product = torch.where(there, a2 * b2, torch.ones((), dtype=x.dtype))
        ab = product.sqrt()
        rho = torch.where(there, covariance, torch.zeros((), dtype=x.dtype)) / ab
        same = rho > 1 - 1e-14
        opposite = rho < -1 + 1e-14
        safe = torch.where(same | opposite, torch.zeros((), dtype=x.dtype), rho)
        angle = torch.where(same, 0.0, torch.where(opposite, math.pi, torch.arccos(safe)))
        kappa0 = (math.pi - angle) / math.pi
        # at identical patches dΣ = κ0 dΛ = dΛ, with no part in the norms
        sigma = ab * (rho * kappa0 + torch.sqrt(1 - safe**2) / math.pi * (~(same | opposite)))
        sigma = torch.where(same, covariance, torch.where(opposite, 0.0, sigma))
        tangent = torch.where(there, kappa0 * (covariance + tangent), 0.0)
        sigma = torch.where(there, sigma, 0.0)
        if layer + 1 < depth:
            covariance = scale * box(sigma, size, padding) + bias
            tangent = scale * box(tangent, size, padding)
    total = sigma + tangent if kind == "ntk" else sigma
    if readout == "gap":
        return total.mean()
    h, w = total.shape[:2]
    return torch.stack([total[i, j, i, j] for i in range(h) for j in range(w)]).mean()


def kernel_matrix(
    x: Tensor,
    z: Tensor,
    *,
    stride: int = 1,
    metric: Tensor | None = None,
    channels: int | None = None,
    depth: int,
    size: int,
    padding: int,
    scale: float,
    bias: float,
    kind: str,
    readout: str,
) -> Tensor:
    """Gram matrix, pair by pair, in float64."""
    c = x.shape[1]
    d = c * size * size
    metric = torch.eye(d, dtype=torch.float64) if metric is None else metric.double()
    px, pz = (patches(v.double(), size, stride, padding) for v in (x, z))
    rows = []
    for a in px:
        rows.append(
            torch.stack(
                [
                    pair_value(
                        a,
                        b,
                        metric,
                        depth=depth,
                        size=size,
                        padding=padding,
                        scale=scale,
                        factor=scale / c,
                        bias=bias,
                        kind=kind,
                        readout=readout,
                    )
                    for b in pz
                ]
            )
        )
    return torch.stack(rows)


def patch_kernel_matrix(x, z, *, size, padding, stride, bandwidth, profile, metric=None):
    d = x.shape[1] * size * size
    metric = torch.eye(d, dtype=torch.float64) if metric is None else metric.double()
    px, pz = (patches(v.double(), size, stride, padding).flatten(1, 2) for v in (x, z))
    out = torch.empty(len(px), len(pz), dtype=torch.float64)
    for i, a in enumerate(px):
        for j, b in enumerate(pz):
            squares = torch.einsum("pd,de,pe->p", a - b, metric, a - b).clamp(min=0)
            values = (
                torch.exp(-squares.sqrt() / bandwidth)
                if profile == "laplace"
                else torch.exp(-squares / (2 * bandwidth**2))
            )
            out[i, j] = values.mean()
    return out


def agop(
    centres: Tensor, alpha: Tensor, points: Tensor, value, *, size: int, stride: int, padding: int
) -> Tensor:
    """Average over points, sum over positions and outputs, of gradient outer products, by autograd.

    `value(a, b)` is the kernel of two images given as patches; the gradient is by the patches of b.
    """
    d = centres.shape[1] * size * size
    total = torch.zeros(d, d, dtype=torch.float64)
    pc, pp = (patches(v.double(), size, stride, padding) for v in (centres, points))
    for b in pp:
        leaf = b.clone().requires_grad_(True)
        column = torch.stack([value(a, leaf) for a in pc])
        for output in range(alpha.shape[1]):
            (gradient,) = torch.autograd.grad(column @ alpha[:, output].double(), leaf, retain_graph=True)
            flat = gradient.reshape(-1, d)
            total += flat.T @ flat
    return total / len(points)


def patch_pair_value(x: Tensor, z: Tensor, metric: Tensor, *, bandwidth: float, profile: str) -> Tensor:
    """Laplace or Gaussian kernel of two images given as patches; no slope where two patches are identical."""
    squares = torch.einsum("ijd,de,ije->ij", x - z, metric, x - z)
    if profile == "gaussian":
        return torch.exp(-squares / (2 * bandwidth**2)).mean()
    same = squares.detach() <= 0
    distances = torch.where(same, torch.ones_like(squares), squares).sqrt()
    return torch.where(same, torch.ones_like(squares), torch.exp(-distances / bandwidth)).mean()


def pooled(values: Tensor) -> Tensor:
    """Means over pairs of 2 x 2 windows; values is (h, w, h, w), a last odd line is left out."""
    h, w = values.shape[0] // 2, values.shape[1] // 2
    out = torch.zeros(h, w, h, w, dtype=values.dtype)
    for i in range(2):
        for j in range(2):
            for k in range(2):
                for m in range(2):
                    out += values[i : 2 * h : 2, j : 2 * w : 2, k : 2 * h : 2, m : 2 * w : 2]
    return out / 16


def matrix_with_pooling(
    x: Tensor, z: Tensor, *, stride=1, metric=None, depth, size, padding, scale, bias, kind, pooling
) -> Tensor:
    """Gram matrix of a kernel with pooling between its layers and at its end, in float64, pair by pair.

    Norms of every layer come from the images' covariances with themselves, in full.
    """
    metric = torch.eye(x.shape[1] * size * size, dtype=torch.float64) if metric is None else metric.double()
    px, pz = (patches(v.double(), size, stride, padding) for v in (x, z))

    def layers(a: Tensor, b: Tensor, norms_a: list[Tensor] | None, norms_b: list[Tensor] | None):
        """Value, and the diagonals of all layers' covariances, which serve as norms where none are given."""
        covariance = scale / x.shape[1] * torch.einsum("ijd,de,kle->ijkl", a, metric, b) + bias
        tangent, diagonals = torch.zeros_like(covariance), []
        for layer in range(depth):
            diagonals.append(torch.einsum("ijij->ij", covariance).clone())
            first = diagonals[-1] if norms_a is None else norms_a[layer]
            second = diagonals[-1] if norms_b is None else norms_b[layer]
            product = (first[:, :, None, None] * second).sqrt()
            rho = torch.where(product > 0, covariance / product.clamp(min=1e-300), 0.0).clamp(-1, 1)
            rho = torch.where(
                rho.abs() > 1 - 1e-14, rho.sign(), rho
            )  # rounding of identical and opposite patches
            kappa = 1 - torch.arccos(rho) / math.pi
            sigma = product * (rho * kappa + (1 - rho**2).clamp(min=0).sqrt() / math.pi)
            tangent = torch.where(product > 0, kappa * (covariance + tangent), 0.0)
            if layer + 1 in pooling:
                sigma, tangent = pooled(sigma), pooled(tangent)
            if layer + 1 < depth:
                covariance = scale * box(sigma, size, padding) + bias
                tangent = scale * box(tangent, size, padding)
        return (sigma + tangent if kind == "ntk" else sigma).mean(), diagonals

    own_x, own_z = ([layers(a, a, None, None)[1] for a in side] for side in (px, pz))
    rows = [
        [layers(a, b, na, nb)[0] for b, nb in zip(pz, own_z, strict=True)]
        for a, na in zip(px, own_x, strict=True)
    ]
    return torch.stack([torch.stack(row) for row in rows])
