"""The documentation says what is there: names, commands, links, snippets, claims."""

import importlib
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

import firstlight
from api_surface import surface
from firstlight._internal.registry import Registry
from firstlight.cli.main import app
from reproduce import catalogue
from reproduce.catalogue import THEMES, claims
from reproduce.evidence import Evidence
from reproduce.judge import judge

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


def test_every_public_name_is_in_the_api_reference_once():
    public = {name for name in surface() if name.count(".") > 1}  # those at the top are in the table
    missing = sorted(public - documented().keys())
    assert not missing, f"Give these packages a page in docs/api/: {', '.join(missing)}."
    assert not [name for name, times in documented().items() if times > 1]


def test_the_table_of_the_api_reference_has_every_name_at_the_top():
    table = reference.top_level()
    missing = [name for name in firstlight.__all__ if f"`firstlight.{name} <" not in table]
    assert missing == ["__version__"]


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
        for folder in ("src", "reproduce")
        for path in sorted((ROOT / folder).rglob("*"))
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


@pytest.mark.parametrize("command", sorted(name for name in app if not name.startswith("-")))
def test_every_command_is_in_the_documentation(command):
    pages = [page for page in PAGES if f"firstlight {command}" in page.read_text(encoding="utf-8")]
    assert pages, f"`firstlight {command}` is not mentioned in docs/: getting-started.md has the table."


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


def test_the_study_of_the_guide_is_judged(monkeypatch):
    page = DOCS / "add-a-measure-or-claim.md"
    (code,) = [code for mark, code in snippets(page) if mark == STUDY]
    monkeypatch.setattr(catalogue, "_STUDIES", Registry("study"))
    names = {"__name__": "reproduce.studies.first_layer.mixing"}
    exec(compile(code, name_of(page), "exec"), names)
    made = names["Mixing"]
    assert made.name == "first_layer/mixing"
    evidence = Evidence.of({0: made.run(made.config("smoke"))})
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


def test_papers_and_version_agree_everywhere():
    papers = {claim.paper for claim in claims().values()}
    bibliography = (DOCS / "references.bib").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert set(re.findall(r"^@\w+\{(\w+),", bibliography, re.MULTILINE)) == papers
    assert set(re.findall(r"^    title: (\w+)$", citation, re.MULTILINE)) == papers
    assert f"\nversion: {firstlight.__version__}\n" in citation


def test_the_map_shows_every_layer():
    drawing = (DOCS / "images" / "layers.svg").read_text(encoding="utf-8")
    layers = {folder.parent.name for folder in (ROOT / "src" / "firstlight").glob("*/__init__.py")}
    assert layers <= set(re.findall(r'class="name"[^>]*>(\w+)<', drawing))
