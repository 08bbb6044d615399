"""One HTML file from stored results; never trains."""

from firstlight.report.compare import comparison_page
from firstlight.report.identity import identity_page
from firstlight.report.inspect import inspection_page
from firstlight.report.labels import write_labels_page
from firstlight.report.page import (
    Answer,
    Page,
    Panel,
    Section,
    render,
    write_page,
)
from firstlight.report.runs import runs_page
from firstlight.report.tour import tour_page

__all__ = [
    "Answer",
    "Page",
    "Panel",
    "Section",
    "comparison_page",
    "identity_page",
    "inspection_page",
    "render",
    "runs_page",
    "tour_page",
    "write_labels_page",
    "write_page",
]
