# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test fuzz lint bench clean
.DELETE_ON_ERROR:

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(READY)
	$(BIN)/lemmata demo

test: lint
	$(BIN)/python -m pytest -n 2 --cov=lemmata --cov-report=term:skip-covered --cov-fail-under=85

fuzz: $(READY)
	$(BIN)/python -m pytest -n 2 --hypothesis-profile=searching

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python bench/latex_speed.py

clean:
	rm -rf $(VENV) demo
