"""One plain training loop, ensembles and checkpoints."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight.training.ensemble import Trained, train_ensemble, train_once
    from firstlight.training.loop import History, accuracy, predictions, train, train_on
    from firstlight.training.observers import Observer, Recorder, Snapshots, geometric_steps
    from firstlight.training.recipe import Recipe

lazy_exports(__name__)
