"""Interventions on the principal components of whole images: whitening, projection, amplification.

All are fitted on the training split and applied to any split. Fitting costs one eigendecomposition; pass
`pca=` to share it between several interventions on the same images.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight.data.images import ImageData
from firstlight.data.interventions import ChannelNormalisation, mapped, noted
from firstlight.maths.pca import PCA, image_pca

Shape = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class ZCAWhitening(Result):
    r"""Scale every principal component to variance one and rotate back.

    .. math:: x' = U (D + \varepsilon D_1)^{-1/2} U^\top (x - \mu)

    Parameters
    ----------
    pca : PCA
        Of the training images.
    shape : Shape
        Of the images, (c, h, w).
    eps : float
        ε, relative to the largest eigenvalue. The default 1e-8 leaves only directions without any content
        below variance one half; 1e-5, often seen, leaves the bottom components of natural images at .09.
        With 0 the training covariance is the identity on the span of the training images.

    Notes
    -----
    Directions in which the training images do not vary (constant pixels, fewer images than pixels) map to
    zero, as under the pseudo-inverse: dividing by √ε would blow up whatever a test image has there.
    """

    pca: PCA
    shape: Shape
    eps: float

    @classmethod
    def fit(cls, train: ImageData, *, eps: float = 1e-8, pca: PCA | None = None) -> "ZCAWhitening":
        """Learn the rotation and the scales from the training images."""
        if not eps >= 0:
            raise InvalidInput(f"`eps` must be at least 0; got eps={eps}.")
        return cls(pca=_pca_of(train, pca), shape=train.shape, eps=eps)

    def transform(self, data: ImageData) -> ImageData:
        """Whitened copy of any split."""
        check_same_shape(data, self.shape)
        rank = self.pca.rank()
        kept = self.pca.truncated(max(rank, 1))
        scales = (kept.variances + self.eps * kept.variances[0]).clamp(min=1e-300).rsqrt() * (rank > 0)

        def whiten(vectors: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
            return (kept.project(vectors) * scales) @ kept.basis.T

        note = noted(data, "zca_whitening", eps=self.eps, n_train=self.pca.n_samples)
        return data.replace(x=mapped(data.x, on_vectors(whiten)), meta=note)


@dataclass(frozen=True, kw_only=True, eq=False)
class ComponentProjection(Result):
    r"""Keep the leading principal components only, :math:`x' = \mu + U_P U_P^\top (x - \mu)`.

    Parameters
    ----------
    pca : PCA
        Of the training images, cut to P components.
    shape : Shape
        Of the images, (c, h, w).
    """

    pca: PCA
    shape: Shape

    @classmethod
    def fit(cls, train: ImageData, n_components: int, *, pca: PCA | None = None) -> "ComponentProjection":
        """Learn the components from the training images."""
        return cls(pca=_pca_of(train, pca).truncated(n_components), shape=train.shape)

    def transform(self, data: ImageData) -> ImageData:
        """Projected copy of any split."""
        check_same_shape(data, self.shape)
        project = on_vectors(lambda vectors: self.pca.reconstruct(self.pca.project(vectors)))
        note = noted(
            data, "component_projection", n_components=self.pca.n_components, n_train=self.pca.n_samples
        )
        return data.replace(x=mapped(data.x, project), meta=note)


@dataclass(frozen=True, kw_only=True, eq=False)
class Amplification(Result):
    r"""Stretch the images along the top or bottom principal components, then standardise the channels.

    .. math:: x' = \mu + (I + (f-1)\, U_S U_S^\top)(x - \mu)

    Parameters
    ----------
    pca : PCA
        Of the training images.
    shape : Shape
        Of the images, (c, h, w).
    first : int
        Index of the first component of S.
    last : int
        Index after the last component of S.
    factor : float
        f.
    normalisation : ChannelNormalisation or None
        Channel statistics of the amplified training images; None to leave the scale.
    """

    pca: PCA
    shape: Shape
    first: int
    last: int
    factor: float
    normalisation: ChannelNormalisation | None

    @classmethod
    def fit(
        cls,
        train: ImageData,
        *,
        end: Literal["top", "bottom"] = "top",
        share: float = 0.015,  # 46 of the 3072 components of a 32 x 32 colour image
        factor: float = 10.0,
        standardise: bool = True,
        pca: PCA | None = None,
    ) -> "Amplification":
        """Learn the components, and the channel statistics after stretching, from the training images.

        The share counts all dimensions of an image. The bottom ends where the variance does: directions
        in which no training image varies (below 1e-10 of the top, which float32 pixels cannot carry) would
        stretch nothing.
        """
        if end not in ("top", "bottom"):
            raise InvalidInput(f"`end` must be 'top' or 'bottom'; got end={end!r}.")
        if not 0 < share <= 1:
            raise InvalidInput(f"`share` must lie in (0, 1]; got share={share}.")
        if not factor > 0:
            raise InvalidInput(f"`factor` must be positive; got factor={factor}.")
        pca = _pca_of(train, pca)
        rank = pca.rank(rtol=1e-10)
        count = min(max(1, round(share * pca.dimension)), rank)
        if count == 0:
            raise InvalidInput("`train` must hold images that differ; all of them are the same.")
        first = 0 if end == "top" else rank - count
        bare = cls(
            pca=pca, shape=train.shape, first=first, last=first + count, factor=factor, normalisation=None
        )
        if not standardise:
            return bare
        return replace(bare, normalisation=ChannelNormalisation.fit(bare.transform(train)))

    def transform(self, data: ImageData) -> ImageData:
        """Amplified copy of any split."""
        check_same_shape(data, self.shape)
        chosen = self.pca.basis[:, self.first : self.last]

        def amplify(vectors: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
            coordinates = (vectors - self.pca.mean) @ chosen
            return vectors + (self.factor - 1) * coordinates @ chosen.T

        def change(images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
            amplified = on_vectors(amplify)(images)
            return amplified if self.normalisation is None else self.normalisation.normalised(amplified)

        note = noted(
            data,
            "amplification",
            components=[self.first, self.last],
            factor=self.factor,
            standardised=self.normalisation is not None,
            n_train=self.pca.n_samples,
        )
        return data.replace(x=mapped(data.x, change), meta=note)


def _pca_of(train: ImageData, pca: PCA | None) -> PCA:
    if pca is None:
        return image_pca(train.x)
    dimension = torch.Size(train.shape).numel()
    if pca.dimension != dimension:
        raise InvalidInput(
            f"`pca` must be that of images of {train.shape}, {dimension} numbers; got {pca.dimension}."
        )
    return pca


def on_vectors(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Turn a function of vectorised images into one of images."""
    return lambda images: function(images.flatten(1)).reshape(images.shape)


def check_same_shape(data: ImageData, shape: tuple[int, int, int]) -> None:
    """Refuse images of another size than the fitted ones."""
    if data.shape != shape:
        raise InvalidInput(
            f"`data` must hold images of the fitted shape {shape}; got {data.shape}. "
            "Fit on images of this shape."
        )
