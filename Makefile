# Two commands matter: `make tour` shows what firstlight does, `make test` checks that it does it right.
# Both build .venv first; a second run reinstalls nothing.
PYTHON ?= python3
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PIP    := $(BIN)/python -m pip --disable-pip-version-check

# Code whose shapes are checked is compiled anew wherever its bytecode may not be kept: ten seconds for each process.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help env announce browser tour test test-long test-drawn test-portable coverage format lint types contracts pytest docs fuzz crash audit check-desk bench release-check clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

env: $(READY) ## Build the environment (.venv) if pyproject.toml or constraints.txt changed

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"Python 3.11 or newer is needed; {sys.executable} is {v.major}.{v.minor}. Try: make PYTHON=python3.11")'
	@echo "Building $(VENV) with torch and about 70 packages, a minute or two the first time ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "Cannot create $(VENV). On Debian: apt-get install python3-venv"; exit 1; }
	@$(PIP) install --quiet --constraint constraints.txt "torch==2.13.0"
	@$(PIP) install --quiet --constraint constraints.txt --editable ".[dev]"
	@printf '%s\n' '#!$(abspath $(BIN))/python' '"""The reproduction of the papers, which lives in this checkout."""' \
	  'import sys' 'sys.path.insert(0, "$(CURDIR)")' 'from firstlight.cli.main import run' \
	  'from reproduce.__main__ import app' 'run(app)' > $(BIN)/reproduce && chmod +x $(BIN)/reproduce
	@touch $@

HAS_BROWSER := command -v chromium >/dev/null && command -v chromedriver >/dev/null
MAY_INSTALL := test "$$(id -u)" = 0 && command -v apt-get >/dev/null

announce: # say what is about to be installed and why, or which command to run, before anything is
	@$(HAS_BROWSER) || { $(MAY_INSTALL); } || { \
	  echo "The page tests need chromium and chromedriver on the path, which only root can install. On Debian, run:"; \
	  echo "  sudo apt-get install chromium chromium-driver"; exit 1; }
	@what=""; test -e $(READY) || what="torch and about 70 Python packages into $(VENV) (the library and its checks)"; \
	$(HAS_BROWSER) || what="$$what$${what:+, and }chromium and its driver by apt-get (the page tests use a real browser)"; \
	test -z "$$what" || echo "To be installed: $$what."

browser: announce ## Find chromium and its driver for the page tests, or install them (Debian, as root)
	@$(HAS_BROWSER) || { \
	  export DEBIAN_FRONTEND=noninteractive; apt-get update -qq && \
	  apt-get install -qq --yes --no-install-recommends chromium chromium-driver >/dev/null; }

tour: $(READY) ## Study a small network on real images and write tour.html
	@$(BIN)/firstlight tour --output tour.html

test: announce format lint types contracts pytest ## Formatter, linter, types, import contracts and tests (minutes)

format: $(READY) ## Check the formatting
	$(BIN)/ruff format --check .

lint: $(READY) ## Check with the linter
	$(BIN)/ruff check .

types: $(READY) ## Check the types of src
	$(BIN)/mypy

contracts: $(READY) ## Check that layers import only what stands below them
	$(BIN)/lint-imports --no-cache

pytest: $(READY) browser ## Run the tests and doctests on all cores
	$(BIN)/pytest -n $(JOBS) --dist worksteal -q --durations=15

# Every test once more with the types and shapes of all calls checked, and with them the long ones: damaged files, killed
# processes, faults of clusters, a second device, the wheel, the full list of scikit-learn's checks.
test-long: $(READY) browser ## Run all tests with shapes checked, the long ones too
	$(BIN)/pytest -n $(JOBS) --dist worksteal -q --durations=15 -m "" \
	  --jaxtyping-packages=firstlight,reproduce,checked_types.checked

# Tests over drawn inputs take 25 that never change. Here they take 200 new ones; what fails is printed to be kept.
test-drawn: $(READY) ## Run the tests over drawn inputs with 200 new draws each (long)
	$(BIN)/pytest -n $(JOBS) --dist worksteal -q -m hypothesis --hypothesis-profile=drawn

# The libraries below us choose routines by processor, so last bits differ between machines. Their own switches make
# them choose as others would. By default the tests that compute run; PORTABLE="tests src" runs the whole suite, and
# PROCESSOR="AVX2, one thread" only one processor (the names stand in tests/portable.py). About half an hour.
PORTABLE ?=
test-portable: $(READY) ## Run the numerical tests as other processors would (long)
	@JOBS=$(JOBS) $(BIN)/python tests/portable.py $(PORTABLE)

coverage: $(READY) browser ## Run the tests and show which lines they reach, also in htmlcov/index.html
	$(BIN)/pytest -n $(JOBS) --dist worksteal -q --cov --cov-report=term:skip-covered --cov-report=html
	@echo "Open htmlcov/index.html. Loops compiled by Numba count as unreached: they do not run in Python."

docs: $(READY) ## Build the documentation into docs/_build/html; any warning fails
	@$(BIN)/python -c 'import sphinx, myst_parser, sphinx_gallery, furo' 2>/dev/null || { \
	  echo "Installing Sphinx and its theme ..."; \
	  $(PIP) install --quiet --constraint constraints.txt --editable ".[docs]"; }
	$(BIN)/python -m sphinx --nitpicky --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

fuzz: $(READY) ## Read 2,000 damaged files and all lies; a traceback, silence, a hang or memory fails
	@PYTHONPATH=tests $(BIN)/python -m fuzz --mutants 2000

# ONLY picks from calls, memory, at-once, stops, cluster, soak; IMAGES is the size of the soak's Gram matrix.
FAULTS ?= 20
IMAGES ?= 20000
ONLY   ?= calls,memory,at-once,stops,cluster,soak
crash: $(READY) ## Make each call of each command fail once, and lose processes, memory and machines (hours)
	@command -v cc >/dev/null || if $(MAY_INSTALL); then \
	  echo "Installing gcc by apt-get (a small library makes calls fail) ..."; \
	  DEBIAN_FRONTEND=noninteractive; export DEBIAN_FRONTEND; apt-get update -qq && \
	  apt-get install -qq --yes --no-install-recommends gcc libc6-dev >/dev/null; \
	  else echo "A C compiler is needed. On Debian: sudo apt-get install gcc libc6-dev"; exit 1; fi
	@PYTHONPATH=tests $(BIN)/python -m crash --faults $(FAULTS) --images $(IMAGES) --only $(ONLY)

audit: $(READY) ## Look up known vulnerabilities of all installed packages (needs the network)
	@$(BIN)/python -c 'import pip_audit' 2>/dev/null || { \
	  echo "Installing pip-audit ..."; $(PIP) install --quiet --constraint constraints.txt pip-audit; }
	@echo 'jinja2==2.4.1' | $(BIN)/pip-audit --disable-pip --no-deps -r /dev/stdin 2>/dev/null | grep -qE 'CVE|GHSA|PYSEC' || { \
	  echo "A version that is known to be vulnerable was not found so: the list of vulnerabilities cannot be reached, and"; \
	  echo "nothing was checked."; exit 1; }
	$(BIN)/pip-audit --local --skip-editable

check-desk: $(READY) ## Run every study at desk scale and write reproduce/ledger (long)
	$(BIN)/reproduce run all --scale desk --record reproduce/ledger

bench: $(READY) ## Print the speed tables (long)
	@for script in benchmarks/*.py; do PYTHONPATH=. $(BIN)/python $$script || exit 1; done

PYTHONS ?= python3.11 python3.12 python3.13
release-check: docs ## Check wheel, clean installs on PYTHONS, docs, links, ledger, changelog, citation (long)
	@$(BIN)/python tests/release.py --python $(PYTHONS)

clean: ## Remove the environment and caches, keep data and runs
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage htmlcov build dist docs/_build docs/gallery
