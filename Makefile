# `make run` and `make test` set up everything they need: Python 3.11 and git are enough.
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run check test faults bench docs help clean

help:  ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## / - /'

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	@touch $@

run: $(READY)  ## set up, train an agent on MinAtar Breakout, evaluate it, show it playing
	if [ -e runs/demo/config.json ]; then $(BIN)/emphatic train --resume runs/demo; \
	else $(BIN)/emphatic train --preset demo --out runs/demo; fi
	$(BIN)/emphatic evaluate runs/demo --episodes 100
	$(BIN)/emphatic watch runs/demo
	@printf '%s\n' '' 'All of it is in runs/demo: learning_curve.png, watch.gif, evaluation.json, metrics.jsonl.' \
	  'Next, with $(BIN)/emphatic:' \
	  '  diagnose two-state --quick                           why emphasis: TD diverges, NETD converges' \
	  '  train --env minatar/space_invaders --agent surreal   another game, another agent (emphatic train --help)' \
	  '  theory two-state                                     what every algorithm does in expectation'

check: $(READY)  ## format, lint, types and the quick tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/pytest -q -n 2 -m "not slow" tests

test: $(READY)  ## everything: check's tools, then all tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/pytest -n 2 --dist worksteal tests

faults: $(READY)  ## the fault battery at full count (an hour or two; goes on where it stopped), docs/reliability.md
	EMPHATIC_FAULTS=full $(BIN)/pytest -q -p no:cacheprovider tests/faults; code=$$?; \
	$(BIN)/python tests/faults/table.py && exit $$code

bench: $(READY)  ## every benchmark; each prints ratios measured in one run
	for file in benchmarks/[a-z]*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

docs: $(READY)  ## the documentation as a site, in site/ (open site/index.html)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) site .pytest_cache .ruff_cache
