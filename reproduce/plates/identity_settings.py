"""Plates of "Identity Crisis", continued: settings of the networks, and other training images."""

from dataclasses import replace

from reproduce.plates.grids import picture_rows
from reproduce.plates.identity import (
    DEPTHS,
    INPUTS,
    answers,
    by_depth,
    fcn_maps_of,
    filter_tasks,
    hidden,
    networks,
    plates,
    shared_images,
    similarity_maps,
)
from reproduce.plates.registry import Ledger, Line, Panels, line_plate
from reproduce.studies.identity.common import DESK, DESK_FCN
from reproduce.studies.identity.images import TEN_EPOCHS

# ---------------------------------------------------------------- settings


@plates.pictures("Figure 25")
def filter_maps() -> Panels:
    """Similarities of five-layer networks by the side of their filters, and by the angle of the test image."""
    return similarity_maps(filter_tasks((5, 9, 15, 21, 29)), y="side of the filters")


@plates.pictures("Figure 26", INPUTS)
def more_filter_sizes() -> Panels:
    """As Figure 9, with more filter sizes."""
    return [answers("By the side of the filters", filter_tasks((5, 7, 9, 13, 15, 21, 25, 29)))]


@plates.pictures("Figure 27")
def channel_maps() -> Panels:
    """Similarities of five-layer networks by their number of channels, and by the angle of the test image."""
    tasks = {f"{n} channels": replace(DESK, depth=5, width=n) for n in (3, 8, 32, 128)}
    return similarity_maps(tasks, y="channels")


@plates.pictures("Figure 28", INPUTS)
def three_channels() -> Panels:
    """Networks with three channels in every layer, by depth."""
    return [answers("Three channels", by_depth(replace(DESK, width=3), (4, 5, 6, 7, 8)))]


def _two_widths(*, is_trained: bool) -> Panels:
    tasks = {f"{n} channels": replace(DESK, depth=5, width=n) for n in (3, 128)}
    models = {name: net.model if is_trained else net.task.build() for name, net in networks(tasks).items()}
    images = DESK.images
    shown = {
        "The training digit": images.training[0],
        "An unseen digit": images.unseen[0],
        "A pattern": images.patterns[0],
    }
    return [
        picture_rows({name: shared_images(model, image) for name, model in models.items()}, title=title)
        for title, image in shown.items()
    ]


@plates.pictures("Figure 29")
def widths_before() -> Panels:
    """Layers of two untrained five-layer networks, of 3 and of 128 channels: input, then what the channels share."""
    return _two_widths(is_trained=False)


@plates.pictures("Figure 30")
def widths_after() -> Panels:
    """The two networks of Figure 29 after training on one digit."""
    return _two_widths(is_trained=True)


@plates.pictures("Figure 31", INPUTS)
def initialisations() -> Panels:
    """Three layers from each initialisation."""
    names = ("default", "xavier_normal", "xavier_uniform", "kaiming_normal", "kaiming_uniform", "orthogonal")
    tasks = {name.replace("_", " "): replace(DESK, depth=3, initialiser=name) for name in names}
    return [answers("By initialisation", tasks)]


@plates.pictures("Figure 32", INPUTS)
def optimisers() -> Panels:
    """Five layers, trained by each optimiser from the same weights."""
    chosen = (
        *(("sgd", lr, 0.9) for lr in (0.01, 0.001)),
        *((name, lr, 0.0) for name, lr in (("adam", 1e-3), ("rmsprop", 1e-3), ("adamax", 2e-3))),
    )
    tasks = {
        f"{name} {lr:g}": replace(DESK, depth=5, optimiser=name, lr=lr, momentum=momentum)
        for name, lr, momentum in chosen
    }
    return [answers("By optimiser", tasks)]


@plates.pictures("Figure 33")
def linear_errors() -> Panels:
    """Linear networks as in Figure 14, by squared errors."""
    return fcn_maps_of("mse_", "linear_fcn")


@plates.pictures("Figure 34")
def relu_errors() -> Panels:
    """ReLU networks as in Figure 14, by squared errors."""
    return fcn_maps_of("mse_", "fcn")


@plates.pictures("Figure 35")
def cnn_errors() -> Panels:
    """Convolutional networks as in Figure 4, by squared errors."""
    return similarity_maps(by_depth(DESK, DEPTHS), "mse_")


# ---------------------------------------------------------------- other training images


@plates.pictures("Figure 36", INPUTS)
def other_seeds() -> Panels:
    """Two more runs of Figure 3, from other initial weights."""
    return [answers(f"Seed {seed}", by_depth(replace(DESK, seed=seed), (1, 3, 5, 10, 20))) for seed in (1, 2)]


@plates.pictures("Figure 37", INPUTS)
def other_digits() -> Panels:
    """As Figure 3, trained on another digit."""
    return [
        answers(f"Trained on a {digit}", by_depth(replace(DESK, labels=(digit,)), (1, 3, 5, 10, 20)))
        for digit in ("3", "0")
    ]


FULLY_CONNECTED, CONVOLUTIONAL = "Fully connected networks", "Convolutional networks"


def _several(examples: int) -> Panels:
    depths = (3, 7, 14) if examples > 2 else (3, 7, 14, 20)
    return [
        answers(FULLY_CONNECTED, hidden(replace(DESK_FCN, examples=examples), (0, 1, 3, 9))),
        answers(CONVOLUTIONAL, by_depth(replace(DESK, examples=examples), depths)),
    ]


@plates.pictures("Figure 38")
def two_images() -> Panels:
    """Networks trained on two digits, which are the first two columns; deep ones answer with mixtures of them."""
    return _several(2)


@plates.pictures("Figure 39")
def three_images() -> Panels:
    """Networks trained on three digits, which are the first three columns."""
    return _several(3)


@plates.pictures("Figure 40", INPUTS)
def many_digits_by_depth() -> Panels:
    """Networks of several depths trained on 2000 digits for ten epochs."""
    base = replace(TEN_EPOCHS, image_size=14, seed=0)
    connected = replace(base, width=None)
    tasks = {f"ReLU, {n} hidden": replace(connected, family="fcn", depth=n + 1) for n in (1, 3, 5)}
    tasks |= {f"linear, {n} hidden": replace(connected, family="linear_fcn", depth=n + 1) for n in (1, 3)}
    tasks |= {f"CNN, {n} layers": replace(base, depth=n) for n in (3, 7)}
    return [answers("Answers after training on many digits", tasks)]


@plates.pictures("Figure 41", INPUTS)
def residual_answers() -> Panels:
    """Fully connected networks with identity skips, by blocks of two layers."""
    base = replace(DESK_FCN, family="residual_fcn")
    tasks = {f"{n} block{'s' if n > 1 else ''}": replace(base, depth=n) for n in (1, 2, 4)}
    return [answers("Answers of residual networks", tasks)]


def _photograph(label: str) -> Panels:
    connected, convolutional = (
        replace(base, image_size=16, dataset="cifar10", labels=(label,)) for base in (DESK_FCN, DESK)
    )
    return [
        answers(FULLY_CONNECTED, hidden(connected, (0, 1, 3))),
        answers(CONVOLUTIONAL, by_depth(convolutional, (1, 3, 5, 10, 14))),
    ]


@plates.pictures("Figure 42", INPUTS)
def dog() -> Panels:
    """Networks trained on one photograph, a dog of 16 x 16 pixels."""
    return _photograph("dog")


@plates.pictures("Figure 43", INPUTS)
def airplane() -> Panels:
    """Networks trained on one photograph, an airplane of 16 x 16 pixels."""
    return _photograph("airplane")


@plates.numbers("Table 1")
def parameter_table(ledger: Ledger) -> Panels:
    """Parameters of every architecture, counted on the networks built here against the printed formula."""
    lines = [Line("deviation from the quoted size", "id.params.text", "deviation from quoted sizes")]
    return [line_plate(ledger, "Sizes quoted in the text", lines, y="difference in weights")]
