"""scikit-learn estimators on images."""

# kernels, fixed and learned
from firstlight.estimators.cntk import CNTKClassifier, CNTKRegressor
from firstlight.estimators.convrfm import ConvRFMClassifier, ConvRFMRegressor, DeepConvRFMClassifier
from firstlight.estimators.saving import load_machine, save_machine

__all__ = [
    "CNTKClassifier",
    "CNTKRegressor",
    "ConvRFMClassifier",
    "ConvRFMRegressor",
    "DeepConvRFMClassifier",
    "load_machine",
    "save_machine",
]
