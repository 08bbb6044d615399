"""Images that share the mean and covariance of each class and nothing else, and what a network makes of them."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.autograd.model_outputs import checked_output, run
from firstlight._internal.autograd.model_state import evaluating
from firstlight._internal.errors import InvalidInput, unknown_name
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.models.kinds import unwrapped

KINDS = ("means", "covariances")
_BLOCK = 256


@dataclass(frozen=True, kw_only=True)
class MomentAccuracy(Result):
    """Accuracy of each checkpoint on images and on their copies.

    Parameters
    ----------
    checkpoints : tuple of str
        Names, in the order given.
    images : Tensor of shape (checkpoints,)
        Accuracy on the images themselves.
    covariances : Tensor of shape (checkpoints,)
        On Gaussian copies with the mean and the covariance of each class.
    means : Tensor of shape (checkpoints,)
        On Gaussian copies with the mean of each class and one covariance for all.
    shuffled : Tensor of shape (checkpoints,)
        On the images with permuted labels: chance for the answers that the checkpoint gives.
    """

    checkpoints: tuple[str, ...]
    images: Float[Tensor, " checkpoints"]
    covariances: Float[Tensor, " checkpoints"]
    means: Float[Tensor, " checkpoints"]
    shuffled: Float[Tensor, " checkpoints"]

    @property
    def beyond_second(self) -> Float[Tensor, " checkpoints"]:
        """Accuracy that needs more than means and covariances."""
        return self.images - self.covariances


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
    if moments not in KINDS:
        raise unknown_name("kind of moments", moments, KINDS)
    present = torch.unique(data.y)
    if int(data.counts[present].min()) < 2:
        raise InvalidInput("every class of `data` must have at least two images: one has no covariance.")
    rows = data.x.double().flatten(1)
    # μ_c of all classes in one pass
    means = torch.zeros(data.n_classes, rows.shape[1], dtype=torch.float64)
    means.index_add_(0, data.y, rows)
    means = means / data.counts.clamp(min=1)[:, None]
    deviations = rows - means[data.y]
    copies = means[data.y]
    # "means" pools the classes, so that one Δ holds all deviations and classes differ by μ_c alone
    for label in present.tolist() if moments == "covariances" else [None]:
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
) -> MomentAccuracy:
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
        Seed of the copies and of the permutation.

    Returns
    -------
    MomentAccuracy
        Cost: four passes over the images for each checkpoint.

    References
    ----------
    .. [1] arXiv 2402.04362, figure 1: accuracy on Gaussian copies rises first and then falls.
    """
    if not checkpoints:
        raise InvalidInput("`checkpoints` must hold at least one network; it is empty.")
    order = torch.randperm(len(data), generator=generator_from("shuffled moments", seed))
    shown = {
        "images": (data.x, data.y),
        "covariances": (gaussian_copies(data, seed=seed).x, data.y),
        "means": (gaussian_copies(data, moments="means", seed=seed).x, data.y),
        "shuffled": (data.x, data.y[order]),
    }
    table = {
        kind: torch.tensor(
            [_accuracy(unwrapped(model), x, y, data.n_classes) for model in checkpoints.values()]
        )
        for kind, (x, y) in shown.items()
    }
    return MomentAccuracy(
        checkpoints=tuple(checkpoints), **{kind: row.double() for kind, row in table.items()}
    )


@torch.no_grad()
def _accuracy(model: nn.Module, x: Tensor, y: Tensor, n_classes: int) -> float:
    like = next(model.parameters())
    hits = 0
    with evaluating(model):
        for images, labels in zip(torch.split(x, _BLOCK), torch.split(y, _BLOCK), strict=True):
            outputs = checked_output(run(model, images.to(like)), None, n=len(images))
            if outputs.ndim != 2 or outputs.shape[1] != n_classes:
                raise InvalidInput(
                    f"every checkpoint must return one output per class, {n_classes}; got {tuple(outputs.shape)}."
                )
            hits += int((outputs.argmax(1).cpu() == labels).sum())
    return hits / len(x)
