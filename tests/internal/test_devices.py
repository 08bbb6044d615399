import pytest
import torch
from torch import nn

import firstlight
from firstlight._internal.devices import (
    _all_bits,
    choose_device,
    chosen_device,
    device_of,
    follows_device,
    in_double,
    on_cpu,
    on_given_device,
    placed,
)
from firstlight._internal.environment import environment
from firstlight._internal.errors import InvalidInput
from firstlight.cli.main import app

COMPUTING = ("train", "tour", "identity", "rfm", "labels", "compare", "inspect")


def test_auto_is_a_device_on_which_one_can_compute():
    assert torch.ones(2, device=choose_device("auto")).sum() == 2
    assert choose_device("cpu") == choose_device(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize("name", ["abacus", "", "cpu:7x", "meta"])
def test_devices_that_nobody_has_are_refused(name):
    with pytest.raises(
        InvalidInput, match=r"`device` must be auto, cpu, cuda or mps; .*This machine has: cpu"
    ):
        choose_device(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_the_error_says_why_a_device_is_missing(name):
    why = (
        "torch finds no cuda device here" if torch.backends.cuda.is_built() else "not available in this build"
    )
    with pytest.raises(InvalidInput, match=why):
        choose_device(name)


def test_accelerators_are_preferred_in_order(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.mps, "is_available", lambda: True)
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda", 1)
    assert choose_device("cuda:0") == torch.device("cuda", 0)
    assert choose_device("mps") == torch.device("mps", 0)
    with pytest.raises(InvalidInput, match="this machine has 2 of them"):
        choose_device("cuda:2")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("mps", 0)


def test_a_block_chooses_and_gives_back():
    assert chosen_device() is None
    with firstlight.computing_on("cpu") as device:
        assert chosen_device() == device == torch.device("cpu")
        with firstlight.computing_on(None) as inner:
            assert inner == device
        assert environment()["device"] == "cpu"
    assert chosen_device() is None
    with pytest.raises(InvalidInput), firstlight.computing_on("abacus"):
        pass
    assert chosen_device() is None


def test_a_keyword_chooses_for_the_whole_body():
    @on_given_device
    def where(*, device=None):
        return chosen_device()

    assert where(device="cpu") == torch.device("cpu")
    assert where() is None


def test_on_one_device_nothing_is_moved_or_copied():
    model, kept = nn.Linear(2, 2), {"a": (torch.ones(2), [torch.zeros(1)])}
    weight = model.weight.data_ptr()

    @follows_device
    def look(network, thing):
        return thing

    assert look(model, kept) is kept
    assert on_cpu(kept) is kept
    with placed(model) as device:
        assert device == device_of(model) == torch.device("cpu")
    assert model.weight.data_ptr() == weight


def test_double_precision_is_a_copy():
    model = nn.Linear(2, 2)
    assert in_double(model).weight.dtype == torch.float64
    assert model.weight.dtype == torch.float32


def test_tensor_float_32_is_off_while_a_gpu_computes():
    kinds = torch.backends.cudnn.conv, torch.backends.cuda.matmul
    before = [kind.fp32_precision for kind in kinds]
    with _all_bits(torch.device("cuda")):
        assert [kind.fp32_precision for kind in kinds] == ["ieee", "ieee"]
    assert [kind.fp32_precision for kind in kinds] == before
    with _all_bits(torch.device("cpu")):
        assert [kind.fp32_precision for kind in kinds] == before


@pytest.mark.parametrize("command", COMPUTING)
def test_every_command_that_computes_takes_a_device(command):
    arguments = app[command].assemble_argument_collection()
    device = next(argument for argument in arguments if "--device" in argument.names)
    assert device.field_info.default == "auto"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    "words",
    [
        ("train",),
        ("tour",),
        ("identity",),
        ("rfm",),
        ("rfm", "predict", "nowhere"),
        ("labels", "photos"),
        ("compare", "a.pt", "b.pt", "--data", "photos"),
        ("inspect", "a.pt", "--data", "photos"),
    ],
    ids=" ".join,
)
def test_a_missing_device_is_one_line(words, monkeypatch, capsys, tmp_path):
    from firstlight.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["firstlight", *words, "--device", "cuda"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    line = capsys.readouterr().err.strip()
    assert line.startswith("firstlight: --device must be auto, cpu, cuda or mps; ")
    assert "\n" not in line
    assert not list(tmp_path.iterdir())
