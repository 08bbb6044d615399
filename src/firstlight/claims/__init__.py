"""Every checkable statement of the papers, and the studies that judge them."""
