"""What a command says of flags is true: each flag it names exists, and each flag has a word of help."""

import ast
import re
from pathlib import Path

import pytest

import firstlight
from crash.tiny_commands import COMMANDS as DISTURBED
from firstlight.cli.main import app
from firstlight.cli.output import in_flags

SOURCE = Path(firstlight.__file__).parent
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
# flags of npm, git and pip in the commands that we run or advise
FOREIGN = {
    "--abbrev", "--always", "--cache", "--dest", "--dirty", "--error-unmatch", "--exclude", "--fetch-retries",
    "--force-reinstall", "--ignore-scripts", "--index-url", "--loglevel", "--no-cache-dir", "--no-deps",
    "--detach", "--end-of-options", "--force", "--nthreads", "--only-binary", "--quiet", "--short", "--update-notifier",
    "--verify",
}  # fmt: skip


def commands():
    """Every command with its function, by its words."""
    by_words = {}

    def walk(group, words):
        for name in group:
            if name.startswith("-"):
                continue
            command = group[name]
            if command.default_command is not None:
                by_words[" ".join([*words, name])] = command
            walk(command, [*words, name])

    walk(app, [])
    return by_words


COMMANDS = commands()


_flags = {}


def flags_of(command):
    """Flags of a command, gathered once: that takes longer than to read a module, and there are 400 of these."""
    if id(command) not in _flags:
        found = {name for argument in command.assemble_argument_collection() for name in argument.names}
        _flags[id(command)] = frozenset(found)
    return _flags[id(command)]


def words_of(path):
    """All text in a module: string literals, docstrings included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def named(text):
    """Flags in a text, each with the command it is said of, if the text says `firstlight ...`."""
    of_commands = [
        (command, flag)
        for said in re.findall(r"`firstlight ([^`]*)`", text)
        for command in sorted(COMMANDS, key=len, reverse=True)
        if said.startswith(command)
        for flag in FLAG.findall(said)
    ]
    alone = FLAG.findall(re.sub(r"`firstlight [^`]*`", "", text))
    return of_commands, alone


def test_all_commands_are_seen():
    assert {"tour", "inspect", "train", "rfm", "rfm predict", "data get", "runs list"} <= COMMANDS.keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_has_help(name):
    for argument in COMMANDS[name].assemble_argument_collection(parse_docstring=True):
        if argument.show:
            assert (argument.parameter.help or "").strip(), f"{name} {argument.name} says nothing of itself"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_that_a_command_names_is_one_of_its_own(name):
    command = COMMANDS[name]
    module = Path(command.default_command.__code__.co_filename)
    others = {flag for other in COMMANDS.values() if _module(other) == module for flag in flags_of(other)}
    help_texts = [a.parameter.help or "" for a in command.assemble_argument_collection(parse_docstring=True)]
    help_texts.append(command.default_command.__doc__ or "")
    for text in help_texts:
        for flag in named(text)[1]:
            assert flag in flags_of(command), f"{name}: {flag} in {text!r}"
    for text in words_of(module):
        for flag in named(text)[1]:
            assert flag in others, f"{module.name}: {flag} in {text!r}"


def _module(command):
    return Path(command.default_command.__code__.co_filename)


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_flag_in_a_message_of_the_library_exists(path):
    known = set().union(*(flags_of(command) for command in COMMANDS.values())) | {"--help", "--version"}
    for text in words_of(path):
        of_commands, alone = named(text)
        for command, flag in of_commands:
            assert flag in flags_of(COMMANDS[command]), f"`firstlight {command}` has no {flag}: {text!r}"
        for flag in alone:
            assert flag in known | FOREIGN, f"{flag} in {text!r}"


def test_every_command_that_writes_a_page_can_write_it_without_scripts():
    base = (SOURCE / "pages/templates/base.html").read_text(encoding="utf-8")
    assert "--static" in base
    scriptless = ("train", "networks order")  # no page at all
    pages = {name: flags_of(command) for name, command in COMMANDS.items()}
    writing = [name for name, flags in pages.items() if "--output" in flags and name not in scriptless]
    assert len(writing) > 5
    assert all("--static" in pages[name] for name in writing)


def test_arguments_of_the_library_are_called_by_their_flags():
    flags = flags_of(COMMANDS["inspect"])
    from firstlight.questions.inspect.command import FLAGS

    assert set(FLAGS.values()) <= flags
    said = in_flags("`n_images` and `skip_broken`, `output_part`, `photos` and `a b`", flags, FLAGS)
    assert said == "--n and --skip-broken, --model-output, `photos` and `a b`"


@pytest.mark.parametrize(
    "name", [name for name, one in DISTURBED.items() if one.words.startswith("firstlight ")]
)
def test_the_commands_that_are_disturbed_take_their_flags(name):
    """`make crash` runs for hours; what it runs is parsed here, so that a renamed flag is noticed at once."""
    words = DISTURBED[name].words.split()[1:]
    _, bound, _ = app.parse_args(words, print_error=False, exit_on_error=False)
    assert bound.arguments
