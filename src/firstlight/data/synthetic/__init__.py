"""Data sets made from a seed: bars and digits in noise, patterns, images at an angle."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight.data.synthetic.bars_and_digits import (
        bars_in_noise,
        correlated_images,
        digit_blends,
        digits_in_noise,
    )
    from firstlight.data.synthetic.patterns import PATTERNS, pattern, patterns

lazy_exports(__name__)
