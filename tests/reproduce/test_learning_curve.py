"""The predicted learning curve is that of real fits where images are Gaussian, and says when labels mean nothing."""

import torch

from firstlight.data.images import ImageData
from reproduce.studies.newer_papers.kernels import learning_curve


def gaussian(n=1600, *, shuffled=False):
    generator = torch.Generator().manual_seed(0)
    scale = (1 / torch.arange(1, 37) ** 0.3).double()
    x = torch.randn(n, 36, generator=generator, dtype=torch.float64) * scale
    y = (x[:, 0] + 0.5 * x[:, 1] > 0).long()
    if shuffled:
        y = y[torch.randperm(n, generator=generator)]
    return ImageData(x.reshape(n, 1, 6, 6), y, ("a", "b"))


def test_the_curve_of_gaussian_images_is_predicted_without_a_fit():
    curve = learning_curve(gaussian(), sizes=(20, 80, 320), repeats=4, modes=300)
    assert torch.equal(curve.sizes, torch.tensor([20, 80, 320]))
    # the modes are exact in the limit of many dimensions; with 36, squared norms vary by a quarter
    assert float(curve.error.max()) < 0.2
    assert bool((curve.predicted[1:] < curve.predicted[:-1]).all())
    assert float(curve.predicted[-1]) < 0.6 * curve.constant


def test_labels_that_mean_nothing_are_predicted_to_stay_at_their_variance():
    curve = learning_curve(gaussian(shuffled=True), sizes=(20, 160), repeats=2, modes=100)
    assert bool((curve.predicted > 0.9 * curve.constant).all())
