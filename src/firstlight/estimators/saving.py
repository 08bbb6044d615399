"""Fitted kernel machines on disk: numbers as safetensors, words as JSON, nothing pickled."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from firstlight.core.errors import InvalidInput
from firstlight.core.files import whole_folder
from firstlight.estimators.cntk import CNTKClassifier
from firstlight.estimators.convrfm import ConvRFMClassifier, DeepConvRFMClassifier
from firstlight.estimators.machine import KernelClassifier
from firstlight.kernels import kernel_from

WORDS, NUMBERS = "machine.json", "machine.safetensors"
TYPES: dict[str, Any] = {t.__name__: t for t in (CNTKClassifier, ConvRFMClassifier, DeepConvRFMClassifier)}


def save_machine(machine: KernelClassifier, folder: Path) -> Path:
    """Write a fitted classifier into a new folder, whole or not at all."""
    fitted: Any = machine
    if folder.exists():
        raise InvalidInput(f"`folder` must not exist yet; {folder} does. Choose another name or remove it.")
    short = fitted.x_fit_.float()  # images usually are float32; features of drawn filters are not
    kept = short if torch.equal(short.double(), fitted.x_fit_) else fitted.x_fit_
    tensors = {"x_fit": kept, "dual_coef": fitted.dual_coef_}
    if fitted.metric_ is not None:
        tensors["metric"] = fitted.metric_
    for layer, filters in enumerate(getattr(fitted, "filters_", [])):
        tensors[f"filters.{layer}"] = filters
    words = {
        "type": type(machine).__name__,
        "parameters": machine.get_params(),
        "kernel": dataclasses.asdict(fitted.kernel_),
        "classes": fitted.classes_.tolist(),
        "image_shape": list(fitted.image_shape_),
        "scale": fitted.scale_,
    }
    with whole_folder(folder) as part:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, part / NUMBERS)
        (part / WORDS).write_text(json.dumps(words, indent=1))
    return folder


def load_machine(folder: Path) -> KernelClassifier:
    """Read what :func:`save_machine` wrote."""
    try:
        words = json.loads((folder / WORDS).read_text())
        tensors = load_file(folder / NUMBERS)
        parameters = {k: tuple(v) if isinstance(v, list) else v for k, v in words["parameters"].items()}
        machine: Any = TYPES[words["type"]](**parameters)
        machine.kernel_ = kernel_from(words["kernel"])
        machine.classes_ = np.array(words["classes"])
        machine.image_shape_ = tuple(words["image_shape"])
        machine.n_features_in_ = int(np.prod(machine.image_shape_))
        machine.scale_ = float(words["scale"])
        machine.x_fit_, machine.dual_coef_ = tensors["x_fit"].double(), tensors["dual_coef"]
        machine.metric_ = tensors.get("metric")
        count = sum(name.startswith("filters.") for name in tensors)
        machine.filters_ = [tensors[f"filters.{layer}"] for layer in range(count)]
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InvalidInput(
            f"{folder} must be a folder that `firstlight rfm --save` wrote; it could not be read ({reason})."
        ) from error
    loaded: KernelClassifier = machine
    return loaded
