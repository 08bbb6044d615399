# Two commands matter: `make tour` shows what firstlight does, `make test` checks that it does it right.
# Both build .venv first; a second run reinstalls nothing.
PYTHON ?= python3
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PIP    := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help env browser tour test format lint types contracts pytest docs check-desk bench clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

env: $(READY) ## Build the environment (.venv) if pyproject.toml or constraints.txt changed

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"Python 3.11 or newer is needed; {sys.executable} is {v.major}.{v.minor}. Try: make PYTHON=python3.11")'
	@echo "Building $(VENV): torch and about 50 packages, a minute or two the first time ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "Cannot create $(VENV). On Debian: apt-get install python3-venv"; exit 1; }
	@$(PIP) install --quiet --constraint constraints.txt "torch==2.13.0"
	@$(PIP) install --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

browser: ## Find chromium and its driver for the page tests, or install them (Debian, as root)
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null || { \
	    echo "The page tests need chromium and chromedriver. On Debian: sudo apt-get install chromium chromium-driver"; exit 1; }; \
	  echo "Installing chromium and chromium-driver for the page tests ..."; \
	  export DEBIAN_FRONTEND=noninteractive; apt-get update -qq; \
	  apt-get install -qq --yes --no-install-recommends chromium chromium-driver >/dev/null; }

tour: $(READY) ## Study a small network on real images and write tour.html
	@$(BIN)/firstlight tour --output tour.html

test: format lint types contracts pytest ## Formatter, linter, types, import contracts and all tests

format: $(READY) ## Check the formatting
	$(BIN)/ruff format --check .

lint: $(READY) ## Check with the linter
	$(BIN)/ruff check .

types: $(READY) ## Check the types of src
	$(BIN)/mypy

contracts: $(READY) ## Check that layers import only what stands below them
	$(BIN)/lint-imports --no-cache

pytest: $(READY) browser ## Run the tests and doctests on all cores
	$(BIN)/pytest -n $(JOBS) --dist worksteal -q

docs: $(READY) ## Build the documentation into docs/_build/html; any warning fails
	@$(BIN)/python -c 'import sphinx, myst_parser, sphinx_gallery, furo' 2>/dev/null || { \
	  echo "Installing Sphinx and its theme ..."; \
	  $(PIP) install --quiet --constraint constraints.txt --editable ".[docs]"; }
	$(BIN)/sphinx-build --nitpicky --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

check-desk: $(READY) ## Run every study at desk scale and write docs/ledger (long)
	$(BIN)/firstlight reproduce all --scale desk --record docs/ledger

bench: $(READY) ## Print the speed tables (long)
	@for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

clean: ## Remove the environment and caches, keep data and runs
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist docs/_build docs/gallery
