"""The tests' own type checker refuses what beartype refuses, also in functions that are defined again and again."""

import pytest
import torch
from jaxtyping import Float, TypeCheckError, jaxtyped
from torch import Tensor

from checked_types import checked


@pytest.mark.long
def test_firstlight_runs_under_the_checker():
    from firstlight.maths import psd_sqrt

    with pytest.raises(TypeCheckError, match="psd_sqrt"):
        psd_sqrt("no matrix")


def test_shapes_are_compared_in_every_definition_of_an_inner_function():
    def product():
        @jaxtyped(typechecker=checked)
        def inner(a: Float[Tensor, "n k"], b: Float[Tensor, "k m"]) -> Float[Tensor, "n m"]:
            return a @ b if len(a) > 1 else a

        return inner

    for _ in range(3):
        assert product()(torch.ones(2, 3), torch.ones(3, 4)).shape == (2, 4)
        with pytest.raises(TypeCheckError, match="parameters"):
            product()(torch.ones(2, 3), torch.ones(4, 4))
        with pytest.raises(TypeCheckError, match="return"):
            product()(torch.ones(1, 3), torch.ones(3, 4))


def test_equal_signatures_share_a_checker_and_others_do_not():
    def define(kind):
        def inner(x: kind) -> kind:
            return x

        return inner

    assert checked(define(int)) is checked(define(int))
    assert checked(define(int)) is not checked(define(str))
    assert checked(define(str))("a") == "a"
    assert checked(define(float))(1) == 1  # an int is a float, as for mypy
    with pytest.raises(Exception, match="violates type hint"):
        checked(define(int))("a")
