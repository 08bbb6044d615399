"""Which examples are learned when: one bit per example and epoch, from any training loop.

Ours calls an observer with (step, model). In a plain PyTorch loop::

    recorder = AccessibilityRecorder(x, y)      # before
    recorder.record(model)                      # at the end of every epoch
    scores = recorder.history().scores          # after
    recorder.write_csv("record.csv")            # for `firstlight labels --record`

In Lightning, pass ``callbacks=[AccessibilityCallback(recorder)]``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn

from firstlight._internal.autograd.model_state import evaluating
from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.safe_text import write_csv
from firstlight._internal.table import Row


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
    under the margin of Pleiss et al.

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
    r"""Length of the error of the predicted probabilities, the EL2N score of Paul, Ganguli and Dziugaite.

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


LabelsLike = Tensor | np.ndarray | Sequence[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class AccessibilityHistory(Result):
    """Right or wrong, for every network, epoch and example.

    Parameters
    ----------
    bits : uint8 Tensor of shape (nets, epochs, bytes)
        Eight examples a byte, the first in the highest bit.
    n_examples : int
        Number of examples; the last byte may have bits to spare.
    """

    bits: UInt8[Tensor, "nets epochs bytes"]
    n_examples: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bits.shape[0] == 0 or self.bits.shape[1] == 0:
            raise InvalidInput(
                "a history needs at least one network and one epoch. Call `record` each epoch."
            )

    def _rows(self) -> list[Row]:
        return [
            {"network": i, "epoch": j, "accuracy": value}
            for i, row in enumerate(self.accuracy.tolist())
            for j, value in enumerate(row)
        ]

    @property
    def correct(self) -> Bool[Tensor, "nets epochs n"]:
        """The bits spread out."""
        # one bit per example: 100 networks x 100 epochs x 50 000 examples are 60 MB instead of 500
        unpacked = np.unpackbits(self.bits.numpy(), axis=-1, count=self.n_examples)
        return torch.from_numpy(unpacked).bool()

    @property
    def by_network(self) -> Float[Tensor, "nets n"]:
        """Share of epochs in which each network was right."""
        # network by network, so that the bits of one only are ever spread out
        return torch.stack([_means(rows, self.n_examples, axis=0) for rows in self.bits])

    @property
    def scores(self) -> Float[Tensor, " n"]:
        r"""Accessibility: the share of networks and epochs that are right.

        .. math:: \mathrm{acc}(x) = \frac{1}{N E} \sum_{i=1}^{N} \sum_{e=1}^{E} 1[f_i^e(x) = y(x)]

        1 if all networks have it right from the first epoch on, 0 if none ever has.
        """
        return self.by_network.mean(0)

    @property
    def accuracy(self) -> Float[Tensor, "nets epochs"]:
        """Share of examples that are right."""
        return torch.stack([_means(rows, self.n_examples, axis=1) for rows in self.bits])

    @property
    def forgetting(self) -> Int[Tensor, "nets n"]:
        """How often each network went from right to wrong between two recorded epochs."""
        return torch.stack([_losses(rows, self.n_examples) for rows in self.bits])

    @property
    def n_networks(self) -> int:
        """Number of networks."""
        return len(self.bits)

    @property
    def n_epochs(self) -> int:
        """Number of recorded epochs."""
        return self.bits.shape[1]

    def up_to(self, epochs: int) -> "AccessibilityHistory":
        """The first epochs only."""
        if not 1 <= epochs <= self.n_epochs:
            raise InvalidInput(f"`epochs` must lie in 1 .. {self.n_epochs}; got epochs={epochs}.")
        return AccessibilityHistory(bits=self.bits[:, :epochs], n_examples=self.n_examples)

    def take(self, examples: Int[Tensor, " m"]) -> "AccessibilityHistory":
        """Some of the examples, in the order given."""
        bits = np.packbits(self.correct[..., examples].numpy(), axis=-1)
        return AccessibilityHistory(bits=torch.from_numpy(bits), n_examples=len(examples))

    def networks(self, chosen: Sequence[int] | slice) -> "AccessibilityHistory":
        """Some of the networks, as an ensemble of their own."""
        index = chosen if isinstance(chosen, slice) else torch.tensor(list(chosen), dtype=torch.int64)
        return AccessibilityHistory(bits=self.bits[index], n_examples=self.n_examples)


class AccessibilityRecorder:
    """Notes after every epoch which examples a network classifies correctly.

    Parameters
    ----------
    inputs : Tensor or None
        The examples to follow, training or test; None if outputs are handed in by :meth:`batch`.
    labels : integer Tensor, array or sequence of shape (n,)
        Their classes. A network with one output is taken to score class 1 against class 0.
    every : int, default 1
        With our loop, steps per epoch.
    batch_size : int, default 100
        Examples per forward pass; activations of larger ones leave the cache.
    keep_margins : bool, default False
        Whether to keep the mean margin of every example too.
    el2n_epochs : sequence of int, default ()
        Epochs, counted from 1, whose outputs enter the mean EL2N score.

    Notes
    -----
    A network may return a tensor, a dictionary with the entry ``logits`` or with a single tensor, or a
    sequence whose first tensor holds the scores.

    The record survives a killed process: it is part of the checkpoint through `state_dict`.

    Examples
    --------
    >>> recorder = AccessibilityRecorder(torch.eye(3), torch.tensor([0, 1, 1]))
    >>> recorder.record(nn.Identity())
    >>> recorder.history().scores.tolist()
    [1.0, 1.0, 0.0]
    """

    def __init__(
        self,
        inputs: Tensor | None,
        labels: LabelsLike,
        *,
        every: int = 1,
        batch_size: int = 100,
        keep_margins: bool = False,
        el2n_epochs: Sequence[int] = (),
    ) -> None:
        labels = _class_numbers(labels)
        if inputs is not None and len(inputs) != len(labels):
            raise InvalidInput(f"`labels` must match `inputs`; got {len(labels)} for {len(inputs)} examples.")
        if len(labels) == 0 or every < 1 or batch_size < 1:
            raise InvalidInput(
                f"examples, `every` and `batch_size` must be at least 1; got {len(labels)}, {every}, {batch_size}."
            )
        if any(epoch < 1 for epoch in el2n_epochs):
            raise InvalidInput(f"`el2n_epochs` are counted from 1; got {list(el2n_epochs)}.")
        self.inputs, self.labels = inputs, labels
        self.every, self.batch_size = every, batch_size
        self.el2n_epochs = frozenset(el2n_epochs)
        self._means: dict[str, RunningMean] = {}
        if keep_margins:
            self._means["margin"] = RunningMean(len(labels))
        if el2n_epochs:
            self._means["el2n"] = RunningMean(len(labels))
        self._largest = int(labels.max())
        self._rows: list[np.ndarray] = []
        # the epoch that is under way: right or wrong at the last sight of every example
        self._open = np.zeros(len(labels), dtype=bool)
        self._seen = np.zeros(len(labels), dtype=bool)

    def __call__(self, step: int, model: nn.Module) -> None:
        """Record after every epoch, as an observer of our loop."""
        if step and step % self.every == 0:
            self.record(model)

    def record(self, model: nn.Module) -> None:
        """One forward pass over the examples in evaluation mode closes an epoch."""
        if self.inputs is None:
            raise InvalidInput("`record` needs the examples: pass `inputs`, or hand outputs to `batch`.")
        like = next(model.parameters(), None)
        # evaluation mode, after the epoch: dropout or a batch's statistics would make the bit depend on chance
        hits = []
        with torch.no_grad(), evaluating(model):
            blocks = zip(
                torch.split(self.inputs, self.batch_size),
                torch.split(torch.arange(len(self.labels)), self.batch_size),
                strict=True,
            )
            for x, index in blocks:
                x = x if like is None else x.to(like.device, like.dtype)
                hits.append(self._hits(model(x), index))
        self._rows.append(np.packbits(np.concatenate(hits)))

    def batch(self, outputs: Any, index: LabelsLike) -> None:
        """Reuse the outputs of a training step: nearly free, but with dropout on and weights in motion.

        Parameters
        ----------
        outputs : Tensor of shape (b, ...), mapping or sequence
            Outputs for the batch.
        index : integer Tensor, array or sequence of shape (b,)
            Which examples they belong to.
        """
        where = torch.as_tensor(index).detach().cpu().long()
        if where.numel() and not 0 <= int(where.min()) <= int(where.max()) < len(self.labels):
            raise InvalidInput(
                f"`index` must lie in 0 .. {len(self.labels) - 1}; got {int(where.min())} .. {int(where.max())}."
            )
        # an example that is drawn twice in an epoch counts as it did last
        self._open[where.numpy()] = self._hits(outputs, where)
        self._seen[where.numpy()] = True

    def end_epoch(self) -> None:
        """Close the epoch that :meth:`batch` has filled; examples not seen count as they did before."""
        if not self._seen.any():
            raise InvalidInput("`end_epoch` must follow a `batch`; no outputs came since the last one.")
        self._rows.append(np.packbits(self._open))
        # `_open` stays: a sampler need not show every example in every epoch
        self._seen[:] = False

    def history(self) -> AccessibilityHistory:
        """What was recorded, as a history of one network."""
        return history_of([self.state_dict()])

    @property
    def mean_margin(self) -> Float[Tensor, " n"]:
        """Mean over the recorded epochs of the label's score minus the largest other score (AUM).

        NaN for an example that was never seen.
        """
        return self._kept("margin", "keep_margins=True")

    @property
    def el2n(self) -> Float[Tensor, " n"]:
        """Mean over the chosen epochs of the length of softmax minus one-hot label (EL2N)."""
        return self._kept("el2n", "el2n_epochs")

    def write_csv(self, path: str | Path, *, files: Sequence[str] = ()) -> Path:
        """Write one row per example: index, file if given, label, and all that was recorded.

        Parameters
        ----------
        path : str or Path
            File to write.
        files : sequence of str, default ()
            One name per example.
        """
        history = self.history()
        if files and len(files) != len(self.labels):
            raise InvalidInput(
                f"`files` must hold one name per example, {len(self.labels)}; got {len(files)}."
            )
        columns: dict[str, Sequence[Any]] = {"index": range(len(self.labels))}
        if files:
            columns["file"] = files
        columns["label"] = self.labels.tolist()
        columns["accessibility"] = history.scores.tolist()
        columns["forgetting"] = history.forgetting[0].tolist()
        columns.update({name: kept.mean.tolist() for name, kept in self._means.items()})
        return write_csv(Path(path), columns)

    def state_dict(self) -> dict[str, Tensor]:
        """Everything recorded so far."""
        n = len(self.labels)
        rows = np.stack(self._rows) if self._rows else np.zeros((0, -(-n // 8)), dtype=np.uint8)
        return {
            "bits": torch.from_numpy(rows),
            "n_examples": torch.tensor(n),
            "open": torch.from_numpy(np.packbits(self._open)),
            "seen": torch.from_numpy(np.packbits(self._seen)),
            **{f"{name}_total": kept.total.clone() for name, kept in self._means.items()},
            **{f"{name}_count": kept.count.clone() for name, kept in self._means.items()},
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a record of the same examples."""
        n = len(self.labels)
        if int(state["n_examples"]) != n:
            raise InvalidInput(
                f"the record is of {int(state['n_examples'])} examples; this recorder has {n}."
            )
        if missing := [name for name in self._means if f"{name}_total" not in state]:
            raise InvalidInput(
                f"the record holds no {' and no '.join(missing)}. Continue it with the settings it was made with."
            )
        for name, kept in self._means.items():
            kept.total, kept.count = state[f"{name}_total"].clone(), state[f"{name}_count"].clone()
        self._rows = list(state["bits"].numpy())
        self._open = np.unpackbits(state["open"].numpy(), count=n).astype(bool)
        self._seen = np.unpackbits(state["seen"].numpy(), count=n).astype(bool)

    def _hits(self, outputs: Any, index: Tensor) -> np.ndarray:
        """Which outputs are right; margins and error norms are added to their means on the way."""
        scores = class_scores(outputs, len(index)).detach().cpu()
        if self._largest >= scores.shape[1]:
            raise InvalidInput(
                f"labels must be smaller than the number of outputs, {scores.shape[1]}; the largest is "
                f"{self._largest}."
            )
        labels = self.labels[index.to(self.labels.device)].cpu().long()
        if "margin" in self._means:
            self._means["margin"].add(label_margin(scores, labels), index)
        if len(self._rows) + 1 in self.el2n_epochs:
            self._means["el2n"].add(label_error_norm(scores, labels), index)
        return np.asarray((scores.argmax(1) == labels).numpy())

    def _kept(self, name: str, option: str) -> Tensor:
        if name not in self._means:
            raise InvalidInput(f"the recorder did not keep this. Make it with `{option}`.")
        return self._means[name].mean


@dataclass(frozen=True)
class RecordAccessibility:
    """Makes the recorders of an ensemble for :func:`firstlight.training.train_ensemble`.

    Parameters
    ----------
    inputs, labels : Tensor
        The examples to follow.
    name : str, default 'accessibility'
        Says in a store what is recorded.
    """

    inputs: Tensor
    labels: Tensor
    name: str = "accessibility"

    def __call__(self, steps_per_epoch: int) -> list[AccessibilityRecorder]:
        """Return one fresh recorder."""
        return [AccessibilityRecorder(self.inputs, self.labels, every=steps_per_epoch)]


class AccessibilityCallback:
    """A recorder in Lightning's terms; Lightning itself is not needed to import this.

    Parameters
    ----------
    recorder : AccessibilityRecorder
        Recorder of the examples to follow. It is read at the end of every training epoch.

    Notes
    -----
    Lightning asks its callbacks for many hooks; those not used here answer with doing nothing.
    """

    # Lightning looks for both names in a checkpoint
    state_key = _legacy_state_key = "firstlight.AccessibilityCallback"

    def __init__(self, recorder: AccessibilityRecorder) -> None:
        self.recorder = recorder

    def on_train_epoch_end(self, trainer: Any, pl_module: nn.Module) -> None:
        """Record the epoch."""
        self.recorder.record(pl_module)

    def state_dict(self) -> dict[str, Tensor]:
        """What Lightning writes into its checkpoints."""
        return self.recorder.state_dict()

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Continue from a Lightning checkpoint."""
        self.recorder.load_state_dict(state_dict)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("on_") or name in ("setup", "teardown"):
            # hooks of later versions of Lightning, which this class need not know
            return lambda *args, **kwargs: None
        raise AttributeError(name)


def history_of(records: Sequence[dict[str, Tensor]]) -> AccessibilityHistory:
    """Join the `state_dict` of the recorders of several networks, all of the same examples and epochs."""
    if not records:
        raise InvalidInput("`records` must hold at least one record; got none.")
    shapes = {(tuple(r["bits"].shape), int(r["n_examples"])) for r in records}
    if len(shapes) > 1:
        told = ", ".join(f"{s[0]} epochs of {n} examples" for s, n in sorted(shapes))
        raise InvalidInput(f"all records must have the same epochs and examples; got {told}.")
    return AccessibilityHistory(
        bits=torch.stack([r["bits"] for r in records]), n_examples=int(records[0]["n_examples"])
    )


def _class_numbers(labels: LabelsLike) -> Int[Tensor, " n"]:
    """Labels as an integer tensor; a tensor of integers stays as it is."""
    if not isinstance(labels, Tensor):
        array = np.asarray(labels)
        # a table of anything but whole numbers becomes an empty one, which is refused below with its own words
        labels = torch.from_numpy(array.astype(np.int64)) if array.dtype.kind in "iub" else torch.empty(0, 0)
        given = f"{array.dtype} of shape {array.shape}"
    else:
        given = f"{labels.dtype} of shape {tuple(labels.shape)}"
    numbers = labels.long() if labels.dtype == torch.bool else labels
    if numbers.ndim != 1 or numbers.is_floating_point():
        raise InvalidInput(f"`labels` must be class numbers, one per example; got {given}.")
    if len(numbers) and int(numbers.min()) < 0:
        raise InvalidInput(f"`labels` must be class numbers 0, 1, 2, ...; got {int(numbers.min())}.")
    return numbers


def _losses(rows: Tensor, n: int) -> Int[Tensor, " n"]:
    spread = np.unpackbits(rows.numpy(), axis=-1, count=n)
    # right in one epoch and wrong in the next: bits as numbers, so > means forgotten
    return torch.from_numpy((spread[:-1] > spread[1:]).sum(0, dtype=np.int64))


def _means(rows: Tensor, n: int, *, axis: int) -> Tensor:
    spread = np.unpackbits(rows.numpy(), axis=-1, count=n)
    return torch.from_numpy(spread.mean(axis=axis, dtype=np.float64))
