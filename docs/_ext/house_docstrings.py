"""Docstrings and signatures of this package, made readable.

Our docstrings say ``name : what it is``, because the type stands in the signature. Readers of the usual form
would take the words for a type, so all sections become plain fields here.
"""

import re
from typing import Any

from sphinx.application import Sphinx

UNDERLINE = re.compile(r"-{3,}\s*$")
ENTRY = re.compile(r"(?P<names>\*{0,2}\w+(?:, \*{0,2}\w+)*) :(?: (?P<text>.*))?$")


def fields_of(lines: list[str]) -> list[str]:
    """Replace sections by fields."""
    out: list[str] = []
    at = 0
    while at < len(lines):
        title = lines[at].strip()
        if title in FIELDS and at + 1 < len(lines) and UNDERLINE.match(lines[at + 1]):
            end = _end_of_section(lines, at + 2)
            body = lines[at + 2 : end]
            out += ["", f":{title}:", *_indented(FIELDS[title](body)), ""]
            at = end
        else:
            out.append(lines[at])
            at += 1
    return out


def _end_of_section(lines: list[str], start: int) -> int:
    """Index of the next section's title, or of the end."""
    for at in range(start, len(lines) - 1):
        if lines[at].strip() and UNDERLINE.match(lines[at + 1]):
            return at
    return len(lines)


def _entries(body: list[str]) -> list[str]:
    """One list item per parameter, or per group of parameters."""
    out: list[str] = []
    for line in body:
        entry = ENTRY.match(line)
        if entry:
            names = ", ".join(f"**{name.replace('*', '')}**" for name in entry["names"].split(", "))
            out.append(f"* {names} – {entry['text'] or ''}".rstrip())
        else:
            out.append("  " + line.strip() if line.strip() else "")
    return out


def _as_it_is(body: list[str]) -> list[str]:
    return body


def _unnumbered(body: list[str]) -> list[str]:
    """Sources without footnote numbers, which nothing in the text refers to."""
    return [re.sub(r"^\s*\.\. \[\d+\] |^\s+", "", line) for line in body]


FIELDS = {
    "Parameters": _entries,
    "Attributes": _entries,
    "Returns": _as_it_is,
    "Raises": _as_it_is,
    "Notes": _as_it_is,
    "References": _unnumbered,
    "Examples": _as_it_is,
}


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line if line.strip() else "" for line in lines]


def on_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Rewrite a docstring in place."""
    lines[:] = fields_of(lines)


def on_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Shorten module names: ``Float[Tensor, 'n c']``, not ``jaxtyping.Float[torch.Tensor, 'n c']``."""
    return _short(signature), _short(returned)


def _short(text: str | None) -> str | None:
    return None if text is None else re.sub(r"(?<![\w.'\"])~?(?:[a-z_]\w*\.)+(?=[A-Z]\w*)", "", text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect both."""
    app.connect("autodoc-process-docstring", on_docstring)
    app.connect("autodoc-process-signature", on_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
