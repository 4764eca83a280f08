# Everything runs in .venv; nothing else on the machine is changed, but on Debian as root: OpenBLAS, and for the tests
# cron, promtool and Chromium (see openblas, test-packages).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# 8 recordings of the demo, and what is made of them.
DEMO ?= examples/calls
OUT ?= out
# Options of the table of figures.
BENCH ?=
# Processes that run the tests: each has models of its own in memory, up to 3 GB.
TESTS ?= 2

.PHONY: help demo test check bench bench-curves soak format openblas test-packages clean

help:
	@echo "make demo    install into .venv, fetch Whisper base, transcribe $(DEMO) into $(OUT)/"
	@echo "make test    install what the tests need and run them (real weights, under 12 minutes;"
	@echo "             TESTS=4: in four processes)"
	@echo "make check   lint, format and types"
	@echo "make bench   speed and word error rate beside mlx-audio, vayu-whisper and faster-whisper (needs ../shared/data;"
	@echo "             BENCH='--rounds 1 --only calls' for a part); make bench-curves: time and accuracy over settings"
	@echo "make soak    the long proofs: kills, full disk, a million in the ledger, 100,000 paths, 3,000 mutations, calls,"
	@echo "             3,000 windows in the same memory, 40 recordings that say the same in any batch, an hour of stream,"
	@echo "             a model of 3 GB converted in less than 1 GB of memory"

demo: $(VENV)/.core openblas
	$(BIN)/mlxbatch transcribe $(DEMO) -o $(OUT) --format txt,srt,json
	@for text in $(OUT)/*.txt; do printf '\n== %s\n' "$$text"; cat "$$text"; done

test: $(VENV)/.dev openblas test-packages
	$(BIN)/python -m pytest -m "not soak" -n $(TESTS) --dist loadfile

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --strict benchmarks/*.py

bench: $(VENV)/.dev openblas
	$(BIN)/python -m benchmarks.peers
	$(BIN)/python -m benchmarks.figures $(BENCH)
	$(BIN)/python -m benchmarks.operations
	$(BIN)/python benchmarks/overlap.py
	$(BIN)/python benchmarks/governor.py
	$(BIN)/python -m benchmarks.convert
	$(BIN)/python -m benchmarks.enhance

# How the numbers in the profile are chosen.
bench-curves: $(VENV)/.dev openblas
	$(BIN)/python -m benchmarks.curve margin
	$(BIN)/python -m benchmarks.curve streams --option "--batch-size 16"

soak: $(VENV)/.dev openblas
	$(BIN)/python -m pytest -m soak -s

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# MLX's Linux wheel brings a slow reference BLAS; OpenBLAS is loaded before it where it is installed.
openblas:
	@sh tools/openblas.sh

# cron, promtool and Chromium; where they are missing, the tests that need them are skipped.
test-packages:
	@sh tools/test-packages.sh

$(VENV)/.core: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 3; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "cannot make $(VENV): on Debian and Ubuntu, apt-get install python3-venv" >&2; exit 3; }
	@echo "installing mlxbatch into $(VENV) (about 420 MB on disk)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@echo "installing what tests and benchmarks need into $(VENV)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .bench $(OUT) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
