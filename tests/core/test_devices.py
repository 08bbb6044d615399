import pytest
import torch

from firstlight.core.devices import choose_device
from firstlight.core.errors import InvalidInput


def test_auto_is_a_device_on_which_one_can_compute():
    assert torch.ones(2, device=choose_device("auto")).sum() == 2
    assert choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["abacus", "", "cpu:7x"])
def test_devices_that_are_not_here_are_refused(name):
    with pytest.raises(InvalidInput, match="`device` must be auto, cpu or an accelerator"):
        choose_device(name)
