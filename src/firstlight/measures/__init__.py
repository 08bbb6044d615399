"""What a network learned, measured without knowing who trained it: one package for each theme.

Measures are imported from their theme: ``from firstlight.measures.first_layer.energy_profile import profile``.
Numbers such as E-37 in docstrings and comments are entries of docs/errata.md.
"""
