"""
Watch a training in Lightning
=============================

One callback sends what the network learns to the logger of the training: how far its layers moved, how many
filters died. In a plain loop, call it after every step.
"""

# %%
# A training as you have it
# -------------------------

import logging
import warnings

import torch
from torch import nn

import firstlight
from firstlight.pages.figures import Curve, curves

photos = firstlight.load("photos", split="train", n=320, seed=0)
torch.manual_seed(0)
model = firstlight.build("small", classes=photos.n_classes, shape=photos.shape, width=0.5)

# %%
# The watcher
# -----------
# ``logger`` may be Lightning's, TensorBoard's, a file or, as here, any function. By default it takes one per cent of
# the training time; this training is so short that we allow it more.

rows: list[tuple[int, dict[str, float]]] = []
watcher = firstlight.watch(model, lambda step, values: rows.append((step, values)), every=5, budget=10.0)

try:
    import pytorch_lightning as lightning
except ImportError:
    lightning = None  # then the plain loop below runs

if lightning is not None:
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)  # its hints are not the subject here
    warnings.filterwarnings("ignore", module="pytorch_lightning")

    class Classifier(lightning.LightningModule):
        """The network with a loss and an optimiser."""

        def __init__(self) -> None:
            super().__init__()
            self.network = model

        def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
            """Return the loss of one batch."""
            return nn.functional.cross_entropy(self.network(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            """Return the optimiser."""
            return torch.optim.Adam(self.parameters(), lr=2e-3)

    batches = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(photos.x, photos.y), batch_size=32, shuffle=True
    )
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(
        max_epochs=4, accelerator="cpu", callbacks=[watcher], enable_model_summary=False, **quiet
    )
    trainer.fit(Classifier(), batches)
else:
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _epoch in range(4):
        for batch in torch.randperm(len(photos)).split(32):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(photos.x[batch]), photos.y[batch]).backward()
            optimiser.step()
            watcher()

# %%
# What came out
# -------------
# Blue: all weights. Green: the first layer.

steps = [step for step, _ in rows]
names = ("firstlight/movement", "firstlight/first_layer_movement")
print(f"{len(rows)} measurements; at step {steps[-1]} the weights had moved by {rows[-1][1][names[0]]:.2f}")
curves(
    [
        Curve(
            name=name.removeprefix("firstlight/"),
            values=torch.tensor([[v[name] for _, v in rows]]),
            role=role,
        )
        for name, role in zip(names, ("trained", "theory"), strict=True)
    ],
    at=steps,
    title="Movement of the weights",
    alt="How far the weights moved from the initial ones, by step",
    x="step",
    y="distance from the initial weights, relative",
)
