"""Studies of small networks: what later papers measure."""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from firstlight._internal.seeds import global_seed
from firstlight.data import load
from firstlight.estimators import RFMProbe
from firstlight.measures.feature_ansatz.ansatz import centred_ansatz
from firstlight.measures.layers.activations import activations
from firstlight.measures.layers.class_variation import class_variation
from firstlight.measures.learning_order.constancy import ScoreAgreement, score_agreement
from firstlight.measures.linearized.richness import richness
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured
from reproduce.studies.newer_papers.common import DESK, SMOKE, NetworkPlan, Trained, trained_network
from reproduce.studies.newer_papers.gaussian_copies import accuracy_by_moments
from reproduce.studies.newer_papers.master_filters import master_shares


@study("newer.richness")
class ScaledOutputs(Study):
    """Is richness higher where a small output scale makes training rich than where a large one makes it lazy?"""

    # Fully connected networks on small grey images.
    images: int = 64
    width: int = 32
    steps: int = 600
    lazy: float = 300.0
    rich: float = 0.1

    scales = {"smoke": dict(images=24, steps=20)}

    def run(self) -> Measured:
        """Train both from the same weights, as alpha (g(w) - g(w0)) with the loss over alpha squared."""
        data = load("photos", n=self.images, seed=self.seed)
        x = F.avg_pool2d(data.x, 2).mean(1, keepdim=True) * 2 - 1
        targets = F.one_hot(data.y, data.n_classes).float()
        with global_seed("scaled outputs", self.seed):
            initial = nn.Sequential(
                nn.Flatten(), nn.Linear(256, self.width), nn.ReLU(), nn.Linear(self.width, self.width), nn.ReLU(),
                nn.Linear(self.width, data.n_classes),
            )  # fmt: skip
        lazy, rich = (
            _trained(initial, x, targets - targets.mean(0), self.steps, alpha)
            for alpha in (self.lazy, self.rich)
        )
        measured = []
        for model in (lazy, rich):
            kept, before = activations(model, x), activations(initial, x)
            measured.append(richness(kept["5"], kept["outputs"] - before["outputs"], seed=self.seed))
        return {
            "richness of lazy training": measured[0].value,
            "richness of rich training": measured[1].value,
            "richness of a random readout": float(measured[1].null.mean()),
        }


def _trained(initial: nn.Module, x: Tensor, targets: Tensor, steps: int, alpha: float) -> nn.Module:
    model, offset = copy.deepcopy(initial), initial(x).detach()
    # the rate shrinks with the scale of the weights that small alphas ask for
    optimiser = torch.optim.SGD(model.parameters(), lr=0.03 * min(1.0, alpha), momentum=0.9)
    for _ in range(steps):
        loss = (alpha * (model(x) - offset) - targets).square().sum(1).mean()
        optimiser.zero_grad()
        (loss / alpha**2).backward()
        optimiser.step()
    return model


FIRST, LAST = "3", "9"  # layers whose inputs are the first features and the last


@study("newer.centred", "newer.collapse", "newer.masters", "newer.probe")
class TrainedNetwork(Study):
    """What do the measures of later papers say of one small network, beside their nulls?"""

    # The network and how many images it is looked at with.
    plan: NetworkPlan = DESK
    images: int = 100

    scales = {"smoke": dict(plan=SMOKE, images=24)}

    def run(self) -> Measured:
        """Train once and measure everything on unseen images."""
        trained = trained_network(self.plan, seed=self.seed)
        images = trained.test.sample(min(self.images, len(trained.test)), seed=self.seed)
        rows = [
            row
            for row in centred_ansatz(
                trained.model, images, initial=trained.initial, seed=self.seed, show=False
            ).rows
            if not row.is_output
        ]
        variation = class_variation(activations(trained.model, images.x), images.y, seed=self.seed)
        places = {name: index for index, name in enumerate(variation.layers)}
        (masters, patches), (untrained, _) = (
            master_shares(model[0].weight, images.x)  # type: ignore[index]
            for model in (trained.model, trained.initial)
        )
        seen, unseen = (
            activations(trained.model, data.x, layers=[FIRST], most=256)[FIRST]
            for data in (trained.train, trained.test)
        )
        probe = RFMProbe(random_state=self.seed).fit(seen.double(), trained.train.y.numpy())
        labels = trained.test.y.numpy()
        return {
            "centred correlation": sum(row.pearson for row in rows) / len(rows),
            "centred null": sum(float(row.null_pearson.mean()) for row in rows) / len(rows),
            "variation relative to the images": float(variation.ratio[places[LAST]] / variation.ratio[0]),
            "variation of projections relative to the images": float(
                variation.projected[places[LAST]].mean() / variation.ratio[0]
            ),
            "share of master filters": masters,
            "share of patch components": patches,
            "share of master filters before training": untrained,
            "accuracy of the feature machine": float(probe.score(unseen.double(), labels)),
            "accuracy of the linear probe": probe.linear_score(unseen.double(), labels),
            "chance": float(trained.test.counts.max()) / len(trained.test),
        }


@study("newer.moments", "newer.margins")
class TrainingCourse(Study):
    """Does a network use means and covariances before anything else, and which scores of difficulty agree?"""

    # The network.
    plan: NetworkPlan = DESK

    scales = {"smoke": dict(plan=SMOKE)}

    def run(self) -> Measured:
        """Train once; accuracies on copies of unseen images, scores of the training images."""
        trained = trained_network(self.plan, seed=self.seed)
        moments = accuracy_by_moments(trained.checkpoints, trained.test, seed=self.seed)
        agreement = _agreement(trained, self.seed)
        names = {name: index for index, name in enumerate(agreement.names)}
        pair = names["mean margin"], names["accessibility"]
        return {
            "gap early": float(moments["images"][0] - moments["covariances"][0]),
            "gap late": float(moments["images"][-1] - moments["covariances"][-1]),
            "accuracy on copies late": float(moments["covariances"][-1]),
            "accuracy on copies of the means late": float(moments["means"][-1]),
            "agreement of margin and accessibility": float(agreement.correlation[pair]),
            "agreement by chance": float(agreement.chance[pair]),
        }


def _agreement(trained: Trained, seed: int) -> ScoreAgreement:
    """Mean margin, and share of epochs with the right answer."""
    outputs, y = trained.outputs, trained.train.y
    own = outputs.gather(2, y.expand(len(outputs), -1)[..., None])[..., 0]
    others = outputs.masked_fill(F.one_hot(y, outputs.shape[2]).bool(), -torch.inf).amax(2)
    right = (outputs.argmax(2) == y).double()
    scores = {
        "mean margin": (own - others).mean(0),
        "accessibility": right.mean(0),
    }
    return score_agreement(scores, seed=seed)
