"""Is a number normal? Every number of an inspection beside its range over healthy networks."""

import math
from dataclasses import dataclass
from functools import cached_property

from firstlight.networks.reference import (
    HEALTHY,
    ErrorRates,
    Measured,
    Reading,
    Reference,
    packaged_error_rates,
    reference,
)
from firstlight.pages.page import Section
from firstlight.questions.inspect.reference_numbers import N_IMAGES, NUMBERS, numbers_of
from firstlight.questions.inspect.result import Inspection

TITLE = "Is that normal?"
NONE = "no reference for this kind of layer"
IMAGES_WORDS = (
    f"Gradients of the reference were measured on {N_IMAGES} images; for two networks of the bank, 512 move "
    "correlations by 0.02 at most."
)
SIDES = {-1: "below", 1: "above"}


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A network beside the reference.

    Parameters
    ----------
    network : Measured
        Its numbers.
    reference : Reference
        Ranges, and networks with known faults.
    rates : ErrorRates
        What a flag and a name are worth, with architectures held out.
    """

    network: Measured
    reference: Reference
    rates: ErrorRates

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """Every number beside its range."""
        return self.reference.readings(self.network)

    @property
    def outside(self) -> tuple[Reading, ...]:
        """Readings outside their range, of numbers that have earned to be heard."""
        return tuple(r for r in self.readings if r.side and r.number in self.rates.earned)

    @cached_property
    def looks_like(self) -> str:
        """Fault of the nearest network, if a number flags this one and the name can be relied on; else empty."""
        if not self.outside:
            return ""
        group = self.reference.most_like(self.network)
        return group if group != HEALTHY and self.rates.may_name(group) else ""

    @property
    def healthy_words(self) -> str:
        """How many healthy networks there are, and how accurate."""
        accuracies = [one.accuracy for one in self.reference.healthy if not math.isnan(one.accuracy)]
        at = f" ({min(accuracies):.0%} to {max(accuracies):.0%} correct)" if accuracies else ""
        return f"{len(self.reference.healthy)} healthy networks{at}"

    def sentence(self) -> str:
        """What stands at the head of the page."""
        known = [r for r in self.readings if r.range is not None and r.number in self.rates.earned]
        if not known:
            return f"Is that normal? Not known: {NONE} and images of this size."
        if not self.outside:
            return f"Nothing that tells faults apart lies outside the range of {self.healthy_words}."
        worst = max(self.outside, key=lambda r: abs(r.range.position(r.value)) if r.range else 0.0)
        assert worst.range is not None
        others = _others(self, worst)
        more = len(self.outside) - 1
        return (
            f"In layer {worst.layer}, the {NUMBERS[worst.number]} is {worst.value:.2f}, {SIDES[worst.side]} the range "
            f"of {self.healthy_words}: {worst.range.low:.2f} to {worst.range.high:.2f}"
            f"{f'. So it is in {others}' if others else ''}.{f' {more} more such numbers lie outside.' * bool(more)}"
            f"{self.diagnosis()}"
        )

    def diagnosis(self) -> str:
        """The fault that the numbers point to, with its error rates; empty if none can be relied on."""
        group = self.looks_like
        if not group:
            return ""
        n, right, called = self.rates.naming(group)
        healthy, *_ = self.rates.naming(HEALTHY)
        return (
            f" It is most like a network with this history: {group}. Of networks whose architecture was held out, "
            f"{right} of {n} with it are named so, {called - right} with another fault and none of {healthy} healthy "
            "ones."
        )


def judged(inspection: Inspection) -> Judgement:
    """An inspected network beside the reference that is in use here."""
    return Judgement(network=numbers_of(inspection), reference=reference(), rates=packaged_error_rates())


def reference_section(judgement: Judgement) -> Section:
    """Every layer's numbers beside their ranges."""
    return Section(
        title=TITLE,
        answer=f"{judgement.sentence()} {IMAGES_WORDS}",
        details={layer.name: _line(judgement, layer.name) for layer in judgement.network.layers},
    )


def _others(judgement: Judgement, reading: Reading) -> str:
    if not reading.side:
        return ""
    return ", ".join(f"{group} ({share})" for group, share in judgement.reference.groups_at(reading).items())


def _line(judgement: Judgement, layer: str) -> str:
    """All numbers of a layer with their ranges."""
    readings = [r for r in judgement.readings if r.layer == layer]
    known = [_beside(r) for r in readings if r.range is not None]
    return "; ".join(known) if known else NONE


def _beside(reading: Reading) -> str:
    assert reading.range is not None
    where = SIDES.get(reading.side, "within")
    return (
        f"{reading.number} {reading.value:.2f}, {where} {reading.range.low:.2f} to {reading.range.high:.2f} of "
        f"{reading.range.n} networks"
    )
