"""The documentation says what is there: names, commands, links, snippets, claims."""

import ast
import importlib
import importlib.util
import pkgutil
import re
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import firstlight
from firstlight._internal.registry import Registry
from firstlight.cli.main import app
from firstlight.networks.definitions import KINDS
from reproduce import catalogue
from reproduce.__main__ import app as reproduction
from reproduce.catalogue import THEMES, claims
from reproduce.evidence import Evidence
from reproduce.judge import judge
from reproduce.run import entry_not_run

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.append(str(DOCS / "_ext"))
reference = importlib.import_module("api_reference")
PAGES = sorted(p for p in DOCS.rglob("*.md") if not {"_build", "gallery"} & set(p.relative_to(DOCS).parts))
WRITTEN = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
FENCE = re.compile(r"^(?P<mark><!--[^\n]*-->\n)?```python\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL)
STUDY = "<!-- study -->\n"


def name_of(path):
    return str(path.relative_to(ROOT))


def documented():
    """Names that the API reference documents, in full: its pages as the build expands them."""
    names, module = [], ""
    for page in sorted((DOCS / "api").glob("*.md")):
        for line in reference.expand(page.read_text(encoding="utf-8")).splitlines():
            if set_module := re.match(r"\.\. py:(?:module|currentmodule):: (\S+)", line):
                module = set_module[1]
            elif item := re.match(r"\.\. (?:auto\w+|py:data):: (\S+)", line):
                names.append(f"{module}.{item[1]}")
    return Counter(names)


def exported():
    """Names that packages below the top export, in full; internal machinery and the command line export nothing."""
    for module in pkgutil.walk_packages(firstlight.__path__, "firstlight."):
        if not module.ispkg or re.match(r"firstlight\.(_internal|cli)\b", module.name):
            continue
        package = importlib.import_module(module.name)
        yield from (
            f"{module.name}.{name}"
            for name in getattr(package, "__all__", ())
            if not isinstance(getattr(package, name), ModuleType)
        )


def answers():
    """Public functions and classes of measures and of what measures for a question, in full."""
    library = ROOT / "src" / "firstlight"
    for path in sorted([*library.glob("questions/*/measure.py"), *library.glob("measures/*/[a-z]*.py")]):
        module = importlib.import_module(".".join(path.relative_to(library.parent).with_suffix("").parts))
        for name, thing in vars(module).items():
            if not name.startswith("_") and getattr(thing, "__module__", "") == module.__name__:
                yield f"{module.__name__}.{name}"


def test_every_public_name_is_in_the_api_reference_once():
    promised = {f"firstlight.{name}" for name in firstlight.__all__ if name != "__version__"}
    public = promised | set(exported()) | set(answers())
    assert len(public) > 230
    missing = sorted(public - documented().keys())
    assert not missing, f"Give these packages a page in docs/api/: {', '.join(missing)}."
    assert not [name for name, times in documented().items() if times > 1]


def test_the_page_of_promised_names_has_an_example_of_each():
    text = reference.top_level()
    for name in firstlight.__all__:
        if name != "__version__":
            assert f"\n| [`{name}`](#{name.lower()}) | " in text
            assert "\n## " + name + "\n" in text


def test_a_promised_name_without_an_example_is_refused(monkeypatch):
    monkeypatch.setattr(firstlight.load, "__doc__", "Load images.")
    with pytest.raises(LookupError, match=r"firstlight\.load is promised and has no example"):
        reference.top_level()


def module_of(tmp_path, monkeypatch, code):
    (tmp_path / "undocumented_module.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "undocumented_module", raising=False)
    return "undocumented_module"


@pytest.mark.parametrize(
    "code",
    [
        "def f(): pass",
        "class f: pass",
        "from dataclasses import dataclass\n@dataclass\nclass f:\n    x: int = 0",
        "f = 1",
    ],
    ids=["function", "class", "dataclass", "constant"],
)
def test_a_public_name_without_a_docstring_is_refused(code, tmp_path, monkeypatch):
    name = module_of(tmp_path, monkeypatch, f'"""A module."""\n__all__ = ["f"]\n{code}\n')
    with pytest.raises(LookupError, match="public and has no docstring"):
        reference.reference(name)


def test_a_new_public_name_needs_no_edit_of_a_page(tmp_path, monkeypatch):
    code = (
        '"""A module."""\n__all__ = ["f", "LIMIT"]\nLIMIT = 1\n"""A bound."""\ndef f():\n    """Do it."""\n'
    )
    text = reference.reference(module_of(tmp_path, monkeypatch, code))
    assert "## A module\n" in text
    assert ".. autofunction:: f\n" in text
    assert ".. py:data:: LIMIT\n\n   A bound.\n" in text


def errata():
    """Numbers that the page of errata explains."""
    return Counter(
        re.findall(r"^\(e-(\d\d)\)=$", (DOCS / "errata.md").read_text(encoding="utf-8"), re.MULTILINE)
    )


def test_every_erratum_that_is_cited_has_an_entry():
    cited = {
        number: path.name
        for path in sorted([*(ROOT / "src").rglob("*"), *(ROOT / "reproduce").rglob("*")])
        if path.suffix in (".py", ".yaml", ".html")
        for number in re.findall(r"\bE-(\d\d)\b", path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 30
    missing = {f"E-{number}": name for number, name in cited.items() if number not in errata()}
    assert not missing, f"docs/errata.md does not explain {missing}."
    assert set(errata().values()) == {1}


def test_entries_of_errata_stand_under_their_own_label():
    text = (DOCS / "errata.md").read_text(encoding="utf-8")
    entries = re.findall(r"^\(e-(\d\d)\)=\n\*\*E-(\d\d)\*\* \((?:misprint|open)\)\. ", text, re.MULTILINE)
    assert len(entries) == errata().total()
    assert all(label == number for label, number in entries)


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_links_to_errata_resolve(page):
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"\]\([^)]*#e-(\d\d)\)", text)) <= errata().keys()


def test_nothing_cites_notes_that_are_not_in_the_repository():
    notes = re.compile(r"\b(?:SPEC(?:\.md| \d)|FEASIBILITY|ALGORITHMS\.md|DESIGN\.md)")
    citing = [
        name_of(path)
        for folder in ("src", "docs", "benchmarks", "examples")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".yaml", ".md") and not {"_build", "gallery"} & set(path.parts)
        if notes.search(path.read_text(encoding="utf-8"))
    ]
    assert not citing


COMMANDS = {
    name: {command for command in commands if not command.startswith("-")}
    for name, commands in (("firstlight", app), ("reproduce", reproduction))
}


@pytest.mark.parametrize(
    "command", sorted(f"{name} {one}" for name, known in COMMANDS.items() for one in known)
)
def test_every_command_is_in_the_documentation(command):
    pages = [page for page in PAGES if command in page.read_text(encoding="utf-8")]
    assert pages, f"`{command}` is not mentioned in docs/: getting-started.md has the table."


def code_of(page):
    """What a page shows as code of a shell: fences, and words between backticks."""
    text = page.read_text(encoding="utf-8")
    fences = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return fences + re.findall(
        r"`([^`\n]+(?:\n[^`\n]+)?)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    )


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_commands_that_a_page_shows_exist(page):
    code = code_of(page)
    shown = {
        found
        for part in code
        for found in re.findall(r"^(firstlight|reproduce)\s([a-z]+)", part, re.MULTILINE)
    }
    unknown = sorted(f"{name} {command}" for name, command in shown if command not in COMMANDS[name])
    assert not unknown, f"{name_of(page)} shows commands that do not exist: {', '.join(unknown)}."


def flags_of(name, words):
    """Flags of the command that begins a line, such as `data get svhn`, and those of all commands."""
    command = {"firstlight": app, "reproduce": reproduction}[name]
    for word in words:
        if word.startswith("-") or word not in command:
            break
        command = command[word]
    own = command.assemble_argument_collection() if command.default_command else ()
    return {flag for argument in own for flag in argument.names} | {"--help", "--version"} | set(command)


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_flags_that_a_page_shows_exist(page):
    if page.name in ("changelog.md", "rule-changes.md") or page.parent.name == "decisions":
        return  # they speak of their time
    lines = [
        line.partition("#")[0] for part in code_of(page) for line in part.replace("\\\n", " ").splitlines()
    ]
    unknown = [
        line
        for line in lines
        if (shown := re.match(r"(firstlight|reproduce) (.+)", line))
        and set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", shown[2])) - flags_of(shown[1], shown[2].split())
    ]
    assert not unknown, f"{name_of(page)} shows flags that do not exist: {unknown}."


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_internal_links_resolve(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        path = (page.parent / target.split("#")[0]).resolve()
        if re.match(r"\w+://|mailto:|#", target) or path.exists():
            continue
        if path.parent == DOCS / "gallery" and (ROOT / "examples" / f"{path.name}.py").exists():
            continue  # made from the examples when the documentation is built
        broken.append(target)
    assert not broken, f"{name_of(page)} links to what is not there: {', '.join(broken)}."


def exists(name):
    """Whether a dotted name leads to a module, to something in one, or to a field of a class."""
    module, _, rest = name.partition(".")
    thing = importlib.import_module(module)
    for part in rest.split("."):
        if isinstance(thing, ModuleType) and not hasattr(thing, part):
            if importlib.util.find_spec(f"{thing.__name__}.{part}") is None:
                return False
            importlib.import_module(f"{thing.__name__}.{part}")
        if part in getattr(thing, "__dataclass_fields__", ()):
            return True
        if not hasattr(thing, part):
            return False
        thing = getattr(thing, part)
    return True


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_code_that_a_page_names_exists(page):
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"\{py:\w+\}`(?:[^`<]*<)?~?([\w.]+)>?`", text))
    named |= set(re.findall(r"`((?:firstlight|reproduce)(?:\.\w+)+)", text))
    missing = sorted(name for name in named if not exists(name))
    assert not missing, f"{name_of(page)} names what is not there: {', '.join(missing)}."


@pytest.mark.parametrize(
    "page", [page for page in WRITTEN if page.parent.name != "decisions"], ids=name_of
)  # a decision speaks of its time
def test_files_that_a_page_names_exist(page):
    named = re.findall(r"`([\w./]+/[\w.]+\.(?:py|yaml|md|yml))`", page.read_text(encoding="utf-8"))
    roots = (ROOT, ROOT / "src" / "firstlight", page.parent)
    missing = sorted({name for name in named if not any((root / name).is_file() for root in roots)})
    assert not missing, f"{name_of(page)} names files that are not there: {', '.join(missing)}."


def snippets(page):
    return [(found["mark"], found["code"]) for found in FENCE.finditer(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(not mark for mark, _ in snippets(page))], ids=name_of
)
def test_snippets_run(page, capsys):
    # All of one page in order, as a reader types them. A comment `<!-- ... -->` above a fence leaves it out.
    names = {"__name__": "snippet"}
    for mark, code in snippets(page):
        if not mark:
            exec(compile(code, name_of(page), "exec"), names)
    assert len(names) > 2


def test_a_notebook_written_from_the_page_ends_in_a_pdf_with_two_results(capsys):
    names = {"__name__": "snippet"}
    for _, code in snippets(DOCS / "notebooks.md")[:2]:
        exec(compile(code, "notebooks.md", "exec"), names)
    assert list(names["frame"].layer) == ["0", "4", "8", "13"]
    assert str(names["frame"].pearson.round(6)[0]) in capsys.readouterr().out
    titles = [names["profile"].figure().title, names["ansatz"].figure("correlation").title]
    assert [axes.get_title() for axes in (names["left"], names["right"])] == titles
    assert names["left"].has_data()
    assert names["right"].has_data()
    assert Path(names["folder"], "two.pdf").read_bytes().startswith(b"%PDF-")


def test_the_study_of_the_guide_is_judged(monkeypatch):
    page = DOCS / "add-a-measure-or-claim.md"
    (code,) = [code for mark, code in snippets(page) if mark == STUDY]
    monkeypatch.setattr(catalogue, "_STUDIES", Registry("study"))
    names = {"__name__": "reproduce.studies.first_layer.mixing"}
    exec(compile(code, name_of(page), "exec"), names)
    made = names["Mixing"]
    assert made.name == "first_layer/mixing"
    evidence = Evidence.of({0: made.at_scale("smoke").run()})
    (text,) = re.findall(r"<!-- rule -->\n```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (claim,) = (catalogue._claim(row) for row in yaml.safe_load(text))
    judgement = judge(claim.rule, evidence, exact=claim.exact)
    assert (judgement.verdict, judgement.null_verdict) == ("reproduced", "beyond")
    assert made.figure(evidence).title


def test_theme_pages_show_every_claim_once():
    shown = Counter()
    for page in sorted((DOCS / "themes").glob("*.md")):
        for theme, topics in re.findall(
            r"```\{ledger\} (\w+)\n(?::topics: ([^\n]+)\n)?", page.read_text(encoding="utf-8")
        ):
            wanted = [topic.strip() for topic in topics.split(",") if topic.strip()]
            known = {claim.topic for claim in claims().values() if claim.theme == theme}
            assert theme in THEMES
            assert set(wanted) <= known, f"{page.name}: topics of {theme} are {sorted(known)}."
            shown.update(
                c.id for c in claims().values() if c.theme == theme and (not wanted or c.topic in wanted)
            )
    assert shown == Counter(claims().keys())


@pytest.mark.parametrize(
    ("verdict", "null_verdict", "mark"),
    [
        ("reproduced", "beyond", "✓"),
        ("reproduced", "none possible", "✓"),
        ("reproduced", "not beyond", "≈"),
        ("partly", "beyond", "◐"),
        ("not reproduced", "not beyond", "✗"),
        ("inconclusive", "beyond", "?"),
        ("not run", "", "–"),
    ],
)
def test_the_mark_of_a_claim_follows_from_both_verdicts(verdict, null_verdict, mark):
    pytest.importorskip("sphinx")
    ledger = importlib.import_module("ledger")
    entry = entry_not_run(claims()["profile.fig14.resnets"], scale="desk", reason="a test")
    entry = replace(entry, verdict=verdict, null_verdict=null_verdict)
    assert ledger.MARKS[ledger.kind_of(entry)] == mark
    assert sum(entry.summary in group for group in ledger.GROUPS.values()) == 1  # counted in one column


@pytest.mark.parametrize(
    ("latex", "kept"), [(r"a &= b \\ c &= d", "<mtable"), (r"a = \arg\max_b c", ">argmax<")]
)
def test_a_formula_leaves_no_latex_behind(latex, kept):
    pytest.importorskip("sphinx")
    drawn = importlib.import_module("mathml").mathml(latex, "block")
    assert kept in drawn
    assert "\\" not in drawn
    assert "<mi>&" not in drawn


@cache
def words_of_the_library():
    """Every text that stands in the source, what is filled in replaced by a line break."""
    found = []
    for path in (ROOT / "src" / "firstlight").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [str(part.value) if isinstance(part, ast.Constant) else "\n" for part in node.values]
                found.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def test_messages_of_the_troubleshooting_page_are_those_of_the_library():
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    messages = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(messages) > 10
    for message in messages:
        parts = [part.strip() for part in message.split("...")]
        assert any(all(part in text for part in parts) for text in words_of_the_library()), message


def test_the_page_of_the_bank_names_every_kind():
    page = (DOCS / "networks.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page.partition("\n## Kinds\n")[2].partition("\n## ")[0], re.MULTILINE)
    assert Counter(name for row in rows for name in re.findall(r"`([\w-]+)`", row)) == Counter(list(KINDS))


def test_papers_and_version_agree_everywhere():
    papers = {claim.paper for claim in claims().values()} - {
        "NewerPapers"
    }  # many papers, each by its arXiv number
    bibliography = (DOCS / "references.bib").read_text(encoding="utf-8")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert papers <= set(re.findall(r"^@\w+\{(\w+),", bibliography, re.MULTILINE))
    assert {reference["abbreviation"] for reference in citation["references"]} == papers
    assert citation["version"] == firstlight.__version__


@pytest.mark.parametrize("page", ["references.bib", "references.md"])
def test_the_references_have_every_later_paper(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    given = [claim.published.get("arxiv", []) for claim in claims().values() if claim.paper == "NewerPapers"]
    numbers = {one for numbers in given for one in ([numbers] if isinstance(numbers, str) else numbers)}
    assert len(numbers) > 5
    assert not sorted(number for number in numbers if number not in text)


def test_the_map_shows_every_layer():
    drawing = (DOCS / "images" / "layers.svg").read_text(encoding="utf-8")
    layers = {folder.parent.name for folder in (ROOT / "src" / "firstlight").glob("*/__init__.py")}
    assert layers <= set(re.findall(r'class="name"[^>]*>(\w+)<', drawing))
