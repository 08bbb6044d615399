"""scikit-learn estimators on images."""

# kernels, fixed and learned
from firstlight.estimators.cntk import CNTKClassifier, CNTKRegressor
from firstlight.estimators.convrfm import ConvRFMClassifier, ConvRFMRegressor, DeepConvRFMClassifier
from firstlight.estimators.feature_layers import feature_layers

# linearised networks
from firstlight.estimators.linearized import LinearizedClassifier
from firstlight.estimators.rfm_probe import RFMProbe
from firstlight.estimators.saving import load_machine, save_machine

__all__ = [
    "CNTKClassifier",
    "CNTKRegressor",
    "ConvRFMClassifier",
    "ConvRFMRegressor",
    "DeepConvRFMClassifier",
    "LinearizedClassifier",
    "RFMProbe",
    "feature_layers",
    "load_machine",
    "save_machine",
]
