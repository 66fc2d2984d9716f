# `make demo` and `make test` do all the set-up on a fresh machine: they need python3 (3.11 or newer,
# with its venv module) and pip's access to packages, nothing else.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
PYTEST_ARGS ?=
FDIFF_FAULT_TESTS ?= 1
DATASET ?= Hahn1
# A cross-section, named in a file that nox reads too: every operator, layer and kind of error, the
# documents, without the long tables of operations.
QUICK ?= @tests/quick.txt

BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --progress
# Of each test one row and one in 32 of the others (tests/sampled.txt), of slow tests an eighth, so that
# `.ci/run` takes 20 minutes; PART=0 to 31 says which. `make test-long`, or plain pytest, runs all rows.
PART ?= 0
SAMPLE := --sample --part=$(PART)

# Bytecode is kept, whatever the environment says: tests start many processes that import fdiff.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help environment demo demo-nist demo-all test test-quick test-slow test-long test-faults test-numba test-cuda test-solvers test-torch test-site \
        bench dist docs docs-quick lint types dead coverage hooks format clean distclean

help:
	@echo "make demo       what exact derivatives buy, told in ten seconds, and drawn in demo.png"
	@echo "make demo-nist  fit a NIST data set with an exact Jacobian (DATASET=MGH09 for another)"
	@echo "make demo-all   the digits of all 27 of them, from both starting points"
	@echo "make test-quick lint and a cross-section of the tests, in under a minute"
	@echo "make test       lint, demo and all tests but the slow ones, a part of the rows of sweeps"
	@echo "                (PART=0 to 31 says which; PYTEST_ARGS='-k tape')"
	@echo "make test-slow  an eighth of the slow tests"
	@echo "make test-long  all rows of all sweeps, of which the others run a part (tests/sampled.txt): an hour"
	@echo "make test-faults interrupts, threads, forks, full disks and hostile files: a fourth a day, 20 minutes; all: FDIFF_FAULT_TESTS=all"
	@echo "make test-numba all tests with kernels that Numba compiles: hours"
	@echo "make test-cuda  kernels for a GPU without one: values on Numba's simulator, and PTX"
	@echo "make test-solvers sparse derivatives in SUNDIALS and IPOPT"
	@echo "make test-torch recorded arrays beside torch: messages, rules and random programs"
	@echo "make bench      the benchmarks, beside JAX, torch, autograd and CasADi (15 to 30 minutes), and plots"
	@echo "make docs       the site, in build/docs (make docs-quick: nothing is run for it); make test-site: the site in Chromium"
	@echo "make dist       sdist and wheel, in dist, checked as a package index checks them"
	@echo "make lint       ruff; make types: pyright; make format: ruff format"
	@echo "make dead       vulture: code that nothing uses; make coverage: the lines that tests run, an hour"
	@echo "make hooks      ruff, pyright and the layout test before each commit"
	@echo "make clean      remove what tests and builds leave; make distclean: $(VENV) too"

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py

demo-nist: $(VENV)/.core
	$(BIN)/python examples/fit_nist.py $(DATASET)

demo-all: $(VENV)/.core
	$(BIN)/python examples/fit_nist.py --all

test: $(VENV)/.test lint demo
	$(PYTEST) $(SAMPLE) -m "not slow" --durations=20 $(PYTEST_ARGS)

test-quick: $(VENV)/.test lint
	$(PYTEST) $(SAMPLE) -m "not slow" $(QUICK) $(PYTEST_ARGS)

# Files without slow tests, 40,000 tests in all, need not be collected (tests/conftest.py checks that).
test-slow: $(VENV)/.test
	$(PYTEST) $(SAMPLE) -m slow --durations=20 $(shell grep -rl --include='test_*.py' --exclude-dir=torch 'mark\.slow' tests) $(PYTEST_ARGS)

test-long: $(VENV)/.test
	FDIFF_LONG_TESTS=1 $(PYTEST) --durations=20 $(PYTEST_ARGS)

test-faults: $(VENV)/.test
	FDIFF_FAULT_TESTS=$(FDIFF_FAULT_TESTS) $(PYTEST) --durations=20 tests/faults $(PYTEST_ARGS)

test-numba: $(VENV)/.test
	FDIFF_COMPILER=numba $(PYTEST) --durations=20 $(PYTEST_ARGS)

# Numba reads NUMBA_ENABLE_CUDASIM when it is imported, so each part has processes of its own.
test-cuda: $(VENV)/.cuda
	NUMBA_ENABLE_CUDASIM=1 FDIFF_CUDA_TESTS=values $(PYTEST) $(SAMPLE) tests/cuda
	FDIFF_CUDA_TESTS=compilation $(PYTEST) $(SAMPLE) tests/cuda

test-solvers: $(VENV)/.solvers
	FDIFF_SOLVER_TESTS=1 $(PYTEST) $(SAMPLE) tests/solvers tests/project/test_readme.py $(PYTEST_ARGS)

test-torch: $(VENV)/.torch
	FDIFF_TORCH_TESTS=1 $(PYTEST) $(SAMPLE) tests/torch $(PYTEST_ARGS)

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks --plot

dist: $(VENV)/.test
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo "The pages: build/docs/index.html"

# The pages without running examples and notebooks, whose own tests run them: what CI looks at.
docs-quick: $(VENV)/.docs
	FDIFF_DOCS_QUICK=1 $(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs-quick

test-site: docs $(VENV)/.site
	FDIFF_SITE_TESTS=1 $(BIN)/python -m pytest -n 0 tests/pages $(PYTEST_ARGS)

lint: $(VENV)/.test
	$(BIN)/ruff check .

types: $(VENV)/.test
	$(BIN)/pyright

dead: $(VENV)/.dev
	$(BIN)/vulture

coverage: $(VENV)/.test $(VENV)/.dev
	rm -rf build/coverage && mkdir -p build/coverage
	$(BIN)/coverage run -m pytest -n $(WORKERS) --progress -m "not slow" $(PYTEST_ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

hooks: $(VENV)/.test $(VENV)/.dev
	$(BIN)/pre-commit install

format: $(VENV)/.test
	$(BIN)/ruff format .

clean:
	rm -rf build dist demo.png .nox .pytest_cache .ruff_cache .hypothesis
	find . -path "./$(VENV)" -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)

# The virtual environment. A stamp for each set of packages: installed once, and again when
# pyproject.toml changes.

environment: $(VENV)/.test $(VENV)/.docs $(VENV)/.dev

# What pip does takes a minute or two, and says nothing.
INSTALL := @echo "Installing fdiff and what this needs into $(VENV), once: a minute or two, with a network ..."; \
	$(BIN)/pip install --quiet --editable

$(VENV)/.core: pyproject.toml | $(BIN)/pip
	$(INSTALL) .
	@touch $@

$(VENV)/.demo: pyproject.toml | $(BIN)/pip
	$(INSTALL) ".[demo]"
	@touch $@ $(VENV)/.core

$(VENV)/.test: pyproject.toml | $(BIN)/pip
	$(INSTALL) ".[test]"
	@touch $@ $(VENV)/.core $(VENV)/.demo

$(VENV)/.cuda: pyproject.toml | $(BIN)/pip
	$(INSTALL) ".[test,cuda12]"
	@touch $@ $(VENV)/.core $(VENV)/.test

$(VENV)/.solvers: pyproject.toml | $(BIN)/pip
	$(INSTALL) ".[test,test-solvers]"
	@touch $@ $(VENV)/.core $(VENV)/.test

$(VENV)/.torch: pyproject.toml | $(BIN)/pip
	$(INSTALL) ".[test,test-torch]"
	@touch $@ $(VENV)/.core $(VENV)/.test

$(VENV)/.bench: pyproject.toml | $(BIN)/pip
	$(INSTALL) ".[bench]"
	@touch $@ $(VENV)/.core

$(VENV)/.dev: pyproject.toml | $(BIN)/pip
	$(INSTALL) ".[dev]"
	@touch $@ $(VENV)/.core

$(VENV)/.site: pyproject.toml | $(BIN)/pip
	$(INSTALL) ".[site]"
	@touch $@ $(VENV)/.core

$(VENV)/.docs: pyproject.toml | $(BIN)/pip
	$(INSTALL) ".[docs]"
	@touch $@ $(VENV)/.core

$(BIN)/pip:
	@command -v $(PYTHON) >/dev/null || { echo "fdiff needs Python 3.11 or newer: no '$(PYTHON)' found (set PYTHON=)."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fdiff needs Python 3.11 or newer; %s is %s (set PYTHON=)." % (sys.executable, sys.version.split()[0]))'
	$(PYTHON) -m venv $(VENV)
