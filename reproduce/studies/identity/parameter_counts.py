"""Study of the table of parameter counts."""

from dataclasses import dataclass
from itertools import product
from typing import Any

from firstlight.models.building import build, parameter_count
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by

GREY = (1, 28, 28)

# family, depth, width, kernel, count
PUBLISHED = (
    ("fcn", 10, 2048, 0, 36_765_696),
    ("cnn", 20, 128, 5, 7_379_200),
    ("cnn", 20, 1024, 7, 924_944_384),
    ("cnn", 5, 128, 57, 160_526_592),
)
TEXT = (("fcn", 2, 2048, 0, 3_211_264), ("fcn", 4, 784, 0, 2_458_624))
LAYER = 26_214_400  # one 5x5 layer of 1024 channels

# every combination of the factors that the paper varies; its table lies in it
FCN_GRID = tuple(product(("fcn",), (1, 2, 4, 6, 10, 12), (784, 2048, 16_384), (0,)))
CNN_GRID = tuple(
    product(("cnn",), (1, 3, *range(5, 18), 19, 20, 24), (3, 128, 1024), (3, 5, 7, 9, 13, 17, 25, 29, 57))
)


def formula(family: str, depth: int, width: int, kernel: int, *, inputs: int = 784, channels: int = 1) -> int:
    """Count without biases, as the table counts."""
    ends, square = (inputs, 1) if family == "fcn" else (channels, kernel**2)
    return square * (ends**2 if depth == 1 else 2 * ends * width + (depth - 2) * width**2)


def built(family: str, depth: int, width: int, kernel: int) -> int:
    """Count of the network itself, without allocating it."""
    options: dict[str, Any] = {"units": width} if family == "fcn" else {"channels": width, "kernel": kernel}
    model = build(f"identity_{family}", shape=GREY, device="meta", depth=depth, bias=False, **options)
    return parameter_count(model)


@study("id.params.table1", "id.params.text")
class ParameterCounts(Study):
    """Do the networks have the published numbers of parameters?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Nothing to choose."""

        seed: int = 0

    scales = {"smoke": Config(), "desk": Config()}
    unit = "entries that differ"

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Count."""
        grid = (*FCN_GRID, *CNN_GRID, *(row[:-1] for row in PUBLISHED))
        layer = build("identity_cnn", shape=GREY, device="meta", depth=3, channels=1024, bias=False)
        middle = dict(layer.named_parameters())["conv2.weight"].numel()
        return {
            "printed entries that differ": sum(built(*row[:-1]) != row[-1] for row in PUBLISHED),
            "networks that differ from the formula": sum(formula(*entry) != built(*entry) for entry in grid),
            "networks compared": len(grid),
            "deviation from quoted sizes": by(
                ("one hidden layer of 2048", "three hidden layers of 784", "5 x 5 layer of 1024 channels"),
                [*(abs(built(*row[:-1]) - row[-1]) for row in TEXT), abs(middle - LAYER)],
            ),
        }
