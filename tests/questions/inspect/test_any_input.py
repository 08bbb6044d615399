"""Every public function that takes images takes them in any form, and gives the same numbers."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import firstlight
from reference.data_files import write_class_folders


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """The same eight images as a folder, an array, a data set, a loader and more."""
    folder = tmp_path_factory.mktemp("images") / "pets"
    write_class_folders(folder, {"cat": 4, "dog": 4}, size=(12, 12))
    data = firstlight.load(folder)
    rows = [{"image": x, "label": y} for x, y in zip(data.x, data.y, strict=True)]
    labelled = TensorDataset(data.x, data.y)
    return {
        "data": data,
        "folder": str(folder),
        "path": folder,
        "array": data.x.numpy(),
        "channels last": data.x.permute(0, 2, 3, 1).numpy(),
        "bytes": (data.x * 255).round().byte().numpy().astype(np.uint8),
        "data set": labelled,
        "loader": DataLoader(labelled, batch_size=3),
        "rows": rows,
    }


@pytest.fixture(scope="module")
def model():
    return firstlight.build("lenet", classes=2, shape=(3, 12, 12), padding=2)


FUNCTIONS = {
    "profile": lambda model, data: firstlight.profile(model, data).amplitude,
    "patch_gradients": lambda model, data: firstlight.patch_gradients(model, data)["conv1"].agop,
    "ansatz": lambda model, data: firstlight.ansatz(model, data, initial=model).rows[0].pearson,
    "ntk_gram": lambda model, data: firstlight.ntk_gram(model, data),
    "regime": lambda model, data: firstlight.regime(model, data, initial=model, n_fit=0).score,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_form_gives_the_same_numbers(name, forms, model):
    expected = torch.as_tensor(FUNCTIONS[name](model, forms["data"].x))
    for form, data in forms.items():
        measured = torch.as_tensor(FUNCTIONS[name](model, data))
        # batches of a loader are summed in another order
        assert torch.allclose(measured, expected, rtol=1e-4, atol=1e-6), form


def test_an_inspection_takes_any_form_and_measures_the_accuracy_if_there_are_labels(forms, model):
    for form in ("folder", "data set", "loader", "array"):
        inspection = firstlight.inspect(model, forms[form], show=False)
        assert inspection.n_images == 8
        assert (inspection.accuracy == inspection.accuracy) == (form != "array")  # NaN without labels


def test_a_compiled_model_is_inspected_as_it_is_without_compilation(forms, model):
    def never(graph, inputs):
        raise AssertionError("nothing needs to be compiled")

    wrapped = torch.compile(model, backend=never)
    compiled, plain = (firstlight.inspect(which, forms["data"], show=False) for which in (wrapped, model))
    assert [layer.name for layer in compiled.layers] == [layer.name for layer in plain.layers]
    assert compiled.accuracy == plain.accuracy
    for name, measure in FUNCTIONS.items():
        measured, expected = (torch.as_tensor(measure(m, forms["data"])) for m in (wrapped, model))
        assert torch.equal(measured, expected), name
