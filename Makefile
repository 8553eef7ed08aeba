# Two commands do everything on a fresh clone: `make demo` and `make test`. They need python 3.11 or newer, and make.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/installed
# Where an index serves other files than PyPI: make venv LOCK='-c constraints.txt hatchling editables'
LOCK ?= --no-deps --require-hashes -r requirements.lock
# Compiling all that is installed takes a minute, and most of it is never imported: python compiles what is.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-warn-script-location --no-compile

# Tests start hundreds of processes, which would compile all modules again each time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv demo test ready lint types layers fmt docs editors bench bench-gpu test-gpu soak playground build lock clean

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 14

venv: $(STAMP) ## Make .venv with everything development needs.

$(STAMP): pyproject.toml constraints.txt requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) $(LOCK)
	$(PIP) --no-build-isolation -c constraints.txt -e '.[dev]'
	touch $(STAMP)

demo: $(STAMP) ## Compile a space, train a sampled network, export it, compare.
	$(BIN)/python examples/demo.py

test: $(STAMP) ## Lint, types, import layers and all tests.
	$(MAKE) --no-print-directory -j 2 types ready
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not soak" --durations 10 --ignore tests/project/test_layers.py tests

# Beside the types, on the other core: what tests import is compiled here, once, and not by each of their processes.
ready: lint layers
	$(BIN)/python -m pytest -qq --collect-only -m "not soak" tests > /dev/null

lint: $(STAMP) ## Rules and layout: ruff, archir fmt.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/archir fmt --check examples archir/language/std

types: $(STAMP) ## mypy --strict.
	$(BIN)/mypy

layers: $(STAMP) ## Imports point downwards only; torch and onnx stay in their backends.
	$(BIN)/python -m pytest -q tests/project/test_layers.py

fmt: $(STAMP) ## Lay out the code, Python and .arch.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/archir fmt examples archir/language/std

docs: $(STAMP) ## The documentation, in docs/_build/html.
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/zoo.py
	$(BIN)/sphinx-build -W -q -c docs . docs/_build/html

editors: $(STAMP) ## The extension for VS Code, tested in node, as editors/vscode/archir.vsix; needs npm.
	npm --prefix editors/vscode ci --ignore-scripts
	npm --prefix editors/vscode test
	$(BIN)/python -m pytest tests/editor
	npm --prefix editors/vscode run package

bench: $(STAMP) ## Run the benchmarks; figures go to benchmarks/results.
	$(PIP) --no-build-isolation -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/run.py

bench-gpu: $(STAMP) ## The benchmarks that need a CUDA device.
	$(BIN)/python benchmarks/gpu.py
	$(BIN)/python benchmarks/run.py --device cuda

test-gpu: $(STAMP) ## The tests that need a CUDA device: every kind of phase, two processes, onnxruntime.
	$(BIN)/python -m pytest -m gpu -rs tests
	$(BIN)/python -m pytest --real-gpu tests/torch_backend/elsewhere

soak: $(STAMP) ## Long fuzzing and parity runs.
	$(BIN)/python -m pytest -n 2 --dist worksteal -m soak tests
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "hypothesis and not soak" --hypothesis-profile long tests

playground: $(STAMP) ## The studio as static files, with Python inside of the browser, in build/playground; needs node and npm.
	npm ci --prefix editors/studio --no-audit --no-fund --silent
	$(BIN)/python tools/playground.py build/playground

build: $(STAMP) ## Wheel and sdist, and the bill of materials beside them.
	$(BIN)/python -m build --no-isolation
	$(BIN)/python tools/sbom.py dist/archir.cdx.json

lock: $(STAMP) ## Write requirements.lock anew, after constraints.txt was changed; needs uv.
	$(BIN)/python tools/lock.py

clean: ## Remove what was made.
	rm -rf .venv build dist docs/_build .coverage .hypothesis .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
