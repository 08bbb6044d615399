"""Formulas as MathML, by the same converter as the pages: browsers draw it without any script or network."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def mathml(latex: str, display: str = "inline") -> str:
    """Convert; the transpose becomes an upright T, for its own sign hangs high in fonts that are not for maths.

    The converter knows neither lines that are aligned without an environment, as Sphinx allows, nor the command arg.
    """
    latex = latex.replace(r"\arg\max", r"\operatorname*{argmax}")
    if r"\\" in latex and r"\begin" not in latex:
        latex = rf"\begin{{split}}{latex}\end{{split}}"
    return convert(latex, display=display).replace("<mo>&#x022A4;</mo>", '<mi mathvariant="normal">T</mi>')


def visit_inline(writer: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    writer.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def visit_block(writer: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own."""
    writer.body.append(f'<div class="formula">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
