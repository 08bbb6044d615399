"""How many claims of each theme have which verdicts, as a table for people."""

from collections.abc import Sequence

from firstlight.claims.catalogue import THEMES
from firstlight.claims.ledger import SUMMARIES, Entry, counts


def summary_table(entries: Sequence[Entry]) -> str:
    """Return a Markdown table of both answers by theme; only verdicts that occur have a column.

    Parameters
    ----------
    entries : sequence of Entry
        All lines of a ledger.
    """
    tallies = {theme: counts(e for e in entries if e.theme == theme) for theme in THEMES}
    tallies["all"] = counts(entries)
    used = [name for name in SUMMARIES if tallies["all"].get(name)]
    rows = [["theme", *used], ["---"] * (1 + len(used))]
    for theme, tally in tallies.items():
        rows.append([theme.replace("_", " "), *(str(tally.get(name, "")) for name in used)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
