"""Convolutional kernels that can learn features: Gram matrices, gradients, ridge regression."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight.kernels.gradients import kernel_agop
    from firstlight.kernels.gram import kernel_gram
    from firstlight.kernels.kernel import ConvKernel, Kernel, PatchKernel, kernel_from, median_bandwidth
    from firstlight.kernels.random_features import (
        FEATURE_RIDGES,
        RandomFeatures,
        learn_features,
    )
    from firstlight.kernels.rfm import RIDGES, Round, Rounds, learn_metric, random_filters
    from firstlight.kernels.ridge import (
        CholeskyPath,
        RidgePath,
        conjugate_gradients,
        ridge_residual,
        ridge_solver,
        scaled_gram,
    )
    from firstlight.kernels.tiled_gram import TiledGram

lazy_exports(__name__)
