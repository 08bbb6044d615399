"""Architectures of the five papers, one file per family, and where their weights come from."""

# building by name; importing the families fills the registry
from firstlight.models import (
    alexnet,
    cnfa,
    compact_vgg,
    fully_connected,
    lenet,
    linear_cnn,
    resnet,
    simplenet,
    st_vgg,
    two_layer,
    vgg,
)
from firstlight.models import image_to_image as identity
from firstlight.models import small_cnn as small
from firstlight.models.building import available, build, options, parameter_count, register_model

# identity task: large filters, and networks that are the identity exactly
from firstlight.models.image_to_image import (
    identity_cnn,
    identity_fcn_linear,
    identity_fcn_relu,
    write_identity,
)

# weights, and the first-order expansion in them
from firstlight.models.initialisers import initialise
from firstlight.models.linearized import LinearizedModel, linearize
from firstlight.models.linearized_on_fixed_images import TangentFeatures, tangent_features
from firstlight.models.loading import load_model
from firstlight.models.pretrained import PRETRAINED, expected_scaling, resnet50_imagenet
from firstlight.models.spec import ModelSpec
from firstlight.models.weights import WeightsMismatch, load_weights, save_weights

FAMILIES = (
    alexnet, cnfa, fully_connected, identity, lenet, linear_cnn, resnet, simplenet, small, st_vgg, two_layer, vgg
)  # fmt: skip

__all__ = [
    "PRETRAINED",
    "LinearizedModel",
    "ModelSpec",
    "TangentFeatures",
    "WeightsMismatch",
    "available",
    "build",
    "compact_vgg",
    "expected_scaling",
    "identity_cnn",
    "identity_fcn_linear",
    "identity_fcn_relu",
    "initialise",
    "linearize",
    "load_model",
    "load_weights",
    "options",
    "parameter_count",
    "register_model",
    "resnet50_imagenet",
    "save_weights",
    "tangent_features",
    "write_identity",
]
