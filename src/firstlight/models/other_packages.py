"""Architectures of packages that are never required: timm, torchvision, transformers."""

import importlib
import importlib.metadata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from firstlight._internal.errors import InvalidInput

Build = Callable[[Any, str, int | None, bool, Mapping[str, Any]], nn.Module]


@dataclass(frozen=True)
class _Package:
    """A package that builds models by name."""

    module: str
    build: Build
    how: Callable[[], str]


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
        if (version := _misfit(error)) is not None:
            raise InvalidInput(
                f"{architecture} needs torchvision; {version} is installed, but was built for another torch than "
                f"{torch.__version__}. Run: {_torchvision_command()}"
            ) from error
        raise InvalidInput(
            f"{architecture} needs {package.module.partition('.')[0]}, which cannot be imported "
            f"({_first_line(error)}). {package.how()}"
        ) from error
    try:
        return package.build(library, name, classes, pretrained, options)
    # a folder of the package's name in the current one is imported in its place, and has no such attribute
    except (RuntimeError, ValueError, TypeError, KeyError, OSError, ImportError, AttributeError) as error:
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


def _torchvision_command() -> str:
    """Command that installs the torchvision that fits the torch that is installed.

    PyPI's torchvision does not import beside a CPU build of torch, and installing it with its dependencies replaces
    that torch.
    """
    version, _, build = torch.__version__.partition("+")
    numbers = version.split(".")
    wanted = f"==0.{int(numbers[1]) + 15}.*" if numbers[0] == "2" and numbers[1].isdigit() else ""
    index = f" --index-url https://download.pytorch.org/whl/{build}" if build else ""
    return f"pip install --no-deps --force-reinstall 'torchvision{wanted}'{index}"


_PACKAGES = {
    # `pip install timm` alone replaces a CPU build of torch by PyPI's
    "timm": _Package(
        "timm",
        _timm,
        lambda: (
            f"`pip install --no-deps timm` and `pip install huggingface_hub` keep the torch you have; "
            f"timm needs torchvision too: `{_torchvision_command()}`"
        ),
    ),
    "torchvision": _Package(
        "torchvision.models", _torchvision, lambda: f"`{_torchvision_command()}` fits the torch you have."
    ),
    "hf": _Package(
        "transformers", _transformers, lambda: "`pip install transformers` keeps the torch you have."
    ),
}


def _misfit(error: Exception) -> str | None:
    """Version of a torchvision that is installed and cannot be imported beside this torch, if that is the error."""
    words = str(error).lower()
    if isinstance(error, ModuleNotFoundError) or not ("torchvision" in words or "undefined symbol" in words):
        return None
    try:
        return importlib.metadata.version("torchvision")
    except importlib.metadata.PackageNotFoundError:
        return None


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
