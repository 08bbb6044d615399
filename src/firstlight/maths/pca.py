"""The one principal component analysis: of patches and of whole images, in float64, in one pass."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.table import Row, rows_along
from firstlight.maths.patches import PatchGeometry, PatchMoments, image_blocks, patch_moments

_EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True, kw_only=True, eq=False)
class PCA(Result):
    """Principal components of a set of vectors.

    Parameters
    ----------
    mean : Tensor of shape (d,)
        What is subtracted before projecting.
    basis : Tensor of shape (d, m)
        Orthonormal columns by decreasing variance. The first entry of (nearly) the largest size in a
        column is positive.
    variances : Tensor of shape (m,)
        Mean squared coordinate along each column (divided by n, not n - 1).
    n_samples : int
        Independent samples, that is images.
    n_vectors : int
        Vectors averaged over; more than `n_samples` for patches.
    """

    mean: Float[Tensor, " d"]
    basis: Float[Tensor, "d m"]
    variances: Float[Tensor, " m"]
    n_samples: int
    n_vectors: int

    def _rows(self) -> list[Row]:
        return rows_along(self, "m")

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return len(self.mean)

    @property
    def n_components(self) -> int:
        """Number of columns of the basis."""
        return len(self.variances)

    @property
    def explained(self) -> Float[Tensor, " m"]:
        """Share of the total variance along each component; zeros if there is none at all."""
        total = self.variances.sum()
        return self.variances / total if total > 0 else self.variances.clone()

    def rank(self, *, rtol: float | None = None) -> int:
        """Number of variances above `rtol` times the largest (default: dimension times 2.2e-16)."""
        floor = (self.dimension * _EPS if rtol is None else rtol) * self.variances[0]
        return int((self.variances > floor).sum())

    def truncated(self, n_components: int) -> "PCA":
        """The leading components only."""
        if not 1 <= n_components <= self.n_components:
            raise InvalidInput(
                f"`n_components` must lie in 1 .. {self.n_components}, the components there are; "
                f"got n_components={n_components}."
            )
        return replace(self, basis=self.basis[:, :n_components], variances=self.variances[:n_components])

    def project(self, vectors: Float[Tensor, "n d"]) -> Float[Tensor, "n m"]:
        """Coordinates in the basis, in float64."""
        if vectors.shape[1] != self.dimension:
            raise InvalidInput(
                f"`vectors` must have the length that was fitted, {self.dimension}; got {vectors.shape[1]}."
            )
        return (vectors.double() - self.mean) @ self.basis

    def reconstruct(self, coordinates: Float[Tensor, "n m"]) -> Float[Tensor, "n d"]:
        """Vectors with these coordinates, in float64."""
        return coordinates.double() @ self.basis.T + self.mean


def patch_pca(
    images: Tensor | Iterable[Tensor],
    geometry: PatchGeometry,
    *,
    block: int | None = None,
) -> PCA:
    r"""Principal components of all patches of all images.

    .. math:: \frac{1}{N|S|} \sum_{i,p} (x_i[p]-\mu)(x_i[p]-\mu)^\top = U \operatorname{diag}(\omega)\, U^\top

    Patches are never built when stride and dilation are 1: the sums come from products of pixel rows.
    Memory does not grow with the number of images.

    Parameters
    ----------
    images : Tensor or iterable of Tensor
        A tensor ``n c h w``, or an iterable of such blocks.
    geometry : PatchGeometry
        Which patches; zero padding counts as pixels, as it does for the layer.
    block : int, optional
        Images worked on at a time.

    Examples
    --------
    >>> images = torch.rand(8, 3, 9, 9, generator=torch.Generator().manual_seed(0))
    >>> pca = patch_pca(images, PatchGeometry.square(3))
    >>> pca.basis.shape, pca.n_samples, pca.n_vectors
    (torch.Size([27, 27]), 8, 392)
    """
    return patch_components(patch_moments(images, geometry, block=block))


def patch_components(moments: PatchMoments) -> PCA:
    """Principal components of patches whose moments are known; arguments as for :func:`patch_pca`."""
    variances, basis = _principal(_finite(moments.covariance))
    return PCA(
        mean=moments.mean,
        basis=basis,
        variances=variances,
        n_samples=moments.n_images,
        n_vectors=moments.n_vectors,
    )


def image_pca(images: Tensor | Iterable[Tensor], *, block: int | None = None) -> PCA:
    """Principal components of whole images, vectorised as (channel, row, column).

    Holds at most one `d × d` matrix and `d` images in float64, whatever the number of images. With fewer
    images than pixels the eigenproblem of the `n × n` Gram matrix is solved instead: the same subspace,
    with `m = n` components, the last of them without variance.

    Parameters
    ----------
    images : Tensor or iterable of Tensor
        A tensor ``n c h w``, or an iterable of such blocks.
    block : int, optional
        Images worked on at a time.

    Examples
    --------
    >>> images = torch.rand(5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    >>> pca = image_pca(images)
    >>> pca.basis.shape, pca.rank()
    (torch.Size([16, 5]), 4)
    """
    scatter: _Scatter | None = None
    for part in image_blocks(images, block=block):
        rows = part.detach().cpu().flatten(1).double()
        scatter = scatter or _Scatter(rows.mean(0))
        scatter.add(rows)
    if scatter is None:
        raise InvalidInput("`images` must hold at least one block of images; got an empty iterable.")
    variances, basis = scatter.principal()
    return PCA(
        mean=scatter.mean,
        basis=basis,
        variances=variances,
        n_samples=scatter.count,
        n_vectors=scatter.count,
    )


class _Scatter:
    """Vectors summed up in whichever form is smaller: themselves, or their d × d second moments."""

    def __init__(self, shift: Float[Tensor, " d"]) -> None:
        self.shift = shift  # near the mean, so that little cancels when the mean is removed
        self.count = 0
        self.first = torch.zeros_like(shift)
        self.second: Tensor | None = None
        self.held: list[Tensor] = []

    @property
    def mean(self) -> Float[Tensor, " d"]:
        return self.shift + self.first / self.count

    def add(self, rows: Float[Tensor, "n d"]) -> None:
        rows = rows - self.shift
        self.count += len(rows)
        self.first += rows.sum(0)
        self.held.append(rows)
        d = len(self.shift)
        if self.count >= d:
            if self.second is None:
                self.second = torch.zeros(d, d, dtype=torch.float64)
            for some in self.held:
                self.second.addmm_(some.T, some)
            self.held = []

    def principal(self) -> tuple[Tensor, Tensor]:
        offset = _finite(self.first / self.count)
        if self.second is None:
            return _principal_few(torch.cat(self.held) - offset)
        matrix = self.second / self.count - torch.outer(offset, offset)
        return _principal(_finite((matrix + matrix.T) / 2))


def _principal(matrix: Float[Tensor, "d d"]) -> tuple[Tensor, Tensor]:
    values, vectors = torch.linalg.eigh(matrix)
    return values.flip(0).clamp(min=0), _signed(vectors.flip(1))


def _principal_few(rows: Float[Tensor, "n d"]) -> tuple[Tensor, Tensor]:
    """Components of fewer vectors than entries, through their Gram matrix."""
    values, vectors = torch.linalg.eigh(_finite(rows @ rows.T) / len(rows))
    # the images of the small eigenvectors lean towards the large ones; orthogonalising in order removes it
    basis, _ = torch.linalg.qr(rows.T @ vectors.flip(1))
    return values.flip(0).clamp(min=0), _signed(basis)


def _signed(basis: Float[Tensor, "d m"]) -> Float[Tensor, "d m"]:
    sizes = basis.abs()
    # symmetric components have several largest entries: rounding must not choose between them
    leading = (sizes >= sizes.amax(0) * (1 - 1e-6)).to(torch.uint8).argmax(0)
    signs = basis.gather(0, leading[None]).sign()
    return basis * torch.where(signs == 0, 1.0, signs)


def _finite(values: Tensor) -> Tensor:
    if not values.isfinite().all():
        raise InvalidInput("`images` holds NaN or infinite pixels. Remove or repair those images first.")
    return values
