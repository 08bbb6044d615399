"""Pure functions on tensors: patches, principal components, correlation, psd matrices."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight.maths.correlation import (
        ChanceBaseline,
        Interval,
        bootstrap_interval,
        correlation_matrix,
        cosine,
        null_spread,
        pearson,
        permutation_baseline,
        ranks,
        spearman,
    )
    from firstlight.maths.patches import PatchGeometry, extract_patches, mean_patches, sobel_magnitude
    from firstlight.maths.pca import PCA, image_pca, patch_pca
    from firstlight.maths.psd import psd_sqrt

lazy_exports(__name__)
