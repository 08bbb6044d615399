"""scikit-learn estimators on images."""

# kernels, fixed and learned
from firstlight.estimators.cntk import CNTKClassifier, CNTKRegressor
from firstlight.estimators.convrfm import ConvRFMClassifier, ConvRFMRegressor, DeepConvRFMClassifier

__all__ = [
    "CNTKClassifier",
    "CNTKRegressor",
    "ConvRFMClassifier",
    "ConvRFMRegressor",
    "DeepConvRFMClassifier",
]
