# Every target sets up what it needs in .venv with plain pip, once.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python -m

# Options of the studies of the paper, such as PAPER="--replications 10".
PAPER ?=

# The suite with the lower bound of every dependency in pyproject.toml.
OLDEST ?= .venv-oldest

.PHONY: demo test test-oldest lint types check slow mutate bench bench-scale docs paper dist clean

demo: $(VENV)/.installed
	$(BIN)/hierlpr demo

test: $(VENV)/.test
	$(RUN) pytest -n auto

test-oldest: $(OLDEST)/.test
	$(OLDEST)/bin/python -m pytest -n auto -W ignore::DeprecationWarning  # of old libraries by new ones

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(VENV)/.dev
	$(BIN)/mypy

check: lint types test docs

slow: $(VENV)/.test
	$(RUN) pytest -n auto -m slow

mutate: $(VENV)/.test
	$(BIN)/python tests/mutate.py

bench: $(VENV)/.test
	$(BIN)/python benchmarks/table.py

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python docs/making/check.py site

paper: $(VENV)/.installed
	$(BIN)/hierlpr reproduce all --out paper $(PAPER)

dist: $(VENV)/.dev
	$(BIN)/python tests/dist.py $(PYTHONS)

SIZES ?= 1e6 1e7 1e8
bench-scale: $(VENV)/.test
	$(BIN)/python benchmarks/scale.py $(SIZES)

clean:
	rm -rf $(VENV) $(OLDEST) build dist site paper .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -e ".[all]"
	touch $@

$(VENV)/.test: $(VENV)/.installed
	$(BIN)/pip install -q --disable-pip-version-check -e ".[test,browser]"
	touch $@

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/pip install -q --disable-pip-version-check -e ".[docs]"
	touch $@

$(VENV)/.dev: $(VENV)/.test
	$(BIN)/pip install -q --disable-pip-version-check -e ".[test,browser,dev]"
	touch $@

$(OLDEST)/.test: pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(PYTHON) tests/oldest.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/pip install -q --disable-pip-version-check -c $(OLDEST)/constraints.txt -e ".[test,browser]"
	touch $@
