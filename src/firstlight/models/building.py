"""The registry of architectures, and the one function that builds them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import torch
from torch import nn

from firstlight._internal.errors import InvalidInput, unknown_name
from firstlight._internal.registry import Registry
from firstlight._internal.seeds import global_seed
from firstlight.models.initialisers import initialise

Shape = tuple[int, int, int]
Builder = TypeVar("Builder", bound=Callable[..., nn.Module])


@dataclass(frozen=True)
class Architecture:
    """A builder and the arguments that tell this name from its relatives."""

    builder: Callable[..., nn.Module]
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """Names and defaults of the options besides classes and image shape."""
        given = {"classes", "shape", *self.fixed}
        parameters = inspect.signature(self.builder).parameters
        return {name: p.default for name, p in parameters.items() if name not in given}


FAMILIES = (
    "alexnet", "cnfa", "fully_connected", "image_to_image", "lenet", "resnet", "small_cnn", "vgg",
)  # fmt: skip
"""Files of this folder that register architectures."""

MODELS: Registry[Architecture] = Registry("model", package="firstlight.models", modules=FAMILIES)


def register_model(name: str, **fixed: Any) -> Callable[[Builder], Builder]:
    """Return a decorator that registers a builder under `name`, with some of its arguments fixed.

    A builder takes `classes`, `shape` and its own options, all by keyword, and draws its weights from
    torch's global generator, which :func:`build` seeds.
    """

    def decorate(builder: Builder) -> Builder:
        MODELS.add(name, Architecture(builder, fixed))
        return builder

    return decorate


def available() -> tuple[str, ...]:
    """Names of all architectures, sorted."""
    return tuple(MODELS)


def options(name: str) -> dict[str, Any]:
    """Options of an architecture with their defaults.

    Examples
    --------
    >>> from firstlight import models
    >>> models.options("lenet")
    {'width': 1, 'padding': None}
    """
    return MODELS[name].options


def build(
    name: str,
    *,
    classes: int = 10,
    shape: Sequence[int] = (3, 32, 32),
    seed: int = 0,
    initialiser: str = "default",
    initialiser_options: Mapping[str, Any] | None = None,
    device: str | torch.device | None = None,
    **options: Any,
) -> nn.Module:
    """Build an architecture by name, with weights that depend on nothing but the arguments.

    Parameters
    ----------
    name : str
        One of :func:`available`.
    classes : int, default 10
        Number of outputs; 1 gives a single score. Networks that return an image ignore it.
    shape : sequence of int, default (3, 32, 32)
        Channels, height and width of an image.
    seed : int, default 0
        Decides the weights: the same seed gives the same bits. The caller's random state is untouched.
    initialiser : str, default 'default'
        Name of an initialiser; "default" is PyTorch's own.
    initialiser_options : mapping of str to object, optional
        Options of the initialiser, such as ``{"std": 1e-2}``.
    device : str or torch.device, optional
        Device of the weights. They are drawn on the CPU, so a seed means the same everywhere; "meta"
        allocates and draws nothing, which is enough to count parameters.
    options : object
        Options of the architecture, see :func:`options`.

    Notes
    -----
    Two architectures whose first layers have equal shapes get equal first layers from one seed. Where
    networks of different architecture are compared, give them different seeds, or they agree in part
    because they started alike.

    Examples
    --------
    >>> from firstlight import models
    >>> models.parameter_count(models.build("lenet", shape=(1, 28, 28)))
    61706
    """
    architecture = MODELS[name]
    for option in options:
        if option not in architecture.options:
            known = ", ".join(architecture.options) or "none"
            raise unknown_name(f"option of {name!r}", option, architecture.options, hint=f"Known: {known}.")
    checked = _checked_shape(shape)
    if classes < 1:
        raise InvalidInput(f"`classes` must be at least 1; got classes={classes}.")
    target = torch.device(device) if device is not None else torch.device("cpu")
    is_meta = target.type == "meta"
    with global_seed("weights", seed), torch.device("meta" if is_meta else "cpu"):
        model = architecture.builder(classes=classes, shape=checked, **architecture.fixed, **options)
    if is_meta:
        return model
    if initialiser != "default" or initialiser_options:
        initialise(model, initialiser, seed=seed, **(initialiser_options or {}))
    return model.to(target)


def parameter_count(model: nn.Module) -> int:
    """Number of weights that training can change; buffers and fixed read-outs do not count."""
    return sum(p.numel() for p in model.parameters())


def scaled(n: int, width: float | int) -> int:
    """Return `n` channels times a width factor, rounded, at least one.

    Examples
    --------
    >>> scaled(6, 0.25), scaled(64, 2)
    (2, 128)
    """
    if not 0 < width < float("inf"):
        raise InvalidInput(f"`width` must be a positive factor; got width={width}.")
    return max(1, round(n * width))


def require_at_least(minimum: int, **values: int) -> None:
    """Refuse an option below its smallest meaningful value, naming it."""
    for name, value in values.items():
        if value < minimum:
            raise InvalidInput(f"`{name}` must be at least {minimum}; got {name}={value}.")


def require_side(shape: Shape, minimum: int, *, name: str) -> None:
    """Refuse images that the poolings of an architecture would shrink to nothing."""
    if min(shape[1:]) < minimum:
        raise InvalidInput(
            f"`shape` must be at least {minimum} x {minimum} pixels for {name}; got "
            f"{shape[1]} x {shape[2]}. Resize the images or choose a network with fewer poolings."
        )


def require_odd(**values: int) -> None:
    """Refuse even kernels where the padding must keep the image size."""
    for name, value in values.items():
        if value < 1 or value % 2 == 0:
            raise InvalidInput(
                f"`{name}` must be odd and positive, so that the image keeps its size; got {name}={value}."
            )


def _checked_shape(shape: Sequence[int]) -> Shape:
    if len(shape) != 3 or any(side < 1 for side in shape):
        raise InvalidInput(
            f"`shape` must be (channels, height, width), all positive; got shape={tuple(shape)}."
        )
    c, h, w = (int(side) for side in shape)
    return c, h, w


def dropout_slot(probability: float) -> nn.Module:
    """Dropout, or a placeholder that keeps the numbering of the layers around it."""
    if not 0 <= probability < 1:
        raise InvalidInput(f"`dropout` must lie in [0, 1); got {probability}.")
    return nn.Dropout(probability) if probability else nn.Identity()


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """Calls :func:`firstlight.models.build` with everything but the seed fixed.

    Parameters
    ----------
    name : str
        One of :func:`firstlight.models.available`.
    classes, shape : int or tuple of 3 int
        Number of outputs, and shape of an image.
    initialiser, initialiser_options : str or dict of str to object
        Name of the initialiser, and its options.
    first_scale : float, default 1.0
        Factor on the initial weights of the first convolution; small values let it move far in few steps,
        which decides whether profiles agree.
    options : dict of str to object
        Options of the architecture.

    Examples
    --------
    >>> spec = ModelSpec(name="lenet", shape=(1, 28, 28))
    >>> spec(seed=3).training
    True
    """

    name: str
    classes: int = 10
    shape: tuple[int, int, int] = (3, 32, 32)
    initialiser: str = "default"
    initialiser_options: dict[str, Any] = field(default_factory=dict)
    first_scale: float = 1.0
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, Any]:
        """All settings as plain values, for the store."""
        return asdict(self)

    def __call__(self, seed: int) -> nn.Module:
        """Build the network with the weights of this seed."""
        model = build(
            self.name,
            classes=self.classes,
            shape=self.shape,
            seed=seed,
            initialiser=self.initialiser,
            initialiser_options=self.initialiser_options,
            **self.options,
        )
        if self.first_scale != 1.0:
            first = next(m for m in model.modules() if isinstance(m, nn.Conv2d))
            first.weight.data.mul_(self.first_scale)
        return model
