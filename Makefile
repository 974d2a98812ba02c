# `make run` and `make test` are the two commands; each sets up all that it needs.
# ARGS passes arguments on: make test ARGS="-k lock -x"

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run demo split setup test check format bench chaos pictures lock clean

VENV := .venv
BIN  := $(VENV)/bin
PIP  := $(BIN)/python -m pip --disable-pip-version-check
UV   ?= uv
WORKERS ?= 6

# Compiled modules are kept in .venv, also where the environment says that none be written: a test run starts a thousand
# processes, and each would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(abspath $(VENV))/bytecode

# One stamp per lock. The development lock holds all of the other one, so the same .venv serves both.
SERVES   := $(VENV)/.serves
DEVELOPS := $(VENV)/.develops

help: ## Show these targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

run: $(SERVES) ## Serve the API and the chat page on http://127.0.0.1:8420.
	@exec $(BIN)/inturn serve $(ARGS)

demo: $(SERVES) ## Show the race and its cure in the terminal.
	@$(BIN)/inturn demo $(ARGS)

# Its servers are private ones, as those of the tests are.
split: setup ## Run Tasks, AI and a worker apart, with RabbitMQ, Redis and PostgreSQL, until Ctrl-C.
	@exec $(BIN)/python -m tests.split $(ARGS)

setup: $(DEVELOPS) ## Make .venv with everything that tests, checks and benchmarks need.

$(SERVES): pyproject.toml requirements.lock
	$(make_venv)
	$(call install,requirements.lock,what serving needs)
	@touch $@

$(DEVELOPS): pyproject.toml requirements-dev.lock
	$(make_venv)
	$(call install,requirements-dev.lock,what development needs)
	@$(PIP) check >/dev/null || $(PIP) check
	@touch $(SERVES) $@

# A version manager may leave a `python3.12` on PATH that does not run, so a candidate counts only if it answers.
define make_venv
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
endef

# Names each package as pip comes to it, and shows all that pip said if it fails. Bytecode is left to the first import,
# which compiles only what is used.
define install
@echo "Installing $(2): $$(grep -c == $(1)) packages of $(1) ..."
@{ $(PIP) install --no-compile --require-hashes --no-deps -r $(1) 2>&1; echo "exit $$?"; } | awk '\
    /^exit [0-9]+$$/ { code = $$2; next } { said = said $$0 "\n" } \
    /^(Collecting|Processing) / { sub(".*/", "", $$2); sub("-(py|cp)[0-9].*", "", $$2); print "  " $$2; fflush() } \
    END { if (code) printf "%s", said > "/dev/stderr"; exit code }'
@echo "Installing inturn from this folder ..."
@$(PIP) install --quiet --no-deps --no-build-isolation --no-index -e .
endef

# Half of the tests write to SQLite, which waits for the disk at every commit: they do so in memory, where there is a GiB.
MEMORY := /dev/shm
TESTS_IN = $(shell test "$$(df -Pk $(MEMORY) 2>/dev/null | awk 'END { print $$4 }')" -gt 1048576 2>/dev/null && echo TMPDIR=$(MEMORY))

# Pytest rewrites every test module once. Six workers that start with none of them rewritten would each do all of it.
COMPILED := $(VENV)/.compiled

$(COMPILED): $(DEVELOPS) $(wildcard tests/*.py tests/*/*.py tests/*/*/*.py tests/*/*/*/*.py)
	@echo "Compiling the tests ..."
	@ls -d tests/*/ | xargs -P 2 -n 4 $(BIN)/python -m pytest --quiet --collect-only >/dev/null 2>&1; touch $@

# The tests wait more than they compute, so they are spread over more workers than two cores have.
test: setup $(COMPILED) ## Run the tests; they bring up private servers themselves.
	@$(TESTS_IN) $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal $(ARGS)

check: setup ## Check format, lint and types.
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: setup ## Format, and fix what lint can fix.
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: setup ## Measure turns, locks, policies, conversations, jobs, tasks and the bot, on private servers.
	@$(BIN)/python -m benchmarks turns $(ARGS)
	@$(BIN)/python -m benchmarks locks $(ARGS)
	@$(BIN)/python -m benchmarks policies $(ARGS)
	@$(BIN)/python -m benchmarks conversations $(ARGS)
	@$(BIN)/python -m benchmarks jobs $(ARGS)
	@$(BIN)/python -m benchmarks tasks $(ARGS)
	@$(BIN)/python -m benchmarks bot $(ARGS)

# What it finds is kept in tests/kept_cases.txt, and is run again by every `make test`.
chaos: setup ## Run the long form of the chaos tests and print a report; draw random tests anew.
	@$(BIN)/python -m tests.chaos $(ARGS); locks=$$?; $(BIN)/python -m tests.chaos --lanes $(ARGS); lanes=$$?; \
	    $(BIN)/python -m pytest --quiet --explore 5 && exit $$((locks | lanes))

pictures: setup ## Draw the pictures of docs/policies.md and docs/bot.md anew.
	@$(BIN)/python -m docs.tools.draw_policies docs/pictures/policies
	@$(BIN)/python -m docs.tools.draw_sending docs/pictures/sending

# The second lock takes its versions from the first, so that both pin the same ones.
COMPILE = $(UV) pip compile --no-config --quiet --universal --python-version 3.11 --no-header --no-annotate \
    --generate-hashes --no-emit-index-url --no-emit-find-links

lock: ## Pin the newest versions anew in both locks (needs uv).
	@$(COMPILE) --upgrade --extra all --group dev pyproject.toml -o requirements-dev.lock
	@$(COMPILE) --constraint requirements-dev.lock --extra server --extra tasks --extra postgres --extra redis --extra rabbitmq --extra openai --group build \
	    pyproject.toml -o requirements.lock

clean: ## Remove everything that can be made again.
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests benchmarks examples docs -name __pycache__ -type d -prune -exec rm -rf {} +
