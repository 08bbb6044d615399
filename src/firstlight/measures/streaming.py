"""Measures that run inside somebody's validation loop: update, compute, reset, without a second pass over the data.

They use the sums of the functions of the same theme. Images are gathered into the blocks in which those functions read
them, so that at the end of a loop the numbers are the same to the last bit, however uneven its batches are.
"""

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from firstlight._internal.autograd.model_state import evaluating, in_full_precision, without_autocast
from firstlight._internal.errors import InvalidInput
from firstlight.maths.patches import RunningMoments, image_blocks
from firstlight.maths.pca import patch_components
from firstlight.measures.feature_ansatz.ansatz import N_NULLS
from firstlight.measures.feature_ansatz.filter_activity import BLOCK_PIXELS, FilterActivity, Responses
from firstlight.measures.feature_ansatz.patch_gradients import GradientSums, PatchGradients, prepared
from firstlight.measures.first_layer.energy_profile import Profile, profile_from
from firstlight.measures.first_layer.first_convolution import (
    Convolution,
    first_layer,
    inputs_of_first_layer,
)
from firstlight.measures.layers.activations import activations
from firstlight.measures.layers.class_variation import ClassVariation, class_variation
from firstlight.models.kinds import as_network

R = TypeVar("R")


class Streamed(ABC, Generic[R]):
    """A measure that is given its images batch by batch.

    The model runs once more on every batch, in evaluation mode, and is left as it was. Its weights must not change
    between two calls of :meth:`reset`.

    Parameters
    ----------
    model : torch.nn.Module
        The network that the loop validates.
    options : object
        Options of the function that measures the same at once.
    """

    block = 64  # images that the function of the theme reads at a time

    def __init__(self, model: nn.Module, **options: Any) -> None:
        self.model, self.options = as_network(model), options
        self.reset()

    def reset(self) -> None:
        """Forget all images, as before the next validation."""
        self._waiting: list[Tensor] = []
        self._versions: list[int] | None = None
        self._begun = False

    def update(self, images: Tensor, labels: Tensor | None = None) -> None:
        """Take note of a batch; `labels` are needed where classes are.

        Parameters
        ----------
        images : Tensor of shape (n, ...)
            As the model expects them.
        labels : integer Tensor of shape (n,), optional
            Class of every image.
        """
        if not images.isfinite().all():
            raise InvalidInput("`images` holds NaN or infinite pixels. Remove or repair those images first.")
        if len(images) == 0:
            return
        if self._waiting and self._waiting[-1].shape[1:] != images.shape[1:]:
            raise InvalidInput(
                f"`images` must have the shape of the first ones, {tuple(self._waiting[-1].shape[1:])}; got "
                f"{tuple(images.shape[1:])}."
            )
        self._demand_same_weights()
        self._take_labels(labels, len(images))
        with torch.inference_mode(
            False
        ):  # tensors of inference mode take no part in gradients; their copies do
            self._waiting.append(images.detach().clone())
            if sum(map(len, self._waiting)) >= self._size(images):
                self._flush(whole=True)

    def compute(self) -> R:
        """The result over all images since the last reset; images may follow."""
        with torch.inference_mode(False):
            if sum(map(len, self._waiting)):
                self._flush(whole=False)
        if not self._begun:
            raise InvalidInput("`compute` needs at least one image; call `update` with a batch before.")
        return self._result()

    def _flush(self, *, whole: bool) -> None:
        """Measure what waits, in blocks; with `whole` the last few images wait for more."""
        images = torch.cat(self._waiting)
        size = self._size(images)
        stop = len(images) // size * size if whole else len(images)
        self._waiting = [images[stop:]]
        for part in torch.split(images[:stop], size):
            if not self._begun:
                self._begin(part)
                self._begun = True
            self._add(part)

    def _demand_same_weights(self) -> None:
        versions = [0 if p.is_inference() else p._version for p in self.model.parameters()]
        if self._versions not in (None, versions):
            raise InvalidInput(
                "the weights have changed since the first batch, and a number over two networks is that of neither. "
                "Call `reset` at the beginning of every validation."
            )
        self._versions = versions

    def _size(self, images: Tensor) -> int:
        return self.block

    def _take_labels(self, labels: Tensor | None, n: int) -> None:
        """Most measures need none."""

    @abstractmethod
    def _begin(self, images: Tensor) -> None: ...

    @abstractmethod
    def _add(self, images: Tensor) -> None: ...

    @abstractmethod
    def _result(self) -> R: ...


class StreamedProfile(Streamed[Profile]):
    """The energy profile of the first layer, as :func:`firstlight.profile` gives it.

    Parameters
    ----------
    model : torch.nn.Module
        Any network.
    options : object
        `subtract` (the initial weight of the layer) and `seed`.

    Examples
    --------
    >>> from firstlight import build, load
    >>> streamed, photos = StreamedProfile(build("small", classes=8, width=0.25)), load("photos", n=10)
    >>> for batch in photos.x.split(4):  # your validation loop
    ...     streamed.update(batch)
    >>> streamed.compute().amplitude.shape
    torch.Size([27])
    """

    block = 256

    def __init__(self, model: nn.Module, *, subtract: Tensor | None = None, seed: int = 0) -> None:
        super().__init__(model, subtract=subtract, seed=seed)

    def _begin(self, images: Tensor) -> None:
        with without_autocast(self.model):
            self._layer: Convolution = first_layer(self.model, images[:1]).convolution()
        self._moments = RunningMoments(self._layer.geometry)

    def _add(self, images: Tensor) -> None:
        with without_autocast(self.model):
            for part in image_blocks(inputs_of_first_layer(self.model, images)):
                self._moments.add(part)

    def _result(self) -> Profile:
        pca = patch_components(self._moments.moments())
        return profile_from(self._layer, pca, **self.options)


class StreamedGradients(Streamed[PatchGradients]):
    """Gradient outer products of all layers, as :func:`firstlight.patch_gradients` gives them.

    :func:`firstlight.measures.feature_ansatz.ansatz.ansatz_from` turns the result into the ansatz.

    Parameters
    ----------
    model : torch.nn.Module
        Any network.
    options : object
        `layers`, `output_sum` ("auto" or "exact"), `output_part` and `seed`.

    Examples
    --------
    >>> from firstlight import build, load
    >>> streamed, photos = StreamedGradients(build("small", classes=8, width=0.25)), load("photos", n=10)
    >>> for batch in photos.x.split(4):
    ...     streamed.update(batch)
    >>> streamed.compute().n_images
    10
    """

    def _begin(self, images: Tensor) -> None:
        self._net, self._note = prepared(self.model)
        self._like = next(self._net.parameters())
        with torch.enable_grad(), evaluating(self._net):
            self._sums = GradientSums(self._net, images.to(self._like), **self.options)

    def _add(self, images: Tensor) -> None:
        with torch.enable_grad(), evaluating(self._net):
            self._sums.add(images.to(self._like))

    def _result(self) -> PatchGradients:
        return self._sums.result(self._note, goes_on=True)


class StreamedActivity(Streamed[FilterActivity]):
    """Filters that respond to an image.

    As :func:`firstlight.measures.feature_ansatz.filter_activity.filter_activity` tells.

    What is false in the end is a dead filter: silent on all images of the loop.

    Parameters
    ----------
    model : torch.nn.Module
        Any network.
    options : object
        `layers`.

    Examples
    --------
    >>> from firstlight import build, load
    >>> streamed, photos = StreamedActivity(build("small", classes=8, width=0.25)), load("photos", n=10)
    >>> for batch in photos.x.split(4):
    ...     streamed.update(batch)
    >>> {name: int((~active).sum()) for name, active in streamed.compute().active.items()}["0"] <= 16
    True
    """

    def _size(self, images: Tensor) -> int:
        return max(1, min(64, BLOCK_PIXELS // max(1, images[0, 0].numel())))

    def _begin(self, images: Tensor) -> None:
        self._net, _ = in_full_precision(self.model)
        with torch.no_grad(), evaluating(self._net):
            self._responses = Responses(self._net, images, **self.options)

    def _add(self, images: Tensor) -> None:
        with torch.no_grad(), evaluating(self._net):
            self._responses.add(images)

    def _result(self) -> FilterActivity:
        return self._responses.result()


class StreamedVariation(Streamed[ClassVariation]):
    """Variation within classes by depth.

    As :func:`firstlight.measures.layers.class_variation.class_variation` of activations gives it. Its nulls permute
    the labels of all images, so what every layer received is kept: `most` numbers an image and layer.

    Parameters
    ----------
    model : torch.nn.Module
        Any network.
    options : object
        `layers`, `most` and `seed` of :func:`firstlight.measures.layers.activations.activations`, and `draws`.

    Examples
    --------
    >>> from firstlight import build, load
    >>> streamed, photos = StreamedVariation(build("small", classes=8, width=0.25), most=64), load("photos", n=20)
    >>> for images, labels in zip(photos.x.split(8), photos.y.split(8)):
    ...     streamed.update(images, labels)
    >>> streamed.compute().layers
    ('0', '3', '6', '10', 'outputs')
    """

    def __init__(self, model: nn.Module, *, draws: int = N_NULLS, **options: Any) -> None:
        super().__init__(model, **options)
        self._draws = draws

    def reset(self) -> None:
        """Forget all images, as before the next validation."""
        super().reset()
        self._labels: list[Int[Tensor, " n"]] = []
        self._features: dict[str, list[Float[Tensor, "n f"]]] = {}

    def _take_labels(self, labels: Tensor | None, n: int) -> None:
        if labels is None or len(labels) != n:
            got = "none" if labels is None else len(labels)
            raise InvalidInput(f"`labels` must hold the class of each of the {n} images; got {got}.")
        self._labels.append(labels.detach().cpu().clone())

    def _begin(self, images: Tensor) -> None:
        """Nothing to prepare."""

    def _add(self, images: Tensor) -> None:
        for name, rows in activations(self.model, images, **self.options).items():
            self._features.setdefault(name, []).append(rows)

    def _result(self) -> ClassVariation:
        features = {name: torch.cat(rows) for name, rows in self._features.items()}
        return class_variation(
            features, torch.cat(self._labels), draws=self._draws, seed=self.options.get("seed", 0)
        )
