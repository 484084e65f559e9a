# The whole project by four words: make demo, make test, make check, make bench.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# A plain torch requirement fetches the CUDA build on Linux. Without a GPU this pin is what the tests were run with.
TORCH ?= $(shell command -v nvidia-smi >/dev/null 2>&1 && echo "torch>=2.8" || echo "torch==2.13.0")
PLUGINS := $(wildcard plugins/*/pyproject.toml)
# Its reasoning-gym brings pycosat, which is built from source: without a C compiler all the rest is there nevertheless.
COMPILED := plugins/castform-env-gym/
# What it wraps fights with what is here and belongs into a virtual environment of its own: only its own code is tested here.
ALONE := plugins/castform-env-verifiers/
STAMP := $(VENV)/.castform-stamp
SEED ?= 0
# Test processes at a time; a file's tests stay in one of them.
WORKERS ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: setup demo demo-sft test test-slow test-sandboxes test-agents test-installs test-real test-vllm test-pythons check format bench setup-vllm setup-docker clean

setup: $(STAMP)

$(STAMP): pyproject.toml $(PLUGINS)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/python -m pip install -q "$(TORCH)"
	$(BIN)/python -m pip install -q -e ".[train,dev]"
	$(BIN)/python -m pip install -q --no-build-isolation $(foreach p,$(filter-out $(COMPILED) $(ALONE),$(dir $(PLUGINS))),-e $(p))
	$(BIN)/python -m pip install -q --no-build-isolation --no-deps -e $(ALONE)
	@$(BIN)/python -m pip install -q --no-build-isolation -e $(COMPILED) || \
		echo "note: $(COMPILED) is left out and its tests are skipped: pycosat, which it needs, is built with a C compiler"
	@touch $@

demo: setup            ## real weights, a real training run, a verdict on held-out questions
	$(BIN)/castform model pull smollm2-135m
	$(BIN)/castform env list
	$(BIN)/castform train --config examples/arith.toml --seed $(SEED)

demo-sft: setup        ## the same for finetuning: generated texts, real weights, loss and exact answers on held-out rows
	$(BIN)/castform model pull smollm2-135m
	$(BIN)/python examples/sft/pii_masking/make_data.py
	$(BIN)/castform sft train --config examples/sft/pii_masking/finetune.toml --seed $(SEED)

test: setup            ## everything that needs no real weights, no packages from the registries, no boxes and no vLLM
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow and not real and not installs and not vllm and not docker and not bubblewrap and not agents and not gpu"

test-slow: setup       ## the same for long proofs: runs killed at many moments, thousands of masks, every example environment
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "slow and not real and not installs and not vllm and not docker and not bubblewrap and not agents and not gpu"

setup-docker:          ## starts a Docker engine where none runs, and makes the images that the tests use
	bash .ci/setup-docker

test-sandboxes: setup setup-docker  ## boxes of a real Docker engine and of bubblewrap, and Harbor tasks in them
	$(BIN)/castform model pull smollm2-135m
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "(docker or bubblewrap) and not agents"

test-agents: setup     ## agent programs of the registries, against the gateway
	$(BIN)/python -m pytest -m agents

test-installs: setup   ## builds virtual environments and installs real packages and servers into them
	$(BIN)/castform model pull smollm2-135m
	$(BIN)/python -m pytest -m "installs and not docker and not bubblewrap"

test-real: setup       ## proofs on the real SmolLM2-135M
	$(BIN)/castform model pull smollm2-135m
	$(BIN)/python -m pytest -m "real and not docker and not bubblewrap"

setup-vllm:
	bash .ci/setup-vllm

test-vllm: setup setup-vllm
	$(BIN)/python -m pytest -m vllm

test-pythons:          ## unit and contract tests without torch on the other Pythons that are installed
	bash .ci/test-pythons

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/unit/test_layers.py tests/unit/test_startup.py

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python bench/run_all.py

clean:
	rm -rf $(VENV) .venv-3.* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
