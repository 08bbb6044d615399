"""Closed forms that the papers prove, as functions of time.

Numbers such as E-12 in docstrings and comments are entries of docs/errata.md.
"""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight.theory import deep_linear, least_squares, linearized, two_layer_relu
    from firstlight.theory import linear_cnn as first_layer
    from firstlight.theory import one_convolution as identity

lazy_exports(__name__)
