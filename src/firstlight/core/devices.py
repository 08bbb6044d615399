"""Where to compute."""

import torch

from firstlight.core.errors import InvalidInput


def choose_device(name: str) -> torch.device:
    """Return the device of that name; ``"auto"`` takes the accelerator of this machine if there is one."""
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if name == "auto":
        return accelerator if accelerator is not None else torch.device("cpu")
    if name != "cpu" and (accelerator is None or accelerator.type != name.partition(":")[0]):
        here = accelerator.type if accelerator is not None else "none"
        raise InvalidInput(
            f"`device` must be auto, cpu or an accelerator of this machine ({here}); got {name!r}."
        )
    return torch.device(name)
