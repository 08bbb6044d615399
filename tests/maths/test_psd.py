import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight._internal.errors import InvalidInput
from firstlight.maths.psd import psd_pinv, psd_sqrt


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


@given(psd_matrices())
def test_the_pseudo_inverse_fulfils_penroses_equations(matrix):
    inverse = psd_pinv(matrix, rtol=1e-10)
    scale = max(1.0, float(matrix.abs().max() * inverse.abs().max()))
    product = matrix @ inverse
    torch.testing.assert_close(product @ matrix, matrix, rtol=0, atol=1e-11 * scale)
    torch.testing.assert_close(product, product.T, rtol=0, atol=1e-11 * scale)
    torch.testing.assert_close(
        inverse @ product, inverse, rtol=0, atol=1e-11 * scale * max(1.0, float(inverse.abs().max()))
    )


def test_the_root_of_the_inverse_is_the_whitener():
    factor = torch.randn(4, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    matrix = factor @ factor.T
    whitener = psd_sqrt(psd_pinv(matrix))
    torch.testing.assert_close(
        whitener @ matrix @ whitener, torch.eye(4, dtype=torch.float64), rtol=0, atol=1e-11
    )


def test_directions_below_the_cutoff_map_to_zero():
    matrix = torch.diag(torch.tensor([1.0, 1e-3, 1e-6], dtype=torch.float64))
    assert torch.equal(psd_pinv(matrix, rtol=1e-4).diagonal() > 0, torch.tensor([True, True, False]))
    assert float(psd_sqrt(matrix, rtol=1e-4)[2, 2]) == 0


@pytest.mark.parametrize("function", [psd_sqrt, psd_pinv])
@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (torch.tensor([[1.0, float("nan")], [0.0, 1.0]]), "NaN"),
        (torch.tensor([[1.0, 2.0], [0.0, 1.0]]), "symmetric"),
        (torch.tensor([[1.0, 0.0], [0.0, -1.0]]), "negative eigenvalue"),
    ],
)
def test_matrices_without_a_root_are_refused(function, matrix, message):
    with pytest.raises(InvalidInput, match=message):
        function(matrix)
