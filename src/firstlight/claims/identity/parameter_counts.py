"""Study of the table of parameter counts."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Curve, Figure, curves
from firstlight.models import build, parameter_count

GREY = (1, 28, 28)

# family, depth, width, kernel, count: every entry of the table that is printed in full in the sources
PUBLISHED = (
    ("fcn", 10, 2048, 0, 36_765_696),
    ("cnn", 20, 128, 5, 7_379_200),
    ("cnn", 20, 1024, 7, 924_944_384),
    ("cnn", 5, 128, 57, 160_526_592),
)
TEXT = (("fcn", 2, 2048, 0, 3_211_264), ("fcn", 4, 784, 0, 2_458_624))
LAYER = 26_214_400  # one 5x5 layer of 1024 channels

# depths, widths and filter sizes that the paper varies, for which formula and built network must agree
FCN_DEPTHS, FCN_WIDTHS = (1, 2, 4, 6, 10, 12), (784, 2048, 16_384)
CNN_DEPTHS, CNN_WIDTHS = (1, 3, *range(5, 18), 19, 20, 24), (3, 128, 1024)
KERNELS = (5, 7, 9, 13, 17, 25, 29, 57)


def formula(family: str, depth: int, width: int, kernel: int, *, inputs: int = 784, channels: int = 1) -> int:
    """Count without biases, as the table counts."""
    ends, square = (inputs, 1) if family == "fcn" else (channels, kernel**2)
    return square * (ends**2 if depth == 1 else 2 * ends * width + (depth - 2) * width**2)


def built(family: str, depth: int, width: int, kernel: int) -> int:
    """Count of the network itself, without allocating it."""
    options: dict[str, Any] = {"units": width} if family == "fcn" else {"channels": width, "kernel": kernel}
    model = build(f"identity_{family}", shape=GREY, device="meta", depth=depth, bias=False, **options)
    return parameter_count(model)


@dataclass(frozen=True, kw_only=True)
class CountResult(Result):
    """Published, computed and built counts."""

    published: Int[Tensor, " n"]
    counted: Int[Tensor, " n"]
    disagreements: int
    compared: int
    text: Int[Tensor, " m"]
    text_counted: Int[Tensor, " m"]


@study("id.params.table1", "id.params.text")
class ParameterCounts:
    """Do the networks have the published numbers of parameters?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        seed: int = 0

    scales = {"smoke": Config(), "desk": Config(), "paper": Config()}

    @staticmethod
    def run(cfg: Config) -> CountResult:
        """Count."""
        grid = [("fcn", d, w, 0) for d in FCN_DEPTHS for w in FCN_WIDTHS]
        grid += [("cnn", d, w, 5) for d in CNN_DEPTHS for w in CNN_WIDTHS]
        grid += [("cnn", d, 128, k) for d in (5, 20) for k in KERNELS]
        layer = build("identity_cnn", shape=GREY, device="meta", depth=3, channels=1024, bias=False)
        return CountResult(
            published=torch.tensor([row[-1] for row in PUBLISHED]),
            counted=torch.tensor([built(*row[:-1]) for row in PUBLISHED]),
            disagreements=sum(
                formula(*entry) != built(*entry) for entry in (*grid, *(r[:-1] for r in PUBLISHED))
            ),
            compared=len(grid) + len(PUBLISHED),
            text=torch.tensor([*(row[-1] for row in TEXT), LAYER]),
            text_counted=torch.tensor(
                [*(built(*row[:-1]) for row in TEXT), dict(layer.named_parameters())["conv2.weight"].numel()]
            ),
        )

    @staticmethod
    def figure(result: CountResult) -> Figure:
        """Published against counted."""
        return curves(
            [
                Curve(name="published", values=result.published.double()[None], role="theory"),
                Curve(name="counted", values=result.counted.double()[None]),
            ],
            title="Parameter counts",
            alt="Two curves that coincide",
            x="entry",
            y="parameters",
            log_y=True,
        )

    rules = {
        "id.params.table1": Rule(
            measured=lambda r: {
                "published entries that differ": float((r.published != r.counted).sum()),
                "formula against network, entries that differ": float(r.disagreements),
                "entries compared": float(r.compared),
            },
            reproduced=lambda r: bool((r.published == r.counted).all()) and r.disagreements == 0,
            note="four entries of the table are known in full; the rest is the formula against built networks",
        ),
        "id.params.text": Rule(
            measured=lambda r: {f"count {i + 1}": float(v) for i, v in enumerate(r.text_counted)},
            reproduced=lambda r: bool((r.text == r.text_counted).all()),
        ),
    }
