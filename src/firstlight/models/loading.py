"""One way to get a trained model: whatever built it, whatever saved its weights."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput
from firstlight._internal.hub import hub_file, is_on_hub
from firstlight.models.building import build
from firstlight.models.checkpoints import WeightsMismatch, load_weights
from firstlight.models.kinds import called_by, model_from_code, unwrapped
from firstlight.models.other_packages import build_of_other_package, is_of_other_package


def load_model(
    checkpoint: str | Path | None = None,
    *,
    architecture: str | None = None,
    factory: str | Callable[[], nn.Module] | None = None,
    classes: int | None = None,
    shape: Sequence[int] = (3, 32, 32),
    options: Mapping[str, Any] | None = None,
    entry: str | None = None,
    call: str | Callable[[nn.Module, Tensor], Any] | None = None,
) -> nn.Module:
    """Build a model and load its trained weights.

    Parameters
    ----------
    checkpoint : str or Path, optional
        Weights: a safetensors file, or a torch checkpoint of tensors in any layout. Or an ONNX file, which
        needs nothing else: it is read, never run. Safetensors on the Hugging Face hub are
        ``"hf://models/OWNER/NAME/FILE"``. Leave it out if `factory` loads the weights itself, and to
        take the pretrained weights of other packages, which download them.
    architecture : str, optional
        One of :func:`firstlight.models.available`; or ``timm:NAME``, ``torchvision:NAME`` or ``hf:NAME``
        for a model of timm, torchvision or transformers, where that package is installed.
    factory : str or callable, optional
        Code of yours that builds the model: a function without arguments, or ``"module:function"``.
    classes : int, optional
        Number of outputs; by default as many as the checkpoint has.
    shape : sequence of int, default (3, 32, 32)
        Channels, height and width of an image; for our own architectures only.
    options : mapping of str to object, optional
        Options of the architecture, such as ``{"width": 0.5}``.
    entry : str, optional
        Entry of the checkpoint to read if it holds the weights more than once, such as ``"ema"``.
    call : str or callable, optional
        How to call a model whose input is no tensor of images: a function of the model and a batch of
        images, or ``"module:function"``, such as ``lambda model, x: model({"pixel_values": x})``.

    Returns
    -------
    torch.nn.Module
        In evaluation mode, on the CPU.

    Examples
    --------
    >>> import torch, tempfile
    >>> from firstlight import build, load_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save({"model": build("lenet", classes=3).state_dict()}, f"{folder}/mine.pt")
    ...     model = load_model(f"{folder}/mine.pt", architecture="lenet")
    >>> model(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 3])
    """
    model = _loaded(checkpoint, architecture, factory, classes, shape, options or {}, entry)
    return (model if call is None else called_by(model, call)).eval()


def _loaded(
    checkpoint: str | Path | None,
    architecture: str | None,
    factory: str | Callable[[], nn.Module] | None,
    classes: int | None,
    shape: Sequence[int],
    options: Mapping[str, Any],
    entry: str | None,
) -> nn.Module:
    """Build a model and load its weights; of the number of outputs the checkpoint knows more than we do."""
    if checkpoint is not None and is_on_hub(checkpoint):
        checkpoint = hub_file(checkpoint, kind="models", endings=(".safetensors",))
    if checkpoint is not None and Path(checkpoint).suffix.lower() == ".onnx":
        if architecture is not None or factory is not None:
            raise InvalidInput(
                f"{checkpoint} holds a whole network with its weights. Leave out `architecture` and `factory`."
            )
        from firstlight.models.onnx.network import load_onnx  # six files that nothing else needs

        return load_onnx(Path(checkpoint))
    if (architecture is None) == (factory is None):
        raise InvalidInput(
            "A checkpoint needs the model it was saved from: give either `architecture`, the name of one, or "
            "`factory`, code that builds it."
        )

    def empty(outputs: int | None) -> nn.Module:
        if factory is not None:
            return unwrapped(model_from_code(factory))
        return _built(str(architecture), outputs, shape, options, has_checkpoint=checkpoint is not None)

    model = empty(classes)
    if checkpoint is None:
        return model
    try:
        return load_weights(model, checkpoint, entry=entry)
    except WeightsMismatch as mismatch:
        saved = mismatch.saved_classes
        if classes is not None or factory is not None or saved is None:
            raise
        return load_weights(empty(saved), checkpoint, entry=entry)


def _built(
    architecture: str,
    classes: int | None,
    shape: Sequence[int],
    options: Mapping[str, Any],
    *,
    has_checkpoint: bool,
) -> nn.Module:
    if is_of_other_package(architecture):
        return build_of_other_package(
            architecture, classes=classes, pretrained=not has_checkpoint, options=options
        )
    if not has_checkpoint:
        raise InvalidInput(
            f"{architecture!r} needs a checkpoint: its weights are not trained without one. "
            f"firstlight.build({architecture!r}) gives the untrained network."
        )
    return build(architecture, classes=10 if classes is None else classes, shape=shape, **options)
