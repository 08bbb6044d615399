"""Check that a release may go out: `make release-check`, or `python tests/release.py [--python python3.12 ...]`.

Texts first, which take no time: the changelog, the citation and the ledger are of this version. Then what users get:
the wheel, installed into an empty environment of each Python, where a network that comes along is measured. Then links,
commands and snippets of the documentation, which make has built before. Every fault is named; any of them ends with 1.
A Python that is not here, or for which the tested torch cannot be had, is no fault: the list says "not tried", and why.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("python3.11", "python3.12", "python3.13")
TORCH = "torch==2.13.0"  # the version that is tested
HEAD = re.compile(r"^## \[([^\]]+)\](?: - (\d{4}-\d\d-\d\d))?$", re.MULTILINE)


def changelog_faults(text: str, version: str) -> list[str]:
    """The newest section is that of the version, dated, and nothing waits above it."""
    (first, date), *_ = HEAD.findall(text) or [("", "")]
    if first == "Unreleased":
        following = text.partition("## [Unreleased]")[2]
        waiting = following[: match.start()] if (match := HEAD.search(following)) else following
        if re.search(r"^- ", waiting, re.MULTILINE):
            return [
                f"CHANGELOG.md: entries stand under [Unreleased]; move them to [{version}] with its date."
            ]
        (first, date), *_ = HEAD.findall(following) or [("", "")]
    if first != version:
        return [f"CHANGELOG.md: the newest section is [{first}]; it must be [{version}]."]
    return [] if date else [f"CHANGELOG.md: [{version}] has no date."]


def citation_faults(citation: str, changelog: str, version: str) -> list[str]:
    """The citation names the version, and the day on which the changelog dates it."""
    cited = re.findall(r"^(version|date-released): (\S+)$", citation, re.MULTILINE)
    wanted = {"version": version, "date-released": dict(HEAD.findall(changelog)).get(version, "")}
    return [
        f"CITATION.cff: {name} is {value}; the release has {wanted[name] or 'no date yet'}."
        for name, value in cited
        if value != wanted[name]
    ]


def ledger_faults(entries: list[dict[str, object]], version: str) -> list[str]:
    """Every claim that ran was run by the version that is released."""
    ran = [entry for entry in entries if entry["version"]]
    old = [entry for entry in ran if entry["version"] != version]
    if not old:
        return [] if ran else ["reproduce/ledger: no claim has run."]
    days = sorted({str(entry["date"]) for entry in old})
    return [
        f"reproduce/ledger: {len(old)} of {len(ran)} claims were run by another version, from {days[0]} to {days[-1]}. "
        "Run `make check-desk`."
    ]


def texts() -> list[str]:
    """Faults of changelog, citation and ledger."""
    from firstlight._internal.version import __version__ as version

    changelog, citation = (
        (ROOT / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md", "CITATION.cff")
    )
    entries = [
        entry
        for file in sorted((ROOT / "reproduce" / "ledger" / "desk").glob("*.json"))
        for entry in json.loads(file.read_text(encoding="utf-8"))["claims"]
    ]
    return [
        *changelog_faults(changelog, version),
        *citation_faults(citation, changelog, version),
        *ledger_faults(entries, version),
    ]


def run(*command: object, cwd: Path = ROOT) -> list[str]:
    """Run a command and return what it said if it fails; elsewhere than here, without this checkout on the path."""
    hidden = () if cwd == ROOT else ("PYTHONPATH",)
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=kept, capture_output=True, text=True)
    words = "\n".join((done.stdout + done.stderr).splitlines()[-12:])
    return [] if done.returncode == 0 else [f"{' '.join(map(str, command[:6]))} ...\n{words}"]


def is_python(command: str) -> bool:
    """Whether a command is there and starts: the shims of pyenv are there for versions that do not."""
    return shutil.which(command) is not None and not run(command, "-c", "pass")


def built_wheel(folder: Path) -> list[str]:
    """Build the wheel into a folder, from a copy: a build folder of an earlier day would bring files that are gone."""
    source = folder / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    return run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source)


def not_tried(python: str, folder: Path) -> str:
    """Make an empty environment with torch in it; return why the rest cannot be tried."""
    if not is_python(python):
        return f"{python} is not installed"
    faults = run(python, "-m", "venv", folder, cwd=folder.parent)
    faults = faults or run(*_pip(folder), TORCH, cwd=folder)
    return f"{TORCH} cannot be installed: {faults[0].splitlines()[-1]}" if faults else ""


def _pip(folder: Path) -> list[object]:
    options = ["--quiet", "--constraint", ROOT / "constraints.txt"]
    return [folder / "bin" / "python", "-m", "pip", "install", *options]


def clean_install(wheel: Path, folder: Path) -> list[str]:
    """Install the wheel beside torch alone; list networks, measure one and make the tour without any checkout."""
    command = folder / "bin" / "firstlight"
    steps: list[Callable[[], list[str]]] = [
        lambda: run(*_pip(folder), wheel, cwd=folder),
        lambda: run(command, "networks", "list", cwd=folder),
        lambda: run(
            command, "profile", "networks:resnet20-cifar10-0", "--data", "photos", "--n", "100", cwd=folder
        ),
        lambda: run(command, "tour", "--output", folder / "tour.html", cwd=folder),
    ]
    return next((faults for step in steps if (faults := step())), [])


def main() -> int:
    """Run all checks and say how each ended."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--python", nargs="*", default=PYTHONS, help="interpreters for the clean installation"
    )
    parser.add_argument("--texts", action="store_true", help="check only changelog, citation and ledger")
    given = parser.parse_args()
    ended = {"changelog, citation, ledger": texts()}
    left_out: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not given.texts:
            ended["wheel"] = built_wheel(folder)
            for number, python in enumerate(given.python if not ended["wheel"] else ()):
                (wheel,) = folder.glob("firstlight-*.whl")
                environment = folder / f"environment-{number}"
                if reason := not_tried(python, environment):
                    left_out[f"clean install, {python}"] = reason
                else:
                    ended[f"clean install, {python}"] = clean_install(wheel, environment)
            ended["links, commands and snippets of the documentation"] = run(
                sys.executable, "-m", "pytest", "-q", "-n", "0", "tests/test_documentation.py"
            )
    for what, faults in ended.items():
        print(f"{'FAULT' if faults else 'good':9}  {what}")
        for fault in faults:
            print("           " + fault.replace("\n", "\n           "))
    for what, reason in left_out.items():
        print(f"not tried  {what}: {reason}")
    return 1 if any(ended.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
