"""`firstlight networks`: the bank of trained networks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from firstlight.cli.options import TEXT, OutputFormat, Switch

if TYPE_CHECKING:
    from firstlight.networks.bank import Network

app = App(name="networks", help="List, train and check the networks of the bank; what is normal.")
# Named as text: these commands measure, and so are imported only when they run or are explained.
for _name, _help in (
    ("ranges", "Show the range of every number over healthy networks."),
    ("add", "Add a healthy network of yours to the ranges."),
):
    app.command(f"firstlight.questions.inspect.reference_command:{_name}", name=_name, help=_help)


@app.command(name="list")
def list_networks(*, form: OutputFormat = TEXT) -> None:
    """List the networks that are here, with accuracies and sizes, and those that can be trained.

    With --json their cards.
    """
    from firstlight.cli.output import print_json, print_records, print_table
    from firstlight.networks.bank import load_network, network_names
    from firstlight.networks.definitions import KINDS

    networks = [load_network(name) for name in network_names()]
    records = [_record(network) for network in networks]
    if form.json:
        print_json([network.card for network in networks])
        return
    if form.csv:
        print_records(records, form)
        return
    rows = [
        (
            record["name"], f"{record['training']:.1%}", f"{record['test']:.1%}", str(record["moments"]),
            f"{record['bytes'] / 1e6:.1f} MB", f"{record['CPU hours']:.2f}",
        )
        for record in records
    ]  # fmt: skip
    if rows:
        print_table(
            f"{len(rows)} networks", ("name", "training", "test", "moments", "size", "CPU hours"), rows
        )
    there = {network.name for network in networks}
    missing = [
        (f"{kind.kind}-{seed}", kind.data, f"{kind.cpu_hours:.1f}")
        for kind in KINDS.values()
        for seed in range(3)
        if f"{kind.kind}-{seed}" not in there
    ]
    if missing:
        print_table(
            f"{len(missing)} that `firstlight networks train NAME` makes",
            ("name", "data", "CPU hours"),
            missing,
        )


def _record(network: "Network") -> dict[str, Any]:
    last = network.card["accuracies"][str(network.moments[-1])]
    return {
        "name": network.name,
        "training": last["train"],
        "test": last["test"],
        "moments": len(network.moments),
        "bytes": sum(file["bytes"] for file in network.card["files"].values()),
        "CPU hours": network.card["cpu_hours"],
    }


@app.command
def train(name: str, *, again: Switch = False) -> None:
    """Train a network of the bank on one core; an interrupted training goes on where it stopped.

    Parameters
    ----------
    name
        Kind and seed, such as resnet20-cifar10-0; `firstlight networks list` shows the kinds.
    again
        Replace a network of this name that is in the bank already.
    """
    from firstlight.networks.bank import bank_folders
    from firstlight.networks.definitions import definition
    from firstlight.networks.training import train_network

    kind, _ = definition(name.removeprefix("networks:"))
    print(f"This takes about {kind.cpu_hours:.1f} CPU hours on one core. Ctrl-C keeps what is done.")
    network = train_network(name, again=again)
    last = network.card["accuracies"][str(network.moments[-1])]
    print(
        f"Wrote {bank_folders()[0] / network.name}. Training accuracy {last['train']:.1%}, test accuracy "
        f"{last['test']:.1%}, {network.card['cpu_hours']:.2f} CPU hours."
    )


@app.command
def check(
    name: str,
    *,
    steps: int = 30,
    whole: Annotated[bool, Parameter(negative="")] = False,
    form: OutputFormat = TEXT,
) -> None:
    """Compare a network with what its card says; exit with 1 if anything lies outside its bound.

    Checks the files, the initial weights, the losses of the first steps of a new training, and the test accuracy.

    Parameters
    ----------
    name
        Kind and seed, such as resnet20-cifar10-0.
    steps
        Number of steps to train again.
    whole
        Train all of it again, which takes as long as the card says.
    """
    from firstlight.cli.output import print_records
    from firstlight.networks.training import check_network

    result = check_network(name, steps=steps, whole=whole)
    if not form.is_text:
        row = {
            "name": result.name, "steps": result.n_steps, "loss error": result.loss_error,
            "test accuracy": result.accuracy, "recorded": result.recorded, "faults": list(result.faults),
        }  # fmt: skip
        print_records([row], form)
        raise SystemExit(bool(result.faults))
    for fault in result.faults:
        print(fault)
    if result.faults:
        raise SystemExit(1)
    print(
        f"{result.name} is what its card says: initial weights equal, losses of {result.n_steps} steps within "
        f"{result.loss_error:.1g}, test accuracy {result.accuracy:.4f} (card {result.recorded:.4f})."
    )


@app.command
def order(
    *, data: str = "cifar10", output: Path = Path("learning-order.csv.gz"), form: OutputFormat = TEXT
) -> None:
    """Write in what order the images of a data set are learned: accessibility of each by architecture.

    Parameters
    ----------
    data
        Name of the data set; all networks here that were trained on all of its images count.
    output
        Table to write; compressed if it ends in .gz.
    """
    from firstlight.cli.output import print_records, print_table
    from firstlight.networks.order_table import order_table, write_order_table

    table = order_table(data)
    write_order_table(table, output)
    means = {kind: float(table.scores[kind].mean()) for kind in table.networks}
    agreement, kinds = table.agreement, () if table.agreement is None else table.agreement.names
    records = [
        {"architecture": a, "and": b, "measured": float(agreement.correlation[i, j]),
         "chance": float(agreement.chance[i, j])}
        for i, a in enumerate(kinds)
        for j, b in enumerate(kinds)
        if agreement is not None and i < j
    ]  # fmt: skip
    if not form.is_text:
        print_records(records, form, document={"accessibility": means, "rank_correlation": records})
        return
    for kind, names in table.networks.items():
        print(f"{kind}: mean accessibility {means[kind]:.3f}, from {', '.join(names)}")
    if records:
        rows = [
            (str(r["architecture"]), str(r["and"]), f"{r['measured']:.3f}", f"{r['chance']:.3f}")
            for r in records
        ]
        print_table("Rank correlation", ("architecture", "and", "measured", "chance (95%)"), rows)
    print(f"Wrote {output}.")
