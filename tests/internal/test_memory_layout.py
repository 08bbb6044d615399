"""Whatever may be stored lies in memory as a new tensor does, so that a stored copy repeats every bit."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight._internal.memory_layout import ALIGNMENT, as_stored, canonical, is_canonical
from firstlight._internal.result import Result
from firstlight._internal.store import RunSpec, Store, decode, encode

SPEC = RunSpec(what="test", config={})


@dataclass(frozen=True, kw_only=True)
class Holder(Result):
    value: Any


def address(tensor):
    return tensor.data_ptr() % ALIGNMENT


@st.composite
def laid_out(draw):
    """Tensors of any layout that views, NumPy and files can bring about."""
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    dtype = draw(st.sampled_from([torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool]))
    tensor = torch.randint(0, 2, [size + 3 for size in sizes]).to(dtype)
    tensor = tensor.permute(draw(st.permutations(range(tensor.ndim))))
    for axis in range(tensor.ndim):
        start, step = draw(st.integers(0, 3)), draw(st.integers(1, 3))
        tensor = tensor[(slice(None),) * axis + (slice(start, None, step),)]
    if draw(st.booleans()):
        tensor = tensor[None].expand(draw(st.integers(1, 3)), *tensor.shape)
    if draw(st.booleans()):
        tensor = torch.from_numpy(np.array(tensor.numpy(), order=draw(st.sampled_from("CF"))))
    return tensor


@given(laid_out())
def test_a_canonical_tensor_has_the_values_of_the_given_one_and_the_layout_of_a_new_one(tensor):
    copy = canonical(tensor)
    assert torch.equal(copy, tensor)
    assert copy.stride() == torch.empty(tensor.shape).stride()
    assert address(copy) == 0
    assert is_canonical(copy)
    assert canonical(copy) is copy


@given(laid_out())
def test_a_result_has_the_same_layout_before_it_is_stored_and_after(tensor):
    result = Holder(value={"deep": (tensor, [tensor, 1.5])})
    before = result.value["deep"]
    after = decode(*encode(result.value))["deep"]
    for kept, read in ((before[0], after[0]), (before[1][0], after[1][0])):
        assert torch.equal(kept, tensor)
        assert torch.equal(read, tensor)
        assert kept.stride() == read.stride()
        assert address(kept) == address(read) == 0


def test_arrays_read_from_a_file_start_where_new_tensors_do(tmp_path):
    """Lengths that are no multiple of a cache line put the next array at an odd place of the file."""
    arrays = {f"array {n}": torch.arange(float(n)) for n in range(1, 20)}
    run = Store(tmp_path).fetch_or_run(SPEC, lambda scratch: arrays)
    for name, array in arrays.items():
        assert torch.equal(run.result[name], array)
        assert address(run.result[name]) == 0


def test_containers_in_which_nothing_changes_are_left_alone():
    value = {"a": (torch.ones(3), [1, "two"]), "b": torch.zeros(2, 2)}
    assert as_stored(value) is value
    assert Holder(value=value).value is value


def test_a_memory_map_is_not_read_into_memory(tmp_path):
    mapped = np.memmap(tmp_path / "numbers", dtype=np.float64, mode="w+", shape=(64, 64))
    tensor = torch.from_numpy(mapped)
    assert Holder(value=tensor).value is tensor


def test_sparse_tensors_and_gradients_pass_through():
    sparse = torch.eye(3).to_sparse()
    assert canonical(sparse) is sparse
    weight = torch.rand(2, 3, requires_grad=True)
    canonical(weight.T).sum().backward()
    assert torch.equal(weight.grad, torch.ones(2, 3))


@pytest.mark.parametrize("columns", [1, 3, 17])
def test_a_product_with_a_stored_matrix_repeats_every_bit(columns, tmp_path):
    """The trap itself: a transposed matrix, and one vector of it, in products before and after storing."""
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(columns, 133, generator=generator, dtype=torch.float64).T
    rows = torch.randn(37, 133, generator=generator, dtype=torch.float64)
    fitted = Holder(value=(matrix, matrix[:, 0], matrix[1:]))
    stored = Store(tmp_path).fetch_or_run(SPEC, lambda scratch: {"all": fitted.value}).result["all"]
    for before, after, left in zip(fitted.value, stored, (rows, rows, rows[:, 1:]), strict=True):
        assert torch.equal(left @ before, left @ after)
