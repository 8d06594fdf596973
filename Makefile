# Everything runs in .venv, which the first target that needs it builds.
# PYTHON=/path/to/python3.13 chooses the interpreter; otherwise the first suitable one on PATH is taken.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
EXTRAS := .[dev,examples]

# Run, not looked up: a version manager's shim may be on PATH for a version that it then refuses to run.
FITS = -c 'import sys; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1
CANDIDATES = python3.13 python3.14 python3.12 python3 python

# What is imported is compiled once, when it is installed, not by each of the thirty processes that the tests start; pip
# would compile four times as many modules.
unexport PYTHONDONTWRITEBYTECODE
USED := bayeskit.cli.demo, hmmlearn.hmm, hypothesis, nbclient, pytest, sklearn.mixture, statsmodels.api

# Side by side on the cores, a file at a time: tests of one file share what they infer.
PYTEST = $(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder
# Slow tests take turns from commit to commit (tests/turns.py).
TURN = $(shell printf '%d' 0x$$(git rev-parse --short=7 HEAD 2>/dev/null || echo 0))

.PHONY: help test test-all lint types demo benchmark format clean
.DEFAULT_GOAL := help

help:
	@echo "make test       the tests; those that are slow take turns"
	@echo "make test-all   all tests"
	@echo "make demo       the catalogue on its real data: a table, and reports/index.html"
	@echo "make lint       ruff"
	@echo "make types      mypy"
	@echo "make format     ruff format"
	@echo "make benchmark  speed, side by side with other software"
	@echo "make clean      remove .venv, caches and generated reports"

$(STAMP): pyproject.toml constraints.txt
	@set -eu; \
	for candidate in $(or $(PYTHON),$(CANDIDATES)); do \
	  if "$$candidate" $(FITS); then python="$$candidate"; break; fi; \
	done; \
	if [ -z "$${python:-}" ] && [ -z "$(PYTHON)" ] && command -v uv >/dev/null 2>&1; then \
	  python=$$(uv python find --no-python-downloads '>=3.12' 2>/dev/null) || python=; \
	fi; \
	if [ -z "$${python:-}" ]; then \
	  echo "bayeskit: error: no Python 3.12 or newer among: $(strip $(or $(PYTHON),$(CANDIDATES))); install one, or name it with make PYTHON=/path/to/python" >&2; \
	  exit 1; \
	fi; \
	python=$$("$$python" -c 'import sys; print(sys.executable)'); \
	echo "building $(VENV) with $$("$$python" --version)"; \
	rm -rf $(VENV); \
	if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --no-python-downloads --python "$$python" $(VENV); \
	  uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '$(EXTRAS)'; \
	else \
	  "$$python" -m venv $(VENV); \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '$(EXTRAS)'; \
	fi; \
	$(BIN)/python -W ignore -c 'import $(USED)'; \
	touch $@

test: $(STAMP)
	$(PYTEST) --turn $(TURN)

test-all: $(STAMP)
	$(PYTEST)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP)
	$(BIN)/mypy

demo: $(STAMP)
	$(BIN)/bayeskit demo

benchmark: $(STAMP)
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find reports -type f ! -name README.md ! -name example.html ! -name samplers.html -delete 2>/dev/null || true
