"""Pure functions on tensors: patches, principal components, correlation, psd matrices."""

from firstlight.maths.patches import PatchGeometry, extract_patches, mean_patches
from firstlight.maths.pca import PCA, image_pca, patch_pca, separated_blocks
from firstlight.maths.psd import psd_pinv, psd_sqrt

__all__ = [
    "PCA",
    "PatchGeometry",
    "extract_patches",
    "image_pca",
    "mean_patches",
    "patch_pca",
    "psd_pinv",
    "psd_sqrt",
    "separated_blocks",
]
