"""Measuring elsewhere: every function that is given a network gives the CPU's numbers, on the CPU.

Each is run twice. Once the network lies on a device without double precision, and the function follows it; once it
lies on the CPU, and `computing_on` moves it for the measurement. The device refuses CPU tensors, so that a batch, a
sign or a sum that is not moved ends the test.
"""

import dataclasses
from functools import cache

import pytest
import torch
from torch import nn

import firstlight
from firstlight._internal.devices import device_of
from firstlight._internal.seeds import global_seed
from firstlight.data import ImageData
from firstlight.estimators import LinearizedClassifier
from firstlight.kernels import ConvKernel, kernel_agop, kernel_gram
from firstlight.kernels.accelerator import accelerator, uses_tensors
from firstlight.measures.copy_or_memorise.identity_score import image_outputs, response
from firstlight.measures.feature_ansatz.ansatz import ansatz, centred_ansatz
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from firstlight.measures.first_layer.energy_profile import patch_basis, profile
from firstlight.measures.layers.activations import activations
from firstlight.measures.learning_order.discriminability import penultimate_features
from firstlight.measures.linearized.exact_solution import solve_linearized
from firstlight.measures.linearized.tangent_kernel import jacobian, ntk_gram
from firstlight.models import build
from firstlight.questions.copy_or_memorise.task import IdentityTask, run_identity_tasks
from firstlight.questions.inspect.newer_papers import feature_report
from firstlight.questions.labels.measure import check_labels
from reproduce.studies.identity.layer_images import layer_images, size_response, upper_outputs
from reproduce.studies.identity.layers import layer_probe
from reproduce.studies.learning_order.compact_representation import compact_representation
from reproduce.studies.newer_papers.stationarity import stationarity

TIMES = {"seconds", "cost"}  # fields that are never twice the same


def network(seed: int) -> nn.Module:
    with global_seed("devices", seed):
        return nn.Sequential(
            nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(),
            nn.Linear(16, 3),
        )  # fmt: skip


def few_images():
    generator = torch.Generator().manual_seed(0)
    return ImageData(torch.rand(12, 1, 6, 6, generator=generator), torch.arange(12) % 3, ("a", "b", "c"))


@pytest.fixture
def data():
    return few_images()


def chain(model: nn.Module) -> nn.Module:
    """A network from images to images on the device of another."""
    return build("identity_cnn", shape=(1, 6, 6), depth=2, channels=3).to(device_of(model))


def linear(model: nn.Module) -> nn.Module:
    with global_seed("devices", 2):
        return nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.Linear(4, 2)).to(device_of(model))


def targets(data: ImageData) -> torch.Tensor:
    return nn.functional.one_hot(data.y, 3).double()


def _solved(m: nn.Module, data: ImageData, form: str) -> list[torch.Tensor]:
    solution = solve_linearized(m, data.x, targets(data), form=form, show=False).solution(ridge=0.1)
    assert device_of(solution) in (device_of(m), torch.device("cpu"))
    return [p.detach().cpu() for p in solution.parameters()]


def _watched(m: nn.Module, data: ImageData) -> list[dict[str, float]]:
    rows = []
    firstlight.watch(m, lambda step, values: rows.append(values), data, budget=1e9)
    return rows


MEASURES = {
    "patch_gradients": lambda m, b, data: patch_gradients(m, data.x, show=False),
    "ansatz": lambda m, b, data: ansatz(m, data.x, initial=b, show=False),
    "ntk_gram": lambda m, b, data: ntk_gram(m, data.x, show=False),
    "ntk_gram, all outputs": lambda m, b, data: ntk_gram(m, data.x, data.x[:2], outputs="full", show=False),
    "jacobian": lambda m, b, data: jacobian(m, data.x[:2]),
    "linearize": lambda m, b, data: firstlight.linearize(m)(data.x.to(device_of(m))).detach().cpu(),
    "solve_linearized": lambda m, b, data: _solved(m, data, "dual"),
    "solve_linearized, primal": lambda m, b, data: _solved(m, data, "primal"),
    "profile": lambda m, b, data: profile(m, data, subtract=b),
    "patch_basis": lambda m, b, data: patch_basis(m, data)[1],
    "explain_profile": lambda m, b, data: firstlight.explain_profile(m, data, subtract=b),
    "penultimate_features": lambda m, b, data: penultimate_features(m, data.x),
    "compact_representation": lambda m, b, data: compact_representation(linear(m), (1, 6, 6)),
    "response": lambda m, b, data: response(chain(m), data.x[0]),
    "image_outputs": lambda m, b, data: image_outputs(chain(m), data.x),
    "layer_images": lambda m, b, data: layer_images(chain(m), data.x[0]),
    "size_response": lambda m, b, data: size_response(chain(m), data.x, (6, 9)),
    "upper_outputs": lambda m, b, data: upper_outputs(chain(m), data.x, layers=1),
    "layer_probe": lambda m, b, data: layer_probe(chain(m), data, data),
    "stationarity": lambda m, b, data: stationarity(m, data, weight_decay=0.01, draws=2),
    "centred_ansatz": lambda m, b, data: centred_ansatz(m, data.x, initial=b, show=False),
    "activations": lambda m, b, data: activations(m, data.x),
    "feature_report": lambda m, b, data: feature_report(m, data, initial=b, show=False),
    "regime": lambda m, b, data: firstlight.regime(m, data, initial=b, n_kernel=6, n_fit=3, show=False),
    "inspect": lambda m, b, data: firstlight.inspect(m, data, initial=b, show=False),
    "inspect, no initial": lambda m, b, data: firstlight.inspect(m, data, fast=True, show=False),
    "compare": lambda m, b, data: firstlight.compare({"one": b, "two": m}, data, show=False),
    "watch": lambda m, b, data: _watched(m, data),
}


# `linearize` measures nothing; of the others, their parts are moved by the rest
FOLLOWED = {"linearize", "inspect, no initial", "explain_profile", "watch"}


def flat(value, name="result"):
    """All numbers of a nested result by name; tensors must lie on the CPU."""
    if isinstance(value, torch.Tensor):
        assert value.device.type == "cpu", f"{name} is on {value.device}"
        return {name: value.detach()}
    if dataclasses.is_dataclass(value):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.name not in TIMES}
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        return {k: v for key, entry in value.items() for k, v in flat(entry, f"{name}.{key}").items()}
    return {name: value}


def assert_equal(expected, measured):
    """Equal but for the order of sums: BLAS rounds by the layout of what it is given, and copies lose layouts."""
    one, two = flat(expected), flat(measured)
    assert one.keys() == two.keys()
    for name, value in one.items():
        if isinstance(value, torch.Tensor | float):
            torch.testing.assert_close(two[name], value, rtol=1e-4, atol=1e-6, equal_nan=True, msg=name)
        else:
            assert two[name] == value, name


@cache
def on_cpu(name):
    return MEASURES[name](network(1), network(0), few_images())


@pytest.mark.parametrize("name", list(MEASURES))
def test_a_function_follows_its_network(single, data, name):
    model, before = network(1).to(single), network(0).to(single)
    assert_equal(on_cpu(name), MEASURES[name](model, before, data))
    assert device_of(model) == device_of(before) == single


@pytest.mark.parametrize("name", [name for name in MEASURES if name not in FOLLOWED])
def test_a_function_moves_its_network_inside_a_block(second, data, name):
    model, before = network(1), network(0)
    expected = on_cpu(name)
    with firstlight.computing_on("second"):
        measured = MEASURES[name](model, before, data)
    assert_equal(expected, measured)
    assert device_of(model).type == device_of(before).type == "cpu"


def test_an_initial_network_is_moved_to_the_trained_one(second, data):
    model, before = network(1), network(0)
    expected = ansatz(model, data.x, initial=before, show=False)
    assert_equal(expected, ansatz(model.to(second), data.x, initial=before, show=False))
    assert device_of(before).type == "cpu"


@pytest.mark.parametrize("solver", ["exact", "sgd"])
def test_linearized_classifier_computes_elsewhere(second, data, solver):
    answers = [
        LinearizedClassifier(width=0.05, solver=solver, epochs=1, device=device).fit(data.x, data.y.numpy())
        for device in (None, "second")
    ]
    assert_equal(*(torch.from_numpy(machine.decision_function(data.x)) for machine in answers))


@pytest.mark.parametrize("readout", ["flatten", "gap"])
def test_tensors_compute_kernels_elsewhere(second, data, readout):
    kernel = ConvKernel(depth=1, size=3, readout=readout)
    alpha = torch.rand(12, 2, generator=torch.Generator().manual_seed(1))
    options = {"kernel": kernel, "dtype": torch.float64, "engine": "tensors", "show": False}
    expected = kernel_gram(data.x, **options), kernel_agop(data.x, alpha, data.x[:5], **options)
    options["engine"] = "auto"
    with firstlight.computing_on("second"):
        measured = kernel_gram(data.x, **options), kernel_agop(data.x, alpha, data.x[:5], **options)
    assert_equal(expected, measured)


def test_kernels_stay_on_the_cpu_without_double_precision(single):
    assert not uses_tensors("auto", ConvKernel(depth=1))
    with firstlight.computing_on("second"):
        assert not uses_tensors("auto", ConvKernel(depth=1))
        assert accelerator() is None


def test_labels_are_checked_elsewhere(single):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(40) % 2
    images = labels[:, None, None, None] + 0.3 * torch.rand(40, 1, 8, 8, generator=generator)
    data = ImageData(images, labels, ("a", "b"))
    checks = [check_labels(data, epochs=3, show=False, device=device) for device in (None, "second")]
    assert_equal(*checks)


def test_the_identity_task_runs_elsewhere(second):
    task = IdentityTask(depth=2, image_size=6, steps=3, dataset="photos")
    runs = [run_identity_tasks([task], device=device)[0] for device in (None, "second")]
    assert_equal(*(run.measured for run in runs))
