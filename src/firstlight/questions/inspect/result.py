"""What an inspection found, in numbers."""

import math
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from firstlight._internal.result import Result
from firstlight._internal.table import Row, cells
from firstlight.measures.feature_ansatz.ansatz import CROSSED, FILTERS, INITIAL, TRAINED, Ansatz
from firstlight.measures.feature_ansatz.filter_activity import FilterFaults
from firstlight.measures.feature_ansatz.layer_maps import Eigenvectors, LayerMaps
from firstlight.measures.first_layer.energy_profile import Profile
from firstlight.measures.linearized.weight_change import LayerChange
from firstlight.questions.inspect.accuracy import Outcome
from firstlight.questions.inspect.newer_papers import FeatureReport
from firstlight.questions.regime.measure import RegimeResult


@dataclass(frozen=True, kw_only=True)
class LayerSummary(Result):
    """What a layer is: its name, its class, the shape and number of its weights, and how often an image meets it."""

    name: str
    kind: str
    shape: tuple[int, ...]
    n_weights: int
    n_calls: int = 1


@dataclass(frozen=True, kw_only=True)
class Inspection(Result):
    """What :func:`inspect` measured.

    Parameters
    ----------
    name : str
        Of the model, as the reader should see it.
    n_parameters : int
        Of all layers.
    layers : tuple of LayerSummary
        Those that were measured.
    data_name, n_images, image_shape
        What the model was shown.
    outcome : Outcome
        How often the model is right, beside chance, and whether anything else here means something.
    profile : Profile or None
        Energy profile of the first convolution; None if there is none.
    ansatz : Ansatz
        Correlations of all layers with their nulls, trained and initial.
    eigenvectors : tuple of Eigenvectors
        Leading ones of the first convolution, of feature matrix and gradients.
    maps : tuple of LayerMaps
        What some of the layers look at in `shown`.
    shown : Tensor of shape (n, ...)
        A few of the images, scaled to [0, 1].
    faults : tuple of FilterFaults
        Dead and duplicate filters.
    changes : tuple of LayerChange
        Distance of every layer from its initial weights.
    initial_source : str
        Where the initial weights come from, in words.
    has_own_initial : bool
        Whether training began there; a fresh initialisation is unrelated to the model.
    regime : RegimeResult or None
        Lazy or feature learning; None if the initial weights are not known or the outputs cannot tell.
    no_regime : str
        Why there is none, in words.
    is_fast : bool
        Fewer images were taken on request.
    seconds : float
        It took.
    features : FeatureReport or None
        What later papers add: the ansatz of what changed, exponents, class variation, richness; None if the
        model cannot be run that way.
    precision : str
        How the precision of these numbers differs from that of the model, in words; empty if it does not.
    pending : tuple of str
        What is still to come, in words; empty when all is measured.
    """

    name: str
    n_parameters: int
    layers: tuple[LayerSummary, ...]
    data_name: str
    n_images: int
    image_shape: tuple[int, ...]
    outcome: Outcome
    profile: Profile | None
    ansatz: Ansatz
    eigenvectors: tuple[Eigenvectors, ...]
    maps: tuple[LayerMaps, ...]
    shown: Float[Tensor, "n *shape"]
    faults: tuple[FilterFaults, ...]
    changes: tuple[LayerChange, ...]
    initial_source: str
    has_own_initial: bool
    regime: RegimeResult | None
    no_regime: str
    is_fast: bool
    seconds: float
    features: FeatureReport | None = None
    precision: str = ""
    pending: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line: all numbers would fill a terminal many times."""
        shape = " x ".join(map(str, self.image_shape))
        skipped = f", {len(self.unmeasured)} not measured" if self.unmeasured else ""
        right = "" if math.isnan(self.accuracy) else f", {self.accuracy:.1%} correct"
        return (
            f"Inspection({self.name!r}, {self.n_parameters:,} parameters, {self.n_layers} layers{skipped}; "
            f"{self.n_images} images of {shape}{right})"
        )

    def _rows(self) -> list[Row]:
        """One row for each layer: what it is, filters against gradients, faults, movement."""
        rows: dict[str, Row] = {layer.name: cells(layer) for layer in self.layers}
        for row in self.ansatz.pair(TRAINED):
            rows[row.layer] |= cells(row)
        for fault in self.faults:
            rows[fault.name] |= cells(fault)
        for change in self.changes:
            rows[change.name] |= cells(change, "change_")
        said = {"layer", "name", "pair", "change_name"}  # the name once, and all are the trained pair
        return [
            {"layer": layer, **{name: value for name, value in row.items() if name not in said}}
            for layer, row in rows.items()
        ]

    @property
    def accuracy(self) -> float:
        """Share of right answers; NaN without labels."""
        return self.outcome.value

    @property
    def chance(self) -> float:
        """Share of the largest class; NaN without labels."""
        return self.outcome.chance

    @property
    def unmeasured(self) -> dict[str, str]:
        """Layers that nothing here speaks of, with the reason.

        A layer of which only the initial network has no correlation is measured all the same.
        """
        pairs = tuple(f" ({pair})" for pair in (INITIAL, CROSSED, FILTERS))
        return {name: why for name, why in self.ansatz.skipped.items() if not name.endswith(pairs)}

    @property
    def silent(self) -> tuple[FilterFaults, ...]:
        """Layers all of whose filters are dead: they contribute nothing on these images."""
        return tuple(fault for fault in self.faults if len(fault.dead) == fault.n_filters)

    @property
    def outputs(self) -> frozenset[str]:
        """Layers that give the outputs; empty until gradients are measured."""
        return frozenset(row.layer for row in self.ansatz.rows if row.is_output)

    @property
    def n_layers(self) -> int:
        """Number of layers that the model has, measured or not."""
        return len({layer.name for layer in self.layers} | self.unmeasured.keys())
