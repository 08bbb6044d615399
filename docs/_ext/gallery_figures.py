"""Thumbnails of the gallery: the first figure that an example draws, as SVG.

On the page of the example the figure stands where it was drawn, by its own `_repr_html_`.
"""

from pathlib import Path
from typing import Any

from firstlight.pages.figures import Figure, svg


def save_figure(_block: Any, block_vars: dict[str, Any], _gallery_conf: dict[str, Any]) -> str:
    """Write what the last line of a block returned, if it is a figure that was not written before.

    Returns
    -------
    str
        Nothing: no text is added to the page.
    """
    figure = block_vars["example_globals"].get("___")
    if isinstance(figure, Figure) and figure is not block_vars["example_globals"].get("_figure_written"):
        block_vars["example_globals"]["_figure_written"] = figure
        path = Path(next(block_vars["image_path_iterator"])).with_suffix(".svg")
        path.write_text(svg(figure), encoding="utf-8")
    return ""
