"""firstlight shows what a convolutional network learns, in what order, and why."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight._internal.devices import computing_on
    from firstlight._internal.version import __version__
    from firstlight.data import ImageData, load
    from firstlight.estimators import (
        CNTKClassifier,
        ConvRFMClassifier,
        ConvRFMRegressor,
        DeepConvRFMClassifier,
        LinearizedClassifier,
    )
    from firstlight.kernels import ConvKernel, kernel_gram
    from firstlight.measures.feature_ansatz.ansatz import ansatz, feature_matrix
    from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
    from firstlight.measures.first_layer.energy_profile import profile
    from firstlight.measures.linearized.tangent_kernel import ntk_gram
    from firstlight.models import build, linearize, load_model
    from firstlight.networks.bank import load_network
    from firstlight.pages.page import write_page
    from firstlight.questions.compare.measure import compare
    from firstlight.questions.copy_or_memorise.measure import copy_or_memorise
    from firstlight.questions.first_layer.measure import explain_profile
    from firstlight.questions.inspect.measure import inspect
    from firstlight.questions.inspect.watch import watch
    from firstlight.questions.labels.measure import check_labels
    from firstlight.questions.order.measure import learning_order
    from firstlight.questions.regime.measure import regime

lazy_exports(__name__)
