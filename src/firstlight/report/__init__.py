"""One HTML file from stored results; never trains."""

from firstlight.report.ansatz import ansatz_sections
from firstlight.report.compare import comparison_page
from firstlight.report.identity import (
    identity_page,
    identity_sections,
)
from firstlight.report.inspect import inspection_page
from firstlight.report.labels import write_labels_page
from firstlight.report.order import order_sections
from firstlight.report.page import (
    Answer,
    Page,
    Panel,
    Section,
    render,
    write_page,
)
from firstlight.report.regime import regime_figure
from firstlight.report.runs import runs_page
from firstlight.report.tour import tour_page

__all__ = [
    "Answer",
    "Page",
    "Panel",
    "Section",
    "ansatz_sections",
    "comparison_page",
    "identity_page",
    "identity_sections",
    "inspection_page",
    "order_sections",
    "regime_figure",
    "render",
    "runs_page",
    "tour_page",
    "write_labels_page",
    "write_page",
]
