"""Recorded figures in pages, each with its caption below.

``{study-figure} first_layer/consistency`` shows the figure of a study, ``{plate} IdentityCrisis Figure 3`` the pictures
of a plate of the atlas, under the sentence that says what they show.
"""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from reproduce.atlas import status_table
from reproduce.entries import figure_file
from reproduce.plates.registry import drawings, kept

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


class PlatePictures(SphinxDirective):
    """The panels of a plate with pictures, in their order."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Build one figure with all panels."""
        paper, _, name = self.arguments[0].partition(" ")
        drawing = drawings().get((paper, name))
        panels = kept(drawing, RECORDED) if drawing else {}
        if not panels:
            raise self.error(
                f"The ledger has no pictures of {self.arguments[0]}: `reproduce plates` makes them."
            )
        self.env.note_dependency(str(drawing.file(RECORDED)))
        parts: list[nodes.Node] = []
        for title, drawn in panels.items():
            parts += [nodes.paragraph("", title), nodes.raw("", drawn, format="html")]
        caption = nodes.caption("", f"{drawing.shows} ({self.arguments[0]})")
        return [nodes.figure("", *parts, caption, classes=["study-figure"])]


class PlateTable(SphinxDirective):
    """How every plate of the atlas is drawn, or why it is not."""

    def run(self) -> list[nodes.Node]:
        """Build a table from the functions that draw."""
        return self.parse_text_to_nodes(status_table())


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("study-figure", StudyFigure)
    app.add_directive("plate", PlatePictures)
    app.add_directive("plates", PlateTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
