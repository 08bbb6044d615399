"""firstlight shows what a convolutional network learns, in what order, and why."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from firstlight._internal.version import __version__

if TYPE_CHECKING:
    from firstlight._internal.devices import computing_on
    from firstlight.data import ImageData, load
    from firstlight.measures.feature_ansatz import ansatz, feature_matrix, patch_gradients
    from firstlight.measures.first_layer import profile
    from firstlight.measures.linearized import ntk_gram
    from firstlight.models import build, linearize, load_model, load_weights
    from firstlight.networks import load_network
    from firstlight.pages.page import write_page
    from firstlight.questions.compare.measure import compare
    from firstlight.questions.first_layer.measure import explain_profile
    from firstlight.questions.inspect.measure import Inspection, inspect
    from firstlight.questions.inspect.page import inspection_page
    from firstlight.questions.inspect.watch import watch
    from firstlight.questions.regime.measure import regime

__all__ = [
    "ImageData",
    "Inspection",
    "__version__",
    "ansatz",
    "build",
    "compare",
    "computing_on",
    "explain_profile",
    "feature_matrix",
    "inspect",
    "inspection_page",
    "linearize",
    "load",
    "load_model",
    "load_network",
    "load_weights",
    "ntk_gram",
    "patch_gradients",
    "profile",
    "regime",
    "watch",
    "write_page",
]

# Imported when first asked for, so that `import firstlight` takes milliseconds.
_WHERE = {
    "computing_on": "_internal.devices",
    "ImageData": "data",
    "load": "data",
    "Inspection": "questions.inspect.measure",
    "compare": "questions.compare.measure",
    "explain_profile": "questions.first_layer.measure",
    "inspect": "questions.inspect.measure",
    "regime": "questions.regime.measure",
    "watch": "questions.inspect.watch",
    "ansatz": "measures.feature_ansatz",
    "feature_matrix": "measures.feature_ansatz",
    "ntk_gram": "measures.linearized",
    "patch_gradients": "measures.feature_ansatz",
    "profile": "measures.first_layer",
    "build": "models",
    "linearize": "models",
    "load_model": "models",
    "load_weights": "models",
    "load_network": "networks",
    "inspection_page": "questions.inspect.page",
    "write_page": "pages.page",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'firstlight' has no attribute {name!r}")
    return getattr(import_module(f"firstlight.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
