"""A kernel that learns features, with the controls that tell what its labels had to do with it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.result import Result
from firstlight._internal.table import Row, cells
from firstlight.data.images import ImageData
from firstlight.data.interventions import shuffled_labels
from firstlight.estimators.convrfm import ConvRFMClassifier
from firstlight.kernels.rfm import Round
from firstlight.maths.correlation import cosine, pearson, share_interval
from firstlight.maths.patches import PatchGeometry, extract_patches
from firstlight.maths.pca import patch_pca
from firstlight.models.building import ModelSpec
from firstlight.questions.first_layer.measure import explain_profile
from firstlight.training.ensemble import train_once
from firstlight.training.recipe import Recipe

EIGENVECTORS = 8


@dataclass(frozen=True, kw_only=True)
class ThreeTheories(Result):
    """Three accounts of a first layer along the components of the patches, each scaled to a maximum of 1.

    Parameters
    ----------
    kernel : Tensor of shape (m,)
        Amplitude of the learned metric M.
    network : Tensor of shape (m,)
        Amplitude of a trained network's first layer.
    theory : Tensor of shape (m,)
        The linear network's closed form without labels, fitted to the network.
    """

    kernel: Float[Tensor, " m"]
    network: Float[Tensor, " m"]
    theory: Float[Tensor, " m"]

    def agreement(self) -> dict[str, float]:
        """Pearson correlations of the three."""
        return {
            "kernel and network": float(pearson(self.kernel, self.network)),
            "kernel and theory": float(pearson(self.kernel, self.theory)),
            "network and theory": float(pearson(self.network, self.theory)),
        }


@dataclass(frozen=True, kw_only=True)
class LearnedKernel(Result):
    """What a ConvRFM learned from some images.

    Parameters
    ----------
    data_name, n, kernel : str or int
        What was learned, from how many images, with which kernel.
    rounds : tuple of Round
        Squared error and accuracy on validation images by round, with true labels.
    shuffled_rounds : tuple of Round
        The same with shuffled labels, judged by shuffled labels.
    best : int
        The round that validation squared error chose.
    plain_test, test : float
        Test accuracy of the plain kernel and of the chosen round.
    metric : Tensor of shape (d, d)
        M of the last round with true labels.
    vectors, shuffled_vectors : Tensor of shape (k, c, q, q)
        Leading eigenvectors of M with true and with shuffled labels, as pictures.
    values : Tensor of shape (k,)
        Share of the trace of the leading eigenvalues of `metric`.
    photos, maps, shuffled_maps : Tensor of shape (p, c, h, w) or Tensor of shape (p, 1, hh, ww)
        Photographs, and where either M looks on them.
    cosine, pearson : float
        Of the two metrics.
    first_layer : ThreeTheories or None
        Three accounts of the first layer, if a network was trained.
    seconds : float
        Wall time.
    n_test : int
        Test images behind the accuracies.
    """

    data_name: str
    n: int
    kernel: str
    rounds: tuple[Round, ...]
    shuffled_rounds: tuple[Round, ...]
    best: int
    plain_test: float
    test: float
    metric: Float[Tensor, "d d"]
    vectors: Float[Tensor, "k c q q"]
    shuffled_vectors: Float[Tensor, "k c q q"]
    values: Float[Tensor, " k"]
    photos: Float[Tensor, "p c h w"]
    maps: Float[Tensor, "p 1 hh ww"]
    shuffled_maps: Float[Tensor, "p 1 hh ww"]
    cosine: float
    pearson: float
    first_layer: ThreeTheories | None
    seconds: float
    n_test: int = 0

    def _rows(self) -> list[Row]:
        return [cells(one) for one in self.rounds]

    def pictures(self, rounds: tuple[Round, ...]) -> Float[Tensor, "rounds k c q q"]:
        """Leading eigenvectors of M in every round but the first, whose M knows no labels."""
        channels, side = self.vectors.shape[1:3]
        return torch.stack([_spectrum(done.metric, channels, side)[1] for done in rounds[1:]])

    def spectra(self, rounds: tuple[Round, ...]) -> Float[Tensor, "rounds d"]:
        """Shares of the trace of M by decreasing eigenvalue, in every round."""
        values = torch.stack([torch.linalg.eigvalsh(done.metric).flip(0).clamp(min=0) for done in rounds])
        return values / values.sum(1, keepdim=True)

    def share(self, accuracy: float) -> str:
        """A test accuracy in words, with its 95% range where the number of images is known."""
        if not self.n_test:
            return f"{accuracy:.1%}"
        return share_interval(round(accuracy * self.n_test), self.n_test).percent(1)


def learn_kernel(
    train: ImageData,
    test: ImageData,
    photos: Float[Tensor, "p c2 h2 w2"],
    *,
    machine: ConvRFMClassifier,
    with_network: bool = True,
    listen: Callable[[str, Round], None] = lambda labels, result: None,
) -> LearnedKernel:
    """Fit `machine` to the images and again to shuffled labels; look at both metrics.

    Parameters
    ----------
    train, test : ImageData
        Images; round and ridge are chosen on a part of `train`.
    photos : Tensor of shape (p, c2, h2, w2)
        Images nobody learned from, for the maps; averaged or repeated to the channels of `train`.
    machine : ConvRFMClassifier
        An unfitted classifier; it is fitted here.
    with_network : bool, default True
        Train a small network too and set its first layer beside M.
    listen : callable, default lambda labels, result: None
        Told the labels, "true" or "shuffled", and every round with them.
    """
    start = time.perf_counter()
    machine.fit(train.x, train.y.numpy(), listen=partial(listen, "true"))
    control = ConvRFMClassifier(**machine.get_params()).set_params(patience=None, refit=False)
    control.set_params(rounds=max(len(machine.rounds_) - 1, 0), solver=machine.solver_)
    fake = shuffled_labels(train, seed=machine.random_state)
    control.fit(fake.x, fake.y.numpy(), listen=partial(listen, "shuffled"))
    score = plain_score = float(machine.score(test.x, test.y.numpy()))
    if machine.best_round_ > 0:
        plain = ConvRFMClassifier(**machine.get_params())
        plain.set_params(rounds=0, ridges=(machine.rounds_[0].ridge,), solver=machine.solver_, verbose=False)
        plain_score = float(plain.fit(train.x, train.y.numpy()).score(test.x, test.y.numpy()))
    metric, other = machine.rounds_[-1].metric, control.rounds_[-1].metric
    channels, side = train.shape[0], machine.kernel_.size
    shown = photos.mean(1, keepdim=True) if channels == 1 else photos[:, :channels]
    values, vectors = _spectrum(metric, channels, side)
    return LearnedKernel(
        data_name=str(train.meta.get("name", "images")),
        n=len(train),
        kernel=str(machine.kernel_) if machine.solver_ == "exact" else machine.machine_.features.words,
        rounds=machine.rounds_,
        shuffled_rounds=control.rounds_,
        best=machine.best_round_,
        plain_test=plain_score,
        test=score,
        metric=metric,
        vectors=vectors,
        shuffled_vectors=_spectrum(other, channels, side)[1],
        values=values,
        photos=photos,
        maps=metric_map(shown, metric, side),
        shuffled_maps=metric_map(shown, other, side),
        cosine=float(cosine(metric.flatten(), other.flatten())),
        pearson=float(pearson(metric.flatten(), other.flatten())),
        first_layer=_three_theories(train, metric, side, machine.random_state) if with_network else None,
        seconds=time.perf_counter() - start,
        n_test=len(test),
    )


def metric_map(
    images: Float[Tensor, "n c h w"], metric: Float[Tensor, "d d"], side: int
) -> Float[Tensor, "n 1 hh ww"]:
    r""":math:`\sqrt{x[p]^\top M\,x[p]}` as pictures with values in [0, 1]."""
    patches = extract_patches(images.double(), PatchGeometry.square(side))
    strengths = torch.einsum("npd,de,npe->np", patches, metric, patches).clamp(min=0).sqrt()
    low, high = strengths.amin(1, keepdim=True), strengths.amax(1, keepdim=True)
    scaled = (strengths - low) / torch.where(high > low, high - low, 1.0)
    return scaled.reshape(len(images), 1, images.shape[2] - side + 1, images.shape[3] - side + 1)


def _spectrum(metric: Tensor, channels: int, side: int) -> tuple[Tensor, Tensor]:
    values, vectors = torch.linalg.eigh(metric)
    count = min(EIGENVECTORS, len(values))
    leading = vectors.flip(1)[:, :count].T.reshape(count, channels, side, side)
    return values.flip(0)[:count] / values.sum(), leading


def _three_theories(train: ImageData, metric: Tensor, side: int, seed: int) -> ThreeTheories:
    options = {"depth": 2, "channels": 32, "kernel": side}
    spec = ModelSpec(name="cnfa_cnn", classes=train.n_classes, shape=train.shape, options=options)
    trained = train_once(spec, train, Recipe(lr=0.1, batch_size=32, epochs=8, seed=seed))
    explanation = explain_profile(trained.into(spec(seed)), train, seed=seed)
    basis = patch_pca(train.x, PatchGeometry.square(side)).basis
    kernel = torch.einsum("di,de,ei->i", basis, metric, basis).clamp(min=0).sqrt()
    parts = (kernel, explanation.profile.amplitude, explanation.bias_curve)
    scaled = [part.double() / part.max() for part in parts]
    return ThreeTheories(kernel=scaled[0], network=scaled[1], theory=scaled[2])
