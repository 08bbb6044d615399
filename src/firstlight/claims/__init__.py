"""Every checkable statement of the papers, and the studies that judge them.

Numbers such as E-61 in claims, notes and comments are entries of docs/errata.md.
"""

import importlib
import pkgutil

from firstlight.claims.catalogue import THEMES, Claim, all_claims, select
from firstlight.claims.ledger import VERDICTS, Entry, record
from firstlight.claims.reproduce import reproduce, run_study
from firstlight.claims.study import ABSENT, SCALES, STUDIES, Rule, absent, study, study_of

__all__ = [
    "ABSENT",
    "SCALES",
    "STUDIES",
    "THEMES",
    "VERDICTS",
    "Claim",
    "Entry",
    "Rule",
    "absent",
    "all_claims",
    "record",
    "reproduce",
    "run_study",
    "select",
    "study",
    "study_of",
]

for _theme in THEMES:  # a study registers itself when its file is imported: dropping a file in is enough
    _folder = importlib.import_module(f"{__name__}.{_theme}")
    for _file in pkgutil.iter_modules(_folder.__path__):
        importlib.import_module(f"{_folder.__name__}.{_file.name}")
