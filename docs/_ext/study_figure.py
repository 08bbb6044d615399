"""``{study-figure} first_layer/consistency`` shows the recorded figure of a study, with its caption below."""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from reproduce.entries import figure_file

RECORDED = Path(__file__).parents[2] / "reproduce" / "ledger"


class StudyFigure(SphinxDirective):
    """The SVG that the ledger keeps, as part of the page: it follows the light and the dark theme."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Build the figure."""
        path = figure_file(RECORDED, "desk", self.arguments[0])
        if not path.is_file():
            raise self.error(f"The ledger has no figure of {self.arguments[0]}: {path} is missing.")
        self.env.note_dependency(str(path))
        words, messages = self.parse_inline(" ".join(self.content), lineno=self.content_offset)
        drawn = nodes.raw("", path.read_text(encoding="utf-8"), format="html")
        return [nodes.figure("", drawn, nodes.caption("", "", *words), classes=["study-figure"]), *messages]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("study-figure", StudyFigure)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
