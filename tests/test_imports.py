"""A question imports what it needs: modules are counted in fresh processes."""

import os
import subprocess
import sys

from firstlight import build
from firstlight.models import save_weights
from limits import COMMAND

LISTED = (
    "print('MODULES', *(n for n in sys.modules if n.split('.')[0] in ('firstlight', 'reproduce', 'scipy')))"
)
INSPECT = "import firstlight; firstlight.inspect"
COMMANDED = "from firstlight.cli.main import app; app(sys.argv[1:], result_action='return_value')"


def modules_after(code, *arguments, **variables):
    """Names of the modules that are loaded in a fresh process once it has run some code."""
    command = [sys.executable, "-c", f"import sys\n{code}\n{LISTED}", *arguments]
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=COMMAND, check=True
    )
    return done.stdout.rpartition("MODULES")[2].split()


def ours(modules):
    return [name for name in modules if name.split(".")[0] == "firstlight"]


def test_inspect_loads_at_most_a_hundred_modules_and_none_of_the_reproduction():
    modules = modules_after(INSPECT)
    assert 40 < len(ours(modules)) <= 100, modules
    assert len(ours(modules)) == len(modules), "neither the reproduction nor SciPy"


def test_the_command_loads_at_most_150_modules_and_none_of_the_reproduction(tmp_path):
    weights = save_weights(build("small", classes=8, width=0.25).state_dict(), tmp_path / "w.safetensors")
    arguments = [
        "inspect",
        str(weights),
        "--arch",
        "small",
        "--option",
        "width=0.25",
        "--data",
        "photos",
        "--n",
        "8",
    ]
    page = str(tmp_path / "page.html")
    modules = modules_after(COMMANDED, *arguments, "--output", page, FIRSTLIGHT_RUNS=str(tmp_path / "runs"))
    assert os.path.getsize(page) > 10_000
    assert 80 < len(ours(modules)) <= 150, modules
    assert not [name for name in modules if name.split(".")[0] == "reproduce"]
