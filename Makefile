# `make run` and `make test` are the two commands; each sets up all that it needs.
# ARGS passes arguments on: make test ARGS="-k lock -x"

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run demo test check format bench chaos lock clean

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.ready
PIP   := $(BIN)/python -m pip --disable-pip-version-check --quiet
UV    ?= uv
WORKERS ?= 4

help: ## Show these targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## Make .venv with everything that tests and benchmarks need.

# A version manager may leave a `python3.12` on PATH that does not run, so a candidate counts only if it answers.
$(STAMP): pyproject.toml requirements.lock
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
	    for python in $(PYTHON) python3 python3.13 python3.12 python3.11 python; do \
	        $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; \
	        python=; \
	    done; \
	    test -n "$$python" || { echo "inturn needs Python 3.11 or newer on PATH (or: make PYTHON=/path/to/python3.11)." >&2; exit 1; }; \
	    $$python -c 'import ensurepip' 2>/dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && \
	        apt-get install -qq -y --no-install-recommends python3-venv; } >/dev/null 2>&1 || { \
	        echo "This Python cannot make virtual environments: install your system's python3-venv package." >&2; exit 1; }; \
	    echo "Making $(VENV) with $$($$python --version) ..."; \
	    $$python -m venv --clear $(VENV); \
	}
	@echo "Installing requirements.lock ..."
	@$(PIP) install --require-hashes --no-deps -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --no-index -e .
	@$(PIP) check
	@touch $@

run: setup ## Serve the API and the chat page on http://127.0.0.1:8420.
	@exec $(BIN)/inturn serve $(ARGS)

demo: setup ## Show the race and its cure in the terminal.
	@$(BIN)/inturn demo $(ARGS)

# The tests wait more than they compute, so they are spread over more workers than two cores have.
test: setup ## Run the tests; they bring up private servers themselves.
	@$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal $(ARGS)

check: setup ## Check format, lint and types.
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: setup ## Format, and fix what lint can fix.
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: setup ## Measure turns, locks, policies and conversations, and their peers, on private Redis servers.
	@$(BIN)/inturn bench turns $(ARGS)
	@$(BIN)/inturn bench locks $(ARGS)
	@$(BIN)/inturn bench policies $(ARGS)
	@$(BIN)/inturn bench conversations $(ARGS)

chaos: setup ## Run the long form of the chaos tests and print a report.
	@$(BIN)/python -m tests.chaos $(ARGS); locks=$$?; $(BIN)/python -m tests.chaos --lanes $(ARGS) && exit $$locks

# The whole of `all` constrains the lock, so that parts that join it later do not move what is pinned now.
lock: ## Pin the newest versions anew in requirements.lock (needs uv).
	@mkdir -p build
	@$(UV) pip compile --no-config --quiet --universal --python-version 3.11 --upgrade --no-header --no-annotate \
	    --extra all --group dev pyproject.toml -o build/all.txt
	@$(UV) pip compile --no-config --quiet --universal --python-version 3.11 --upgrade --no-header --no-annotate \
	    --generate-hashes --no-emit-index-url --no-emit-find-links --constraint build/all.txt \
	    --extra redis --extra server --extra copilot --extra openai --extra bench --group dev pyproject.toml -o requirements.lock

clean: ## Remove everything that can be made again.
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
