"""Networks trained on parts of the images: every image is new to some of them and known to the others."""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from firstlight._internal.autograd.model_state import evaluating
from firstlight._internal.devices import device_of, placed
from firstlight._internal.errors import InvalidInput
from firstlight._internal.executor import default_jobs, map_tasks
from firstlight._internal.seeds import global_seed, seed_from
from firstlight._internal.shapes import Images, Labels
from firstlight.data.images import ImageData
from firstlight.data.interventions import ChannelNormalisation
from firstlight.measures.learning_order.accessibility import AccessibilityRecorder, class_scores
from firstlight.measures.learning_order.discriminability import penultimate_features
from firstlight.models.building import available, build
from firstlight.models.kinds import model_from_code, unwrapped
from firstlight.models.other_packages import build_of_other_package, is_of_other_package
from firstlight.questions.labels.result import FEWEST_IMAGES, FEWEST_PER_CLASS
from firstlight.training.loop import train
from firstlight.training.recipe import Recipe

Factory = Callable[[], nn.Module]

SIDE = 32  # larger images are averaged down for our own network: its time grows with the area
SHIFT = 2  # pixels by which training images move at random
N_NEIGHBOURS = 30
BATCH = 64
FEWEST_EPOCHS = 3
TRAINING_SHARE = 0.8  # of a budget; the rest goes to starting processes and to the nearest images
MOST_EPOCHS = 24
PASSES = 120_000  # images that each network sees in training, so that small sets are seen more often


@dataclass(frozen=True, kw_only=True)
class PartView:
    """What one network says about all images.

    Parameters
    ----------
    held_out : bool Tensor of shape (n,)
        Images that it was not trained on.
    accessibility : Tensor of shape (n,)
        Share of the later epochs in which it gave the label.
    probabilities : Tensor of shape (n, classes)
        Mean over the later epochs of what it predicted.
    neighbours : Tensor of shape (n, classes), or None
        Share of each class among the labels of the nearest images in its last layer.
    """

    held_out: Bool[Tensor, " n"]
    accessibility: Float[Tensor, " n"]
    probabilities: Float[Tensor, "n k"]
    neighbours: Float[Tensor, "n k"] | None


@dataclass(frozen=True, kw_only=True)
class LabelNetworks:
    """How the networks are built and trained.

    Parameters
    ----------
    factory : callable or None
        Builds the user's network; None is our small one.
    name : str
        The architecture in words.
    epochs : int
        Epochs of every network.
    seed : int
        Seed for weights, parts and order.
    """

    factory: Factory | None
    name: str
    epochs: int
    seed: int

    def build(self, data: ImageData, number: int) -> nn.Module:
        """Build one network with weights of its own."""
        seed = seed_from("labels", self.seed, number) % (1 << 31)
        if self.factory is None:
            model = build(
                "small", classes=data.n_classes, shape=data.shape, seed=seed, width=0.5, batch_norm=True
            )
        else:
            with global_seed("weights", seed):
                model = unwrapped(self.factory())
        return _Trainee(model, mirrored=data.shape[0] == 3)

    def recipe(self, number: int, n_images: int, *, epochs: int | None = None) -> Recipe:
        """How one network is trained on `n_images`: at least 8 steps an epoch, as far as batches of 8 allow."""
        # Adam: with momentum and no warm-up, some networks blew up in their first steps and learned nothing
        return Recipe(
            optimiser="adam",
            lr=2e-3,
            batch_size=min(BATCH // 2, max(8, n_images // 8)),
            epochs=epochs or self.epochs,
            milestones=(0.75,),
            seed=seed_from("label order", self.seed, number) % (1 << 31),
        )

    def view(self, data: ImageData, labels: Labels, held_out: Tensor, number: int) -> PartView:
        """Train one network on the images that are not held out, and ask it about all."""
        model = self.build(data, number)
        _demand_outputs(model, data)
        known = (~held_out).nonzero().flatten()
        recipe = self.recipe(number, len(known))
        watch = _Watch(
            data.x,
            labels,
            n_classes=data.n_classes,
            every=recipe.steps_per_epoch(len(known)),
            first=self.epochs // 2 + 1,
        )
        train(model, data.x[known], labels[known], recipe, observers=[watch], show=False, fused=True)
        return PartView(
            held_out=held_out,
            accessibility=watch.recorder.history().scores,
            probabilities=watch.probabilities,
            neighbours=_neighbours(model, data, labels),
        )


def plan_networks(
    data: ImageData,
    model: str | Factory | None,
    *,
    epochs: int | None,
    budget: float | None,
    n_networks: int,
    seed: int,
) -> tuple[LabelNetworks, ImageData]:
    """Decide how to train within the budget, and prepare the images.

    Parameters
    ----------
    data : ImageData
        The images.
    model : str, callable or None
        Name of an architecture, ``module:function``, code that builds a network, or None for our small one.
    epochs : int, optional
        Epochs of every network; by default as many as show each network 120 000 images, 3 to 24.
    budget : float, optional
        Seconds on the wall that training may take; fewer epochs if it is short.
    n_networks : int
        Number of networks that will be trained.
    seed : int
        Seed for everything.
    """
    prepared = _prepared(data, shrink=model is None)
    factory, name = _factory(model, prepared)
    known = len(data) / 2
    chosen = epochs or int(min(MOST_EPOCHS, max(FEWEST_EPOCHS, PASSES // known)))
    networks = LabelNetworks(factory=factory, name=name, epochs=chosen, seed=seed)
    if budget is None:
        return networks, prepared
    rounds = -(-n_networks // min(default_jobs(), n_networks))
    # forward and backward on one half of the images, and in half of the epochs forward on all
    an_epoch = _seconds_an_image(networks, prepared) * len(data) * 0.7 * rounds
    affordable = int(TRAINING_SHARE * budget / an_epoch)
    if affordable < FEWEST_EPOCHS:
        fewest = FEWEST_EPOCHS * an_epoch / TRAINING_SHARE
        raise InvalidInput(
            f"`budget` must allow {FEWEST_EPOCHS} epochs, about {fewest:.0f} s here; got {budget:g} s. "
            f"{_what_fits(data, budget / fewest)}"
        )
    return LabelNetworks(factory=factory, name=name, epochs=min(chosen, affordable), seed=seed), prepared


def _what_fits(data: ImageData, share: float) -> str:
    """How many images may be checked in this share of the time that all take."""
    fits = int(0.9 * share * len(data))  # a little less: the time of a pass was measured on two
    fits -= fits % 10 ** max(0, len(str(fits)) - 2)
    if fits < max(FEWEST_IMAGES, FEWEST_PER_CLASS * int((data.counts > 0).sum())):
        return "Give more time, smaller images, or a smaller network."
    return f"--n {fits} fits: so many images, drawn evenly over the classes. Or give more time, or a smaller network."


def view_all(
    networks: LabelNetworks,
    data: ImageData,
    label_sets: Int[Tensor, "groups n"],
    *,
    folds: int = 2,
    n_jobs: int | None = None,
    show: bool | None = None,
) -> list[list[PartView]]:
    """Train `folds` networks for each set of labels, each without one fold of the images.

    Returns
    -------
    list of list of PartView
        For every set of labels, one view per fold; every image is held out in exactly one of them.
    """
    tasks = []
    for group, labels in enumerate(label_sets):
        part = _parts(labels, folds, seed=seed_from("label parts", networks.seed, group))
        tasks += [(labels, part == fold, group * folds + fold) for fold in range(folds)]
    views = map_tasks(
        partial(_view, networks, data), tasks, label="Training networks", n_jobs=n_jobs, show=show
    )
    return [views[i : i + folds] for i in range(0, len(views), folds)]


def _view(networks: LabelNetworks, data: ImageData, task: tuple[Tensor, Tensor, int]) -> PartView:
    labels, held_out, number = task
    return networks.view(data, labels, held_out, number)


def _parts(labels: Tensor, folds: int, *, seed: int) -> Int[Tensor, " n"]:
    """Fold of every image, each class spread evenly."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=generator)
    order = order[labels[order].argsort(stable=True)]
    part = torch.empty_like(labels)
    part[order] = torch.arange(len(labels)) % folds
    return part


class _Trainee(nn.Module):
    """A classifier whose training images move by a few pixels; it returns plain scores.

    Memory is laid out with the channels last, which makes pooling several times faster on a CPU.
    """

    def __init__(self, model: nn.Module, *, mirrored: bool) -> None:
        super().__init__()
        self.model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.mirrored = mirrored

    def forward(self, x: Images) -> Tensor:
        x = _moved(x, mirrored=self.mirrored) if self.training else x
        return class_scores(self.model(x.contiguous(memory_format=torch.channels_last)), len(x))


def _moved(x: Images, *, mirrored: bool) -> Images:
    """Shift every image at random, and mirror half of them if asked.

    Photographs are mirrored, grey images are not: those are often digits or letters.
    """
    n, _, height, width = x.shape
    shift = min(SHIFT, (min(height, width) - 1) // 4)
    down, right = torch.randint(0, 2 * shift + 1, (2, n))
    columns = right[:, None] + torch.arange(width)
    if mirrored:
        columns = torch.where((torch.rand(n) < 0.5)[:, None], columns.flip(1), columns)
    rows = down[:, None] + torch.arange(height)
    padded = F.pad(x, (shift,) * 4, mode="replicate").permute(0, 2, 3, 1)
    moved = padded[torch.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return moved.permute(0, 3, 1, 2)


class _Watch:
    """After every epoch from `first` on: who is right, and with which probabilities.

    In the first half of the training the networks still change their minds about what they will learn
    anyway: leaving it out found more of the errors planted in cats and dogs, and not fewer elsewhere.
    """

    def __init__(self, x: Images, labels: Labels, *, n_classes: int, every: int, first: int) -> None:
        self.x, self.every, self.first = x, every, first
        self.recorder = AccessibilityRecorder(None, labels)
        self._total = torch.zeros(len(x), n_classes)
        self._epochs = 0

    def __call__(self, step: int, model: nn.Module) -> None:
        epoch, rest = divmod(step, self.every)
        if rest or epoch < self.first:
            return
        device = device_of(model)
        with evaluating(model):
            for index in torch.split(torch.arange(len(self.x)), BATCH):
                scores = model(self.x[index].to(device))
                self.recorder.batch(scores, index)
                self._total[index] += scores.softmax(1)[:, : self._total.shape[1]].cpu()
        self.recorder.end_epoch()
        self._epochs += 1

    @property
    def probabilities(self) -> Tensor:
        return self._total / self._epochs


def neighbour_shares(
    features: Float[Tensor, "n f"], labels: Labels, n_classes: int, *, k: int
) -> Float[Tensor, "n k"]:
    """Share of each class among the labels of the `k` nearest other points, by the angle between features.

    The common mean is taken off first: features behind a ReLU all point the same way. Cost O(n² f), memory
    O(n f) and a thousand rows of similarities.
    """
    points = F.normalize(features - features.mean(0), dim=1)
    classes = F.one_hot(labels, n_classes).to(features.dtype)
    shares = []
    for some in torch.split(torch.arange(len(points)), 1024):
        likeness = points[some] @ points.T
        likeness[torch.arange(len(some)), some] = -torch.inf
        shares.append(classes[likeness.topk(k).indices].mean(1))
    return torch.cat(shares)


def _neighbours(model: nn.Module, data: ImageData, labels: Labels) -> Float[Tensor, "n k"] | None:
    """Classes near every image in the network's last layer, or None if that is not linear."""
    if not any(isinstance(module, nn.Linear) for module in model.modules()):
        return None
    features = penultimate_features(model, data.x, batch_size=BATCH).flatten(1)
    k = min(N_NEIGHBOURS, max(1, len(data) // (4 * data.n_classes)))
    return neighbour_shares(features, labels, data.n_classes, k=k)


def _prepared(data: ImageData, *, shrink: bool) -> ImageData:
    factor = min(data.shape[1:]) // SIDE if shrink else 1
    smaller = data if factor < 2 else data.map(lambda x: F.avg_pool2d(x, factor), shrunk=factor)
    return ChannelNormalisation.fit(smaller).transform(smaller)


def _factory(model: str | Factory | None, data: ImageData) -> tuple[Factory | None, str]:
    if model is None:
        return None, "our small convolutional network"
    if not isinstance(model, str):
        return model, getattr(model, "__name__", type(model).__name__)
    if is_of_other_package(model):
        untrained = partial(
            build_of_other_package, model, classes=data.n_classes, pretrained=False, options={}
        )
        return untrained, model
    if model in available():
        return partial(_registered, model, data.n_classes, data.shape), model
    if ":" not in model:
        build(model)  # says which names there are
    return partial(model_from_code, model), model


def _registered(name: str, classes: int, shape: tuple[int, int, int]) -> nn.Module:
    # the weights follow the seed that is in force, as those of the user's code do
    return build(name, classes=classes, shape=shape, seed=int(torch.randint(1 << 31, ())))


def _demand_outputs(model: nn.Module, data: ImageData) -> None:
    with torch.no_grad(), evaluating(model):
        outputs = model(data.x[:2].to(device_of(model))).shape[1]
    if outputs < data.n_classes:
        raise InvalidInput(
            f"`model` must have one output for each of the {data.n_classes} classes; it has {outputs}."
        )


def _seconds_an_image(networks: LabelNetworks, data: ImageData) -> float:
    """Seconds of training on one image, from a few real steps: small batches are slower than a large one."""
    model = networks.build(data, 0)
    _demand_outputs(model, data)
    size = networks.recipe(0, len(data) // 2).batch_size
    assert size is not None  # our recipe has batches
    recipe = dataclasses.replace(networks.recipe(0, 2 * size, epochs=1), batch_size=size)
    some = data.take(torch.arange(min(2 * size, len(data))))
    seconds = []
    with placed(model):
        for _ in range(3):
            start = time.perf_counter()
            train(model, some.x, some.y, recipe, show=False, fused=True)
            seconds.append(time.perf_counter() - start)
    return min(seconds[1:]) / len(some)
