# Everything a developer or a user types. Each target creates .venv and installs what it needs by itself.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo browser test torture lint docs bench theory clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@# Pictures of the MuJoCo domains need one of two graphics libraries; a system that has one is left alone.
	@ldconfig -p | grep -qE 'libEGL\.so\.1|libOSMesa\.so' || { apt-get update -qq && apt-get install -y -qq libosmesa6; } \
	  || echo "install libegl1 or libosmesa6 to see the MuJoCo domains; all else works without"
	python3 -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

demo: setup  ## explore GridWorld with the paper's settings: entropy, curve and heatmaps
	$(BIN)/mepol explore gridworld --epochs 30 --out runs/demo-$$(date +%Y%m%d-%H%M%S)

browser:  ## the report page is tried in a real one; a system that has it is left alone
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null \
	  || { apt-get update -qq && apt-get install -y -qq chromium chromium-driver; } \
	  || { echo "install chromium and chromium-driver: the tests of the report page need them"; exit 1; }

test: setup lint browser  ## two processes of one thread each: the tests that need more threads ask for them
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

torture: setup  ## both phases killed, disks filled, files forged, directories spoilt, a soak: the figures of docs/results/reliability.md
	OMP_NUM_THREADS=1 MEPOL_LEDGER=results/reliability.csv $(BIN)/python -m pytest -m "torture or not torture" tests/reliability tests/cluster tests/reproduce
	$(BIN)/python tests/reliability/page.py

lint: setup  ## style, types, and which room may know which (pyproject.toml, importlinter)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: setup  ## the documentation as pages: docs/_build/html/index.html; any warning, such as a dead link, ends it
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

bench: setup  ## what an epoch costs beside its floors; make bench ARGS="growth --out DIR", ARGS="memory", ARGS="--help"
	PYTHONPATH=benchmarks $(BIN)/python -m bench $(ARGS)

theory: setup  ## the table of docs/method/theory.md, measured
	$(BIN)/python benchmarks/theory.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
