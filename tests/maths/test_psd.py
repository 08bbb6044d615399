import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight._internal.errors import InvalidInput
from firstlight.maths.psd import psd_sqrt


@st.composite
def psd_matrices(draw):
    d, rank = draw(st.integers(1, 8)), draw(st.integers(0, 8))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    factor = torch.randn(d, rank, generator=generator, dtype=torch.float64)
    return factor @ factor.T


@given(psd_matrices())
def test_the_root_squares_to_the_matrix_and_is_psd(matrix):
    root = psd_sqrt(matrix)
    torch.testing.assert_close(root @ root, matrix, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(root, root.T, rtol=0, atol=1e-12)
    assert torch.linalg.eigvalsh(root).min() > -1e-12


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (torch.tensor([[1.0, float("nan")], [0.0, 1.0]]), "NaN"),
        (torch.tensor([[1.0, 2.0], [0.0, 1.0]]), "symmetric"),
        (torch.tensor([[1.0, 0.0], [0.0, -1.0]]), "negative eigenvalue"),
    ],
)
def test_matrices_without_a_root_are_refused(matrix, message):
    with pytest.raises(InvalidInput, match=message):
        psd_sqrt(matrix)
