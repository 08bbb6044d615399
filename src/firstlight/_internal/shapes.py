"""Shape names used in signatures all over the package.

jaxtyping checks them in the tests; at run time they cost nothing.
"""

from typing import TypeAlias

from jaxtyping import Float, Int
from torch import Tensor

Images: TypeAlias = Float[Tensor, "n c h w"]
Labels: TypeAlias = Int[Tensor, " n"]
