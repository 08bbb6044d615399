"""What every feature layer of a Deep ConvRFM makes of images, for measures that go by depth."""

from typing import Any

from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from firstlight.estimators.convrfm import DeepConvRFMClassifier
from firstlight.estimators.image_rows import new_images


def feature_layers(machine: DeepConvRFMClassifier, X: Any) -> dict[str, Tensor]:
    """Return the images, and what each feature layer of a fitted Deep ConvRFM makes of them.

    Only the layers that validation chose are there: a machine whose ``best_layer_`` is 0 has none but the images.

    Parameters
    ----------
    machine : DeepConvRFMClassifier
        Fitted.
    X : array-like
        Images, in any form that the machine itself takes.

    Returns
    -------
    dict of str to Tensor
        "images", "feature layer 1" and so on, each with one row per image: what
        :func:`firstlight.measures.layers.class_variation.class_variation` takes.
    """
    check_is_fitted(machine)
    layers = {"images": new_images(machine, X)}
    for depth, filters in enumerate(machine.filters_, start=1):
        layers[f"feature layer {depth}"] = machine._layer([*layers.values()][-1], filters)
    return layers
