"""Fitted kernel machines on disk: numbers as safetensors, words as JSON, nothing pickled."""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.files import sha256_of, whole_folder
from firstlight._internal.memory_layout import canonical
from firstlight._internal.tensor_files import TensorFile, load_sealed, save_sealed
from firstlight._internal.untrusted_files import guarded, read_json
from firstlight.estimators.cntk import CNTKClassifier
from firstlight.estimators.convrfm import ConvRFMClassifier, DeepConvRFMClassifier
from firstlight.estimators.kernel_machine import KernelClassifier
from firstlight.kernels.kernel import kernel_from
from firstlight.kernels.random_features import FeatureMachine, LinearReadout, RandomFeatures
from firstlight.kernels.rfm import Rounds

WORDS, NUMBERS = "machine.json", "machine.safetensors"
TYPES: dict[str, Any] = {t.__name__: t for t in (CNTKClassifier, ConvRFMClassifier, DeepConvRFMClassifier)}


def save_machine(machine: KernelClassifier, folder: Path) -> Path:
    """Write a fitted classifier into a new folder, whole or not at all."""
    fitted: Any = machine
    if folder.exists():
        raise InvalidInput(f"`folder` must not exist yet; {folder} does. Choose another name or remove it.")
    tensors, scalars = _feature_parts(fitted) if _has_features(fitted) else _kernel_parts(fitted)
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
        **scalars,
    }
    with whole_folder(folder) as part:
        text = json.dumps(words, indent=1)
        digest = hashlib.sha256(text.encode()).hexdigest()
        # the numbers name their words: neither file can be changed, or taken from another machine, alone
        save_sealed(part / NUMBERS, {name: t.contiguous() for name, t in tensors.items()}, {WORDS: digest})
        (part / WORDS).write_bytes(text.encode())
    return folder


def _has_features(fitted: Any) -> bool:
    return getattr(fitted, "solver_", "exact") == "features"


def _kernel_parts(fitted: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    short = fitted.x_fit_.float()  # images usually are float32; features of drawn filters are not
    kept = short if torch.equal(short.double(), fitted.x_fit_) else fitted.x_fit_
    return {"x_fit": kept, "dual_coef": fitted.dual_coef_}, {"scale": fitted.scale_}


def _feature_parts(fitted: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    drawn, readout = fitted.machine_.features, fitted.machine_.readout
    tensors = {
        "drawn": drawn.filters, "shift": drawn.shift, "coefficients": readout.coefficients,
        "intercept": readout.intercept,
    }  # fmt: skip
    words = ("threshold", "regions", "stride", "padding")
    return tensors, {"drawn": {word: getattr(drawn, word) for word in words}, "ridge": readout.ridge}


def _feature_machine(words: dict[str, Any], tensors: dict[str, Tensor]) -> FeatureMachine:
    drawn = RandomFeatures(filters=tensors["drawn"], shift=tensors["shift"], **words["drawn"])
    readout = LinearReadout(float(words["ridge"]), tensors["coefficients"], tensors["intercept"])
    return FeatureMachine(Rounds(rounds=(), best=0), drawn, readout)


def load_machine(folder: Path) -> KernelClassifier:
    """Read what :func:`save_machine` wrote."""
    try:
        words, numbers = read_json(folder / WORDS), load_sealed(folder / NUMBERS)
        with guarded(folder, "a saved machine"):
            if numbers.words.get(WORDS) != sha256_of(folder / WORDS):
                raise ValueError(f"{WORDS} was changed after it was written, or is of another machine")
            return _rebuilt(words, numbers)
    except InvalidInput as error:
        reason = str(error).rstrip(".")
        raise InvalidInput(
            f"{folder} must be a folder that `firstlight rfm --output-machine` wrote; it could not be read ({reason})."
        ) from error


def _rebuilt(words: dict[str, Any], numbers: TensorFile) -> KernelClassifier:
    tensors = {name: canonical(tensor) for name, tensor in numbers.tensors.items()}
    parameters = {k: tuple(v) if isinstance(v, list) else v for k, v in words["parameters"].items()}
    machine: Any = TYPES[words["type"]](**parameters)
    machine.kernel_ = kernel_from(words["kernel"])
    machine.classes_ = np.array(words["classes"])
    machine.image_shape_ = tuple(words["image_shape"])
    machine.n_features_in_ = int(np.prod(machine.image_shape_))
    if "drawn" in words:
        machine.solver_, machine.machine_ = "features", _feature_machine(words, tensors)
    else:
        machine.scale_ = float(words["scale"])
        machine.x_fit_, machine.dual_coef_ = tensors["x_fit"].double(), tensors["dual_coef"]
    machine.metric_ = tensors.get("metric")
    count = sum(name.startswith("filters.") for name in tensors)
    machine.filters_ = [tensors[f"filters.{layer}"] for layer in range(count)]
    fitted: KernelClassifier = machine
    return fitted
