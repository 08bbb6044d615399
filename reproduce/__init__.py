"""The five papers, claim by claim: what they state, what we measure, and a dated ledger of verdicts.

Read `catalogue.py` (claims and studies), `evidence.py` (numbers over seeds), `judge.py` (rules as text), `entries.py`
(what is recorded), `run.py` and `pages.py`, in this order. Numbers such as E-61 are entries of docs/errata.md.
"""
