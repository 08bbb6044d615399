"""The command line as a person meets it: in a process of its own, with a start from nothing at the end."""

import json
import os
import subprocess
import sys

import pytest

import warm
from limits import COMMAND
from reference.data_files import write_class_folders


def firstlight(*arguments, **environment):
    return warm.run(
        ["-m", "firstlight", *arguments],
        timeout=COMMAND,
        env={**os.environ, "FIRSTLIGHT_JOBS": "1", **environment},
    )


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    """Pages without a name are written where nobody minds."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["tour"],
        ["labels"],
        ["train"],
        ["data"],
        ["data", "get"],
        ["report"],
        ["runs"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_every_command_answers_help(command):
    done = firstlight(*command, "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def test_help_imports_nothing_heavy():
    code = (
        "import sys, firstlight.cli.main as m; m.app(['--help'], result_action='return_value'); "
        "print([n for n in ('torch', 'numpy', 'sklearn', 'scipy', 'numba', 'joblib') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=COMMAND)
    assert done.stdout.strip().endswith("[]"), done.stdout[-300:] + done.stderr


def test_version():
    from firstlight import __version__

    assert firstlight("--version").stdout.strip() == __version__


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runs", "show", "abc"], "No run begins with 'abc'"),
        (["runs", "rm"], "Name at least one run"),
        (["report"], "Name at least one run"),
        (["report", "abc"], "No run begins with 'abc'"),
        (["tour", "--data", "cifar"], "Did you mean 'cifar10'"),
        (["tour", "--minutes", "-1"], "--minutes must lie in"),
        (["tour", "--output", "no/such/folder/x.html"], "folder that exists"),
        (["train", "--arch", "resnet19"], "Did you mean 'resnet1"),
        (["train", "--lr", "-1", "--n", "16"], "--lr must be positive"),
        (["train", "--n", "999999"], "n=999999"),
        (["tour", "--data", "photos", "--n", "999999"], "n=999999"),
        (["rfm", "--data", "photos", "--n", "999999"], "n=999999"),
        (["data", "info", "cifra10"], "Did you mean 'cifar10'"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_bad_input_gives_one_line_and_exit_code_2(arguments, message, tmp_path):
    done = firstlight(*arguments, FIRSTLIGHT_RUNS=str(tmp_path))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("firstlight:")]
    assert len(lines) == 1


@pytest.mark.parametrize("arguments", [["tuor"], ["runs", "lst"], ["tour", "--minute", "3"]], ids=" ".join)
def test_a_mistyped_command_or_option_exits_with_2(arguments):
    done = firstlight(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_doctor_names_versions_and_folders(tmp_path):
    done = firstlight("doctor", "--json", FIRSTLIGHT_DATA=str(tmp_path))
    facts = json.loads(done.stdout)
    assert facts["torch"].startswith("2.")
    assert str(tmp_path) in facts["data folder"]


def test_runs_can_be_listed_shown_and_removed(tmp_path):
    here = {"FIRSTLIGHT_RUNS": str(tmp_path)}
    assert "No runs" in firstlight("runs", "list", **here).stdout
    firstlight("train", "--data", "photos", "--n", "32", "--epochs", "1", **here)
    (run,) = json.loads(firstlight("runs", "list", "--json", **here).stdout)
    assert run["what"] == "train"
    shown = json.loads(firstlight("runs", "show", run["id"][:5], **here).stdout)
    assert shown["config"]["recipe"]["epochs"] == 1
    (tmp_path / run["id"] / "run.json").write_text("broken")
    assert "damaged" in firstlight("runs", "list", **here).stdout
    broken = firstlight("runs", "show", run["id"], **here)
    assert broken.returncode == 2
    assert "is damaged" in broken.stderr
    assert "Removed" in firstlight("runs", "rm", run["id"][:5], **here).stdout


def test_a_trained_network_is_written_and_can_be_loaded(tmp_path):
    target = tmp_path / "model.safetensors"
    done = firstlight(
        "train", "--data", "photos", "--n", "64", "--epochs", "1", "--output", str(target),
        FIRSTLIGHT_RUNS=str(tmp_path / "runs"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "test accuracy" in done.stdout
    from firstlight import data, models

    photos = data.load("photos", split="test", n=8, seed=0)
    model = models.build("small", classes=photos.n_classes, shape=photos.shape)
    models.load_weights(model, target)
    assert model(photos.x).isfinite().all()


def test_a_network_is_trained_on_a_folder_that_has_no_test_split(tmp_path):
    write_class_folders(tmp_path / "pets", {"cat": 12, "dog": 8}, size=(9, 12))
    weights, before = tmp_path / "model.safetensors", tmp_path / "before.safetensors"
    done = firstlight(
        "train", "--data", "pets", "--size", "8", "--epochs", "1", "--output", str(weights),
        "--output-initial", str(before), FIRSTLIGHT_RUNS=str(tmp_path / "runs"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "pets: 16 training and 4 test images (no test split: 4 of 20 images are held out" in done.stderr
    from firstlight import models

    trained, initial = (
        models.load_model(p, architecture="small", shape=(3, 8, 8)) for p in (weights, before)
    )
    fresh = models.build("small", classes=2, shape=(3, 8, 8), seed=0)
    assert all(a.equal(b) for a, b in zip(initial.parameters(), fresh.parameters(), strict=True))
    assert not all(a.equal(b) for a, b in zip(initial.parameters(), trained.parameters(), strict=True))


def test_an_unwritable_runs_folder_gives_one_line(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    done = firstlight(
        "train", "--data", "photos", "--n", "32", "--epochs", "1", FIRSTLIGHT_RUNS=str(blocked / "runs")
    )
    assert done.returncode == 2
    assert "Cannot write" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_tour_ends_with_a_page_without_any_network(tmp_path):
    write_class_folders(tmp_path / "pets", {"cat": 30, "dog": 30}, size=(16, 16))
    done = firstlight(
        "tour", "--data", "pets", "--minutes", "0.1", "--output", str(tmp_path / "tour.html"),
        FIRSTLIGHT_RUNS=str(tmp_path / "runs"), npm_config_offline="true",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "tour.html").read_text()
    assert "Why these features?" in page
    assert len(page) < 12e6
    assert "Still to come" not in page
    said = done.stderr.splitlines()
    assert any(line.startswith("copy or memorise: ") for line in said)
    again = firstlight(
        "report", said[-1].split()[2].strip("`"), "-o", "again.html", FIRSTLIGHT_RUNS=str(tmp_path / "runs")
    )
    assert again.returncode == 0, again.stderr
    assert "Why these features?" in (tmp_path / "again.html").read_text()


def test_a_page_is_written_from_stored_runs(tmp_path):
    here = {"FIRSTLIGHT_RUNS": str(tmp_path)}
    firstlight("train", "--data", "photos", "--n", "32", "--epochs", "1", **here)
    (run,) = json.loads(firstlight("runs", "list", "--json", **here).stdout)
    done = firstlight("report", run["id"][:6], "-o", "page.html", "--static", **here)
    assert done.returncode == 0, done.stderr
    assert "<script" not in (tmp_path / "page.html").read_text()


def test_the_package_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "firstlight", "--help"], capture_output=True, text=True, timeout=COMMAND
    )
    assert done.returncode == 0, done.stderr
    assert "tour" in done.stdout
    refused = subprocess.run(
        [sys.executable, "-m", "firstlight", "tuor"], capture_output=True, text=True, timeout=COMMAND
    )
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
