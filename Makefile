# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test fuzz soak lint docs bench clean
.DELETE_ON_ERROR:

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[dev]'
	touch $@

demo: $(READY)
	$(BIN)/lemmata demo

test: lint
	$(BIN)/python -m pytest -n 2 --cov=lemmata --cov-report=term:skip-covered --cov-fail-under=85

fuzz: $(READY)
	$(BIN)/python -m pytest -n 2 --hypothesis-profile=searching

# kills every stage 200 times, resumes it, and compares the workspace with an undisturbed one; about 40 minutes
soak: $(READY)
	$(BIN)/python -m tests.faults.kills --kills 200

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(READY)
	$(PIP) -e '.[docs]'
	$(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

# the benchmarks that run on the bundled example; the others take their data from a path on the command line
bench: $(READY)
	$(BIN)/python bench/latex_speed.py examples/qseries --file hook-length.tex
	rm -rf build/bench && $(BIN)/lemmata init build/bench
	$(BIN)/lemmata ingest examples/qseries -w build/bench && $(BIN)/lemmata index -w build/bench
	$(BIN)/python bench/cold_start.py build/bench

clean:
	rm -rf $(VENV) demo build
