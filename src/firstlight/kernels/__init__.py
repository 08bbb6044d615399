"""Convolutional kernels that can learn features: Gram matrices, gradients, ridge regression."""

# what a kernel is, its matrices, and the gradients of its predictors
from firstlight.kernels.agop import kernel_agop
from firstlight.kernels.gram import gram
from firstlight.kernels.spec import ConvKernel, Kernel, PatchKernel, kernel_from, median_bandwidth

__all__ = ["ConvKernel", "Kernel", "PatchKernel", "gram", "kernel_agop", "kernel_from", "median_bandwidth"]
