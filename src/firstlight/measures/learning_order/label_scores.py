"""Scores of examples from a network's outputs: how well the output fits the label."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from firstlight._internal.errors import InvalidInput


def class_scores(outputs: Any, n_rows: int) -> Float[Tensor, "b k"]:
    """One score per class from whatever a classifier returns, for `n_rows` examples.

    Parameters
    ----------
    outputs : Tensor, mapping, tuple or list
        A tensor; a dictionary with the entry ``logits`` or a single tensor; or a sequence whose first
        tensor counts.
    n_rows : int
        Number of examples.

    Returns
    -------
    Tensor of shape (b, k)
        A single output is the score of class 1 against a score of 0 for class 0.

    Examples
    --------
    >>> class_scores({"logits": torch.tensor([[2.0]])}, 1)
    tensor([[0., 2.]])
    """
    tensor = _tensor_of(outputs)
    if tensor.ndim == 0 or len(tensor) != n_rows:
        raise InvalidInput(
            f"the network must return one row per example, {n_rows}; it returned {tuple(tensor.shape)}."
        )
    if not tensor.isfinite().all():
        raise InvalidInput("the network's outputs hold NaN or infinite values; its answers mean nothing.")
    scores = tensor.flatten(1) if tensor.ndim > 1 else tensor[:, None]
    return scores if scores.shape[1] != 1 else torch.cat([torch.zeros_like(scores), scores], 1)


def label_margin(scores: Float[Tensor, "b k"], labels: Int[Tensor, " b"]) -> Float[Tensor, " b"]:
    r"""Score of the label minus the largest other score: positive where the answer is right.

    .. math:: m(x) = f_{y(x)}(x) - \max_{c \ne y(x)} f_c(x)

    Unchanged when the same number is added to all scores of an example. Its mean over epochs is the area
    under the margin of [1]_.

    References
    ----------
    .. [1] Pleiss et al. (2020), Identifying mislabeled data using the area under the margin ranking.

    Examples
    --------
    >>> label_margin(torch.tensor([[3.0, 1.0], [3.0, 1.0]]), torch.tensor([0, 1]))
    tensor([ 2., -2.], dtype=torch.float64)
    """
    scores = scores.double()
    own = scores.gather(1, labels[:, None])
    others = scores.scatter(1, labels[:, None], -torch.inf)
    return own[:, 0] - others.max(1).values


def label_error_norm(scores: Float[Tensor, "b k"], labels: Int[Tensor, " b"]) -> Float[Tensor, " b"]:
    r"""Length of the error of the predicted probabilities, the EL2N score of [1]_.

    .. math:: \lVert \mathrm{softmax}(f(x)) - e_{y(x)} \rVert_2

    Between 0, certain and right, and :math:`\sqrt 2`, certain and wrong.

    References
    ----------
    .. [1] Paul, Ganguli and Dziugaite (2021), Deep learning on a data diet.

    Examples
    --------
    >>> label_error_norm(torch.tensor([[0.0, 0.0]]), torch.tensor([0]))
    tensor([0.7071], dtype=torch.float64)
    """
    errors = torch.softmax(scores.double(), 1)
    errors = errors.scatter_add(1, labels[:, None], torch.full_like(errors[:, :1], -1))
    return errors.square().sum(1).sqrt()


class RunningMean:
    """Mean of a number per example over all times it was seen; NaN for an example never seen."""

    def __init__(self, n: int) -> None:
        self.total = torch.zeros(n, dtype=torch.float64)
        self.count = torch.zeros(n, dtype=torch.int64)

    def add(self, values: Float[Tensor, " b"], index: Int[Tensor, " b"]) -> None:
        """Take in new numbers of the examples at `index`."""
        self.total.index_add_(0, index, values.cpu().double())
        self.count.index_add_(0, index, torch.ones_like(index))

    @property
    def mean(self) -> Float[Tensor, " n"]:
        """The mean so far."""
        return self.total / self.count


def _tensor_of(outputs: Any) -> Tensor:
    if isinstance(outputs, Tensor):
        return outputs
    if isinstance(outputs, Mapping):
        if isinstance(outputs.get("logits"), Tensor):
            return outputs["logits"]  # type: ignore[no-any-return]
        tensors = [value for value in outputs.values() if isinstance(value, Tensor)]
        if len(tensors) == 1:
            return tensors[0]
        raise InvalidInput(
            "a network that returns a dictionary must name its scores `logits` or return a single tensor; it "
            f"returned {', '.join(map(str, outputs)) or 'nothing'}. Hand the scores to `batch` instead."
        )
    if isinstance(outputs, tuple | list):
        for value in outputs:
            if isinstance(value, Tensor):
                return value
    raise InvalidInput(
        f"the network must return a tensor, or a dictionary or sequence of tensors; got {type(outputs).__name__}."
    )
