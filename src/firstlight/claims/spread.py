"""The spread that the ledger prints beside a number."""

import math

from torch import Tensor


def sd(values: Tensor) -> float:
    """Standard deviation over seeds, pairs or draws; NaN where there is only one."""
    return float(values.double().std()) if values.numel() > 1 else math.nan
