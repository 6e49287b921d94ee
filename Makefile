# Every command CI runs, under the same name. `make run` and `make test` are all a newcomer needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.installed

# Modules are compiled once, and not in every process that a test starts.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-fast test-full lint types layers docs site golden clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[torch,triton,tilelang,dev]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt flashinfer-python kernels
	@touch $@

run: $(READY) ## install into .venv, benchmark the bundled dataset, print the summary, write the pages
	$(BIN)/flashinfer-bench run --local examples/dataset
	$(BIN)/flashinfer-bench report summary --local examples/dataset
	@echo "To have flashinfer-bench on your PATH: source $(VENV)/bin/activate"
	@$(BIN)/flashinfer-bench report html build/site --local examples/dataset --title FlashInfer-Bench

# Where times count, a test has the machine to itself; all others run three at a time on two cores: many wait.
ALONE := tests/gpu tests/contract/test_clocks.py tests/browser/test_live_board.py \
	$(addprefix tests/attacks/test_,$(addsuffix .py,attacks attack_test bystanders)) \
	$(addprefix tests/docs/test_,$(addsuffix .py,apply_page bring_your_own_kernel debugging_page example_03)) \
	$(addprefix tests/flow/test_,$(addsuffix .py,ab interrupts launching loaded_machine measuring misbehaviour racing stopping_rules))

test-fast: $(READY) ## while typing: what needs neither torch, scipy nor a process, within a minute
	@$(BIN)/python -m pytest -q -rf -n 2 --dist loadfile --fast tests/unit tests/test_architecture.py

test: $(READY) ## what CI runs: every test but those marked `full`
	@status=0; \
	$(BIN)/python -m pytest -n 3 --dist loadfile --durations=25 $(addprefix --ignore=,$(ALONE)) || status=1; \
	$(BIN)/python -m pytest --durations=25 $(ALONE) || status=1; \
	exit $$status

test-full: $(READY) ## what `make test` leaves out: all attacks and look-alikes, and repeats that take long
	$(BIN)/python -m pytest -m full

lint: $(READY) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## mypy --strict on src
	$(BIN)/mypy

layers: $(READY) ## imports go down
	$(BIN)/lint-imports

golden: $(READY) ## rewrite the recorded command output that tests/golden compares with
	$(BIN)/python -m pytest tests/golden --update-golden

docs: $(READY) ## rewrite the pages that are made from commands and rules
	$(BIN)/python docs/generate_cli.py
	$(BIN)/python docs/generate_attacks.py
	$(BIN)/python docs/generate_validation.py
	$(BIN)/python docs/generate_openapi.py

site: $(READY) ## build the documentation as a site, in build/docs; a dead link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "open build/docs/index.html"

clean: ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
