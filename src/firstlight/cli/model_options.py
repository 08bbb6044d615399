"""Options of commands that look at one model of yours, and what they name: the model and its images."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import Parameter

from firstlight.cli.options import (
    AS_THEY_ARE,
    DataName,
    Device,
    FolderOptions,
    Numbers,
    Seed,
    Switch,
    index_or_key,
    named_values,
)

if TYPE_CHECKING:
    from torch import nn

    from firstlight.data.images import ImageData


class Subject(NamedTuple):
    """What a command looks at: a model, what it was before training if that is known, and images as it expects them."""

    model: "nn.Module"
    initial: "nn.Module | None"
    images: "ImageData"
    name: str


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Which images, how to build a model, and how to call it on them.

    Parameters
    ----------
    arch
        Name of an architecture; or timm:NAME, torchvision:NAME or hf:NAME (transformers) where that package is
        installed.
    factory
        Code of yours that builds the model, as module:function; the function is called without arguments.
    entry
        Entry of the checkpoint to read if it holds the weights more than once, such as ema.
    call
        Code of yours that calls the model, as module:function, if its input is no tensor of images; the function is
        given the model and a batch of images.
    initial
        Weights of the same model before training, to see how far training moved them and whether it was lazy. By
        default the model is compared with a fresh initialisation.
    split
        Images to use: train or test. By default test, or all images if there are no splits.
    classes
        Number of outputs; by default as many as the checkpoint has.
    option
        Option of the architecture, as name=value; may be repeated.
    mean
        Mean to subtract from pixels between 0 and 1: one number, or one per channel.
    std
        Number to divide pixels by after the mean is subtracted: one, or one per channel.
    bgr
        Reverse the order of the channels, for models that read blue, green, red.
    model_output
        Part of the output to use if the model returns a tuple (its index) or a dictionary (its key).
    """

    data: DataName
    arch: str | None = None
    factory: Annotated[str | None, Parameter(name="--import")] = None
    entry: str | None = None
    call: str | None = None
    initial: Path | None = None
    split: str | None = None
    classes: int | None = None
    option: Annotated[list[str] | None, Parameter(negative="")] = None
    mean: Numbers = None
    std: Numbers = None
    bgr: Switch = False
    model_output: str | None = None
    device: Device = "auto"
    seed: Seed = 0
    folder: FolderOptions = AS_THEY_ARE

    @property
    def output_part(self) -> int | str | None:
        """Part of the output to use, as the library takes it."""
        return index_or_key(self.model_output)

    @contextmanager
    def subject(self, checkpoint: str | None, *, at_most: int) -> Iterator[Subject]:
        """Load images, the model and its initial weights, and compute on their device in the block.

        A network of the bank brings its own scaling of the pixels.

        Parameters
        ----------
        checkpoint : str or None
            Weights, an ONNX file or ``networks:NAME``, as for ``firstlight inspect``.
        at_most : int
            Number of images to load, or all if there are fewer.
        """
        from functools import partial

        from firstlight._internal.devices import choose_device, computing_on
        from firstlight.data.catalogue import load
        from firstlight.models.loading import load_model
        from firstlight.networks.bank import is_in_bank, network_at

        place = choose_device(self.device)  # refused before the images are loaded
        images = load(self.data, self.split, seed=self.seed, at_most=at_most, **self.folder.options)
        load_from = partial(
            load_model, architecture=self.arch, factory=self.factory, classes=self.classes, shape=images.shape,
            options=named_values(self.option), entry=self.entry, call=self.call,
        )  # fmt: skip
        mean, std = self.mean, self.std
        start = None if self.initial is None else load_from(self.initial)
        if is_in_bank(checkpoint):
            network, model = network_at(str(checkpoint))
            start = start or network.initial
            if mean is None and std is None:
                mean, std = network.scaling["mean"], network.scaling["std"]
        else:
            model = load_from(checkpoint)
        name = self.arch or self.factory or str(checkpoint)
        scaled = images.scaled(mean=mean, std=std, bgr=self.bgr)
        with computing_on(place):
            yield Subject(model.to(place), None if start is None else start.to(place), scaled, name)
