"""Infinite-width convolutional kernels and their Gram engine."""
