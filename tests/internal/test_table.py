"""Results as data frames: which rows and columns a result has, and that nothing is imported for those who want none."""

import os
import subprocess
import sys
from dataclasses import dataclass

import pandas as pd
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight.maths.correlation import Interval
from limits import COMMAND


@dataclass(frozen=True, kw_only=True)
class Measured(Result):
    """One thing with a null and an interval."""

    name: str
    size: tuple[int, ...]
    effect: Interval
    null: Float[Tensor, " draws"]
    weights: Float[Tensor, "a b"]


@dataclass(frozen=True, kw_only=True)
class Several(Result):
    things: tuple[Measured, ...]
    title: str


@dataclass(frozen=True, kw_only=True)
class Named(Result):
    by_name: dict[str, Measured]


@dataclass(frozen=True, kw_only=True)
class Along(Result):
    files: tuple[str, ...]
    amplitude: Float[Tensor, " m"]
    nulls: Float[Tensor, "draws m"]
    turned: Float[Tensor, "m draws"]
    basis: Float[Tensor, "d m"]
    optional: Float[Tensor, " m"] | None


@dataclass(frozen=True, kw_only=True)
class Ambiguous(Result):
    one: Float[Tensor, " m"]
    two: Float[Tensor, " k"]


def thing(name="a", value=0.5):
    interval = Interval(value=value, low=value - 0.1, high=value + 0.1, level=0.95)
    return Measured(
        name=name, size=(2, 3), effect=interval, null=torch.tensor([1.0, 3.0]), weights=torch.zeros(2, 2)
    )


def test_results_inside_a_result_are_rows_with_their_intervals_and_nulls():
    frame = Several(things=(thing(), thing("b", 0.7)), title="t").to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.name) == ["a", "b"]
    assert list(frame.effect) == [0.5, 0.7]
    assert frame.effect_low[1] == pytest.approx(0.6)
    row = frame.iloc[0]
    assert (row.null_mean, row.null_low, row.null_high, row["size"]) == (2.0, 1.0, 3.0, (2, 3))
    assert not {"weights", "title"} & set(frame)


def test_results_by_name_keep_their_names():
    frame = Named(by_name={"first": thing(), "second": thing()}).to_frame()
    assert list(frame.name) == ["a", "a"]  # a result's own name wins
    assert len(frame) == 2


def test_a_result_along_one_axis_has_a_row_for_each_index():
    nulls = torch.tensor([[0.0, 1.0, 2.0], [4.0, 3.0, 2.0]])
    result = Along(
        files=("x", "y", "z"), amplitude=torch.arange(3.0), nulls=nulls, turned=nulls.T.contiguous(),
        basis=torch.zeros(5, 3), optional=None,
    )  # fmt: skip
    frame = result.to_frame()
    assert list(frame) == [
        "component", "files", "amplitude", "nulls_mean", "nulls_low", "nulls_high", "turned_mean", "turned_low",
        "turned_high",
    ]  # fmt: skip
    assert frame.component.tolist() == [0, 1, 2]
    assert frame.files.tolist() == ["x", "y", "z"]
    assert frame.nulls_low.tolist() == frame.turned_low.tolist() == [0.0, 1.0, 2.0]
    assert frame.nulls_high.tolist() == [4.0, 3.0, 2.0]


def test_a_result_of_single_numbers_is_one_row_and_an_empty_null_has_no_number():
    frame = thing().to_frame()
    assert frame.shape[0] == 1
    empty = Measured(
        name="a", size=(), effect=thing().effect, null=torch.zeros(0), weights=torch.zeros(1, 1)
    ).to_frame()
    assert empty[["null_mean", "null_low", "null_high"]].isna().all().all()


def test_a_result_with_several_tables_says_so():
    with pytest.raises(InvalidInput, match=r"Ambiguous is no single table\. `to_dict\(\)`"):
        Ambiguous(one=torch.zeros(2), two=torch.zeros(2)).to_frame()


# what a user without the extras has: to import them fails, whoever tries
WITHOUT = """
import sys
sys.modules |= dict.fromkeys(("pandas", "matplotlib", "huggingface_hub"))
"""
USED = """
import firstlight
profile = firstlight.profile(firstlight.build("small", classes=8, width=0.25), firstlight.load("photos", n=16))
print(profile)
figure = profile.figure()
assert figure._repr_html_().startswith("<svg")
assert figure.save(sys.argv[1] + "/profile.svg").stat().st_size > 1000
for use in (profile.to_frame, figure.to_matplotlib, lambda: figure.save(sys.argv[1] + "/profile.pdf")):
    try:
        use()
    except ValueError as error:
        print("REFUSED", error)
"""
LOADED = """
print("LOADED", *(name for name in ("pandas", "matplotlib", "huggingface_hub") if name in sys.modules))
"""


def run(code, folder):
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        env=dict(os.environ), capture_output=True, text=True, timeout=COMMAND, check=True,
    )  # fmt: skip
    return done.stdout


def test_without_pandas_and_matplotlib_everything_else_works_and_the_message_names_the_extra(tmp_path):
    said = run(WITHOUT + USED, tmp_path)
    refused = [line for line in said.splitlines() if line.startswith("REFUSED")]
    assert [line.split(" needs ")[1].split(",")[0] for line in refused] == [
        "pandas",
        "matplotlib",
        "matplotlib",
    ]
    assert all(line.endswith("Run: pip install 'firstlight[plot]'") for line in refused)
    assert not (tmp_path / "profile.pdf").exists()


def test_nothing_imports_pandas_or_matplotlib_before_they_are_asked_for(tmp_path):
    used = USED.partition("for use in")[0]
    assert run("import sys\n" + used + LOADED, tmp_path).splitlines()[-1] == "LOADED"
