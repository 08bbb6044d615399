"""The list of runs says what the folders say, whatever happened to either of them."""

import json
import os
import random
import shutil
import subprocess
import sys

import pytest
import torch

from firstlight._internal.errors import FirstlightError
from firstlight._internal.store import RunSpec, Store
from firstlight._internal.store.index import INDEX, Listed, listed_runs
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
            runs.append(Listed(id=id, is_damaged=True))
            continue
        about = {"what": run.spec.what, "finished": run.finished, "commit": run.commit}
        runs.append(Listed(id=id, cpu_seconds=run.cpu_seconds, **about))
    return runs


def flip(path, seed):
    rng, raw = random.Random(seed), bytearray(path.read_bytes())
    raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    path.write_bytes(raw)


def remove_a_run(root, ids):
    shutil.rmtree(root / ids[0])


def damage_the_arrays(root, ids):
    flip(root / ids[0] / "arrays.safetensors", 0)


def damage_the_words(root, ids):
    flip(root / ids[0] / "run.json", 0)


def restore_the_age_of_a_damaged_file(root, ids):
    file = root / ids[0] / "run.json"
    before = file.stat()
    flip(file, 0)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


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


def remove_the_index(root, ids):
    (root / INDEX).unlink()


def damage_the_index(root, ids):
    flip(root / INDEX, 1)


def cut_the_index(root, ids):
    (root / INDEX).write_bytes((root / INDEX).read_bytes()[:-30])
    write(Store(root), 88)


def put_a_pipe_in_place_of_the_index(root, ids):
    (root / INDEX).unlink()
    os.mkfifo(root / INDEX)
    write(Store(root), 88)


def put_a_folder_in_place_of_the_index(root, ids):
    (root / INDEX).unlink()
    (root / INDEX).mkdir()
    write(Store(root), 88)


def take_the_index_of_another_store(root, ids):
    other = Store(root.with_name("other"))
    write(other, 0, 1, 99)
    listed_runs(other.root)
    shutil.copyfile(other.root / INDEX, root / INDEX)


def nothing(root, ids):
    pass


@pytest.mark.parametrize(
    "change",
    [
        nothing, remove_a_run, damage_the_arrays, damage_the_words, restore_the_age_of_a_damaged_file,
        exchange_two_folders, put_a_file_in_place_of_a_folder, add_a_copied_folder, remove_the_index,
        damage_the_index, cut_the_index, put_a_pipe_in_place_of_the_index, put_a_folder_in_place_of_the_index,
        take_the_index_of_another_store,
    ],
)  # fmt: skip
@pytest.mark.parametrize("listed_before", [True, False])
def test_the_list_says_what_the_folders_say(tmp_path, change, listed_before):
    root = tmp_path / "runs"
    ids = write(Store(root), 0, 1, 2)
    if listed_before:
        listed_runs(root)
    change(root, ids)
    for _ in range(2):
        assert listed_runs(root) == read_one_by_one(root)


@pytest.mark.parametrize("listed_before", [True, False])
def test_a_run_that_did_not_change_is_not_read_again(tmp_path, monkeypatch, listed_before):
    ids = write(Store(tmp_path), 0, 1)
    if listed_before:
        listed_runs(tmp_path)
    expected = read_one_by_one(tmp_path)
    monkeypatch.setattr(Store, "load", lambda *_: pytest.fail("a folder was read"))
    assert listed_runs(tmp_path) == expected
    shutil.rmtree(tmp_path / ids[0])
    assert [run.id for run in listed_runs(tmp_path)] == ids[1:]


def test_two_processes_that_write_at_once_are_both_listed(tmp_path):
    script = (
        "import sys; from pathlib import Path; from firstlight._internal.store.index import Listed, note_run\n"
        "for i in range(200): note_run(Path(sys.argv[1]), Listed(id=sys.argv[2], what=str(i)))"
    )
    ids = write(Store(tmp_path), 0, 1)
    (tmp_path / INDEX).unlink()
    both = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), id]) for id in ids]
    assert [one.wait() for one in both] == [0, 0]
    assert len((tmp_path / INDEX).read_bytes().split(b"\n\n")) == 400
    assert {run.what for run in listed_runs(tmp_path)} == {"199"}


def test_a_list_of_runs_needs_no_torch(tmp_path):
    write(Store(tmp_path), 0)
    script = (
        "import sys; from firstlight.cli.runs import list_runs\n"
        "list_runs(json=True); assert 'torch' not in sys.modules"
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
