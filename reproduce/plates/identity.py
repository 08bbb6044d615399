"""Plates of "Identity Crisis": what networks of each kind, trained on one digit, make of other images.

Digits have 14 x 14 pixels where depth matters, since deep networks become constant there within seconds, and 28 x 28
where the paper's point is about sizes or shallow networks. Every row of pictures shares the grey scale of the training
image; the last row is an untrained network.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from firstlight.measures.copy_or_memorise.identity_score import image_outputs
from firstlight.pages.figures import Curve, Figure, curves, heatmap
from firstlight.questions.copy_or_memorise.images import resized
from firstlight.questions.copy_or_memorise.task import IdentityTask
from reproduce.plates.grids import in_range_of, picture_rows, stretched
from reproduce.plates.registry import Panels, Plates
from reproduce.studies.identity.common import DESK, DESK_28, DESK_FCN, Network, trained
from reproduce.studies.identity.images import TEN_EPOCHS
from reproduce.studies.identity.layer_images import (
    layer_images,
    stage_outputs,
    top_singular_image,
    upper_outputs,
)
from reproduce.studies.identity.layers import TWO_LAYERS, changes

plates = Plates("IdentityCrisis")
DEPTHS = (1, 3, 5, 7, 10, 14, 20)
FCN_DEPTHS = (1, 2, 4, 6, 10)
INPUTS = (
    "the first row is the input: the training image, then unseen digits, a blend, clothes, patterns and noise"
)
DEEP = replace(DESK, depth=20)
FIVE_28 = replace(DESK_28, depth=5, steps=1500)
NARROW = replace(DESK, depth=5, width=8, initialiser="xavier_normal", steps=800, stop_below=1e-4)

Tasks = Mapping[str, IdentityTask]


def networks(tasks: Tasks) -> dict[str, Network]:
    """Trained networks by name, each from the store if another plate or study trained it."""
    return dict(zip(tasks, trained(list(tasks.values()), label="Networks of a plate"), strict=True))


def by_depth(base: IdentityTask, depths: Sequence[int]) -> Tasks:
    """One task for each depth."""
    return {f"{depth} layer{'s' if depth > 1 else ''}": replace(base, depth=depth) for depth in depths}


def hidden(base: IdentityTask, layers: Sequence[int]) -> Tasks:
    """Fully connected tasks by the number of hidden layers, as the paper counts."""
    return {f"{n} hidden": replace(base, depth=n + 1) for n in layers}


def answers(title: str, tasks: Tasks) -> Figure:
    """Inputs, what each network makes of them, and what the last of them did before training."""
    done = networks(tasks)
    last = list(done.values())[-1]
    images = last.task.images
    shown, training = images.shown, images.training[:1]
    rows = {"input": shown} | {name: image_outputs(net.model, shown) for name, net in done.items()}
    rows["untrained"] = image_outputs(last.task.build(), shown)
    return picture_rows({name: in_range_of(row, training) for name, row in rows.items()}, title=title)


def similarity_maps(tasks: Tasks, what: str = "", *, y: str = "depth") -> Panels:
    """Both similarities, or both errors (`what` is "mse_"), by network and by angle to the training image."""
    done = networks(tasks)
    panels = []
    for reference in ("identity", "constant"):
        table = torch.stack([getattr(net.after.response, what + reference) for net in done.values()])
        rhos = next(iter(done.values())).after.response.rhos.tolist()
        title = f"{'Squared error to' if what else 'Cosine with'} the {reference}"
        panels.append(
            heatmap(
                table,
                rows=list(done),
                columns=[f"{rho:.1f}" for rho in rhos],
                title=title,
                alt=f"{title}, by {y} and angle to the training image",
                x="cosine of test and training image",
                y=y,
                symmetric=not what,
            )
        )
    return panels


def layers_of(network: Network, image: Tensor, *, title: str) -> Figure:
    """Three pictures of every layer: what its channels share, its channel most like the input, and channel 0."""
    seen = layer_images(network.model, image)
    start = layer_images(network.task.build(), image)
    rows = {
        "shared": seen.singular,
        "most alike": seen.best,
        "channel 0": seen.first,
        "shared, untrained": start.singular,
    }
    drawn = {name: stretched(torch.cat([image.double(), row])[:, None]) for name, row in rows.items()}
    return picture_rows(drawn, title=title)


def shared_images(model: torch.nn.Module, image: Tensor) -> Tensor:
    """The top singular image of every layer, after the input, stretched."""
    stages = [top_singular_image(output[0]) for output in stage_outputs(model, image[None])]
    return stretched(torch.stack([image[0].double(), *stages])[:, None])


# ---------------------------------------------------------------- what networks answer


@plates.pictures("Figure 1", INPUTS)
def many_digits() -> Panels:
    """Three architectures trained on 2000 digits for ten epochs."""
    base = replace(TEN_EPOCHS, seed=0)
    tasks = {
        "CNN, 5 layers": replace(base, depth=5),
        "FCN, 4 layers": replace(base, family="fcn", width=None, depth=4),
        "linear FCN": replace(base, family="linear_fcn", width=None, depth=4),
    }
    return [answers("Answers after training on many digits", tasks)]


@plates.pictures("Figure 2", INPUTS)
def fcn_answers() -> Panels:
    """Fully connected networks trained on one digit, by hidden layers."""
    return [answers("Answers of fully connected networks", hidden(DESK_FCN, (0, 1, 3, 5)))]


@plates.pictures("Figure 3", INPUTS)
def cnn_answers() -> Panels:
    """Convolutional networks trained on one digit, by depth."""
    shallow = by_depth(replace(DESK_28, steps=1500), (1, 3, 5))
    return [
        answers("14 x 14 pixels, 32 channels", by_depth(DESK, DEPTHS)),
        answers("28 x 28 pixels, 16 channels", shallow),
    ]


@plates.pictures("Figure 4")
def cnn_maps() -> Panels:
    """Left to right: test images closer to the training image. Top to bottom: deeper networks."""
    return similarity_maps(by_depth(DESK, DEPTHS))


plates.add(
    "Figure 5",
    "How badly digits are classified from each layer: a random deep network forgets them, a trained one keeps them. "
    "The grey line is guessing.",
    study="identity/probes",
)


def _sizes(base: IdentityTask, sides: Sequence[int], n: int) -> Panels:
    (network,) = networks({"network": base}).values()
    images = network.task.images
    probes = torch.cat([images.unseen[:n], images.patterns[:2]])
    panels = []
    for side in sides:
        inputs = resized(probes, side)
        rows = {"input": inputs, "answer": image_outputs(network.model, inputs)}
        rows["untrained"] = image_outputs(network.task.build(), inputs)
        drawn = {name: in_range_of(row, images.training[:1]) for name, row in rows.items()}
        panels.append(picture_rows(drawn, title=f"{side} x {side} pixels"))
    return panels


@plates.pictures("Figure 6")
def extreme_sizes() -> Panels:
    """A network of five layers that learned one digit of 28 pixels, on much smaller and larger images."""
    return _sizes(FIVE_28, (7, 112), 3)


@plates.pictures("Figure 7")
def deep_sizes() -> Panels:
    """A network of 20 layers that learned one digit of 14 pixels, on images of other sizes."""
    return _sizes(DEEP, (10, 13, 14, 15, 20, 28), 6)


@plates.pictures("Figure 8")
def size_and_depth() -> Panels:
    """Mean cosine with constant and identity by depth, for networks trained on images of several sizes."""
    lines: dict[str, list[Curve]] = {"constant": [], "identity": []}
    sides, depths = (7, 10, 14), (1, 3, 5, 7, 10, 14)
    for index, side in enumerate(sides):
        done = networks(by_depth(replace(DESK, image_size=side), depths)).values()
        for reference, series in lines.items():
            values = torch.tensor([float(getattr(net.after.response, reference).mean()) for net in done])
            shade = index / (len(sides) - 1)
            series.append(Curve(name=f"{side} pixels", values=values[None].double(), shade=shade))
    return [
        curves(
            series,
            x="layers",
            y="mean cosine",
            at=[float(depth) for depth in depths],
            title=f"Cosine with the {reference}",
            alt=f"Mean cosine with the {reference} against depth, a curve for each size",
        )
        for reference, series in lines.items()
    ]


def filter_tasks(sides: Sequence[int]) -> Tasks:
    """Five layers by the side of their filters."""
    return {f"{side} x {side}": replace(NARROW, kernel=side) for side in sides}


@plates.pictures("Figure 9", INPUTS)
def filter_answers() -> Panels:
    """Five layers with small and with very large filters, eight channels."""
    return [answers("By the side of the filters", filter_tasks((5, 15, 29)))]


@plates.pictures("Figure 10", INPUTS)
def channel_answers() -> Panels:
    """Few, usual and many channels."""
    five = {f"{n} channels": replace(DESK, depth=5, width=n) for n in (3, 32, 128)}
    twenty = {f"{n} channels": replace(DEEP, width=n) for n in (32, 64)}
    return [answers("Five layers", five), answers("Twenty layers", twenty)]


@plates.pictures("Figure 11", INPUTS)
def linear_answers() -> Panels:
    """Linear networks without activations, by hidden layers."""
    return [answers("Answers of linear networks", hidden(replace(DESK_FCN, family="linear_fcn"), (1, 3, 5)))]


@plates.pictures("Figure 12", INPUTS)
def bottom_answers() -> Panels:
    """Two layers: all weights trained, or the lower ones only."""
    bottom = replace(TWO_LAYERS, frozen=("fc2",), lr=1.0, steps=500)
    tasks = {f"both, {n} units": replace(TWO_LAYERS, width=n) for n in (2048, 16_384)}
    tasks |= {f"bottom, {n}": replace(bottom, width=n) for n in (2048, 16_384)}
    return [answers("Answers of two layers", tasks)]


@plates.pictures("Figure 13", INPUTS)
def relu_answers() -> Panels:
    """Fully connected networks with activations, up to nine hidden layers."""
    return [answers("Answers of ReLU networks", hidden(DESK_FCN, (1, 3, 9)))]


def fcn_maps_of(what: str, family: str) -> Panels:
    """Similarities, or errors, of fully connected networks by depth."""
    return similarity_maps(by_depth(replace(DESK_FCN, family=family), FCN_DEPTHS), what)


@plates.pictures("Figure 14")
def fcn_maps() -> Panels:
    """Linear networks and ReLU networks by depth, and by the angle of the test image to the training image."""
    families = {"Linear networks": "linear_fcn", "ReLU": "fcn"}
    return [
        replace(panel, title=f"{words}: {panel.title}")
        for words, family in families.items()
        for panel in fcn_maps_of("", family)
    ]


# ---------------------------------------------------------------- single layers


@plates.pictures("Figure 15")
def layers_by_depth() -> Panels:
    """What the channels of each layer share, first layer at the left after the input.

    An untrained network of 20 layers blurs its input away; trained ones keep or rebuild a digit.
    """
    done = networks(by_depth(DESK, (7, 14, 20)))
    image = DEEP.images.unseen[0]
    rows = {"untrained, 20": shared_images(DEEP.build(), image)}
    rows |= {f"trained, {name}": shared_images(net.model, image) for name, net in done.items()}
    return [picture_rows(rows, title="Layer by layer, on an unseen digit")]


def _layers(depth: int) -> Panels:
    (network,) = networks(by_depth(DESK, (depth,))).values()
    images = network.task.images
    shown = {"The training digit": images.training[0], "An unseen digit": images.unseen[0]}
    return [layers_of(network, image, title=name) for name, image in shown.items()]


LAYERS = "what its channels share, the one most like the input, and channel 0; below, what the untrained network shares"


@plates.pictures("Figure 16", LAYERS)
def layers_of_7() -> Panels:
    """The input, then every layer of a network of 7 layers."""
    return _layers(7)


@plates.pictures("Figure 17", LAYERS)
def layers_of_14() -> Panels:
    """The input, then every layer of a network of 14 layers."""
    return _layers(14)


@plates.pictures("Figure 18", LAYERS)
def layers_of_20() -> Panels:
    """The input, then every layer of a network of 20 layers."""
    return _layers(20)


@plates.pictures("Figure 19")
def movement() -> Panels:
    """How far the weights of every layer moved in training, relative to their initial size, by depth."""
    families = {
        "Convolutional networks": by_depth(DESK, (5, 10, 20)),
        "Linear networks": by_depth(replace(DESK_FCN, family="linear_fcn"), (4, 6, 10)),
        "ReLU networks": by_depth(DESK_FCN, (4, 6, 12)),
    }
    return [_movement(tasks, name) for name, tasks in families.items()]


def _movement(tasks: Tasks, title: str) -> Figure:
    rows = {name: changes(net) for name, net in networks(tasks).items()}
    longest = max(len(row) for row in rows.values())
    series = [
        Curve(
            name=name,
            values=F.pad(row, (0, longest - len(row)), value=float("nan"))[None],
            shade=index / (len(rows) - 1),
        )
        for index, (name, row) in enumerate(rows.items())
    ]
    at = [float(layer) for layer in range(1, longest + 1)]
    alt = f"{title}: change of the weights against layer"
    return curves(series, x="layer", y="change / initial size", at=at, title=title, alt=alt, log_y=True)


@plates.pictures("Figure 20")
def more_sizes() -> Panels:
    """The network of Figure 6 on sizes in between."""
    return _sizes(FIVE_28, (14, 21, 42, 56), 5)


@plates.pictures("Figure 21")
def layers_at_sizes() -> Panels:
    """What the channels of each layer of a 20-layer network share, on images larger and smaller than its digit."""
    (network,) = networks({"20 layers": DEEP}).values()
    image, models = network.task.images.unseen[:1], {"trained": network.model, "untrained": DEEP.build()}
    return [
        picture_rows(
            {name: shared_images(model, resized(image, side)[0]) for name, model in models.items()},
            title=f"{side} x {side} pixels",
        )
        for side in (10, 14, 20)
    ]


def _top(title: str, tasks: Tasks, counts: Sequence[int]) -> Panels:
    done = networks(tasks)
    last = list(done.values())[-1].task
    shown, training = last.images.shown, last.images.training[:1]
    rows = {"input": shown}
    for name, net in done.items():
        for count in counts:
            label = name if len(counts) == 1 else f"top {count}"
            rows[label] = upper_outputs(net.model, shown, layers=count)
    rows["untrained"] = upper_outputs(last.build(), shown, layers=counts[-1])
    return [picture_rows({name: in_range_of(row, training) for name, row in rows.items()}, title=title)]


@plates.pictures("Figure 22")
def last_layer() -> Panels:
    """The last layer alone, cut from networks of each depth and fed with the image itself."""
    return _top("The last layer alone", by_depth(DESK, DEPTHS[1:]), (1,))


@plates.pictures("Figure 23")
def last_two_layers() -> Panels:
    """The last two layers alone, cut from networks of each depth and fed with the image itself."""
    return _top("The last two layers alone", by_depth(DESK, DEPTHS[1:]), (2,))


@plates.pictures("Figure 24")
def upper_layers() -> Panels:
    """The top 3, 6 and 10 layers of a 20-layer network, fed with the image itself."""
    return _top("Top layers of 20", {"20 layers": DEEP}, (3, 6, 10))
