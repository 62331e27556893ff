# What can be done with a checkout. Every target makes its own virtual environment in .venv when it
# is missing or when pyproject.toml or constraints.txt is newer. Plain `make` lists the targets.

PC_HOME ?= $(CURDIR)/.pc
PORT ?= 3000
API_PORT ?= 8000
PYTHONS := $(or $(PYTHON),python3.11 python3.12 python3.13 python3)
BIN := .venv/bin
STAMP := .venv/.stamp-installed

# The caller's settings are not the tests', nor the generated documents'.
OWN_ENV := env -u DAGSTER_HOME $(foreach v,$(filter-out PC_TEST_% PC_PEER_%,$(filter PC_%,$(.VARIABLES))),-u $(v))

# A program started in the background by a script ignores SIGINT, and Dagster stops on nothing else.
INTERRUPTIBLE := $(BIN)/python -c 'import os, signal, sys; \
	signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])'

export DAGSTER_DISABLE_TELEMETRY := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo dev check test test-all bench docs dagster-home

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo 'Variables: PYTHON=python3.x  PORT=$(PORT)  API_PORT=$(API_PORT)  PC_HOME=$(PC_HOME)'

demo: dagster-home ## show the whole product at work, in this terminal
	$(INTERRUPTIBLE) $(BIN)/python examples/demo.py

# `pc serve -- COMMAND` runs both, and stops each when the other ends.
dev: dagster-home ## Dagster on 127.0.0.1:$PORT and the HTTP API on $API_PORT; Ctrl-C stops both
	@port=$(API_PORT); $(BIN)/python -c 'import socket; \
		socket.create_server(("127.0.0.1", int("'$$port'")))' 2>/dev/null || \
		{ echo "Port $$port is taken: the API gets a free one, see below"; port=0; }; \
	exec $(INTERRUPTIBLE) $(BIN)/pc serve --port $$port -- \
		$(BIN)/dagster dev -w workspace.yaml -h 127.0.0.1 -p $(PORT)

check: $(STAMP) ## lint, format, types, generated documents, loadable definitions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(OWN_ENV) $(BIN)/python docs/generate.py --check
	home=$$(mktemp -d) && trap 'rm -rf "$$home"' EXIT && cp dagster.yaml "$$home" && \
		$(OWN_ENV) DAGSTER_HOME="$$home" PC_HOME="$$home" \
		$(BIN)/dagster definitions validate -w workspace.yaml

test: $(STAMP) ## the tests, without the slow ones
	$(OWN_ENV) $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

test-all: $(STAMP) ## every test
	$(OWN_ENV) $(BIN)/python -m pytest -m ''

bench: $(STAMP) ## every benchmark
	set -e; for file in benchmarks/bench_*.py; do \
		echo "== $$file"; $(OWN_ENV) $(BIN)/python "$$file"; done

docs: $(STAMP) ## write the generated documents anew
	$(OWN_ENV) $(BIN)/python docs/generate.py

demo dev dagster-home: export PC_HOME := $(PC_HOME)
demo dev dagster-home: export DAGSTER_HOME := $(abspath $(PC_HOME))/dagster
dev: export PC_MEMORY_SCHEDULE_SECONDS := $(or $(PC_MEMORY_SCHEDULE_SECONDS),15)
dev: export PC_EXPERIENCE_SCHEDULE_SECONDS := $(or $(PC_EXPERIENCE_SCHEDULE_SECONDS),15)

# A dagster.yaml of somebody's own stays. File systems without symbolic links get a copy.
dagster-home: $(STAMP)
	@mkdir -p "$$DAGSTER_HOME"
	@file="$$DAGSTER_HOME/dagster.yaml"; [ -e "$$file" ] || \
		ln -sf "$(CURDIR)/dagster.yaml" "$$file" 2>/dev/null || cp dagster.yaml "$$file"

$(STAMP): pyproject.toml constraints.txt
	@$(BIN)/python -c '' 2>/dev/null || { \
		found=; for python in $(PYTHONS); do \
			"$$python" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
				&& found=$$python && break; \
		done; \
		if [ -z "$$found" ]; then \
			echo 'No Python 3.11 or newer with the venv module among: $(PYTHONS).' >&2; \
			echo 'Install one (Debian: apt-get install python3 python3-venv) or name it: make PYTHON=/path/to/python' >&2; \
			exit 1; \
		fi; \
		echo "Making .venv with $$found, $$("$$found" --version)"; \
		rm -rf .venv && "$$found" -m venv .venv; }
	$(BIN)/pip install -qq --editable '.[dev]' --constraint constraints.txt
	@touch $@
