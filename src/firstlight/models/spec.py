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
    name : one of :func:`firstlight.models.available`.
    classes, shape : outputs and image shape.
    init, init_options : the initialiser.
    first_scale : factor on the initial weights of the first convolution; small values let it move far
        in few steps, which decides whether profiles agree.
    options : of the architecture.

    Examples
    --------
    >>> spec = ModelSpec(name="lenet", shape=(1, 28, 28))
    >>> spec(seed=3).training
    True
    """

    name: str
    classes: int = 10
    shape: tuple[int, int, int] = (3, 32, 32)
    init: str = "default"
    init_options: dict[str, Any] = field(default_factory=dict)
    first_scale: float = 1.0
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, Any]:
        """All settings as plain values, for the store."""
        return {
            "name": self.name,
            "classes": self.classes,
            "shape": self.shape,
            "init": self.init,
            "init_options": self.init_options,
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
            init=self.init,
            init_options=self.init_options,
            **self.options,
        )
        if self.first_scale != 1.0:
            first = next(m for m in model.modules() if isinstance(m, nn.Conv2d))
            first.weight.data.mul_(self.first_scale)
        return model
