"""Which number shows which fault? Small healthy networks, and networks with a fault that was put there on purpose.

The minute's recipe: 10,000 images of CIFAR-10, five epochs, batches of 64, a one-cycle rate up to 0.1, batch norm,
flips and shifts. Three architectures; four healthy networks of each, and faults with seeds of their own.

    python benchmarks/planted_faults.py train FOLDER [--seeds 4]   # resumable; 10 to 40 CPU seconds a network
    python benchmarks/planted_faults.py measure FOLDER             # resumable; 2 CPU seconds a network; writes the file
    python benchmarks/planted_faults.py table                      # from the file that comes with the package
"""

import argparse
import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

import firstlight.networks.reference
from firstlight._internal.environment import code_commit, environment
from firstlight._internal.errors import Diverged
from firstlight._internal.executor import single_thread
from firstlight._internal.seeds import generator_from
from firstlight._internal.tensor_files import load_sealed, save_sealed
from firstlight._internal.version import __version__
from firstlight.data import ImageData, load
from firstlight.models import ModelSpec
from firstlight.models.checkpoints import fill
from firstlight.networks.bank import load_network
from firstlight.networks.definitions import PLAIN, SCALING
from firstlight.networks.reference import (
    EARLY,
    FILE,
    HEALTHY,
    UNTRAINED,
    Measured,
    Reference,
    error_rates,
    packaged,
    read_reference,
    write_reference,
)
from firstlight.questions.inspect.reference_numbers import measured_numbers
from firstlight.training import Recipe, train

OUTPUT = Path(firstlight.networks.reference.__file__).with_name(FILE)
STARTERS = ("small-cifar10-0", "resnet20-cifar10-0")
N_IMAGES = 10_000
MINUTE = replace(PLAIN, lr=0.1, batch_size=64, epochs=5)
HEALTHY_SEEDS = range(4)
FIRST_FAULTY_SEED = 10

ARCHITECTURES = {
    "small": (ModelSpec(name="small", options={"batch_norm": True, "width": 0.375}), "0."),
    "vgg5": (ModelSpec(name="vgg5", options={"width": 0.25}), "0."),
    "resnet14": (ModelSpec(name="resnet14", options={"width": 0.25}), "conv1."),
}
"""Architecture, and the beginning of the names of its first layer's parameters."""

RECIPES = {
    HEALTHY: MINUTE,
    "rate x 30": replace(MINUTE, lr=3.0),
    "rate x 10": replace(MINUTE, lr=1.0),
    "rate / 30": replace(MINUTE, lr=0.1 / 30),
    "one epoch": replace(MINUTE, epochs=1),
    "random labels": MINUTE,
    "first layer frozen": MINUTE,
    "weight decay x 100": replace(MINUTE, weight_decay=100 * MINUTE.weight_decay),
    "40 % random labels": MINUTE,
    "rate / 10": replace(MINUTE, lr=0.01),
    "pixels not normalised": MINUTE,
}
"""How healthy and faulty networks are trained; other faults are planted in a healthy network afterwards."""

RANDOM_SHARE = {"random labels": 1.0, "40 % random labels": 0.4}


def training_images(kind: str, seed: int) -> ImageData:
    """Images and labels of one network, drawn with its seed."""
    images = load("cifar10", "train").sample(N_IMAGES, seed=seed)
    if kind in RANDOM_SHARE:
        generator = generator_from("random labels", seed)
        drawn = torch.randint(images.n_classes, (len(images),), generator=generator)
        is_drawn = torch.rand(len(images), generator=generator) < RANDOM_SHARE[kind]
        images = images.replace(y=torch.where(is_drawn, drawn, images.y))
    return scaled_for(kind, images)


def scaled_for(kind: str, images: ImageData) -> ImageData:
    """Pixels as a network of this kind was trained on them."""
    return images if kind == "pixels not normalised" else images.scaled(*SCALING["cifar10"])


def recipe_for(kind: str, architecture: str, seed: int) -> Recipe:
    frozen = (ARCHITECTURES[architecture][1],) if kind == "first layer frozen" else ()
    return replace(RECIPES[kind], frozen=frozen, seed=seed)


def planned(n_seeds: int) -> Iterator[tuple[str, str, int]]:
    """Kind, architecture and seed of every network that is trained, so that the first half makes a table already."""
    faults = [kind for kind in RECIPES if kind != HEALTHY]
    first, last = ("small", "vgg5"), ("resnet14",)
    for architectures, n_healthy in ((first, 3), (last, 3), ((*first, *last), len(HEALTHY_SEEDS))):
        yield from ((HEALTHY, one, seed) for seed in HEALTHY_SEEDS[:n_healthy] for one in architectures)
        yield from ((kind, one, FIRST_FAULTY_SEED) for kind in faults for one in architectures)
    for seed in range(FIRST_FAULTY_SEED + 1, FIRST_FAULTY_SEED + n_seeds):
        yield from ((kind, one, seed) for kind in faults for one in ARCHITECTURES)


def file_of(folder: Path, kind: str, architecture: str, seed: int) -> Path:
    name = kind.replace(" ", "_").replace("/", "over").replace("%", "percent")
    return folder / f"{architecture}-{name}-{seed}.safetensors"


def train_all(folder: Path, n_seeds: int) -> None:
    """Train what is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, architecture, seed in planned(n_seeds):
        path = file_of(folder, kind, architecture, seed)
        if path.exists():
            continue
        start = time.process_time()
        state = trained_state(kind, architecture, seed)
        save_sealed(path, state)
        print(
            f"{path.stem}: {time.process_time() - start:.0f} CPU s{'' if state else ', diverged'}", flush=True
        )


def trained_state(kind: str, architecture: str, seed: int) -> dict[str, Tensor]:
    """Weights after training; nothing if the loss was no longer finite."""
    images, model = training_images(kind, seed), ARCHITECTURES[architecture][0](seed)
    try:
        with single_thread():
            train(model, images.x, images.y, recipe_for(kind, architecture, seed), fused=True, show=False)
    except Diverged:
        return {}
    return {
        name: value.contiguous() for name, value in model.state_dict().items() if value.is_floating_point()
    }


def planted(kind: str, model: nn.Module, other: nn.Module, seed: int) -> nn.Module:
    """A copy of a healthy network with a fault; `other` is the same architecture trained from another seed."""
    model = copy.deepcopy(model)
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    generator = generator_from(kind, seed)
    chosen = torch.randperm(len(convolutions), generator=generator).tolist()
    with torch.no_grad():
        if kind == "layer drawn again":
            weight = convolutions[chosen[0]].weight
            bound = weight[0].numel() ** -0.5  # as torch draws them
            weight.copy_(torch.empty_like(weight).uniform_(-bound, bound, generator=generator))
        elif kind == "10 % of filters zeroed":
            for layer in convolutions:
                n = len(layer.weight)
                layer.weight[torch.randperm(n, generator=generator)[: max(1, round(0.1 * n))]] = 0
        elif kind == "two layers of another checkpoint":
            theirs = [m for m in other.modules() if isinstance(m, nn.Conv2d)]
            for index in chosen[:2]:
                convolutions[index].weight.copy_(theirs[index].weight)
    return model


PLANTED = (
    "channels swapped",
    "layer drawn again",
    "10 % of filters zeroed",
    "two layers of another checkpoint",
)


def minute_network(folder: Path, kind: str, architecture: str, seed: int) -> nn.Module | None:
    """A network from its file; None if it is not there or diverged."""
    path = file_of(folder, kind, architecture, seed)
    state = load_sealed(path).tensors if path.exists() else {}
    model = ARCHITECTURES[architecture][0](seed)
    return fill(model, state, source=str(path)).eval() if state else None


def cases(folder: Path, n_planted: int = 2) -> Iterator[tuple[str, Callable[[], Measured]]]:
    """Name of every network that can be measured, and what measures it."""
    test = load("cifar10", "test")
    for kind, architecture, seed in dict.fromkeys(planned(len(HEALTHY_SEEDS))):
        model = minute_network(folder, kind, architecture, seed)
        if model is None:
            continue
        initial = ARCHITECTURES[architecture][0](seed).eval()
        measure = partial(measured_numbers, initial=initial, family=architecture.rstrip("0123456789"))
        images, name = scaled_for(kind, test), f"minute:{architecture}-{seed}"
        yield f"{name} {kind}", partial(measure, model, images, name=f"{name} {kind}", group=kind)
        if kind != HEALTHY or seed >= n_planted:
            continue
        other = minute_network(folder, HEALTHY, architecture, (seed + 1) % len(HEALTHY_SEEDS))
        yield from _variants(name, model, initial, other, images, measure, seed)
    for name in STARTERS:
        network = load_network(name)
        measure = partial(
            measured_numbers, initial=network.initial, family=name.split("-")[0].rstrip("0123456789")
        )
        images = network.test_data()
        yield (
            f"{name} {HEALTHY}",
            partial(measure, network.model, images, name=f"{name} {HEALTHY}", group=HEALTHY),
        )
        early = network.at(network.moments[-4])
        yield f"{name} {EARLY}", partial(measure, early, images, name=f"{name} {EARLY}", group=EARLY)
        yield from _variants(name, network.model, network.initial, None, images, measure, network.seed)


def _variants(
    name: str,
    model: nn.Module,
    initial: nn.Module,
    other: nn.Module | None,
    images: ImageData,
    measure: Callable[..., Measured],
    seed: int,
) -> Iterator[tuple[str, Callable[[], Measured]]]:
    """A healthy network before training, and with faults that need none."""
    full = f"{name} {UNTRAINED}"
    yield full, partial(measure, initial, images, initial=None, name=full, group=UNTRAINED)
    for kind in PLANTED:
        if other is None and kind.startswith("two layers"):
            continue
        full = f"{name} {kind}"
        seen = images.replace(x=images.x.flip(1)) if kind == "channels swapped" else images
        faulty = planted(kind, model, model if other is None else other, seed)
        yield full, partial(measure, faulty, seen, name=full, group=kind)


def measure_all(folder: Path) -> None:
    """Measure what the file does not hold yet; it is written after every network."""
    known = {network.name: network for network in (read_reference(OUTPUT) if OUTPUT.exists() else ())}
    provenance = {
        "made_by": "benchmarks/planted_faults.py",
        "version": __version__,
        "commit": code_commit(),
        "machine": environment(),
        "recipe": "the minute's: 10,000 images of CIFAR-10, 5 epochs, batches of 64, one-cycle rate up to 0.1",
        "images": "1,000 test images; 64 of them for gradients and features",
    }
    for name, measure in cases(folder):
        if name not in known:
            start = time.process_time()
            known[name] = measure()
            write_reference(OUTPUT, list(known.values()), provenance)
            print(f"{name}: {known[name].accuracy:.1%}, {time.process_time() - start:.1f} CPU s", flush=True)


def print_table() -> None:
    """Which number flags which fault, as Markdown: with each family held out, and with each network held out."""
    reference = Reference(packaged())
    for title, rates in (
        ("Each family held out", error_rates(reference)),
        (
            "Each network held out, with what was planted in it",
            error_rates(reference, together=lambda n: n.origin),
        ),
    ):
        groups = [HEALTHY, *sorted(set(rates.named) - {HEALTHY})]
        print(f"{title}:\n\n| number | {' | '.join(groups)} | earned |\n|---|{'---|' * (len(groups) + 1)}")
        for number, by_group in sorted(rates.flagged.items()):
            cells = ["{}/{}".format(*by_group[group]) if group in by_group else "" for group in groups]
            print(f"| {number} | {' | '.join(cells)} | {'yes' if number in rates.earned else ''} |")
        print("\n| planted | networks | named so | all named so | otherwise named |\n|---|---|---|---|---|")
        for group in groups:
            n, right, called = rates.naming(group)
            others = sorted((-count, name) for name, count in rates.named[group].items() if name != group)
            listed = ", ".join(f"{name} {-count}" for count, name in others)
            print(f"| {group} | {n} | {right} | {called} | {listed} |")
        print()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("train", "measure", "table"))
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--seeds", type=int, default=4, help="seeds of each fault")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.what == "table":
        print_table()
    elif given.folder is None:
        parser.error("`train` and `measure` need the folder of the networks")
    elif given.what == "train":
        train_all(given.folder, given.seeds)
    else:
        measure_all(given.folder)


if __name__ == "__main__":
    main()
