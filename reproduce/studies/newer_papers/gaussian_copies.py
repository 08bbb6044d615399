"""Images that share the mean and covariance of each class and nothing else, and what a network makes of them."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.training import accuracy


def gaussian_copies(data: ImageData, *, moments: str = "covariances", seed: int = 0) -> ImageData:
    r"""Gaussian images with the moments of each class, one for each image and with its label.

    .. math:: \tilde x_i = \mu_{y_i} + \frac{1}{\sqrt{n_c}} \sum_{j \in c} z_{ij} (x_j - \mu_c), \qquad
              z_{ij} \sim N(0, 1), \quad c = y_i

    The sum has exactly the covariance of the class, whatever the number of pixels, and no d x d matrix occurs.
    Pixels are not clipped to [0, 1], which would change the moments.

    *What a practitioner does with it:* as long as a network classifies the copies as well as the images, a
    quadratic classifier would do; see :func:`accuracy_by_moments`.

    Parameters
    ----------
    data : ImageData
        Images with labels; every class needs at least two.
    moments : {'covariances', 'means'}, default 'covariances'
        "covariances" keeps mean and covariance of each class; "means" the mean of each class, with the covariance
        within classes pooled over all: classes then differ in their means only.
    seed : int, default 0
        Seed of the draws.

    Returns
    -------
    ImageData
        With the labels of `data`, in its order. Cost O(n n_c d).

    References
    ----------
    .. [1] arXiv 2402.04362. Copies of pooled covariance as a null are ours.

    Examples
    --------
    >>> data = ImageData(torch.rand(6, 1, 2, 2), torch.tensor([0, 0, 0, 1, 1, 1]), ("a", "b"))
    >>> gaussian_copies(data).counts.tolist()
    [3, 3]
    """
    rows = data.x.double().flatten(1)
    # μ_c of all classes in one pass
    means = torch.zeros(data.n_classes, rows.shape[1], dtype=torch.float64)
    means.index_add_(0, data.y, rows)
    means = means / data.counts.clamp(min=1)[:, None]
    deviations = rows - means[data.y]
    copies = means[data.y]
    # "means" pools the classes, so that one Δ holds all deviations and classes differ by μ_c alone
    for label in torch.unique(data.y).tolist() if moments == "covariances" else [None]:
        members = torch.ones_like(data.y, dtype=torch.bool) if label is None else data.y == label
        count = int(members.sum())
        generator = generator_from("gaussian copies", seed, moments, -1 if label is None else label)
        # z Δ / √n_c has covariance ΔᵀΔ / n_c, that of the class: n_c² numbers are drawn instead of a d x d root taken
        noise = torch.randn(count, count, generator=generator, dtype=torch.float64)
        copies[members] += noise @ deviations[members] / count**0.5
    return data.replace(
        x=copies.reshape(data.x.shape).to(data.x.dtype), meta={"gaussian_copies": moments, "copy_seed": seed}
    )


def accuracy_by_moments(
    checkpoints: Mapping[str, nn.Module], data: ImageData, *, seed: int = 0
) -> dict[str, Float[Tensor, " checkpoints"]]:
    """When does a network begin to use more than means and covariances?

    *What a practitioner does with the number:* a network that is no better on the images than on their copies
    has not begun to use shapes; where copies are classified worse from some checkpoint on, stop earlier if the
    data to come share no more than second moments with these.

    Parameters
    ----------
    checkpoints : mapping of str to torch.nn.Module
        The network at several times of its training, by name; each returns one output per class.
    data : ImageData
        Images that the network was not trained on.
    seed : int, default 0
        Seed of the copies.

    Returns
    -------
    Accuracy of each checkpoint on the "images", on copies with the "covariances" of each class, and on copies with its
    "means" only.

    References
    ----------
    .. [1] arXiv 2402.04362, figure 1: accuracy on Gaussian copies rises first and then falls.
    """
    copies = {kind: gaussian_copies(data, moments=kind, seed=seed) for kind in ("covariances", "means")}
    return {
        kind: torch.tensor([accuracy(model, part) for model in checkpoints.values()], dtype=torch.float64)
        for kind, part in {"images": data, **copies}.items()
    }
