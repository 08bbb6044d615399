"""One way to load a model: our names, other packages, the user's code, any layout of checkpoint."""

import re
import sys
import types
import warnings

import pytest
import torch
from torch import nn

import firstlight
from firstlight import models
from firstlight._internal.errors import InvalidInput
from firstlight.models import WeightsMismatch
from firstlight.models.kinds import unwrapped


@pytest.fixture
def saved(tmp_path):
    """A LeNet of three classes and the file of its weights."""
    model = models.build("lenet", classes=3, seed=1)
    path = tmp_path / "lenet.pt"
    torch.save(model.state_dict(), path)
    return model, path


def same(a, b):
    mine, theirs = a.state_dict(), b.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[k], theirs[k]) for k in mine)


def lenet():
    return models.build("lenet", classes=3)


def test_an_architecture_gets_as_many_outputs_as_the_checkpoint_has(saved):
    model, path = saved
    loaded = firstlight.load_model(path, architecture="lenet")
    assert same(loaded, model)
    assert not loaded.training


def test_a_stated_number_of_classes_is_not_overruled(saved):
    with pytest.raises(WeightsMismatch) as caught:
        firstlight.load_model(saved[1], architecture="lenet", classes=5)
    assert caught.value.saved_classes == 3
    assert caught.value.missing == ()
    (shapes,) = {shapes for name, shapes in caught.value.reshaped.items() if name.endswith("weight")}
    assert (shapes[0][0], shapes[1][0]) == (3, 5)


def test_options_reach_the_architecture(tmp_path):
    model = models.build("lenet", width=2)
    torch.save(model.state_dict(), tmp_path / "w.pt")
    assert same(firstlight.load_model(tmp_path / "w.pt", architecture="lenet", options={"width": 2}), model)
    with pytest.raises(WeightsMismatch) as caught:
        firstlight.load_model(tmp_path / "w.pt", architecture="lenet")
    assert caught.value.saved_classes is None


def test_code_of_the_users_own_is_called_or_imported(saved, tmp_path, monkeypatch):
    model, path = saved
    assert same(firstlight.load_model(path, factory=lenet), model)
    (tmp_path / "networks_of_mine.py").write_text(
        "from firstlight import models\n\ndef lenet():\n    return models.build('lenet', classes=3, seed=1)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert same(firstlight.load_model(path, factory="networks_of_mine:lenet"), model)
    assert same(firstlight.load_model(factory="networks_of_mine:lenet"), model)
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("no_such_module:lenet", "cannot be imported"),
        ("math:no_such_name", "cannot be imported"),
        ("math", "module:function"),
        ("math:pi", "must return a torch.nn.Module; it returned float"),
        (dict, "dict must return a torch.nn.Module; it returned dict"),
    ],
)
def test_code_that_builds_no_model_is_refused(factory, message):
    with pytest.raises(InvalidInput, match=message):
        firstlight.load_model(factory=factory)


def test_a_checkpoint_needs_one_model_and_an_architecture_needs_a_checkpoint(saved):
    for both in ({}, {"architecture": "lenet", "factory": lenet}):
        with pytest.raises(InvalidInput, match="either `architecture`"):
            firstlight.load_model(saved[1], **both)
    with pytest.raises(InvalidInput, match="'lenet' needs a checkpoint"):
        firstlight.load_model(architecture="lenet")


def test_names_of_our_own_are_checked(saved):
    with pytest.raises(InvalidInput, match="Did you mean 'lenet'"):
        firstlight.load_model(saved[1], architecture="lenett")


def test_the_model_inside_compile_and_data_parallel_is_taken(saved):
    model, path = saved
    wrapped = nn.DataParallel(torch.compile(lenet()))
    assert isinstance(unwrapped(wrapped), type(model))
    assert unwrapped(model) is model
    loaded = firstlight.load_model(path, factory=lambda: torch.compile(lenet()))
    assert type(loaded) is type(model)
    assert same(loaded, model)


def average(model):
    return torch.optim.swa_utils.AveragedModel(model).state_dict()


class Wrapper(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.m = inner


LAYOUTS = {
    "backbone prefix": lambda m: {f"backbone.{k}": v for k, v in m.state_dict().items()},
    "one-letter prefix": lambda m: Wrapper(m).state_dict(),
    "model_state": lambda m: {"epoch": 3, "model_state": m.state_dict()},
    "ema only": lambda m: {"ema": {"module": m.state_dict(), "decay": 0.99}},
    "averaged model": average,
    "compiled parts": lambda m: {
        f"module.{k.replace('.', '._orig_mod.', 1)}": v for k, v in m.state_dict().items()
    },
    "lightning": lambda m: {
        "pytorch-lightning_version": "2.4.0",
        "epoch": 1,
        "hyper_parameters": {"lr": 0.1},
        "optimizer_states": [{"state": {0: {"exp_avg": torch.zeros(3)}}}],
        "state_dict": {
            **{f"model.{k}": v for k, v in m.state_dict().items()},
            "criterion.weight": torch.ones(3),
        },
    },
    "model and optimiser with tensors": lambda m: {
        "network": m.state_dict(),
        "optimiser": {"momentum": {"buffer": torch.zeros(2)}},
        "step": torch.tensor(3),
    },
    "the same weights twice": lambda m: {"model": m.state_dict(), "best": m.state_dict()},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_weights_are_found_in_any_layout(tmp_path, layout):
    model = models.build("lenet", classes=3, seed=1)
    torch.save(LAYOUTS[layout](model), tmp_path / "w.pt")
    assert same(firstlight.load_model(tmp_path / "w.pt", architecture="lenet"), model)


def test_weights_of_what_the_model_wraps_fit_the_wrapper(saved):
    model, path = saved
    loaded = firstlight.load_model(path, factory=lambda: Wrapper(lenet()))
    assert same(loaded.m, model)


def test_two_sets_of_weights_are_never_chosen_between_in_silence(tmp_path):
    trained, averaged = (models.build("lenet", classes=3, seed=seed) for seed in (1, 2))
    path = tmp_path / "w.pt"
    torch.save({"model": trained.state_dict(), "ema": {"module": averaged.state_dict()}}, path)
    with pytest.raises(InvalidInput, match=r"several sets of weights .* 'model', 'ema/module'\. .* `entry`"):
        firstlight.load_model(path, architecture="lenet")
    assert same(firstlight.load_model(path, architecture="lenet", entry="ema"), averaged)
    assert same(firstlight.load_model(path, architecture="lenet", entry="model"), trained)
    with pytest.raises(InvalidInput, match="has no entry 'emma'"):
        firstlight.load_model(path, architecture="lenet", entry="emma")


def programs(folder):
    model = lenet().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(model, torch.zeros(1, 3, 32, 32)).save(folder / "traced.pt")
        torch.export.save(torch.export.export(model, (torch.zeros(1, 3, 32, 32),)), folder / "program.pt2")
    torch.save(model, folder / "whole.pt")
    return {"traced.pt": "TorchScript", "program.pt2": "exported program", "whole.pt": "never unpickled"}


def test_programs_and_pickled_models_are_refused_without_advice_to_switch_safety_off(tmp_path):
    for name, words in programs(tmp_path).items():
        with pytest.raises(InvalidInput, match=words) as caught:
            firstlight.load_model(tmp_path / name, architecture="lenet")
        assert "weights_only" not in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_advice_for_programs_leads_to_weights_that_load(tmp_path):
    programs(tmp_path)
    for name in ("traced.pt", "program.pt2"):
        with pytest.raises(InvalidInput) as caught:
            firstlight.load_model(tmp_path / name, architecture="lenet")
        (advice,) = re.findall(r"torch\.save\((.*?), 'weights\.pt'\)", str(caught.value))
        weights = eval(advice, {"torch": torch, "path": tmp_path / name})
        torch.save(weights, tmp_path / "weights.pt")
        assert same(firstlight.load_model(tmp_path / "weights.pt", architecture="lenet"), lenet())


def fake_package(monkeypatch, name, **functions):
    module = types.ModuleType(name)
    for function_name, function in functions.items():
        setattr(module, function_name, function)
    for index, _ in enumerate(parts := name.split(".")):
        monkeypatch.setitem(sys.modules, ".".join(parts[: index + 1]), types.ModuleType(parts[index]))
    monkeypatch.setitem(sys.modules, name, module)


def test_a_model_of_timm_is_built_with_or_without_its_own_weights(saved, monkeypatch):
    # timm imports torchvision, which does not import beside this build of torch
    model, path = saved
    asked = []

    def create_model(name, *, pretrained, num_classes=1000, **options):
        asked.append((name, pretrained, num_classes, options))
        return models.build("lenet", classes=num_classes)

    fake_package(monkeypatch, "timm", create_model=create_model)
    loaded = firstlight.load_model(path, architecture="timm:lenet", options={"drop_rate": 0.1})
    assert same(loaded, model)
    assert asked == [("lenet", False, 1000, {"drop_rate": 0.1}), ("lenet", False, 3, {"drop_rate": 0.1})]
    firstlight.load_model(architecture="timm:lenet")
    assert asked[-1] == ("lenet", True, 1000, {})


def test_a_name_that_another_package_does_not_know_gives_one_line(monkeypatch):
    def get_model(name, **options):
        raise ValueError(f"Unknown model {name}\nand more")

    fake_package(monkeypatch, "torchvision.models", get_model=get_model)
    with pytest.raises(InvalidInput, match="torchvision cannot build 'x': Unknown model x") as caught:
        firstlight.load_model(architecture="torchvision:x")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("package", ["timm", "torchvision", "hf"])
def test_a_missing_package_is_named_with_how_to_get_it(package, monkeypatch):
    module = {"hf": "transformers"}.get(package, package)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidInput, match=f"{package}:x needs {module}, which cannot be imported") as caught:
        firstlight.load_model(architecture=f"{package}:x")
    if package != "hf":
        assert "--no-deps" in str(caught.value)


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("2.13.0+cpu", "'torchvision==0.28.*' --index-url https://download.pytorch.org/whl/cpu`"),
        ("2.6.0", "'torchvision==0.21.*'`"),
        ("3.0.0+cpu", "'torchvision' --index-url"),
    ],
)
def test_the_torchvision_that_fits_the_torch_is_named(version, words, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(InvalidInput) as caught:
        firstlight.load_model(architecture="torchvision:resnet18")
    assert words in str(caught.value)


def test_a_torchvision_built_for_another_torch_is_recognised(tmp_path, monkeypatch):
    package, facts = tmp_path / "torchvision", tmp_path / "torchvision-0.21.0.dist-info"
    package.mkdir()
    facts.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: torchvision\nVersion: 0.21.0\n")
    (tmp_path / "timm.py").write_text("import torchvision")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("timm", "torchvision")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(
        InvalidInput, match=r"torchvision; 0.21.0 is installed, but was built for another"
    ) as caught:
        firstlight.load_model(architecture="timm:resnet18")
    assert "Run: pip install --no-deps --force-reinstall 'torchvision==0." in str(caught.value)
    for name in ("timm", "torchvision"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            "raise ValueError('no such folder\\nand more')",
            r"cannot be imported: ValueError: no such folder \(mine.py",
        ),
        ("import sys; sys.exit(3)", "cannot be imported: SystemExit: 3"),
        (
            "def net(): return undefined",
            r"failed: NameError: name 'undefined' is not defined \(mine.py, line 1\)",
        ),
    ],
)
def test_code_of_the_user_that_fails_gives_one_line(tmp_path, monkeypatch, code, says):
    (tmp_path / "mine.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    with pytest.raises(InvalidInput, match=says) as caught:
        firstlight.load_model(factory="mine:net")
    assert "\n" not in str(caught.value)
    sys.modules.pop("mine", None)


def test_a_folder_of_the_name_of_a_package_gives_one_line(tmp_path, monkeypatch):
    (tmp_path / "timm").mkdir()  # Python takes it for the package if that is not installed
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "timm", None)  # restored afterwards, whatever is imported in between
    del sys.modules["timm"]
    with pytest.raises(InvalidInput, match="timm cannot build 'resnet18': module 'timm' has no attribute"):
        firstlight.load_model(architecture="timm:resnet18")


class TakesNames(nn.Module):
    """Wants its images by name, as models of transformers do."""

    def __init__(self):
        super().__init__()
        self.inner = lenet()

    def forward(self, batch):
        return {"logits": self.inner(batch["pixel_values"])}


def test_a_model_that_takes_no_tensor_is_called_by_a_function_of_the_user():
    def call(model, images):
        return model({"pixel_values": images})["logits"]

    model = firstlight.load_model(factory=TakesNames, call=call)
    x = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert torch.equal(model(x), lenet().eval()(x))
    assert not model.training
    rows = firstlight.ansatz(model, x, show=False).rows
    assert rows[0].layer == "model.inner.conv1"


def test_a_call_that_is_no_function_is_refused(monkeypatch):
    module = types.ModuleType("calls_of_mine")
    module.nothing = 3
    monkeypatch.setitem(sys.modules, "calls_of_mine", module)
    with pytest.raises(InvalidInput, match="must be a function of the model and the images"):
        firstlight.load_model(factory=TakesNames, call="calls_of_mine:nothing")
    with pytest.raises(InvalidInput, match="module:function"):
        firstlight.load_model(factory=TakesNames, call="calls_of_mine")
