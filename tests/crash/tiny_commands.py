"""Commands that write, on inputs so small that each takes a fraction of a second."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from firstlight.cli import main as firstlight_cli
from machines import Machines
from reproduce.__main__ import app as reproduce_app

SIDE = 12
CLUSTER = "FIRSTLIGHT_CRASH_CLUSTER"


def _nothing(out: Path) -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Command:
    """One command, what it needs before and while it runs, and how it may refuse to do again what is done."""

    name: str
    words: str
    prepare: Callable[[Path], None] = _nothing
    done: str = "no refusal"
    skipped: str = "nothing is skipped"
    surroundings: Callable[[], AbstractContextManager[None]] = nullcontext

    def call(self) -> None:
        """Run the command in this process, as its entry point does."""
        make_small()
        stored = [name for name in os.listdir(os.environ["FIRSTLIGHT_RUNS"]) if len(name) == 16]
        words = self.words.replace("RUN", stored[0] if stored else "0")
        program, *words = words.replace("CLUSTER", os.environ.get(CLUSTER, "")).split()
        sys.argv = [program, *words]
        firstlight_cli.run(reproduce_app if program == "reproduce" else firstlight_cli.app)

    def refuses(self, said: str) -> bool:
        """Whether the command said that its work is done already."""
        return self.done in said

    def may_skip(self, said: str) -> bool:
        """Whether the command said that it did without something."""
        return self.skipped in said


def make_small() -> None:
    """Save a checkpoint at every step, and offer a network of the bank and a tour that take a moment."""
    from firstlight.data import fetched
    from firstlight.models.building import ModelSpec
    from firstlight.networks import definitions, training
    from firstlight.questions.tour import parts, run, subject
    from firstlight.training import loop
    from firstlight.training.recipe import Recipe

    loop.CHECKPOINT_SECONDS = training.CHECKPOINT_SECONDS = 0.0
    # a page and a list of runs that grow, without the parts that only compute
    run.PARTS = parts.PARTS = tuple(part for part in parts.PARTS if part.name in ("network", "first_layer"))
    subject.EPOCHS = (1, 1, 1)
    fetched._demand_complete = lambda entry, splits: None  # a few images pass for a whole data set
    definitions.SCALING["pets.npz"] = ((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    definitions.LICENCES["pets.npz"] = "theirs"
    definitions.KINDS["tiny"] = definitions.Definition(
        kind="tiny",
        spec=ModelSpec(name="small", shape=(3, SIDE, SIDE)),
        data="pets.npz",
        recipe=Recipe(lr=0.1, batch_size=20, epochs=1),
    )


def prepare(command: Command, out: Path) -> None:
    """Make what a command needs, in the folder it is to run in."""
    make_small()
    _images(out)
    command.prepare(out)


def _call(words: str) -> None:
    Command(name="", words=words).call()


def _images(out: Path) -> None:
    """Two classes of small images to train on and to test with, in one file: each that is read is a case more."""
    rng, arrays = np.random.default_rng(0), {}
    for split, count in (("", 40), ("_test", 10)):
        y = np.arange(count) % 2
        x = rng.normal(100 + 50 * y[:, None, None, None], 40, (count, SIDE, SIDE, 3))
        arrays |= {f"x{split}": x.clip(0, 255).astype(np.uint8), f"y{split}": y}
    np.savez(out / "pets.npz", **arrays)
    np.save(out / "probabilities.npy", np.eye(2)[(np.arange(40) + 1) % 2] * 0.8 + 0.1)


def _decisions(out: Path) -> None:
    """A folder of three pictures for each of two classes, and what is to become of three of them."""
    from PIL import Image

    for label in ("cat", "dog"):
        folder = out / "pets" / label
        folder.mkdir(parents=True)
        for index in range(3):
            Image.new("RGB", (4, 4), (index, 0, len(label))).save(folder / f"{index}.png")
    rows = ["file,label,decision,new_label", "pets/cat/0.png,cat,relabel,dog"]
    rows += ["pets/cat/1.png,cat,remove,", "pets/dog/0.png,dog,keep,"]
    (out / "decisions.csv").write_text("\n".join(rows) + "\n")


def _labelled_table(out: Path) -> None:
    _decisions(out)
    files = sorted((out / "pets").rglob("*.png"))
    rows = [f"{file.relative_to(out)},{file.parent.name}" for file in files]
    (out / "pets.csv").write_text("\n".join(["file,label", *rows]) + "\n")


def copy_of_mnist(out: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {f"x_{split}": rng.integers(0, 256, (20, 28, 28), dtype=np.uint8) for split in ("train", "test")}
    np.savez(
        out / "copy.npz",
        **arrays,
        **{f"y_{split}": np.arange(20) % 10 for split in ("train", "test")},
    )


def _cached_mnist(out: Path) -> None:
    copy_of_mnist(out)
    _call("firstlight data get mnist --from copy.npz")


def _trained(out: Path) -> None:
    _call("firstlight train --data pets.npz --epochs 1 --output w.safetensors")


def _trained_network(out: Path) -> None:
    _call("firstlight networks train tiny-0")


@contextmanager
def _cluster() -> Iterator[None]:
    """A scheduler and a worker, which keeps its runs: the client has something to write at once."""
    with tempfile.TemporaryDirectory(prefix="crash-") as folder:
        machines = Machines(Path(folder))
        try:
            machines.add_worker("--no-nanny", "--preload", "firstlight.training")
            os.environ[CLUSTER] = machines.address
            yield
        finally:
            machines.close()


_TRAIN = (
    "firstlight train --data pets.npz --epochs 1 --batch-size 20 --output w.safetensors --output-initial i.st"
)
_RFM = (
    "firstlight rfm --data pets.npz --n 30 --depth 1 --rounds 1 --no-network"
    " --output-machine machine --output page.html"
)
_INSPECT = "firstlight inspect w.safetensors --arch small --data pets.npz --n 8 --fast --output page.html"
_APPLY = "firstlight labels pets --apply decisions.csv --output right"
_APPLY_TABLE = "firstlight labels pets.csv --apply decisions.csv"
_EXISTS = "must not exist yet"

COMMANDS = {
    one.name: one
    for one in (
        Command("train", _TRAIN),
        Command("networks-train", "firstlight networks train tiny-0", done="already"),
        Command("networks-train-again", "firstlight networks train tiny-0 --again", _trained_network),
        Command("labels", "firstlight labels pets.npz --pred-probs probabilities.npy --output page.html"),
        Command("labels-apply", _APPLY, _decisions, done=_EXISTS),
        Command("labels-apply-table", _APPLY_TABLE, _labelled_table, done=_EXISTS),
        Command("rfm", _RFM, done=_EXISTS, skipped="is not kept"),
        Command("tour", "firstlight tour --data pets.npz --minutes 0.05 --output page.html"),
        Command("inspect", _INSPECT, _trained, skipped="is not kept"),
        Command("reproduce", "reproduce run relu2.psi0 --record ledger --output page.html", skipped="is left out"),
        Command("data-get", "firstlight data get mnist --from copy.npz", copy_of_mnist),
        Command("data-rm", "firstlight data rm mnist", _cached_mnist),
        Command("cluster", f"{_TRAIN} --networks 2 --cluster CLUSTER", surroundings=_cluster),
        Command("runs-rm", "firstlight runs rm RUN", _trained, done="No run begins"),
    )
}  # fmt: skip


@dataclass(frozen=True)
class InPlace(Command):
    """A writer as none may be: it goes on from whatever lies there."""

    def call(self) -> None:
        """Append the second half to the first, which is written if nothing is there."""
        path = Path("file")
        for half in ("first ", "second")[path.exists() :]:
            with path.open("a") as file:
                file.write(half)


PLANTED = InPlace("planted", "")
