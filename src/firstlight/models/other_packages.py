"""Architectures of packages that are never required: timm, torchvision, transformers."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from firstlight.core.errors import InvalidInput

Build = Callable[[Any, str, int | None, bool, Mapping[str, Any]], nn.Module]


@dataclass(frozen=True)
class _Package:
    """A package that builds models by name."""

    module: str
    build: Build
    # `pip install timm` replaces a CPU build of torch by PyPI's, and PyPI's torchvision does not import
    # beside a CPU build; hence --no-deps, and the index that torch came from
    how: str


def is_of_other_package(architecture: str) -> bool:
    """Whether a name such as ``timm:resnet18`` asks for a model of another package."""
    return architecture.partition(":")[0] in _PACKAGES and ":" in architecture


def build_of_other_package(
    architecture: str, *, classes: int | None, pretrained: bool, options: Mapping[str, Any]
) -> nn.Module:
    """Build ``timm:NAME``, ``torchvision:NAME`` or ``hf:NAME``.

    Parameters
    ----------
    architecture : str
        Package and name, with a colon between them.
    classes : int or None
        Number of outputs; None takes the package's default.
    pretrained : bool
        Whether to take the weights that the package offers, which it downloads.
    options : mapping of str to object
        Further arguments of the package's builder.
    """
    prefix, _, name = architecture.partition(":")
    package = _PACKAGES[prefix]
    try:
        library = importlib.import_module(package.module)
    # a torchvision built for another torch raises RuntimeError while it is imported
    except (ImportError, RuntimeError, OSError) as error:
        raise InvalidInput(
            f"{architecture} needs {package.module.partition('.')[0]}, which cannot be imported "
            f"({_first_line(error)}). {package.how}"
        ) from error
    try:
        return package.build(library, name, classes, pretrained, options)
    except (RuntimeError, ValueError, TypeError, KeyError, OSError, ImportError) as error:
        raise InvalidInput(f"{prefix} cannot build {name!r}: {_first_line(error)}.") from error


def _timm(
    library: Any, name: str, classes: int | None, pretrained: bool, options: Mapping[str, Any]
) -> nn.Module:
    outputs = {} if classes is None else {"num_classes": classes}
    model: nn.Module = library.create_model(name, pretrained=pretrained, **outputs, **options)
    return model


def _torchvision(
    library: Any, name: str, classes: int | None, pretrained: bool, options: Mapping[str, Any]
) -> nn.Module:
    outputs = {} if classes is None else {"num_classes": classes}
    model: nn.Module = library.get_model(
        name, weights="DEFAULT" if pretrained else None, **outputs, **options
    )
    return model


def _transformers(
    library: Any, name: str, classes: int | None, pretrained: bool, options: Mapping[str, Any]
) -> nn.Module:
    outputs = {} if classes is None else {"num_labels": classes}
    kind = library.AutoModelForImageClassification
    model: nn.Module = (
        kind.from_pretrained(name, **outputs, **options)
        if pretrained
        else kind.from_config(library.AutoConfig.from_pretrained(name, **outputs, **options))
    )
    return model


_TORCHVISION_HINT = "torchvision must come from the index that torch came from, also with --no-deps."
_PACKAGES = {
    "timm": _Package(
        "timm", _timm, f"`pip install --no-deps timm` keeps the torch you have; {_TORCHVISION_HINT}"
    ),
    "torchvision": _Package(
        "torchvision.models", _torchvision, f"To keep the torch you have: {_TORCHVISION_HINT}"
    ),
    "hf": _Package("transformers", _transformers, "`pip install transformers` adds it."),
}


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
