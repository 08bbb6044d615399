"""Data sets made from a seed: bars and digits in noise, the frequency task, patterns, images at an angle."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight.data.synthetic.bars import (
        FREQUENCIES,
        PHASES,
        bars_in_noise,
        frequency_curve,
        frequency_data,
        frequency_points,
        partial_sums,
    )
    from firstlight.data.synthetic.digits import correlated_images, digit_blends, digits_in_noise
    from firstlight.data.synthetic.patterns import PATTERNS, pattern, patterns

lazy_exports(__name__)
