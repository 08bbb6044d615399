"""What is normal: the range of a number over healthy networks, and who lies outside it.

Knows numbers only: what measures them is :mod:`firstlight.questions.inspect.reference_numbers`.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from firstlight._internal.errors import StoreProblem
from firstlight._internal.files import seal_of, whole_file
from firstlight._internal.untrusted_files import guarded, read_json
from firstlight.networks.bank import bank_folders

HEALTHY, UNTRAINED, EARLY = "healthy", "untrained", "early in training"
CONVOLUTION, WHOLE = "convolution", "whole network"
LOGARITHMIC = ("movement", "growth", "rank", "class variation")
"""Numbers whose ratios count: from .2 to .4 is as far as from 1 to 2."""

# Fixed before anything was measured. A range over eight networks spans about three standard deviations, so half of it
# more on both sides leaves out few; what that does to networks of another architecture is measured, not assumed.
MARGIN = 0.5
FLOOR = 0.02  # healthy seeds of one architecture agree this well: no range is called narrower
FEWEST = 4  # networks behind a range
MOST_FALSE_ALARMS = 0.05
SMALLEST = 1e-3  # below, a logarithm only tells zeros apart
FARTHEST = 5.0  # half-widths; beyond, further is not worse


@dataclass(frozen=True, kw_only=True)
class LayerNumbers:
    """Numbers of one layer.

    Parameters
    ----------
    name : str
        The layer.
    kind : str
        ``first convolution``, ``convolution``, ``1 x 1 convolution``, ``hidden linear layer``, ``output layer``,
        ``whole network`` for numbers of no single layer, or another class of layer.
    depth : float
        Between 0 and 1 over the layers between the first and the output.
    numbers : dict of str to float
        By name; those that could not be measured are left out.
    """

    name: str
    kind: str
    depth: float
    numbers: dict[str, float]

    @property
    def place(self) -> str:
        """What it is compared with: layers of its kind, convolutions also by thirds of the depth.

        Examples
        --------
        >>> LayerNumbers(name="4", kind="convolution", depth=0.5, numbers={}).place
        'middle convolution'
        """
        if self.kind != CONVOLUTION:
            return self.kind
        third = "early" if self.depth < 1 / 3 else "middle" if self.depth <= 2 / 3 else "late"
        return f"{third} {CONVOLUTION}"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Numbers of one network.

    Parameters
    ----------
    name : str
        The network.
    family : str
        Its architecture without depth and width: what is held out together.
    group : str
        ``healthy``, or its fault in words.
    accuracy : float
        On test images; NaN if unknown.
    side : int
        Longer side of its images in pixels.
    layers : tuple of LayerNumbers
        In their order.
    """

    name: str
    family: str
    group: str
    accuracy: float
    side: int
    layers: tuple[LayerNumbers, ...]

    @property
    def origin(self) -> str:
        """The network that a planted fault was planted in: the first word of the name, as for its healthy twin."""
        return self.name.split(" ", 1)[0]

    def values(self) -> Iterator[tuple[LayerNumbers, str, float]]:
        """Layer, name and value of every number."""
        for layer in self.layers:
            for number, value in layer.numbers.items():
                if math.isfinite(value):
                    yield layer, number, value


@dataclass(frozen=True, kw_only=True)
class Range:
    """Range of a number over healthy networks.

    Parameters
    ----------
    low, high : float
        Smallest and largest value.
    n : int
        Networks behind it.
    logarithmic : bool
        Whether ratios count.
    """

    low: float
    high: float
    n: int
    logarithmic: bool = False

    def position(self, value: float) -> float:
        """Where a value lies: -1 and 1 are the limits, half the range beyond its ends, and at least 0.02.

        Examples
        --------
        >>> Range(low=0.4, high=0.6, n=8).position(0.7)
        1.0
        """
        low, high, at = (self._scaled(x) for x in (self.low, self.high, value))
        middle, width = (low + high) / 2, max(high - low, FLOOR)
        return round(max(-FARTHEST, min(FARTHEST, (at - middle) / (width * (0.5 + MARGIN)))), 9)

    def _scaled(self, value: float) -> float:
        return math.log(max(value, SMALLEST)) if self.logarithmic else value


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A number beside its range.

    Parameters
    ----------
    layer, place, number : str
        What was measured where.
    value : float
        The number.
    range : Range or None
        None if no healthy network has such a layer.
    """

    layer: str
    place: str
    number: str
    value: float
    range: Range | None

    @property
    def side(self) -> int:
        """-1 below, 1 above, 0 within the limits or without a range."""
        position = 0.0 if self.range is None else self.range.position(self.value)
        return 0 if abs(position) <= 1 else int(math.copysign(1, position))


class Reference:
    """Ranges over the healthy ones of some networks, and the others to compare with.

    Parameters
    ----------
    networks : iterable of Measured
        Healthy and others.
    """

    def __init__(self, networks: Iterable[Measured]) -> None:
        self.networks = tuple(networks)

    @cached_property
    def healthy(self) -> tuple[Measured, ...]:
        """Those that give the ranges."""
        return tuple(network for network in self.networks if network.group == HEALTHY)

    @cached_property
    def ranges(self) -> dict[tuple[str, str], Range]:
        """Range of each number by place and name, where enough networks have it."""
        found: dict[tuple[str, str], list[tuple[int, float]]] = {}
        for index, network in enumerate(self.healthy):
            for layer, number, value in network.values():
                found.setdefault((layer.place, number), []).append((index, value))
        return {
            key: Range(
                low=min(value for _, value in pairs), high=max(value for _, value in pairs),
                n=len({index for index, _ in pairs}), logarithmic=key[1] in LOGARITHMIC,
            )
            for key, pairs in found.items()
            if len({index for index, _ in pairs}) >= FEWEST
        }  # fmt: skip

    def without(self, left_out: Callable[[Measured], bool]) -> "Reference":
        """The same without some networks."""
        return Reference(network for network in self.networks if not left_out(network))

    def covers(self, network: Measured) -> bool:
        """Whether the images have about the size of those here: at most twice as large or as small."""
        sides = [one.side for one in self.healthy]
        return bool(sides) and min(sides) / 2 <= network.side <= 2 * max(sides)

    def readings(self, network: Measured) -> tuple[Reading, ...]:
        """Every number of a network beside its range."""
        ranges = self.ranges if self.covers(network) else {}
        return tuple(
            Reading(
                layer=layer.name, place=layer.place, number=number, value=value,
                range=ranges.get((layer.place, number)),
            )
            for layer, number, value in network.values()
        )  # fmt: skip

    def groups_at(self, reading: Reading) -> dict[str, str]:
        """Which others lie on the same side of that range in that place, as "3 of 4" by group."""
        total: Counter[str] = Counter()
        same: Counter[str] = Counter()
        for network in self.networks:
            sides = [
                Reading(layer="", place=layer.place, number=number, value=value, range=reading.range).side
                for layer, number, value in network.values()
                if (layer.place, number) == (reading.place, reading.number)
            ]
            if sides and network.group != HEALTHY:
                total[network.group] += 1
                same[network.group] += reading.side in sides
        return {group: f"{same[group]} of {n}" for group, n in total.items() if 2 * same[group] > n}

    def signature(self, network: Measured) -> dict[str, float]:
        """Largest, smallest and first position of each number over its layers: a network in a few coordinates."""
        positions: dict[str, list[float]] = {}
        first: dict[str, float] = {}
        for reading in self.readings(network):
            if reading.range is None:
                continue
            position = reading.range.position(reading.value)
            positions.setdefault(reading.number, []).append(position)
            if reading.place.startswith("first"):
                first[f"{reading.number}, first"] = position
        return {
            **{f"{number}, largest": max(some) for number, some in positions.items()},
            **{f"{number}, smallest": min(some) for number, some in positions.items()},
            **first,
        }

    @cached_property
    def _signatures(self) -> tuple[tuple[str, dict[str, float]], ...]:
        return tuple((network.group, self.signature(network)) for network in self.networks)

    def most_like(self, network: Measured) -> str:
        """Group of the nearest network: the root mean square distance over the coordinates that both have."""
        own = self.signature(network)
        return min(
            ((_distance(own, other), group) for group, other in self._signatures), default=(0.0, HEALTHY)
        )[1]


def _distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    common = one.keys() & other.keys()
    if not common:
        return math.inf
    return math.sqrt(sum((one[key] - other[key]) ** 2 for key in common) / len(common))


@dataclass(frozen=True, kw_only=True)
class ErrorRates:
    """How often each number flags each group when its architecture is held out, and what naming the fault is worth.

    Parameters
    ----------
    flagged : dict of str to dict of str to tuple of 2 int
        By number and group: networks flagged, and networks that have the number.
    named : dict of str to dict of str to int
        By true group, how many are most like which group; only those flagged by an earned number are named, the rest
        count as healthy.
    """

    flagged: dict[str, dict[str, tuple[int, int]]]
    named: dict[str, dict[str, int]]

    @cached_property
    def earned(self) -> tuple[str, ...]:
        """Numbers that flag at most 5 % of held-out healthy networks, and more than half of those with some fault."""
        return tuple(number for number, by_group in self.flagged.items() if _is_earned(by_group))

    def naming(self, group: str) -> tuple[int, int, int]:
        """Networks of this group, those named so, and all that are named so."""
        of_group = self.named.get(group, {})
        return (
            sum(of_group.values()),
            of_group.get(group, 0),
            sum(row.get(group, 0) for row in self.named.values()),
        )

    def may_name(self, group: str) -> bool:
        """Whether a network that looks like this group is more often of it than not, and no healthy one does."""
        _, right, called = self.naming(group)
        return 2 * right > called and not self.named.get(HEALTHY, {}).get(group, 0)


def _is_earned(by_group: Mapping[str, tuple[int, int]]) -> bool:
    alarms, healthy = by_group.get(HEALTHY, (0, 0))
    if not healthy or alarms > MOST_FALSE_ALARMS * healthy:
        return False
    return any(2 * hits > n for group, (hits, n) in by_group.items() if group != HEALTHY)


def error_rates(
    reference: Reference, *, together: Callable[[Measured], str] = lambda network: network.family
) -> ErrorRates:
    """Hold networks out in turn, and judge them by the others.

    Parameters
    ----------
    reference : Reference
        All networks.
    together : callable, optional
        What is held out together: by default each family of architectures; ``lambda network: network.origin`` holds
        out a network with what was planted in it, and so judges it by others of its architecture too.
    """
    parts = {together(network) for network in reference.networks}
    others = {part: reference.without(partial(_belongs, part, together)) for part in parts}
    held_out = [(network, others[together(network)]) for network in reference.networks]
    flagged: dict[str, dict[str, tuple[int, int]]] = {}
    for network, rest in held_out:
        known: dict[str, bool] = {}
        for reading in rest.readings(network):
            if reading.range is not None:
                known[reading.number] = known.get(reading.number, False) or bool(reading.side)
        for number, is_outside in known.items():
            hits, n = flagged.setdefault(number, {}).get(network.group, (0, 0))
            flagged[number][network.group] = (hits + is_outside, n + 1)
    earned = ErrorRates(flagged=flagged, named={}).earned
    named: dict[str, dict[str, int]] = {}
    for network, rest in held_out:
        is_flagged = any(reading.side and reading.number in earned for reading in rest.readings(network))
        group = rest.most_like(network) if is_flagged else HEALTHY
        row = named.setdefault(network.group, {})
        row[group] = row.get(group, 0) + 1
    return ErrorRates(flagged=flagged, named=named)


def _belongs(part: str, together: Callable[[Measured], str], network: Measured) -> bool:
    return together(network) == part


# ---------------------------------------------------------------- files

FILE = "reference.json"


def own_file() -> Path:
    """Where networks that a user added are kept."""
    return bank_folders()[0] / FILE


@cache
def packaged() -> tuple[Measured, ...]:
    """Networks that come with the package."""
    return read_reference(Path(__file__).with_name(FILE))


def reference() -> Reference:
    """Ranges over the networks that come with the package and those that were added here."""
    own = own_file()
    return Reference((*packaged(), *(read_reference(own) if own.is_file() else ())))


@cache
def packaged_error_rates() -> ErrorRates:
    """Error rates over the networks that come with the package; nobody knows those of a user's own."""
    return error_rates(Reference(packaged()))


def read_reference(path: Path) -> tuple[Measured, ...]:
    """Read networks from a file and check its seal."""
    with guarded(path, "reference ranges"):
        content: dict[str, Any] = read_json(path)
        if content.pop("sha256", None) != seal_of(content):
            raise StoreProblem(f"{path} was changed after it was written. Make it again.")
        return tuple(_from_json(network) for network in content["networks"])


def write_reference(path: Path, networks: Sequence[Measured], provenance: Mapping[str, Any]) -> None:
    """Write networks with what they were made of, sealed, a network in a line."""
    content = {"provenance": dict(provenance), "networks": [_as_json(network) for network in networks]}
    content["sha256"] = seal_of(content)
    lines = ",\n".join(json.dumps(network) for network in content["networks"])
    head = json.dumps({"provenance": content["provenance"], "sha256": content["sha256"]})[:-1]
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as part:
        part.write_text(f'{head}, "networks": [\n{lines}\n]}}\n')


def _as_json(network: Measured) -> dict[str, Any]:
    layers = [
        [layer.name, layer.kind, round(layer.depth, 3), {k: _short(v) for k, v in layer.numbers.items()}]
        for layer in network.layers
    ]
    accuracy = None if math.isnan(network.accuracy) else round(network.accuracy, 4)
    return {
        "name": network.name, "family": network.family, "group": network.group, "accuracy": accuracy,
        "side": network.side, "layers": layers,
    }  # fmt: skip


def _from_json(network: Mapping[str, Any]) -> Measured:
    accuracy = network["accuracy"]
    return Measured(
        name=str(network["name"]), family=str(network["family"]), group=str(network["group"]),
        accuracy=math.nan if accuracy is None else float(accuracy), side=int(network["side"]),
        layers=tuple(
            LayerNumbers(
                name=str(name), kind=str(kind), depth=float(depth),
                numbers={str(k): float(v) for k, v in numbers.items()},
            )
            for name, kind, depth, numbers in network["layers"]
        ),
    )  # fmt: skip


def _short(value: float) -> float:
    return float(f"{value:.4g}")
