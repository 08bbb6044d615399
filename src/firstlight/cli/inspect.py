"""`firstlight inspect`: the page of one's own model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from firstlight.cli.output import OutputFile, page_file

if TYPE_CHECKING:
    from torch import nn

    from firstlight.data import ImageData


def inspect(
    checkpoint: str,
    *,
    data: str,
    arch: str | None = None,
    factory: Annotated[str | None, Parameter(name="--import")] = None,
    initial: Path | None = None,
    split: str = "test",
    n: int | None = None,
    fast: bool = False,
    classes: int | None = None,
    option: Annotated[list[str] | None, Parameter(negative="")] = None,
    mean: Annotated[list[float] | None, Parameter(negative="", consume_multiple=True)] = None,
    std: Annotated[list[float] | None, Parameter(negative="", consume_multiple=True)] = None,
    model_output: str | None = None,
    exact: bool = False,
    device: str = "auto",
    seed: int = 0,
    output: OutputFile = Path("inspect.html"),
) -> None:
    """Look at a trained network and write one page about it.

    Parameters
    ----------
    checkpoint
        Weights: safetensors, or a torch checkpoint of plain tensors. Or the word resnet50_imagenet.
    data
        Name of a data set, or a folder of class folders.
    arch
        Name of an architecture; timm:NAME and torchvision:NAME where those are installed.
    factory
        Python code of yours that builds the model: module:function, called without arguments.
    initial
        Weights of the same model before its training, which also tell whether training was lazy; by default a
        fresh initialisation is compared.
    split
        Which images: test or train.
    n
        Number of images; by default 512, or 32 large ones.
    fast
        Take fewer images and say how sure the numbers are.
    classes
        Number of outputs, if it is not the number of classes of the data.
    option
        Option of the architecture, as name=value; may be given several times.
    mean, std
        What the model expects its pixels (0 to 1) to be shifted and divided by: one number or one per channel.
    model_output
        Which part of the output, if the model returns a tuple or a dictionary: a number or a key.
    exact
        Sum over all outputs, however many; slow with a thousand.
    device
        Where to compute: auto, cpu, cuda, mps.
    seed
        Of everything random.
    output
        The page to write.
    """
    from firstlight.insights.inspection import inspect as look
    from firstlight.report import inspection_page, write_page

    page_file(output)
    place = _device(device)
    images = _images(data, split, seed)
    model, start, images = _models(checkpoint, arch, factory, initial, images, classes, option or [], seed)
    images = _scaled(images, mean, std)
    found = look(
        model.to(place),
        images,
        initial=None if start is None else start.to(place),
        n_images=n,
        fast=fast,
        output_part=int(model_output) if model_output and model_output.isdigit() else model_output,
        output_sum="exact" if exact else "auto",
        seed=seed,
        name=arch or factory or checkpoint,
    )
    path = write_page(inspection_page(found), output)
    print(f"Wrote {path} ({path.stat().st_size / 1e6:.1f} MB). Open it in a browser.")


def _device(name: str) -> str:
    import torch

    from firstlight.core.errors import InvalidInput

    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if name == "auto":
        return accelerator.type if accelerator is not None else "cpu"
    if name != "cpu" and (accelerator is None or accelerator.type != name.partition(":")[0]):
        here = accelerator.type if accelerator is not None else "none"
        raise InvalidInput(
            f"`device` must be auto, cpu or an accelerator of this machine ({here}); got {name!r}."
        )
    return name


def _images(data: str, split: str, seed: int) -> "ImageData":
    from firstlight.core.errors import InvalidInput
    from firstlight.data import load

    try:
        return load(data, split=split, seed=seed)
    except InvalidInput as error:
        if split == "test" and "`split`" in str(error):  # a folder without splits
            return load(data, split="train", seed=seed)
        raise


def _models(
    checkpoint: str,
    arch: str | None,
    factory: str | None,
    initial: Path | None,
    images: "ImageData",
    classes: int | None,
    options: list[str],
    seed: int,
) -> "tuple[nn.Module, nn.Module | None, ImageData]":
    from firstlight.core.errors import InvalidInput
    from firstlight.models import load_weights, resnet50_imagenet, resnet50_normalised

    if checkpoint == "resnet50_imagenet" and arch is None and factory is None:
        return resnet50_imagenet(), None, images.map(resnet50_normalised)
    if (arch is None) == (factory is None):
        raise InvalidInput(
            "give either --arch NAME or --import module:function, so that the weights have a model."
        )

    def empty() -> "nn.Module":
        if factory is not None:
            return _imported(factory)
        return _built(str(arch), images, classes, options, seed)

    try:
        model = load_weights(empty(), checkpoint)
        start = None if initial is None else load_weights(empty(), initial)
    except InvalidInput as error:
        if classes is None and arch is not None and "of another shape" in str(error):
            raise InvalidInput(
                f"{error} If it has other outputs than the data has classes, give --classes."
            ) from error
        raise
    return model, start, images


def _built(arch: str, images: "ImageData", classes: int | None, options: list[str], seed: int) -> "nn.Module":
    from firstlight.models import build

    outputs = classes or images.n_classes
    values = dict(_option(text) for text in options)
    package, _, name = arch.rpartition(":")
    if package in ("timm", "torchvision"):
        return _foreign(package, name, outputs, values)
    return build(arch, classes=outputs, shape=images.shape, seed=seed, **values)


def _option(text: str) -> tuple[str, Any]:
    import ast

    from firstlight.core.errors import InvalidInput

    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InvalidInput(f"`option` must read name=value; got {text!r}.")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _foreign(package: str, name: str, outputs: int, values: dict[str, Any]) -> "nn.Module":
    """Build a model of a package that is never required."""
    import importlib

    from firstlight.core.errors import InvalidInput

    try:
        library = importlib.import_module("timm" if package == "timm" else "torchvision.models")
    except (ImportError, RuntimeError, OSError) as error:
        raise InvalidInput(
            f"--arch {package}:{name} needs {package}, which cannot be imported: {error}."
        ) from error
    try:
        if package == "timm":
            model: nn.Module = library.create_model(name, pretrained=False, num_classes=outputs, **values)
        else:
            model = library.get_model(name, weights=None, num_classes=outputs, **values)
    except (RuntimeError, ValueError, TypeError, KeyError) as error:
        raise InvalidInput(f"{package} cannot build {name!r}: {str(error).splitlines()[0]}.") from error
    return model


def _imported(factory: str) -> "nn.Module":
    """Call the user's own code; the folder one stands in counts, as for any script."""
    import importlib
    import sys

    from torch import nn

    from firstlight.core.errors import InvalidInput

    module, colon, name = factory.partition(":")
    if not colon or not name:
        raise InvalidInput(f"--import must read module:function; got {factory!r}.")
    sys.path.insert(0, str(Path.cwd()))
    try:
        build = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise InvalidInput(f"--import {factory} was not found: {error}.") from error
    finally:
        sys.path.remove(str(Path.cwd()))
    model = build() if callable(build) and not isinstance(build, nn.Module) else build
    if not isinstance(model, nn.Module):
        raise InvalidInput(f"--import {factory} must give a torch.nn.Module; it gave {type(model).__name__}.")
    return model


def _scaled(images: "ImageData", mean: list[float] | None, std: list[float] | None) -> "ImageData":
    import torch

    from firstlight.core.errors import InvalidInput

    if mean is None and std is None:
        return images
    channels = images.shape[0]
    found = []
    for name, given, default in (("mean", mean, 0.0), ("std", std, 1.0)):
        values = given or [default]
        if len(values) not in (1, channels) or (name == "std" and min(values) <= 0):
            raise InvalidInput(
                f"`{name}` must be one number or one for each of {channels} channels"
                f"{', all positive' if name == 'std' else ''}; got {values}."
            )
        found.append(torch.tensor(values).reshape(-1, 1, 1))
    return images.map(lambda x: (x - found[0]) / found[1])
