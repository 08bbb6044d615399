"""Which training images made a prediction: our tangent kernel beside TRAK and dattri, on the same checkpoint.

    python benchmarks/attribution.py [--libraries traker dattri] [--dimensions 512 2048] [--seeds 3]

TRAK scores a training image by Q (F F' + c)^-1 F f, where F holds the projected gradients of the training images'
margins, f that of the prediction, and Q one minus the probability of the label. Without a projection F F' is the
tangent kernel of the margin, so that `ntk_gram` gives the same scores exactly. Printed are, as medians over the
predictions, the rank correlation of their scores with ours, with those of another prediction (the null), and of two
seeds of theirs with each other; how often the margin of the prediction falls further when the five best images are
unlearned than in all of nine random draws of its class (chance: one in ten); and CPU seconds of one thread. The last
rows give both libraries our features as their gradients, without a projection.

Needs `pip install --no-deps traker==0.3.2 dattri==0.3.0`, and pyyaml and tqdm.
"""

import argparse
import copy
import itertools
import logging
import tempfile
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import firstlight
from firstlight._internal.executor import single_thread

RIDGE = 0.1
"""Added to the diagonal of the kernel, as a share of its mean."""
N_CHOSEN, N_DRAWS = 5, 9


def margin(outputs: Tensor, labels: Tensor) -> Tensor:
    """Log-odds of the label, the output function of TRAK."""
    rest = outputs.scatter(1, labels[:, None], -torch.inf)
    return outputs.gather(1, labels[:, None])[:, 0] - rest.logsumexp(1)


class Margin(nn.Module):
    """A network with its margin as the only output; the label is one more channel of the image."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Take images with their labels."""
        return margin(self.network(images[:, :-1]), images[:, -1, 0, 0].long())[:, None]


def labelled(images: Tensor, labels: Tensor) -> Tensor:
    """Images with their labels as one more channel."""
    return torch.cat([images, labels[:, None, None, None].expand_as(images[:, :1])], 1)


class Task:
    """A checkpoint, training images, and predictions on images that it never saw."""

    def __init__(self, n_train: int, n_test: int) -> None:
        bank = firstlight.load_network("small-cifar10-0")
        self.network = bank.model.eval()
        self.train, self.test = (
            firstlight.load("cifar10", part, n=n, seed=1).scaled(**bank.scaling)
            for part, n in (("train", n_train), ("test", n_test))
        )
        with torch.no_grad():
            self.predicted = self.network(self.test.x).argmax(1)
            right = self.network(self.train.x).softmax(1).gather(1, self.train.y[:, None])[:, 0]
        self.weight = (1 - right).double()
        self.n_weights = sum(w.numel() for w in self.network.parameters())

    def batches(self, *more: Tensor) -> DataLoader:
        return DataLoader(TensorDataset(*more, self.train.x, self.train.y), batch_size=100)

    def kernel(self) -> Tensor:
        """Tangent kernel of the margins, training images first."""
        both = (labelled(self.train.x, self.train.y), labelled(self.test.x, self.predicted))
        return firstlight.ntk_gram(Margin(self.network), torch.cat(both), show=False).double()

    def fallen(self, image: Tensor, label: Tensor, chosen: Tensor) -> float:
        """How far the margin of a prediction falls by one step up the loss of the chosen training images."""
        changed = copy.deepcopy(self.network)
        weights = list(changed.parameters())
        loss = F.cross_entropy(changed(self.train.x[chosen]), self.train.y[chosen])
        slopes = torch.autograd.grad(loss, weights)
        length = torch.cat([w.detach().flatten() for w in weights]).norm()
        steepness = torch.cat([slope.flatten() for slope in slopes]).norm()
        with torch.no_grad():
            for weight, slope in zip(weights, slopes, strict=True):
                weight += 0.005 * length / steepness * slope
            before, after = (margin(n(image[None]), label[None]) for n in (self.network, changed))
        return float(before - after)

    def draws(self) -> list[float]:
        """The largest fall of each prediction among random draws of its class."""
        generator = torch.Generator().manual_seed(0)
        largest = []
        for image, label in zip(self.test.x, self.predicted, strict=True):
            members = (self.train.y == label).nonzero().flatten()
            drawn = [
                members[torch.randperm(len(members), generator=generator)[:N_CHOSEN]] for _ in range(N_DRAWS)
            ]
            largest.append(max(self.fallen(image, label, chosen) for chosen in drawn))
        return largest


def ours(task: Task) -> tuple[Tensor, Tensor, float]:
    """TRAK's formula with the kernel in place of projected gradients; the kernel; and the ridge."""
    kernel = task.kernel()
    n = len(task.train)
    ridge = RIDGE * float(kernel.diagonal()[:n].mean())
    inverse = torch.linalg.inv(kernel[:n, :n] + ridge * torch.eye(n, dtype=kernel.dtype))
    return kernel[n:, :n] @ inverse * task.weight, kernel, ridge


def trak(task: Task, ridge: float, dimension: int, seed: int, features: Tensor | None = None) -> Tensor:
    """Scores of the library `traker`; with features, these in place of projected gradients."""
    from trak import TRAKer
    from trak.gradient_computers import FunctionalGradientComputer
    from trak.projectors import NoOpProjector

    class Given(FunctionalGradientComputer):
        """Gradients that come with the batch."""

        def compute_per_sample_grad(self, batch: tuple[Tensor, ...]) -> Tensor:
            return batch[0].clone()

        def compute_loss_grad(self, batch: tuple[Tensor, ...]) -> Tensor:
            return super().compute_loss_grad(batch[1:])

    n, more = len(task.train), () if features is None else (features.float(),)
    scale = (
        dimension if features is None else 1
    )  # its normal projection does not keep the length of a gradient
    with tempfile.TemporaryDirectory() as folder:
        scorer = TRAKer(
            model=task.network, task="image_classification", train_set_size=n, save_dir=folder, device="cpu",
            proj_dim=dimension, projector_seed=seed, use_half_precision=False, logging_level=logging.ERROR,
            lambda_reg=ridge * scale / task.n_weights,
            **({"gradient_computer": Given, "projector": NoOpProjector(proj_dim=dimension)} if more else {}),
        )  # fmt: skip
        checkpoint = task.network.state_dict()
        scorer.load_checkpoint(checkpoint, model_id=0)
        for batch in task.batches(*(part[:n] for part in more)):
            scorer.featurize(batch, num_samples=len(batch[0]))
        scorer.finalize_features()
        scorer.start_scoring_checkpoint("scores", checkpoint, model_id=0, num_targets=len(task.test))
        scorer.score((*(p[n:] for p in more), task.test.x, task.predicted), num_samples=len(task.test))
        return torch.as_tensor(scorer.finalize_scores("scores")).T.double()


def dattri(task: Task, ridge: float, dimension: int, seed: int, features: Tensor | None = None) -> Tensor:
    """Scores of the library `dattri`; with features, these as the gradients of a linear model."""
    from dattri.algorithm import TRAKAttributor
    from dattri.task import AttributionTask

    def called(weights: dict[str, Tensor], data: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        image, label = data
        return torch.func.functional_call(task.network, weights, (image[None],)), label[None]

    def output(weights: dict[str, Tensor], data: tuple[Tensor, Tensor]) -> Tensor:
        return margin(*called(weights, data))[0]

    def probability(weights: dict[str, Tensor], data: tuple[Tensor, Tensor]) -> Tensor:
        outputs, labels = called(weights, data)
        return outputs.softmax(1).gather(1, labels[:, None])[0, 0]

    model, train, n = task.network, task.batches(), len(task.train)
    test = DataLoader(TensorDataset(task.test.x, task.predicted), batch_size=100)
    options = {"proj_dim": dimension, "proj_seed": seed, "proj_type": "normal"}
    ridge /= task.n_weights
    if features is not None:
        model = nn.Linear(dimension, 1, bias=False)
        train = DataLoader(TensorDataset(features[:n].float(), 1 - task.weight), batch_size=100)
        test = DataLoader(TensorDataset(features[n:].float(), torch.zeros(len(task.test))), batch_size=100)
        output = lambda weights, data: weights["weight"][0] @ data[0]  # noqa: E731
        probability = lambda _weights, data: data[1]  # noqa: E731
        options["proj_type"] = "identity"
        ridge *= task.n_weights / dimension
    scorer = TRAKAttributor(
        AttributionTask(loss_func=output, model=model, checkpoints=model.state_dict()),
        probability, projector_kwargs=options, regularization=ridge,
    )  # fmt: skip
    with torch.no_grad():
        scorer.cache(train)
        return scorer.attribute(test).T.double()


LIBRARIES: dict[str, Callable[..., Tensor]] = {"traker": trak, "dattri": dattri}


def agreement(first: Tensor, second: Tensor) -> float:
    """Median over predictions of the rank correlation of the scores."""
    ranks = [scores.argsort(1).argsort(1).double() for scores in (first, second)]
    centred = [F.normalize(rank - rank.mean(1, keepdim=True)) for rank in ranks]
    return float((centred[0] * centred[1]).sum(1).median())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--train", type=int, default=1000)
    parser.add_argument("--test", type=int, default=48)
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--dimensions", type=int, nargs="+", default=[512, 2048])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    task = Task(given.train, given.test)
    largest = task.draws()

    def fallen_beyond(scores: Tensor) -> int:
        best = scores.topk(N_CHOSEN).indices
        falls = map(task.fallen, task.test.x, task.predicted, best)
        return sum(fall > bound for fall, bound in zip(falls, largest, strict=True))

    began = time.process_time()
    exact, kernel, ridge = ours(task)
    seconds = time.process_time() - began
    print(f"{'':24}    ours  null  seeds  beyond all draws    CPU s", flush=True)
    print(f"{'ntk_gram':24}  {fallen_beyond(exact):28} of {given.test}  {seconds:7.1f}", flush=True)
    for name, dimension in itertools.product(given.libraries, given.dimensions):
        began = time.process_time()
        scores = [LIBRARIES[name](task, ridge, dimension, seed) for seed in range(given.seeds)]
        seconds = (time.process_time() - began) / given.seeds
        between = [agreement(*pair) for pair in itertools.combinations(scores, 2)]
        print(
            f"{f'{name}, {dimension} dimensions':24}  {agreement(scores[0], exact):6.2f}"
            f"  {agreement(scores[0].roll(1, 0), exact):4.2f}  {sum(between) / max(len(between), 1):5.2f}"
            f"  {fallen_beyond(scores[0]):7} of {given.test}  {seconds:7.1f}",
            flush=True,
        )
    values, vectors = torch.linalg.eigh(kernel)
    features = vectors * values.clamp(min=0).sqrt()
    for name in given.libraries:
        scores = LIBRARIES[name](task, ridge, features.shape[1], 0, features)
        print(f"{name + ', our features':24}  {agreement(scores, exact):6.4f}")


if __name__ == "__main__":
    with single_thread():
        main()
