"""scikit-learn estimators on images."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight.estimators.cntk import CNTKClassifier, CNTKRegressor
    from firstlight.estimators.convrfm import (
        ConvRFMClassifier,
        ConvRFMRegressor,
        DeepConvRFMClassifier,
        feature_layers,
    )
    from firstlight.estimators.linearized import LinearizedClassifier
    from firstlight.estimators.rfm_probe import RFMProbe
    from firstlight.estimators.saving import load_machine, save_machine

lazy_exports(__name__)
