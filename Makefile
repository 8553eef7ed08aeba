# On a fresh clone, run `make demo` or `make test`. Both need only make and python 3.11 or newer.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/installed
# For a package index whose files differ from PyPI's: make venv LOCK='-c constraints.txt hatchling editables'
LOCK ?= --no-deps --require-hashes -r requirements.lock
# --no-compile: compiling all installed modules takes a minute, and python compiles those that are imported anyway.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-warn-script-location --no-compile

# Tests start hundreds of processes; without bytecode files, each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv demo test near ready lint types layers fmt docs links editors bench bench-gpu test-gpu soak playground build lock clean

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 14

venv: $(STAMP) ## Create .venv with all packages for development.

$(STAMP): pyproject.toml constraints.txt requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) $(LOCK)
	$(PIP) --no-build-isolation -c constraints.txt -e '.[dev]'
	touch $(STAMP)

demo: $(STAMP) ## Compile a space, train a sampled network, export it, and compare the outputs.
	$(BIN)/python examples/demo.py

test: $(STAMP) ## Run the linter, the type checker, the check of import layers and all tests.
	$(MAKE) --no-print-directory -j 2 types ready
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not soak" --durations 10 --ignore tests/project/test_layers.py tests

# Runs beside `types`, on the other core. Collecting the tests compiles the modules that they import once, instead of in
# each of their processes.
ready: lint layers
	$(BIN)/python -m pytest -qq --collect-only -m "not soak" tests > /dev/null

lint: $(STAMP) ## Check rules and formatting with ruff and archir fmt.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/archir fmt --check examples archir/language/std

types: $(STAMP) ## Check types with mypy --strict.
	$(BIN)/mypy

layers: $(STAMP) ## Check that packages import only lower ones, and that only backends import torch and onnx.
	$(BIN)/python -m pytest -q tests/project/test_layers.py

fmt: $(STAMP) ## Format the Python and .arch code.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/archir fmt examples archir/language/std

# SITE_URL and SITE_REPOSITORY, where the site and its sources are published, add canonical links and edit links. For a
# release, make docs SITE=site/0.2.0 SITE_URL=https://HOST/0.2.0/ also lists the version in site/versions.json.
SITE ?= docs/_build/html
docs: $(STAMP) ## Build the documentation in docs/_build/html.
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/zoo.py
	$(BIN)/sphinx-build -W -q -j 2 -c docs . $(SITE)

links: $(STAMP) ## Check the external links of the documentation; needs a network.
	$(BIN)/sphinx-build -q -b linkcheck -c docs . docs/_build/links

editors: $(STAMP) ## Test the VS Code extension and build editors/vscode/archir.vsix; needs npm.
	npm --prefix editors/vscode ci --ignore-scripts
	npm --prefix editors/vscode test
	$(BIN)/python -m pytest tests/editor
	npm --prefix editors/vscode run package

bench: $(STAMP) ## Run the benchmarks and write their figures to benchmarks/results.
	$(PIP) --no-build-isolation -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/run.py

bench-gpu: $(STAMP) ## Run the benchmarks that need a CUDA device.
	$(BIN)/python benchmarks/gpu.py
	$(BIN)/python benchmarks/run.py --device cuda

test-gpu: $(STAMP) ## Run the tests that need a CUDA device: every kind of phase, two processes, onnxruntime.
	$(BIN)/python -m pytest -m gpu -rs tests
	$(BIN)/python -m pytest --real-gpu tests/torch_backend/elsewhere

near: $(STAMP) ## Run the tests near what changed since the last commit, or since REVISION=main.
	$(BIN)/python -m pytest -n 2 -q -m "not soak" $$($(BIN)/python tools/near.py $(REVISION))

soak: $(STAMP) ## Run the long fuzzing and parity tests.
	$(BIN)/python -m pytest -n 2 --dist worksteal -m soak tests
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "hypothesis and not soak" --hypothesis-profile long tests

playground: $(STAMP) ## Build the studio as static files with Python in the browser, in build/playground; needs node and npm.
	npm ci --prefix editors/studio --no-audit --no-fund --silent
	$(BIN)/python tools/playground.py build/playground

build: $(STAMP) ## Build wheel, sdist and bill of materials in dist.
	$(BIN)/python -m build --no-isolation
	$(PYTHON) -m venv build/cyclonedx
	build/cyclonedx/bin/python -m pip install --quiet --disable-pip-version-check cyclonedx-bom==7.5.0
	build/cyclonedx/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file dist/archir.cdx.json $(BIN)/python

lock: $(STAMP) ## Rewrite requirements.lock after a change to constraints.txt; needs uv.
	$(BIN)/python tools/lock.py

clean: ## Remove .venv, build outputs and caches.
	rm -rf .venv build dist docs/_build .coverage .hypothesis .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
