# Two commands do everything on a fresh machine: `make demo` and `make test`. They share an environment: the demo installs
# what it uses, and everything else adds the rest.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DEMO   := $(VENV)/.ready-demo
READY  := $(VENV)/.ready
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# compiled modules are kept, whatever the environment says: the tests start many interpreters
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo demo-hashes wheel test coverage fuzz mutants kills soak style lint docs bench clean
.DELETE_ON_ERROR:

$(DEMO): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[demo]'
	touch $@

$(READY): $(DEMO)
	$(PIP) -e '.[dev]'
	touch $@

demo: $(DEMO)
	$(BIN)/lemmata demo

# the demo from packages whose hashes are checked, in an environment of its own
HASHED := build/hashes/bin/python -m pip install --quiet --disable-pip-version-check --no-deps
demo-hashes:
	@$(PYTHON) -c "import platform, sys; sys.exit((sys.platform, platform.machine(), *sys.version_info[:2]) != ('linux', 'x86_64', 3, 11))" \
	    || { echo "requirements-demo.txt has the hashes for Linux x86_64 and Python 3.11; elsewhere: make demo"; exit 1; }
	$(PYTHON) -m venv --clear build/hashes
	$(HASHED) --require-hashes -r requirements-demo.txt
	$(HASHED) -c constraints.txt torch  # its build, and so its hash, depends on the index
	$(HASHED) --no-build-isolation .
	build/hashes/bin/lemmata demo build/hashes/demo

# the demo from the wheel, in an empty environment and outside of the repository
wheel: $(READY)
	rm -rf build/wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation -w build/wheel .
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python -m pip install --quiet -c constraints.txt "$$(ls build/wheel/lemmata-*.whl)[demo]"
	cd build/wheel && venv/bin/lemmata demo

# a module at a time, as its tests share what they need, in the order of tests/conftest.py: the long ones first
MODULES := --dist loadfile --no-loadscope-reorder

# more processes than cores, as some tests wait for servers and clusters; mypy has one thread, and runs beside them
test: style
	@mkdir -p build; $(BIN)/mypy > build/mypy.txt 2>&1 & types=$$!; trap "kill $$types" INT TERM; \
	$(BIN)/python -m pytest -n 3 $(MODULES); tests=$$?; \
	wait $$types; types=$$?; echo mypy:; cat build/mypy.txt; exit $$((tests || types))

# the tests again, counting lines, which takes half as long again
coverage: $(READY)
	$(BIN)/python -m pytest -n 2 $(MODULES) --cov=lemmata --cov-report=term:skip-covered --cov-fail-under=85

fuzz: $(READY)
	$(BIN)/python -m pytest -n 2 $(MODULES) --hypothesis-profile=searching

# puts faults into a copy of the code, one at a time; the tests have to notice 97 % of them; about 15 minutes
mutants: $(READY)
	$(BIN)/python -m tests.mutants

# kills every stage 200 times, resumes it, and compares the workspace with an undisturbed one; about 40 minutes
kills: $(READY)
	$(BIN)/python -m tests.faults.kills --kills 200

# a server under load while its folder is edited, its commands and itself are killed, and it adapts; make soak MINUTES=3
MINUTES ?= 60
soak: $(READY)
	$(BIN)/python -m tests.faults.soak --minutes $(MINUTES) --write

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint: style
	$(BIN)/mypy

docs: $(READY)
	$(PIP) -e '.[docs]'
	$(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

# the benchmarks that run on the bundled example; the others take their data from a path on the command line
bench: $(READY)
	$(BIN)/python -m bench.speed latex examples/qseries --file hook-length.tex
	rm -rf build/bench && $(BIN)/lemmata init build/bench
	$(BIN)/lemmata ingest examples/qseries -w build/bench && $(BIN)/lemmata index -w build/bench
	$(BIN)/python -m bench.speed start build/bench

clean:
	rm -rf $(VENV) demo build
