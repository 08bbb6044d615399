"""Does the price of a study, from short rehearsals, hold the CPU seconds that it then takes?

Usage: python benchmarks/rehearsals.py [STUDY ...] [--scale desk]

Prints price, range and cost, each study in a store of its own; exits with 1 if a cost lies outside its range.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from firstlight.claims import STUDIES, run_study
from firstlight.claims.price import price
from firstlight.store import Store


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("studies", nargs="*", default=["learning_order/relu_spread"])
    parser.add_argument("--scale", default="desk")
    given = parser.parse_args()
    outside = 0
    for name in given.studies:
        with tempfile.TemporaryDirectory() as folder:
            store = Store(Path(folder))
            said = price(STUDIES[name], scale=given.scale, store=store)
            if said.problem:
                print(f"{name}: {said.problem}")
                continue
            took = run_study(STUDIES[name], scale=given.scale, store=store).cpu_seconds
        outside += not said.low_seconds < took < said.high_seconds
        print(
            f"{name}: said {said.cpu_seconds:.0f} CPU s ({said.low_seconds:.0f} to {said.high_seconds:.0f}), "
            f"took {took:.0f}",
            flush=True,
        )
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
