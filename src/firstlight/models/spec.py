"""An architecture with all its settings but the seed: what an ensemble shares."""

from dataclasses import dataclass, field
from typing import Any

from torch import nn

from firstlight.models.building import build


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
        return {
            "name": self.name,
            "classes": self.classes,
            "shape": self.shape,
            "initialiser": self.initialiser,
            "initialiser_options": self.initialiser_options,
            "first_scale": self.first_scale,
            "options": self.options,
        }

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
