"""Results in notebooks: a table for every type, in which nothing runs."""

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from firstlight._internal.result import Result, brief

HOSTILE = "<script>alert(1)</script>&'"


@dataclass(frozen=True, kw_only=True)
class Inner(Result):
    word: str
    values: Any


@dataclass(frozen=True, kw_only=True)
class Outer(Result):
    one: Inner
    many: tuple[Inner, ...]
    named: dict[str, Any]
    numbers: dict[str, float] = field(default_factory=dict)


def test_a_result_is_a_table_with_its_parts_folded_inside_and_every_word_escaped():
    inner = Inner(word=HOSTILE, values=torch.arange(12.0))
    html = Outer(one=inner, many=(inner, inner), named={HOSTILE: HOSTILE})._repr_html_()
    assert "<script" not in html
    assert html.count("&lt;script&gt;alert(1)") == 5
    assert html.count("<details>") == 5
    assert "(12,) from 0 to 11" in html
    assert html.count("<table>") == html.count("</table>")


@pytest.mark.parametrize(
    "value",
    [torch.zeros(0), torch.ones(9, dtype=torch.bool), torch.arange(20), torch.full((9,), float("nan")),
     torch.ones(9, dtype=torch.complex64), torch.tensor(2.0), None, "x" * 500, 1 / 3],
    ids=str,
)  # fmt: skip
def test_any_value_has_a_short_text(value):
    assert len(brief(value)) <= 120
    assert Inner(word="w", values=value)._repr_html_().startswith("<table>")


def test_endless_nesting_ends():
    inner: Any = Inner(word="core", values=1.0)
    for _ in range(30):
        inner = Inner(word="shell", values=inner)
    assert inner._repr_html_().count("<details>") == 4
    many = Inner(word="many", values={str(i): i for i in range(1000)})
    assert many._repr_html_().count("<tr>") < 50


def test_a_small_result_prints_as_one_line_and_a_large_one_as_a_small_table():
    assert repr(Inner(word="w", values=0.25)) == "Inner(word=w, values=0.25)"
    assert repr(Inner(word="w", values=torch.zeros(9))) == "Inner(word=w, values=(9,) from 0 to 0)"
    inner = Inner(word="two\nlines " * 20, values=torch.rand(100, 100))
    said = str(Outer(one=inner, many=(inner,) * 50, named={"weights": torch.rand(50, 50)})).splitlines()
    assert said[0] == "Outer"
    assert len(said) == 5
    assert max(map(len, said)) <= 110
    assert "tensor(" not in "".join(said)
    assert len(str(inner).splitlines()) == 3


def test_every_result_of_the_library_prints_without_its_numbers():
    import firstlight.questions.tour.run  # noqa: F401

    assert len(Result.kinds()) > 50
    assert {kind.__repr__.__module__ for kind in Result.kinds().values()} <= {
        "firstlight._internal.result", "firstlight.questions.inspect.result"
    }  # fmt: skip
