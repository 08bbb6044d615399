"""Completion in real shells: it is installed as a person installs it, then keys are typed into a terminal."""

import os
import pty
import select
import shutil
import subprocess
import time

import pytest

import warm
from limits import COMMAND

START = {"bash": ["bash", "-i"], "zsh": ["zsh", "-i"]}
PROMPT = "now> "
STARTUP = {"bash": f"PS1='{PROMPT}'\n", "zsh": f"PS1='{PROMPT}'; autoload -Uz compinit; compinit -u -D\n"}


@pytest.fixture(params=list(START))
def terminal(request, tmp_path):
    """An interactive shell of somebody who has run `firstlight --install-completion`."""
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / f".{shell}rc").write_text(STARTUP[shell])
    environment = {**os.environ, "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "TERM": "dumb"}
    done = warm.run(
        ["-m", "firstlight", "--install-completion", "--shell", shell], env=environment, timeout=COMMAND
    )
    assert done.returncode == 0, done.stderr
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        START[shell], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    os.write(ours, b"echo rea''dy\n")
    # keys that come before the next prompt are echoed by the terminal, not read by the line editor
    if PROMPT not in shown(ours, "ready").partition("ready")[2]:
        shown(ours, PROMPT)
    yield ours
    process.kill()
    process.wait()
    os.close(ours)


def shown(terminal, awaited):
    """What appears on a terminal, until it holds what is awaited."""
    seen, start = "", time.monotonic()
    while awaited not in seen:
        assert time.monotonic() - start < COMMAND, seen
        if select.select([terminal], [], [], 0.1)[0]:
            seen += os.read(terminal, 4096).decode(errors="replace").replace("\a", "")
    return seen


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("firstlight ins\t", "firstlight inspect"),
        ("firstlight train --output-i\t", "--output-initial"),
        ("firstlight data in\t", "firstlight data info"),
    ],
)
def test_the_tab_key_completes_commands_and_options(terminal, keys, line):
    os.write(terminal, keys.encode())
    assert shown(terminal, line).rstrip().endswith(line)


def test_the_tab_key_leaves_unknown_words_alone(terminal):
    os.write(terminal, b"firstlight nonsense\tX\n")
    assert "firstlight nonsenseX" in shown(terminal, "X")
