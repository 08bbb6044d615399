"""The list of runs says what the folders say, whatever happened to them."""

import json
import os
import random
import shutil
import subprocess
import sys

import pytest
import torch

from firstlight._internal.errors import FirstlightError, StoreProblem
from firstlight._internal.store import RunSpec, Store
from firstlight._internal.store.index import listed_runs
from firstlight.cli.output import MANY_ROWS, print_table


def write(store, *numbers):
    specs = [RunSpec(what=f"test {number}", config={"n": number}) for number in numbers]
    for spec in specs:
        store.write(spec, {"x": torch.ones(3)}, wall_seconds=0.0, cpu_seconds=1.5)
    return [spec.id for spec in specs]


def read_one_by_one(root):
    """The same list from the folders alone."""
    store, runs = Store(root), []
    for id in store.ids():
        try:
            run = store.load(id)
        except FirstlightError:
            runs.append((id, "damaged", "", "", ""))
            continue
        runs.append((id, run.spec.what, run.finished, f"{run.cpu_seconds:.1f}", run.commit))
    return runs


def flip(path, seed):
    rng, raw = random.Random(seed), bytearray(path.read_bytes())
    raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    path.write_bytes(raw)


def remove_a_run(root, ids):
    shutil.rmtree(root / ids[0])


def remove_the_arrays(root, ids):
    (root / ids[0] / "arrays.safetensors").unlink()


def damage_the_words(root, ids):
    flip(root / ids[0] / "run.json", 0)


def exchange_two_folders(root, ids):
    (root / ids[0]).rename(root / "aside")
    (root / ids[1]).rename(root / ids[0])
    (root / "aside").rename(root / ids[1])


def put_a_file_in_place_of_a_folder(root, ids):
    shutil.rmtree(root / ids[0])
    (root / ids[0]).touch()


def add_a_copied_folder(root, ids):
    other = Store(root.with_name("other"))
    (id,) = write(other, 77)
    shutil.copytree(other.root / id, root / id)


def put_a_pipe_in_place_of_the_words(root, ids):
    (root / ids[0] / "run.json").unlink()
    os.mkfifo(root / ids[0] / "run.json")


def nothing(root, ids):
    pass


@pytest.mark.parametrize(
    "change",
    [
        nothing, remove_a_run, remove_the_arrays, damage_the_words, exchange_two_folders, add_a_copied_folder,
        put_a_file_in_place_of_a_folder, put_a_pipe_in_place_of_the_words,
    ],
)  # fmt: skip
def test_the_list_says_what_the_folders_say(tmp_path, change):
    root = tmp_path / "runs"
    ids = write(Store(root), 0, 1, 2)
    change(root, ids)
    assert listed_runs(root) == read_one_by_one(root)


def test_changed_arrays_are_noticed_when_the_run_is_loaded_not_when_it_is_listed(tmp_path):
    (id,) = write(Store(tmp_path), 0)
    flip(tmp_path / id / "arrays.safetensors", 0)
    assert ["damaged" in row for row in listed_runs(tmp_path)] == [False]
    with pytest.raises(StoreProblem, match="damaged"):
        Store(tmp_path).load(id)


def test_a_list_of_runs_needs_no_torch(tmp_path):
    write(Store(tmp_path), 0)
    script = (
        "import sys; from firstlight.cli.runs import list_runs\n"
        "from firstlight.cli.options import OutputFormat\n"
        "list_runs(form=OutputFormat(json=True)); assert 'torch' not in sys.modules"
    )
    environment = {**os.environ, "FIRSTLIGHT_RUNS": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["what"] == "test 0"


def test_a_long_table_is_printed_row_by_row(capsys):
    rows = [(str(i), "[red]\x1b[2J") for i in range(MANY_ROWS + 1)]
    print_table("many", ("number", "word"), rows)
    said = capsys.readouterr().out.splitlines()
    assert said[:3] == ["many", "number  word", "0       [red]\\x1b[2J"]
    assert len(said) == MANY_ROWS + 3
