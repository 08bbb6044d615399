"""The energy of a filter bank along the principal components of the patches it sees."""

from jaxtyping import Float
from torch import Tensor


def energy_profile(filters: Float[Tensor, "k d"], basis: Float[Tensor, "d m"]) -> Float[Tensor, " m"]:
    r"""Energy of a filter bank along each principal component of the patches.

    .. math:: e_i = \Big(\sum_j \langle A_j, p_i\rangle^2\Big)^{1/2}

    Unchanged when an orthogonal matrix mixes the filters; scales linearly. Its square is the diagonal of
    the feature matrix :math:`A^\top A` in the basis of the components.

    Parameters
    ----------
    filters : one filter per row, flattened as (c, h, w).
    basis : orthonormal columns p_i, by decreasing variance.

    Returns
    -------
    Non-negative, in the order of `basis`, in the precision of `filters`. Cost O(k d m).

    References
    ----------
    .. [1] FirstLayer, section 2, eq. (1). We do not normalise the profile.

    Examples
    --------
    >>> import torch
    >>> energy_profile(torch.eye(3), torch.eye(3))
    tensor([1., 1., 1.])
    """
    return (filters @ basis).square().sum(0).sqrt()
