"""The `firstlight` command: what it offers, and how errors look."""

import io
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from cyclopts import App, CycloptsError

from firstlight._internal.errors import FirstlightError, lacks_memory
from firstlight._internal.files import clear_disk_errors
from firstlight._internal.processes import Terminated, heed_termination
from firstlight._internal.safe_text import visible
from firstlight._internal.version import __version__

app = App(
    name="firstlight",
    version=__version__,
    suppress_keyboard_interrupt=False,  # `main` says what is kept, and tells SIGTERM from Ctrl-C
    help="Show what a convolutional network learns, in what order, and why.",
    help_epilogue=(
        "Start with `firstlight tour`. Data sets are kept in the folder FIRSTLIGHT_DATA, results in FIRSTLIGHT_RUNS."
    ),
)

# Named as text, so that a command's module is imported only when that command runs or is explained.
for _name, _where, _help in (
    ("tour", "questions.tour", "Study a small network on real images and write one page about it."),
    ("inspect", "questions.inspect", "Inspect a trained network of yours and write one page about it."),
    ("labels", "questions.labels", "Find labels that look wrong: a page to look through, and a CSV."),
    ("compare", "questions.compare", "Compare checkpoints of a training, or several models, on one page."),
    (
        "profile",
        "questions.first_layer",
        "Print how much of the first layer needs no labels, beside random filters.",
    ),
    (
        "ansatz",
        "questions.inspect.ansatz_command:ansatz",
        "Print how far filters follow gradients, layer by layer, beside chance.",
    ),
    (
        "ntk",
        "questions.regime.command:ntk",
        "Print how well the tangent kernel fits the labels, beside shuffled ones.",
    ),
    (
        "regime",
        "questions.regime.command:regime",
        "Print at which width the linearisation of a network would catch up with it.",
    ),
    ("train", "cli.train:train", "Train a network and write its weights; an interrupted training resumes."),
    ("networks", "cli.networks:app", "List, train and check the networks of the bank."),
    (
        "rfm",
        "questions.kernel.command:app",
        "Learn the features of a convolutional kernel, and predict with it.",
    ),
    (
        "identity",
        "questions.copy_or_memorise",
        "Train networks of several depths to copy an image: copy or memorise?",
    ),
    ("data", "cli.data:app", "List, fetch and describe data sets."),
    ("report", "cli.report:report", "Write one page about stored runs."),
    ("runs", "cli.runs:app", "List, show and remove stored runs."),
    ("doctor", "cli.doctor:doctor", "Print versions, memory, folders and what works on this machine."),
):
    app.command(
        f"firstlight.{_where if ':' in _where else f'{_where}.command:{_name}'}", name=_name, help=_help
    )

app.register_install_completion_command(
    help="Complete commands and options in your shell: bash, zsh or fish. Adds a line to its startup file."
)

KEPT = "Finished runs are kept; the same command resumes."
WHAT_IS_KEPT = {
    "inspect": "A first page that was written stays; the same command starts again.",
    "tour": "Finished parts are kept; the same command resumes.",
    "train": "What was trained is kept; the same command resumes.",
    "networks": "What was trained is kept; the same command resumes.",
    "identity": "Finished networks are kept; the same command resumes.",
}


def main() -> None:
    """Run the command line."""
    run(app)


def run(command: App) -> None:
    """Run a command as it was called; bad input ends in one line on stderr and exit code 2."""
    (name,) = command.name
    heed_termination()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files may be no text
    try:
        with clear_disk_errors(Path.cwd()):
            command(exit_on_error=False)
    except CycloptsError:  # already printed, with the nearest command or option
        sys.exit(2)
    except FirstlightError as error:
        _fail(name, _for_command_line(command, error))
    except KeyboardInterrupt as stop:
        for number in (signal.SIGINT, signal.SIGTERM):  # an impatient second one must not end in a traceback
            signal.signal(number, signal.SIG_IGN)
        print(f"\n{name}: stopped. {_kept(command)}", file=sys.stderr)
        sys.exit(143 if isinstance(stop, Terminated) else 130)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:  # of the file system, which is no fault of ours
        if error.errno is None:
            raise
        _fail(
            name, f"{error.strerror}: {error.filename}" if error.filename is not None else str(error.strerror)
        )
    except (MemoryError, RuntimeError) as error:
        if lacks_memory(error):
            _fail(
                name,
                f"there is not enough memory. Use fewer or smaller images, or free some memory. {_kept(command)}",
            )
        if not str(error).startswith("Symlink loop"):  # an OSError since Python 3.13
            raise
        _fail(name, str(error))


def _kept(app: App) -> str:
    """What an interrupted command leaves behind."""
    (name,) = app.name
    if name != "firstlight":
        return KEPT
    return WHAT_IS_KEPT.get((sys.argv[1:] or [""])[0], "Nothing is kept; the same command starts again.")


def _fail(name: str, message: str) -> NoReturn:
    """End with one line; names of files may hold line breaks."""
    print(f"{name}: {visible(message)}".replace("\n", "\\n"), file=sys.stderr)
    sys.exit(2)


def _for_command_line(app: App, error: FirstlightError) -> str:
    """The message with the flags of the command that ran in place of the library's argument names."""
    from firstlight.cli.output import in_flags

    _, apps, _ = app.parse_commands(sys.argv[1:])
    command = apps[-1]
    if command.default_command is None:
        return str(error)
    flags = [name for argument in command.assemble_argument_collection() for name in argument.names]
    module = sys.modules[command.default_command.__module__]
    return in_flags(str(error), flags, getattr(module, "FLAGS", {}))


if __name__ == "__main__":
    main()
