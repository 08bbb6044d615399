"""Arguments that several commands share, and how their text is read."""

import ast
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

Switch = Annotated[bool, Parameter(negative="", show_default=False)]
Seed = Annotated[int, Parameter(help="Seed for all random choices.")]
Static = Annotated[Switch, Parameter(help="Write a page without any script; figures become SVG.")]
Page = Annotated[Path, Parameter(name=["--output", "-o"], help="File to write the page to.")]
AsJson = Annotated[Switch, Parameter(name="--json", help="Print JSON instead of text.")]
DataName = Annotated[
    str,
    Parameter(help="Name of a data set, a folder of class folders, an npz file, or an archive of either."),
]
Source = Annotated[
    Path | None,
    Parameter(
        name="--from",
        help="Your own copy in the data set's standard files: an archive, a folder, or a file in it.",
    ),
]
Cluster = Annotated[
    str | None,
    Parameter(
        help="Dask cluster that runs the tasks: the address of its scheduler such as tcp://host:8786, its scheduler "
        "file, or local:N for N processes of this machine.",
        show_default=False,
    ),
]
Device = Annotated[
    str,
    Parameter(
        help="Device to compute on: auto (cuda if there is one, then mps, else cpu), cpu, cuda or mps."
    ),
]
Numbers = Annotated[list[float] | None, Parameter(negative="", consume_multiple=True)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FolderOptions:
    """How to read a folder of pictures.

    Parameters
    ----------
    size
        Side of the square that every picture of a folder becomes; by default all must have one size.
    crop
        Cut out the largest centred square before resizing; otherwise pictures are stretched.
    channels
        1 for grey, 3 for colour; by default grey only if all pictures of the folder are.
    skip_broken
        Leave out files that cannot be decoded instead of stopping at the first.
    """

    size: int | None = None
    crop: bool = True
    channels: int | None = None
    skip_broken: Switch = False

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of `firstlight.data.load` and `load_splits`."""
        return asdict(self)


AS_THEY_ARE = FolderOptions()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OutputFormat:
    """How to print what was measured.

    Parameters
    ----------
    csv
        Print comma-separated values instead of text, with a header.
    """

    json: AsJson = False
    csv: Switch = False

    @property
    def is_text(self) -> bool:
        """Whether people read it."""
        return not (self.json or self.csv)


TEXT = OutputFormat()

MODEL_FLAGS = {
    "architecture": "--arch",
    "factory": "--import",
    "options": "--option",
    "n_images": "--n",
    "output_part": "--model-output",
}
"""What the library calls arguments of commands on a model whose flags have other names."""


def named_values(texts: list[str] | None) -> dict[str, Any]:
    """Read options written as name=value; values are Python literals, true or false however written, or words.

    Examples
    --------
    >>> named_values(["width=0.5", "form=imagenet"])
    {'width': 0.5, 'form': 'imagenet'}
    >>> named_values(["batch_norm=false"])
    {'batch_norm': False}
    """
    from firstlight._internal.errors import InvalidInput

    values: dict[str, Any] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise InvalidInput(f"`option` must be written as name=value; got {text!r}.")
        try:
            # the word false would count as true
            values[name] = ast.literal_eval(value.title() if value.lower() in ("true", "false") else value)
        except (ValueError, SyntaxError):
            values[name] = value
    return values


def positive_numbers(name: str, text: str) -> list[int]:
    """Read whole numbers separated by commas.

    Examples
    --------
    >>> positive_numbers("depths", "1,3, 5")
    [1, 3, 5]
    """
    from firstlight._internal.errors import InvalidInput

    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise InvalidInput(f"`{name}` must be positive numbers such as 1,3,5; got {text!r}.")
    return [int(part) for part in parts]


def index_or_key(text: str | None) -> int | str | None:
    """Read the part of a model's output: a number for tuples, a word for dictionaries."""
    return int(text) if text is not None and text.isdigit() else text
