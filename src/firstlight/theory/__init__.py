"""Closed forms that the papers prove, as functions of time.

Numbers such as E-12 in docstrings and comments are entries of docs/errata.md.
"""
