"""One HTML file from stored results; never trains."""

from firstlight.report.identity import identity_page, identity_sections
from firstlight.report.page import Page, Panel, Section, render, write_page
from firstlight.report.tour import tour_page

__all__ = [
    "Page",
    "Panel",
    "Section",
    "identity_page",
    "identity_sections",
    "render",
    "tour_page",
    "write_page",
]
