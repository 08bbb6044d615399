"""Two ways to hold the gradients of a layer for many images, and the inner products between them."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Rows:
    """Gradients written out: one row per image and output."""

    values: Float[Tensor, "n o m"]

    def __getitem__(self, chosen: slice) -> "Rows":
        return Rows(self.values[chosen])

    def add_product(self, other: "Rows", out: Float[Tensor, "a b"], *, is_trace: bool) -> None:
        """Add the inner products of all rows to `out`, outputs as inner axis or summed over."""
        start = 1 if is_trace else 0
        # "trace" sums over outputs: they join the axis that is summed
        left, right = (rows.values.flatten(start, start + 1) for rows in (self, other))
        out.addmm_(left, right.T)


@dataclass(frozen=True, eq=False)
class Factors:
    """Gradients as sums over positions p of products of inputs and gradients at the layer's output."""

    inputs: Float[Tensor, "p n d"]
    gradients: Float[Tensor, "p n o k"]

    def __getitem__(self, chosen: slice) -> "Factors":
        return Factors(self.inputs[:, chosen], self.gradients[:, chosen])

    def add_product(self, other: "Factors", out: Float[Tensor, "a b"], *, is_trace: bool) -> None:
        r"""Add :math:`\sum_{pq} \langle a_p, a_q\rangle \langle g_p, g_q\rangle` for all pairs of rows."""
        for a, g in zip(self.inputs, self.gradients, strict=True):
            for b, h in zip(other.inputs, other.gradients, strict=True):
                # positions p of one image and q of the other: ⟨a_p, a_q⟩ for all pairs of images at once
                alike = a @ b.T
                if is_trace:
                    # Σ_o ⟨g_po, g_qo⟩ ⟨a_p, a_q⟩
                    out.addcmul_(g.flatten(1) @ h.flatten(1).T, alike)
                else:
                    # ⟨g_po, g_qo'⟩ for all pairs of outputs, each times the same ⟨a_p, a_q⟩
                    products = g.flatten(0, 1) @ h.flatten(0, 1).T
                    blocks = (_blocks(m, g.shape[1]) for m in (out, products))
                    next(blocks).addcmul_(next(blocks), alike[:, None, :, None])


Gradients = Rows | Factors


def add_product(left: Gradients, right: Gradients, out: Float[Tensor, "a b"], *, is_trace: bool) -> None:
    """Add the inner products of the gradients of one layer, held in one way, to `out` in place."""
    if isinstance(left, Rows) and isinstance(right, Rows):
        left.add_product(right, out, is_trace=is_trace)
    else:
        assert isinstance(left, Factors)
        assert isinstance(right, Factors)
        left.add_product(right, out, is_trace=is_trace)


def _blocks(matrix: Float[Tensor, "a b"], outputs: int) -> Float[Tensor, "n o m o"]:
    rows, columns = matrix.shape
    return matrix.view(rows // outputs, outputs, columns // outputs, outputs)
