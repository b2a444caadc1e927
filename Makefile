# Every target makes what it needs; a second run reinstalls nothing unless pyproject.toml changed.
#
#   make demo              train a network on real digits
#   make test              the whole suite; with ORACLE=1 also against PyTorch, which it installs
#   make fuzz              random programs against PyTorch, thousands of them, others each time
#   make bench             benchmarks and the table of ratios (ORACLE=1: installs PyTorch too)
#   make check             lint, format, types
#
# Variables: PYTHON (interpreter, 3.10 or later), VENV (folder of the environment), JOBS (test
# processes), ARGS (passed on to pytest or the demo), TORCH_PIP (options of pip for PyTorch, e.g.
# TORCH_PIP="--index-url https://download.pytorch.org/whl/cpu" for the small CPU build).

PYTHON    ?= python3
VENV      ?= .venv
JOBS      ?= auto
BENCH     ?= --benchmark-only --benchmark-columns=median,iqr,rounds
TORCH     := 2.13.0
TORCH_PIP ?=
ARGS      ?=

PY := $(VENV)/bin/python

# ORACLE=1: PyTorch is installed, and its absence is then a failure of the suite, not a skip.
ifeq ($(ORACLE),1)
torch := $(VENV)/.torch-$(TORCH)
test: export JITGRAD_ORACLE := 1
endif

# The processes of a test run share their compiled kernels, and so does the next run.
test fuzz: export JITGRAD_CACHE_DIR ?= $(abspath $(VENV))/kernels

.PHONY: demo test fuzz bench check format clean

demo: $(VENV)/.demo
	$(PY) -m jitgrad.demo $(ARGS)

test: $(VENV)/.test $(torch)
	$(PY) -m pytest -n $(JOBS) $(ARGS)

fuzz: $(VENV)/.test $(VENV)/.torch-$(TORCH)
	JITGRAD_HYPOTHESIS=fuzz JITGRAD_ORACLE=1 $(PY) -m pytest tests/test_fuzz.py $(ARGS)

bench: $(VENV)/.bench $(torch)
	$(PY) -m pytest benchmarks $(BENCH) $(ARGS)

check: $(VENV)/.dev
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy

format: $(VENV)/.dev
	$(PY) -m ruff check --fix
	$(PY) -m ruff format

clean:
	rm -rf $(VENV) build dist .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache

# The stamps $(VENV)/.NAME say which extra is installed.
$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit("jitgrad needs Python 3.10 or later, this is " + sys.version.split()[0] + ": make PYTHON=/path/to/python3 ..." if sys.version_info < (3, 10) else 0)'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# Editable, so that programs started outside this folder (by a test, say) see the present source.
$(VENV)/.demo $(VENV)/.test $(VENV)/.bench $(VENV)/.dev: $(VENV)/.%: pyproject.toml $(VENV)/.python
	$(PY) -m pip install --quiet --editable '.[$*]'
	@touch $@

$(VENV)/.torch-$(TORCH): $(VENV)/.python
	$(PY) -m pip install --quiet $(TORCH_PIP) torch==$(TORCH)
	@touch $@
