"""Plates of "Identity Crisis", continued: settings of the networks, and other training images."""

from dataclasses import replace
from typing import Any

from reproduce.plates.grids import picture_rows
from reproduce.plates.identity import (
    DEPTHS,
    INPUTS,
    PAPER,
    answers,
    by_depth,
    fcn_maps_of,
    filter_tasks,
    hidden,
    networks,
    shared_images,
    similarity_maps,
)
from reproduce.plates.registry import Ledger, Line, Panels, line_plate, numbers, pictures
from reproduce.studies.identity.common import DESK, DESK_FCN
from reproduce.studies.identity.images import TEN_EPOCHS

# ---------------------------------------------------------------- settings


@pictures(
    PAPER,
    "Figure 25",
    "Similarities of five-layer networks by the side of their filters, and by the angle of the test image.",
)
def filter_maps() -> Panels:
    return similarity_maps(filter_tasks((5, 9, 15, 21, 29)), y="side of the filters")


@pictures(PAPER, "Figure 26", f"As Figure 9, with more filter sizes; {INPUTS}.")
def morefilter_tasks() -> Panels:
    return {
        "By the side of the filters": answers(
            filter_tasks((5, 7, 9, 13, 15, 21, 25, 29)), title="More filter sizes"
        )
    }


@pictures(
    PAPER,
    "Figure 27",
    "Similarities of five-layer networks by their number of channels, and by the angle of the test image.",
)
def channel_maps() -> Panels:
    tasks = {f"{n} channels": replace(DESK, depth=5, width=n) for n in (3, 8, 32, 128)}
    return similarity_maps(tasks, y="channels")


@pictures(PAPER, "Figure 28", f"Networks with three channels in every layer, by depth; {INPUTS}.")
def three_channels() -> Panels:
    tasks = by_depth(replace(DESK, width=3), (4, 5, 6, 7, 8))
    return {"Three channels": answers(tasks, title="Three channels")}


def _two_widths(*, is_trained: bool) -> Panels:
    tasks = {f"{n} channels": replace(DESK, depth=5, width=n) for n in (3, 128)}
    models = {name: net.model if is_trained else net.task.build() for name, net in networks(tasks).items()}
    images = DESK.images
    shown = {
        "The training digit": images.training[0],
        "An unseen digit": images.unseen[0],
        "A pattern": images.patterns[0],
    }
    return {
        title: picture_rows(
            {name: shared_images(model, image) for name, model in models.items()}, title=title
        )
        for title, image in shown.items()
    }


@pictures(
    PAPER,
    "Figure 29",
    "Layers of two untrained five-layer networks, with 3 and with 128 channels: input, then what the "
    "channels of each layer share.",
)
def widths_before() -> Panels:
    return _two_widths(is_trained=False)


@pictures(PAPER, "Figure 30", "The two networks of Figure 29 after training on one digit.")
def widths_after() -> Panels:
    return _two_widths(is_trained=True)


@pictures(PAPER, "Figure 31", f"Three layers from each initialisation; {INPUTS}.")
def initialisations() -> Panels:
    names = ("default", "xavier_normal", "xavier_uniform", "kaiming_normal", "kaiming_uniform", "orthogonal")
    tasks = {name.replace("_", " "): replace(DESK, depth=3, initialiser=name) for name in names}
    return {"By initialisation": answers(tasks, title="By initialisation")}


@pictures(PAPER, "Figure 32", f"Five layers, trained by each optimiser from the same weights; {INPUTS}.")
def optimisers() -> Panels:
    chosen = (
        ("sgd", 0.01, 0.9),
        ("sgd", 0.001, 0.9),
        ("adam", 1e-3, 0.0),
        ("rmsprop", 1e-3, 0.0),
        ("adamax", 2e-3, 0.0),
    )
    tasks = {
        f"{name} {lr:g}": replace(DESK, depth=5, optimiser=name, lr=lr, momentum=momentum)
        for name, lr, momentum in chosen
    }
    return {"By optimiser": answers(tasks, title="By optimiser")}


@pictures(PAPER, "Figure 33", "Linear networks as in Figure 14, by squared errors.")
def linear_errors() -> Panels:
    return fcn_maps_of("mse_", "linear_fcn")


@pictures(PAPER, "Figure 34", "ReLU networks as in Figure 14, by squared errors.")
def relu_errors() -> Panels:
    return fcn_maps_of("mse_", "fcn")


@pictures(PAPER, "Figure 35", "Convolutional networks as in Figure 4, by squared errors.")
def cnn_errors() -> Panels:
    return similarity_maps(by_depth(DESK, DEPTHS), "mse_")


# ---------------------------------------------------------------- other training images


@pictures(PAPER, "Figure 36", f"Two more runs of Figure 3, from other initial weights; {INPUTS}.")
def other_seeds() -> Panels:
    return {
        f"Seed {seed}": answers(by_depth(replace(DESK, seed=seed), (1, 3, 5, 10, 20)), title=f"Seed {seed}")
        for seed in (1, 2)
    }


@pictures(PAPER, "Figure 37", f"As Figure 3, trained on another digit; {INPUTS}.")
def other_digits() -> Panels:
    return {
        f"Trained on a {digit}": answers(
            by_depth(replace(DESK, labels=(digit,)), (1, 3, 5, 10, 20)), title=f"Trained on a {digit}"
        )
        for digit in ("3", "0")
    }


def _several(examples: int) -> Panels:
    connected = hidden(replace(DESK_FCN, examples=examples), (0, 1, 3, 9))
    convolutional = by_depth(replace(DESK, examples=examples), (3, 7, 14) if examples > 2 else (3, 7, 14, 20))
    return {
        "Fully connected networks": answers(connected, title="Fully connected networks"),
        "Convolutional networks": answers(convolutional, title="Convolutional networks"),
    }


@pictures(
    PAPER,
    "Figure 38",
    "Networks trained on two digits, which are the first two columns; deep ones answer with mixtures of them.",
)
def two_images() -> Panels:
    return _several(2)


@pictures(PAPER, "Figure 39", "Networks trained on three digits, which are the first three columns.")
def three_images() -> Panels:
    return _several(3)


@pictures(PAPER, "Figure 40", f"Networks of several depths trained on 2000 digits for ten epochs; {INPUTS}.")
def many_digits_by_depth() -> Panels:
    base = replace(TEN_EPOCHS, image_size=14, seed=0)
    tasks = {f"ReLU, {n} hidden": replace(base, family="fcn", width=None, depth=n + 1) for n in (1, 3, 5)}
    tasks |= {
        f"linear, {n} hidden": replace(base, family="linear_fcn", width=None, depth=n + 1) for n in (1, 3)
    }
    tasks |= {f"CNN, {n} layers": replace(base, depth=n) for n in (3, 7)}
    return {"Answers after training on many digits": answers(tasks, title="Trained on many digits")}


@pictures(
    PAPER, "Figure 41", f"Fully connected networks with identity skips, by blocks of two layers; {INPUTS}."
)
def residual_answers() -> Panels:
    tasks = {
        f"{n} block{'s' if n > 1 else ''}": replace(DESK_FCN, family="residual_fcn", depth=n)
        for n in (1, 2, 4)
    }
    return {"Answers of residual networks": answers(tasks, title="Residual networks")}


def _photograph(label: str) -> Panels:
    small: dict[str, Any] = {"dataset": "cifar10", "labels": (label,)}
    connected = hidden(replace(DESK_FCN, image_size=16, **small), (0, 1, 3))
    convolutional = by_depth(replace(DESK, image_size=16, **small), (1, 3, 5, 10, 14))
    return {
        "Fully connected networks": answers(connected, title="Fully connected networks"),
        "Convolutional networks": answers(convolutional, title="Convolutional networks"),
    }


@pictures(PAPER, "Figure 42", f"Networks trained on one photograph, a dog of 16 x 16 pixels; {INPUTS}.")
def dog() -> Panels:
    return _photograph("dog")


@pictures(PAPER, "Figure 43", f"Networks trained on one photograph, an airplane of 16 x 16 pixels; {INPUTS}.")
def airplane() -> Panels:
    return _photograph("airplane")


@numbers(
    PAPER,
    "Table 1",
    "Parameters of every architecture, counted on the networks built here against the printed formula.",
)
def parameter_table(ledger: Ledger) -> Panels:
    rows = [
        Line(
            name="deviation from the quoted size",
            claim="id.params.text",
            measurement="deviation from quoted sizes",
        ),
    ]
    return {
        "Sizes quoted in the text": line_plate(
            ledger, rows, title="Sizes quoted in the text", y="difference in weights"
        )
    }
