"""Would my architecture copy or memorise? One image, a few seeds, an answer with its null."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.errors import Diverged, InvalidInput
from firstlight._internal.executor import map_tasks
from firstlight._internal.result import Result
from firstlight._internal.seeds import global_seed
from firstlight.data.synthetic import patterns
from firstlight.measures.copy_or_memorise.identity_score import (
    IdentityScore,
    Response,
    behaviour_of,
    edge_score,
    identity_score,
    image_outputs,
    response,
)
from firstlight.questions.copy_or_memorise.task import require_finite
from firstlight.training.loop import train
from firstlight.training.recipe import Recipe

DEFAULT_RECIPE = Recipe(
    optimiser="adam", lr=1e-3, loss="mse", batch_size=None, steps=2000, stop_below=1e-3
)  # the desk choice of the identity task
ANSWERS = {
    "identity": "copies: trained on so little, it returns unseen images nearly unchanged",
    "constant": "memorises: it answers unseen images with what it was trained on",
    "edge detector": "does neither: it returns contours of unseen images",
    "noise": "does neither: images unlike the training image come out as noise",
    "none": "does neither clearly",
    "diverged": "was not trained: the loss became infinite or NaN",
    "not trained": "was not trained: it does not even reproduce its training images",
}


@dataclass(frozen=True, kw_only=True)
class SeedOutcome(Result):
    """One trained copy of the architecture; scores are None if training diverged."""

    seed: int
    word: str
    untrained: float
    loss: float = math.nan
    score: IdentityScore | None = None
    response: Response | None = None
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class IdentityBias(Result):
    """What an architecture does when trained to copy a few images.

    Parameters
    ----------
    outcomes : tuple of SeedOutcome
        One per seed, each with the similarity of the initial network to the identity, the null: a network
        with skip connections may copy before it has learned anything.
    recipe : str
        Optimiser, rate and length are part of the answer.
    """

    outcomes: tuple[SeedOutcome, ...]
    recipe: str

    @property
    def word(self) -> str:
        """The most frequent behaviour over seeds."""
        return Counter(o.word for o in self.outcomes).most_common(1)[0][0]

    @property
    def agreement(self) -> float:
        """Share of the seeds with that behaviour."""
        return sum(o.word == self.word for o in self.outcomes) / len(self.outcomes)

    @property
    def answer(self) -> str:
        """The answer in one sentence."""
        alive = [o for o in self.outcomes if o.score is not None]
        agreeing = sum(o.word == self.word for o in self.outcomes)
        text = f"It {ANSWERS[self.word]} ({agreeing} of {len(self.outcomes)} seeds)"
        if not alive:
            return text + "."
        identity = sum(o.score.means["identity"] for o in alive if o.score) / len(alive)
        constant = sum(o.score.means["constant"] for o in alive if o.score) / len(alive)
        before = sum(o.untrained for o in alive) / len(alive)
        return (
            f"{text}: correlation {identity:.2f} with the input, {constant:.2f} with the training image; "
            f"{before:.2f} with the input before training. {self.recipe}."
        )


def copy_or_memorise(
    architecture: Callable[[int], nn.Module],
    training: Float[Tensor, "k c h w"],
    *,
    unseen: Float[Tensor, "n c h w"] | None = None,
    recipe: Recipe = DEFAULT_RECIPE,
    seeds: Sequence[int] = (0, 1, 2),
    n_jobs: int | None = None,
) -> IdentityBias:
    """Train an architecture to reproduce `training` and say whether it copies or memorises.

    Works for any network from images to images of equal shape: autoencoder, U-Net, transformer.

    Parameters
    ----------
    architecture : callable
        Function of a seed that builds the network with the weights of that seed.
    training : Tensor of shape (k, c, h, w)
        One or a few images, normalised as you will use them.
    unseen : Tensor of shape (n, c, h, w), optional
        Other images; by default drawn patterns, stretched to the range of `training`. Constant patterns
        are left out.
    recipe : Recipe, default DEFAULT_RECIPE
        How to train. The loss must be "mse"; the seed is replaced by each of `seeds`.
    seeds : sequence of int, default (0, 1, 2)
        Seeds of the trainings, one training each.
    n_jobs : int, optional
        Number of trainings that run at the same time.

    Examples
    --------
    >>> import torch
    >>> image = torch.rand(1, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    >>> convolution = lambda seed: nn.Conv2d(1, 1, 3, padding=1)
    >>> quick = Recipe(optimiser="adam", lr=0.05, loss="mse", batch_size=None, steps=500, stop_below=1e-5)
    >>> copy_or_memorise(convolution, image, recipe=quick, seeds=(0,)).word
    'identity'
    """
    if recipe.loss != "mse":
        raise InvalidInput(f"`recipe` must have loss 'mse' for images; got {recipe.loss!r}.")
    if not seeds:
        raise InvalidInput("`seeds` must name at least one seed; got none.")
    tests = _patterns_like(training) if unseen is None else unseen
    one = partial(_outcome, architecture, training, tests, recipe)
    outcomes = map_tasks(one, list(seeds), label="Copy or memorise", n_jobs=n_jobs)
    words = f"{recipe.optimiser} at rate {recipe.lr:g}, at most {recipe.steps or recipe.epochs} " + (
        "steps" if recipe.steps else "epochs"
    )
    return IdentityBias(outcomes=tuple(outcomes), recipe=words)


def _patterns_like(training: Tensor) -> Tensor:
    _, c, h, w = training.shape
    drawn = patterns(h, w, channels=c).x
    drawn = drawn[drawn.flatten(1).std(1) > 0]
    low, high = training.min(), training.max()
    return (low + (high - low) * drawn).to(training.dtype)


def _outcome(
    architecture: Callable[[int], nn.Module], training: Tensor, tests: Tensor, recipe: Recipe, seed: int
) -> SeedOutcome:
    with global_seed("weights", seed):
        model = architecture(seed)
    before = identity_score(image_outputs(model, tests), tests, training).means["identity"]
    try:
        history = train(model, training, training, recipe, show=False, fused=True)
        require_finite(model, tests)
    except Diverged as reason:
        return SeedOutcome(seed=seed, word="diverged", untrained=before, problem=str(reason))
    outputs = image_outputs(model, tests)
    score = identity_score(outputs, tests, training)
    curve = response(model, training[0], seed=seed)
    loss = float((image_outputs(model, training) - training).square().mean())
    word = behaviour_of(score, edge_score(outputs, tests), curve)
    learned = loss < 0.1 * float(training.var()) or history.stopped_early
    return SeedOutcome(
        seed=seed,
        word=word if learned else "not trained",
        loss=loss,
        score=score,
        response=curve,
        untrained=before,
    )
