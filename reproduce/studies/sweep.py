"""A study whose only question is how some numbers change along one factor."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from reproduce.catalogue import Study
from reproduce.evidence import Evidence, Measured, Point, by


class SweepStudy(Study):
    """Measures the same numbers at each value of a factor; run and figure are inherited.

    A subclass names the field of its config that holds the values, how to prepare what is measured at one
    value, and what to read from it.
    """

    factor: ClassVar[str]
    """Field of the config that holds the values, such as "kernels"."""

    axis: ClassVar[str]
    """What the horizontal axis says."""

    log_axis: ClassVar[bool] = False

    readings: ClassVar[dict[str, Callable[[Any], float]]]
    """Numbers to read at each value, by name."""

    title: ClassVar[str] = ""
    """Of the figure; the question if empty."""

    @classmethod
    @abstractmethod
    def outcomes(cls, cfg: Any, values: Sequence[Any]) -> Sequence[Any]:
        """What is measured, one item per value of the factor, for the seed of the config."""

    @classmethod
    def label(cls, value: Any) -> Point:
        """How a value of the factor is called in rules and figures."""
        return value if isinstance(value, int | float | str) else str(value)

    @classmethod
    def run(cls, cfg: Any) -> Measured:
        """Measure at every value of the factor."""
        values = getattr(cfg, cls.factor)
        items = cls.outcomes(cfg, values)
        points = [cls.label(value) for value in values]
        return {name: by(points, [read(item) for item in items]) for name, read in cls.readings.items()}

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw every reading over the factor."""
        judged, nulls = map(set, cls.spoken_of(evidence))
        names = [name for name in cls.readings if name in judged | nulls] or list(cls.readings)
        points = evidence.points(names[0])
        roles = iter(("trained", "random labels", "theory", "other", "initial") * len(names))
        series = [
            Curve(name=name, values=evidence.table(name), role="null" if name in nulls else next(roles))
            for name in names
        ]
        is_numeric = all(isinstance(point, int | float) for point in points)
        return curves(
            series,
            title=cls.title or cls.question(),
            alt=f"{', '.join(names)} by {cls.axis}, mean and range over seeds",
            x=cls.axis if is_numeric else f"{cls.axis}: {', '.join(str(p) for p in points)}",
            y=cls.unit or "value",
            at=[float(point) for point in points] if is_numeric else None,
            log_x=cls.log_axis and is_numeric,
        )
