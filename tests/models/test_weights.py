"""Weights from files: what fits is loaded, everything else is refused in words."""

import contextlib
import os
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from firstlight import models
from firstlight._internal.errors import InvalidInput


def network(seed=0, **options):
    return models.build("small", shape=(1, 8, 8), width=0.25, batch_norm=True, seed=seed, **options)


def same(a, b):
    return all(
        torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    )


WRAPPINGS = {
    "plain": lambda state: state,
    "state_dict": lambda state: {"epoch": 3, "state_dict": state},
    "model": lambda state: {"model": state, "optimiser": {"lr": 0.1}},
    "data parallel": lambda state: {f"module.{k}": v for k, v in state.items()},
    "nested": lambda state: {"state_dict": {f"model.module.{k}": v for k, v in state.items()}},
    "compiled": lambda state: {f"_orig_mod.{k}": v for k, v in state.items()},
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_torch_checkpoints_load_whatever_wraps_them(tmp_path, wrapping):
    saved, target = network(1), network(2)
    torch.save(WRAPPINGS[wrapping](saved.state_dict()), tmp_path / "weights.pt")
    assert models.load_weights(target, tmp_path / "weights.pt") is target
    assert same(saved, target)


@pytest.mark.parametrize("prefix", ["", "module."])
def test_safetensors_load(tmp_path, prefix):
    saved, target = network(1), network(2)
    save_file({prefix + k: v for k, v in saved.state_dict().items()}, tmp_path / "w.safetensors")
    models.load_weights(target, str(tmp_path / "w.safetensors"))
    assert same(saved, target)


def test_counters_of_batch_norm_may_be_absent(tmp_path):
    saved, target = network(1), network(2)
    old = {k: v for k, v in saved.state_dict().items() if not k.endswith("num_batches_tracked")}
    torch.save(old, tmp_path / "w.pt")
    models.load_weights(target, tmp_path / "w.pt")
    assert same(saved, target)


def test_a_prefix_the_architecture_has_itself_is_kept(tmp_path):
    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = torch.nn.Linear(2, 3)

    saved, target = Wrapped(), Wrapped()
    torch.save(saved.state_dict(), tmp_path / "w.pt")
    models.load_weights(target, tmp_path / "w.pt")
    assert same(saved, target)


def refused(path, match, target=None):
    target = target or network(2)
    before = [t.clone() for t in target.state_dict().values()]
    with pytest.raises(InvalidInput, match=match):
        models.load_weights(target, path)
    assert all(torch.equal(a, b) for a, b in zip(before, target.state_dict().values(), strict=True))


def test_wrong_architecture_names_the_first_keys(tmp_path):
    torch.save(models.build("lenet", shape=(1, 28, 28)).state_dict(), tmp_path / "w.pt")
    refused(tmp_path / "w.pt", r"does not fit.*missing: 0\.weight.*unexpected: conv1\.weight")


def test_wrong_number_of_classes_shows_both_shapes(tmp_path):
    torch.save(network(classes=3).state_dict(), tmp_path / "w.pt")
    refused(tmp_path / "w.pt", r"2 of another shape: 13\.weight \(3, 16\) instead of \(10, 16\)")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e300])
def test_weights_that_are_not_numbers_are_refused(tmp_path, bad):
    state = network(1).double().state_dict()
    state["0.weight"][0, 0, 0, 0] = bad
    torch.save(state, tmp_path / "w.pt")
    refused(tmp_path / "w.pt", "NaN or infinite weights in '0.weight'")


def test_a_missing_file_is_refused(tmp_path):
    refused(tmp_path / "none.pt", "No weights at")


@pytest.mark.parametrize("content", [[1, 2], {}, {"a": 1}, torch.zeros(3)])
def test_a_file_without_a_dictionary_of_tensors_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "w.pt")
    refused(tmp_path / "w.pt", "must hold")


def test_a_whole_pickled_model_is_refused(tmp_path):
    torch.save(network(1), tmp_path / "w.pt")
    refused(tmp_path / "w.pt", "never unpickled")


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize(
    "save", [torch.save, lambda content, path: path.write_bytes(pickle.dumps(content, protocol=2))]
)
def test_code_in_a_checkpoint_is_never_run(tmp_path, save):
    save({"0.weight": Trap(str(tmp_path / "sprung"))}, tmp_path / "w.pt")
    refused(tmp_path / "w.pt", "never unpickled")
    assert not (tmp_path / "sprung").exists()


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    folder = tmp_path_factory.mktemp("intact")
    state = torch.nn.Linear(3, 2).state_dict()
    save_file(state, folder / "w.safetensors")
    torch.save(state, folder / "w.pt")
    torch.save(state, folder / "old.pt", _use_new_zipfile_serialization=False)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@settings(max_examples=60)
@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@given(
    name=st.sampled_from(["w.safetensors", "w.pt", "old.pt"]),
    cut=st.floats(0, 1),
    place=st.floats(0, 1),
    byte=st.integers(0, 255),
    mode=st.sampled_from(["cut", "flip"]),
)
def test_a_damaged_file_gives_one_clear_error_or_loads(
    tmp_path_factory, intact, name, cut, place, byte, mode
):
    content = bytearray(intact[name])
    if mode == "cut":
        content = content[: int(cut * len(content))]
    else:
        content[min(int(place * len(content)), len(content) - 1)] = byte
    path = tmp_path_factory.mktemp("damaged") / name
    path.write_bytes(bytes(content))
    target = torch.nn.Linear(3, 2)
    with contextlib.suppress(InvalidInput):
        models.load_weights(target, path)
    assert all(p.isfinite().all() for p in target.parameters())


def test_saved_weights_are_read_again_with_their_words(tmp_path):
    model = network(seed=1)
    path = models.save_weights(model.state_dict(), tmp_path / "w.safetensors", arch="small")
    assert same(models.load_weights(network(seed=2), path), model)
    with safe_open(path, framework="pt") as opened:
        assert opened.metadata()["arch"] == "small"
