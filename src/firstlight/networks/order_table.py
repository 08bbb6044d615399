"""In what order images are learned: accessibility of every training image by architecture, from the bank's records."""

import csv
import gzip
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.files import whole_file
from firstlight._internal.result import Result
from firstlight.measures.learning_order.constancy import ScoreAgreement, score_agreement
from firstlight.networks.bank import Network, load_network, network_names

DIGITS = 3  # an accessibility over 24 epochs has steps of .04
N_PERMUTATIONS = 20  # of 50,000 images: chance is .01, so few tell what it is


@dataclass(frozen=True, kw_only=True)
class OrderTable(Result):
    """Accessibility of every training image of a data set by architecture.

    Parameters
    ----------
    data : str
        Name of the data set; images are in the order of its training files.
    networks : dict of str to tuple of str
        Networks behind each architecture.
    scores : dict of str to Tensor
        Share of networks and epochs that classify each image correctly, by architecture.
    agreement : ScoreAgreement or None
        Rank correlations of the architectures beside random pairings; None of a single architecture.
    """

    data: str
    networks: dict[str, tuple[str, ...]]
    scores: dict[str, Float[Tensor, " n"]]
    agreement: ScoreAgreement | None


def order_table(data: str = "cifar10", *, names: Iterable[str] | None = None) -> OrderTable:
    """In what order the images of a data set are learned, by the networks of the bank that saw all of them.

    Parameters
    ----------
    data : str, default 'cifar10'
        Name of the data set.
    names : iterable of str, optional
        Networks; by default all that are here. Those with random labels or a part of the images are left out.

    Examples
    --------
    >>> table = order_table(names=["resnet20-cifar10-0", "small-cifar10-0"])
    >>> {name: len(score) for name, score in table.scores.items()}
    {'resnet20': 50000, 'small': 50000}
    >>> bool(table.agreement.correlation[0, 1] > 10 * table.agreement.chance[0, 1])
    True
    """
    found: dict[str, list[Network]] = {}
    for network in map(load_network, network_names() if names is None else names):
        kind = network.definition
        if kind.data == data and kind.n_images is None and not kind.random_labels:
            found.setdefault(kind.kind.replace(f"-{data}", ""), []).append(network)
    if not found:
        raise InvalidInput(
            f"no network here was trained on all images of {data}. Train one with `firstlight networks train NAME`."
        )
    scores = {
        kind: torch.stack([network.history.scores for network in some]).mean(0)
        for kind, some in found.items()
    }
    return OrderTable(
        data=data,
        networks={kind: tuple(network.name for network in some) for kind, some in found.items()},
        scores=scores,
        agreement=score_agreement(scores, draws=N_PERMUTATIONS) if len(scores) > 1 else None,
    )


def write_order_table(table: OrderTable, path: Path) -> None:
    """Write a row for each image: its place in the training files, and its accessibility by architecture.

    A name that ends in .gz is compressed; equal tables give equal bytes.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["image", *table.scores])
    columns = [[f"{value:.{DIGITS}f}" for value in score.tolist()] for score in table.scores.values()]
    writer.writerows((index, *row) for index, row in enumerate(zip(*columns, strict=True)))
    content = text.getvalue().encode()
    with whole_file(path) as part:
        # without a time: the bytes depend on the numbers only
        part.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
