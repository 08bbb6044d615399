"""`firstlight networks ranges` and `add`: what is normal, and networks of one's own that say so."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from firstlight.cli.options import AS_THEY_ARE, TEXT, DataName, FolderOptions, Numbers, OutputFormat, Switch

if TYPE_CHECKING:
    from torch import nn

    from firstlight.networks.reference import Measured


def ranges(*, bank: Switch = False, form: OutputFormat = TEXT) -> None:
    """Show the range of every number over healthy networks, by kind of layer and relative depth.

    Parameters
    ----------
    bank
        First measure the networks of the bank that the ranges do not know yet: about 5 CPU seconds each.
    """
    from firstlight.cli.output import print_records, print_table
    from firstlight.networks.reference import own_file, reference

    added = _add_bank() if bank else 0
    if bank and form.is_text:
        print(f"Added to {own_file()} from the bank: {added}." if added else "Nothing new in the bank.")
    known = reference()
    records = [
        {"layer": place, "number": number, "lowest": one.low, "highest": one.high, "networks": one.n}
        for (place, number), one in sorted(known.ranges.items())
    ]
    if not form.is_text:
        print_records(records, form)
        return
    rows = [
        tuple(f"{value:.3g}" if isinstance(value, float) else str(value) for value in record.values())
        for record in records
    ]
    print_table(f"Ranges over {len(known.healthy)} healthy networks", tuple(records[0]), rows)


def add(
    checkpoint: str,
    *,
    arch: str,
    data: DataName,
    initial: Path | None = None,
    split: str | None = None,
    classes: int | None = None,
    option: Annotated[list[str] | None, Parameter(negative="")] = None,
    mean: Numbers = None,
    std: Numbers = None,
    folder: FolderOptions = AS_THEY_ARE,
    form: OutputFormat = TEXT,
) -> None:
    """Add a healthy network of yours to the ranges, so that later ones are compared with it too.

    Parameters
    ----------
    checkpoint
        File of the weights.
    arch
        Name of an architecture.
    initial
        Weights of the same model before training; without them its movement is not known.
    split
        Images to measure on: train or test. By default test, or all images if there are no splits.
    classes
        Number of outputs; by default as many as the checkpoint has.
    option
        Option of the architecture, as name=value; may be repeated.
    mean
        Mean to subtract from pixels between 0 and 1: one number, or one per channel.
    std
        Number to divide pixels by after the mean is subtracted: one, or one per channel.
    """
    from functools import partial

    from firstlight.cli.options import named_values
    from firstlight.cli.output import print_records
    from firstlight.data.catalogue import load
    from firstlight.models.loading import load_model
    from firstlight.networks.reference import HEALTHY, own_file
    from firstlight.questions.inspect.reference_numbers import measured_numbers

    images = load(data, split, at_most=1000, **folder.options)
    load_from = partial(
        load_model, architecture=arch, classes=classes, shape=images.shape, options=named_values(option)
    )
    network = measured_numbers(
        load_from(checkpoint).eval(),
        images.scaled(mean=mean, std=std),
        initial=None if initial is None else load_from(initial).eval(),
        name=checkpoint,
        family=arch.rstrip("0123456789"),
        group=HEALTHY,
    )
    n = _write_own([network])
    if not form.is_text:
        print_records([{"network": checkpoint, "accuracy": network.accuracy, "networks": n}], form)
        return
    print(f"{checkpoint} classifies {network.accuracy:.1%} of the images correctly.")
    print(f"Networks of yours in {own_file()}: {n}.")


def _add_bank() -> int:
    """Measure trained, untrained and early networks of the bank that nobody measured yet."""
    from firstlight.networks.bank import load_network, network_names
    from firstlight.networks.reference import EARLY, HEALTHY, UNTRAINED, reference
    from firstlight.questions.inspect.reference_numbers import measured_numbers

    known = {network.name for network in reference().networks}
    added = 0
    for name in network_names():
        bank = load_network(name)
        kind, family = bank.definition, bank.definition.spec.name.rstrip("0123456789")
        group = (
            "random labels" if kind.random_labels else "first layer frozen" if kind.recipe.frozen else HEALTHY
        )
        wanted: list[tuple[str, nn.Module, nn.Module | None]] = [(group, bank.model, bank.initial)]
        if group == HEALTHY:
            wanted.append((UNTRAINED, bank.initial, None))
        if group == HEALTHY and len(bank.moments) > 3:
            wanted.append((EARLY, bank.at(bank.moments[-4]), bank.initial))
        for what, model, initial in wanted:
            title = f"{name} {what}"
            if title not in known:
                measured = measured_numbers(
                    model, bank.test_data(), initial=initial, name=title, family=family, group=what
                )
                _write_own([measured])
                added += 1
    return added


def _write_own(networks: "list[Measured]") -> int:
    """Add networks to those of the user, each name once; return their number."""
    from firstlight._internal.environment import environment
    from firstlight._internal.version import __version__
    from firstlight.networks.reference import own_file, read_reference, write_reference

    path = own_file()
    kept = {network.name: network for network in (read_reference(path) if path.is_file() else ())}
    kept |= {network.name: network for network in networks}
    provenance = {"made_by": "firstlight networks", "version": __version__, "machine": environment()}
    write_reference(path, list(kept.values()), provenance)
    return len(kept)
