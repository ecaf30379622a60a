# Everything is run in .venv, made from the lock file. `make help` explains.
SHELL := /bin/bash
# Two at once: the tools of the tests are installed while Spark is prepared.
MAKEFLAGS += --jobs=2
PYTHON ?= python3
BIN := .venv/bin
export INCREMENTAL_ASSETS_LAKE ?= $(CURDIR)/lake
export INCREMENTAL_ASSETS_LANDING ?= $(CURDIR)/landing
export DAGSTER_HOME ?= $(CURDIR)/.dagster
PORT ?= 3000
# Dagster prints the address of its overview, which shows no asset.
SAY_WHERE = echo "The UI starts; where the assets are follows in half a minute."; \
  $(BIN)/python scripts/say_where.py $(PORT) &
# `dg dev`, which it recommends, is another package and does the same.
QUIET := PYTHONWARNINGS='ignore:Function `dev_command` is superseded'
DEMO_DAYS ?= 2017-01-01...2017-01-07
# On it two stores send prices that cannot be read. It may lie outside the days.
DEMO_BROKEN_DAY ?= 2017-01-05
DEMO_FROM = $(firstword $(subst ..., ,$(DEMO_DAYS)))
DEMO_TO = $(lastword $(subst ..., ,$(DEMO_DAYS)))

.PHONY: help setup tools demo dev dev-connect test test-all pictures lint bench-quick bench-big bench-year bench-history bench-few bench-ledger bench-feeds bench-ticks bench-pipelines lock clean

help:  ## List the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

setup: .venv/.installed .cache/.prepared  ## Install everything from the lock file; safe to repeat
	@mkdir -p "$(DAGSTER_HOME)"
	@test -e "$(DAGSTER_HOME)/dagster.yaml" || cp dagster.yaml "$(DAGSTER_HOME)/"

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps

.venv/.installed: requirements.lock pyproject.toml
	@$(PYTHON) scripts/check_machine.py
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing the locked packages into .venv (430 MB to fetch, some minutes) …"
	@$(INSTALL) --require-hashes -r requirements.lock && $(INSTALL) --no-build-isolation --editable . \
	  && echo "  took $$SECONDS s"
	@touch $@

.venv/.tools: .venv/.installed requirements-dev.lock
	@echo "Installing the tools of the tests and of lint into .venv …"
	@$(INSTALL) --require-hashes -r requirements-dev.lock && echo "  took $$SECONDS s"
	@touch $@

.cache/.prepared: .venv/.installed incremental_assets/spark/jars.lock incremental_assets/spark/session.py
	@$(BIN)/incremental-assets setup
	@touch $@

tools: setup .venv/.tools

demo: setup  ## Land a week of real retail data, load it, show what happened and what is held
	@$(BIN)/incremental-assets demo land --from $(DEMO_FROM) --to $(DEMO_TO) --broken-day $(DEMO_BROKEN_DAY)
	@$(BIN)/incremental-assets run --held-ok
	@$(BIN)/incremental-assets demo show --days $(DEMO_DAYS)

dev: setup  ## Open the Dagster UI on http://127.0.0.1:3000, or with PORT=3001 on that port
	@$(SAY_WHERE) cd "$(DAGSTER_HOME)" && $(QUIET) "$(CURDIR)/$(BIN)/dagster" dev -h 127.0.0.1 -p $(PORT) -w "$(CURDIR)/workspace.yaml"

dev-connect: setup  ## The same over one Spark that is kept up: tables load at once, no run starts its own
	@$(SAY_WHERE) cd "$(DAGSTER_HOME)" && $(QUIET) "$(CURDIR)/$(BIN)/incremental-assets" connect "$(CURDIR)/$(BIN)/dagster" dev -h 127.0.0.1 -p $(PORT) -w "$(CURDIR)/workspace.yaml"

test: tools  ## Run the tests
	@$(BIN)/python scripts/run_tests.py

test-all: tools  ## Also further seeds, pairs and kills of what the tests promise: before a release
	@$(BIN)/python scripts/run_tests.py --all

pictures: tools  ## Take the pictures of the documentation again: needs Chromium, and a look at each
	@$(BIN)/python -m pytest -q incremental_assets_tests/end_to_end/test_browser.py --pictures docs/pictures

lint: tools  ## Check style, types and import contracts
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench-quick: setup  ## Measure a day and a month against the script of the tutorials
	@$(BIN)/python -m benchmarks.quick

bench-big: setup  ## Measure a day of ROWS events against the same day by hand
	@$(BIN)/python -m benchmarks.big --rows $(or $(ROWS),1000000)

bench-year: setup  ## Measure a first load of DAYS days of the demo against one plain Spark job
	@$(BIN)/python -m benchmarks.year --days $(or $(DAYS),365)

bench-history: setup  ## Measure a day on a lake with 100,000 batches and files behind it
	@$(BIN)/python -m benchmarks.long_history

bench-few: setup  ## Measure few changes to ROWS rows against reading or rebuilding all of them
	@$(BIN)/python -m benchmarks.few_changes --rows $(or $(ROWS),1000000) --day-rows $(or $(DAY_ROWS),$(ROWS),1000000)

bench-ledger: setup  ## Measure the ledger after 100,000 batches
	@$(BIN)/python -m benchmarks.ledger

bench-feeds: setup  ## Measure a day of each kind of source
	@$(BIN)/python -m benchmarks.feeds

bench-ticks: setup  ## Measure a sensor's tick that finds nothing new
	@$(BIN)/python -m benchmarks.ticks

bench-pipelines: setup  ## Measure DAYS days and three changes against Spark Declarative Pipelines
	@$(BIN)/python -m benchmarks.pipelines --days $(or $(DAYS),31)

LOCK := uv pip compile --quiet --universal --no-strip-extras --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-annotate --no-header --extra postgresql --extra mariadb --extra dagster-postgres --extra kafka --extra s3 --extra demo --group build pyproject.toml

lock:  ## Resolve the dependencies again (needs uv)
	@$(LOCK) -o requirements.lock
	@$(LOCK) --extra testing --group dev --constraint requirements.lock -o requirements-dev.lock

clean:  ## Remove the demo's lake, landing and Dagster history
	rm -rf lake landing .dagster
