"""Models that differ from what they seem are measured as they should be, or refused in one line."""

import pytest
import torch
from torch import nn

import firstlight
import warm
from firstlight._internal.errors import InvalidInput
from firstlight.pages.page import render
from firstlight.questions.compare.page import comparison_page
from firstlight.questions.inspect.newer_papers import feature_report
from firstlight.questions.inspect.page import inspection_page
from models_and_inputs import IMAGES, LABELS, Autocasts, Repeats, Segments, plain, scripted

DATA = firstlight.ImageData(x=IMAGES, y=LABELS, classes=("a", "b", "c"))
FUNCTIONS = {
    "inspect": lambda model: firstlight.inspect(model, DATA, show=False),
    "inspect, initial": lambda model: firstlight.inspect(plain(), DATA, initial=model, show=False),
    "compare": lambda model: firstlight.compare({"a": model, "b": model}, DATA, show=False),
    "compare, initial": lambda model: firstlight.compare({"a": plain()}, DATA, initial=model, show=False),
    "profile": lambda model: firstlight.profile(model, DATA),
    "profile, subtract": lambda model: firstlight.profile(plain(), DATA, subtract=model),
    "explain_profile": lambda model: firstlight.explain_profile(model, DATA),
    "regime": lambda model: firstlight.regime(model, DATA, initial=plain()),
    "regime, initial": lambda model: firstlight.regime(plain(), DATA, initial=model),
    "watch": lambda model: firstlight.watch(model, lambda step, values: None, DATA),
    "feature_report": lambda model: feature_report(model, DATA),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_torchscript_is_refused_by_every_function(name):
    with pytest.raises(InvalidInput, match="this one is TorchScript, which hides its layers"):
        FUNCTIONS[name](scripted())


def exported(*, any_number: bool):
    shapes = ({0: torch.export.Dim("n")},) if any_number else None
    return torch.export.export(plain(), (IMAGES,), dynamic_shapes=shapes)


def refusals():
    """What every function says about an exported program; run without the checks of types that tests add."""
    program = exported(any_number=False)
    for name, function in FUNCTIONS.items():
        try:
            function(program)
        except InvalidInput as error:
            print(f"{name}: {error}")


def test_exported_programs_are_refused_by_every_function():
    run = warm.run(["-c", "from questions.inspect.test_any_model import refusals; refusals()"], cwd="tests")
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == list(FUNCTIONS)
    assert all("exported program. Pass its `module()`" in line for line in lines)


def test_the_module_of_a_program_for_any_number_of_images_is_measured():
    program = exported(any_number=True)
    model = nn.Sequential(*plain())
    model.load_state_dict(program.state_dict)
    measured, expected = (
        firstlight.patch_gradients(one, IMAGES, show=False) for one in (program.module(), model)
    )
    assert [layer.name for layer in measured.layers] == ["0", "2", "6"]
    for one, other in zip(measured.layers, expected.layers, strict=True):
        assert torch.allclose(one.agop, other.agop, rtol=1e-5)


# ---------------------------------------------------------------- autocast


class Plain(Autocasts):
    """The same model without autocast."""

    def forward(self, x):
        return self.inner(x)


@pytest.fixture
def pair():
    torch.manual_seed(0)
    casts, whole = Autocasts(), Plain()
    whole.load_state_dict(casts.state_dict())
    return casts.eval(), whole.eval()


def test_autocast_inside_forward_is_measured_in_float32_and_the_page_says_so(pair):
    initial = Autocasts()
    casts, whole = (firstlight.inspect(model, DATA, initial=initial, show=False) for model in pair)
    assert casts.precision == (
        "its forward pass switches to float16 by autocast; all was measured in float32"
    )
    # the initial model switches too, and the whole one stands beside it
    assert [row.pearson for row in casts.ansatz.rows] == [row.pearson for row in whole.ansatz.rows]
    assert casts.regime.score == whole.regime.score
    assert torch.equal(casts.profile.amplitude, whole.profile.amplitude)
    assert any("switches to float16 by autocast" in sentence for sentence in inspection_page(casts).lead)
    assert pair[0](IMAGES).dtype == torch.float16, "the model itself still switches"
    assert not pair[0]._forward_hooks
    assert not pair[0]._forward_pre_hooks


def test_a_comparison_a_profile_and_a_regime_are_in_float32_too(pair):
    casts, whole = pair
    compared = firstlight.compare({"casts": casts, "whole": whole}, DATA, show=False)
    assert [layer.ansatz for layer in compared.models[0].layers] == [
        layer.ansatz for layer in compared.models[1].layers
    ]
    assert any(line.startswith("casts: its forward pass") for line in comparison_page(compared).lead)
    assert torch.equal(firstlight.profile(casts, DATA).amplitude, firstlight.profile(whole, DATA).amplitude)
    initial = Plain()
    assert firstlight.regime(casts, DATA, initial=initial, n_fit=0, show=False).score == (
        firstlight.regime(whole, DATA, initial=initial, n_fit=0, show=False).score
    )


def test_a_watched_model_with_autocast_has_its_profile_and_its_ansatz(pair):
    rows = []
    for model in pair:
        firstlight.watch(model, lambda step, values: rows.append(values), DATA)
    assert "firstlight/ansatz" in rows[0]
    assert rows[0] == rows[1]


class CastsByHand(Autocasts):
    """Casts inside autocast, where that fits."""

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.float16):
            return self.inner(x.half())


def test_what_is_cast_by_hand_inside_autocast_goes_on_in_float32(pair):
    model = CastsByHand()
    model.load_state_dict(pair[1].state_dict())
    pixels = IMAGES.half().float()  # the cast itself rounds them
    by_hand, whole = (firstlight.profile(one, pixels).amplitude for one in (model, pair[1]))
    assert torch.equal(by_hand, whole)
    outputs = firstlight.inspect(model, pixels, show=False), firstlight.inspect(pair[1], pixels, show=False)
    assert [row.pearson for row in outputs[0].ansatz.rows] == [row.pearson for row in outputs[1].ansatz.rows]


# ---------------------------------------------------------------- repeated layers


def test_a_layer_that_is_applied_several_times_says_whose_map_is_shown():
    torch.manual_seed(0)
    inspection = firstlight.inspect(Repeats(), DATA, show=False)
    assert {layer.name: layer.n_calls for layer in inspection.layers} == {
        "first": 1, "again": 3, "last": 1, "rest.2": 1,
    }  # fmt: skip
    assert "again" in [one.name for one in inspection.maps]
    text = render(inspection_page(inspection))
    assert (
        text.count("The model applies this layer 3 times to every image: the maps are those of the last") == 1
    )
    assert "applied 3 times to every image" in text


def test_the_page_of_a_comparison_names_layers_that_were_not_measured():
    compared = firstlight.compare(
        {"one": Segments(), "two": Segments()}, IMAGES, with_regime=False, show=False
    )
    assert any("not measured: up of all models (" in line for line in comparison_page(compared).lead)
