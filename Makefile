# Two commands set everything up on a fresh machine: `make bench` and `make test`.

# The newest of the three supported Pythons that starts. PYTHON=... overrides.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1 && { echo $$p; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
# Frameworks beside the core set: make test EXTRAS=torch,tensorflow
EXTRAS ?=
EXTRAS_STAMP = $(if $(EXTRAS),$(VENV)/extras-$(EXTRAS).stamp)
# The environment's own interpreter where there is one, unless PYTHON was given.
GPU_PYTHON = $(if $(filter file,$(origin PYTHON)),$(firstword $(wildcard $(BIN)/python) $(PYTHON)),$(PYTHON))

.PHONY: bench test contract check docs findings selfcheck gpu-check lock images image run base test-containers test-containers-all clean

# make bench ARGS="--kernel dense --framework jax/jit"
bench: $(VENV)/core.stamp $(EXTRAS_STAMP)
	@$(BIN)/jitmatrix bench $(ARGS)

test: check
	$(BIN)/python -m pytest $(ARGS)

# Every kernel in every framework, mode, dtype and derivative: with PyTorch's compiler an hour, that make test has a part of.
contract: $(VENV)/test.stamp $(EXTRAS_STAMP)
	JITMATRIX_CONTRACT=all $(BIN)/python -m pytest tests/kernels/test_contract.py $(ARGS)

check: $(VENV)/test.stamp $(EXTRAS_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The pages that are made from the code.
docs: $(VENV)/core.stamp
	$(BIN)/python -m kernels.catalogue > docs/suite.md
	$(BIN)/python -m flows.schema_page > docs/schema.md

# Measures on this machine, which should be quiet, and writes docs/findings.md from the rows: half an hour or so, twice that
# with PyTorch and TensorFlow. Where cases failed, the page names them.
# make findings EXTRAS=torch,tensorflow
FINDINGS := build/findings
ROUNDS ?= 5
findings: $(VENV)/core.stamp $(EXTRAS_STAMP)
	$(BIN)/jitmatrix bench --matrix smoke --rounds $(ROUNDS) --budget 0.5 --results $(FINDINGS) $(ARGS) || test $$? -eq 1
	$(BIN)/jitmatrix bench --matrix seeds --rounds $(ROUNDS) --budget 0.5 --results $(FINDINGS) $(ARGS) || test $$? -eq 1
	$(BIN)/jitmatrix bench --kernel selfcheck/own/forms.py --framework jax/jit --size S --size L --rounds $(ROUNDS) --results $(FINDINGS) || test $$? -eq 1
	$(BIN)/jitmatrix bench --matrix seeds --kernel sincos --workers 1 --rounds $(ROUNDS) --results $(FINDINGS) || test $$? -eq 1
	$(BIN)/python -m flows.findings $(FINDINGS) > $(FINDINGS).md
	mv $(FINDINGS).md docs/findings.md

# What the benchmark says of itself: every figure with its bound and its peer, in a quarter of an hour on a quiet machine.
# make selfcheck ARGS="cost workers --json figures.json"
selfcheck: $(VENV)/test.stamp $(EXTRAS_STAMP)
	@$(BIN)/python -m selfcheck $(ARGS)

# JAX's kernels on this machine's GPU, under eight minutes; any interpreter with NumPy and JAX does, nothing is installed:
# make gpu-check PYTHON=python3
gpu-check:
	@$(GPU_PYTHON) -m kernels.gpu_check $(ROWS)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "jitmatrix: no Python 3.11, 3.12 or 3.13 on PATH; install one, or name it: make bench PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "jitmatrix: $(PYTHON) cannot make a virtual environment; install its venv module (Debian: python3-venv), or name another: make bench PYTHON=/path/to/python3" >&2; exit 2; }

$(VENV)/core.stamp: requirements.lock pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@# Prefect's server makes its database at its first start, in ten seconds that no run should wait for.
	-@$(BIN)/prefect server database upgrade --yes >/dev/null 2>&1
	@touch $@

$(VENV)/test.stamp: requirements-test.lock $(VENV)/core.stamp
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-test.lock
	@touch $@

# Constraints, not a lock, and none on PyTorch: a CPU-only build has other hashes than PyPI's, and one that is installed stays.
$(VENV)/extras-%.stamp: constraints-extras.txt $(VENV)/core.stamp
	$(BIN)/python -m pip install --quiet --no-build-isolation --constraint constraints-extras.txt --editable ".[$*]"
	@touch $@

# One lock serves the three Pythons (markers); the second holds the test tools on top of it.
lock:
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-strip-extras --quiet --no-header -o requirements.lock pyproject.toml
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-strip-extras --quiet --no-header -c requirements.lock --extra test -o requirements-test.lock pyproject.toml
	uv pip compile --universal --python-version 3.11 --quiet --no-header --no-annotate -c requirements.lock --extra tensorflow -o constraints-extras.txt pyproject.toml
	$(GPU_PYTHON) -m containers.locks

# The images, by docker, podman or buildah; any Python from 3.11 does, nothing is installed. docs/containers.md
images:
	@$(GPU_PYTHON) -m containers.build cpu gpu tpu --base "$(BASE)"

# One image: make image BACKEND=gpu JAX=0.11.0 EXTRAS=torch BASE=localhost/jitmatrix-base:trixie
BACKEND ?= cpu
image:
	@$(GPU_PYTHON) -m containers.build $(BACKEND) --jax "$(JAX)" --extras "$(EXTRAS)" --base "$(BASE)"

# An image, run by hand: make run BACKEND=gpu ARGS="jitmatrix bench --matrix smoke"
run:
	@$(GPU_PYTHON) -m containers.run --jax "$(JAX)" --extras "$(EXTRAS)" $(BACKEND) $(ARGS)

# A base image from Debian packages, where no registry is in reach.
base:
	@$(GPU_PYTHON) -m containers.base

# Builds the cpu image, and runs it as an orchestrator would: podman, or docker, must be there.
test-containers: $(VENV)/test.stamp
	JITMATRIX_CONTAINERS=1 $(BIN)/python -m pytest tests/containers $(ARGS)

# The gpu and tpu images too, and cpu ones with another JAX and another framework: gigabytes, for the night.
test-containers-all: $(VENV)/test.stamp
	JITMATRIX_CONTAINERS=all $(BIN)/python -m pytest tests/containers --capture=no --durations=0 $(ARGS)

clean:
	rm -rf $(VENV) build *.egg-info
