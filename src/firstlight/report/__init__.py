"""One HTML file from stored results; never trains."""
