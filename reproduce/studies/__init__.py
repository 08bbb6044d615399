"""One folder a theme: each file measures for a few claims."""
