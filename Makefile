# Every target sets up what it needs; `make` alone lists them.
UV_VERSION := 0.13.9
PYTHON ?= python3
RUN := .venv/bin/
# What is compiled is kept: else each of a run's hundreds of processes compiles everything anew.
unexport PYTHONDONTWRITEBYTECODE

help:            ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

setup: .venv/.ready  ## make .venv, with `eventlib` in its bin, and all that development needs

# $(1): a lock file, $(2): what it is for, $(3): the environment, $(4): its Python
define environment
	@$(4) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	@echo "installing $(2) into $(3) ..."
	@test -x $(3)/bin/python || $(4) -m venv $(3)
	@$(3)/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(3)/bin/uv pip install --quiet --python $(3) --no-deps --require-hashes -r $(1)
endef

# The same, with the working copy in it, which is this target's.
define working
	$(call environment,$<,$(1),.venv,$(PYTHON))
	@$(RUN)uv pip install --quiet --python .venv --no-deps --no-build-isolation -e .
	@touch $@
endef

.venv/.ready: requirements.lock pyproject.toml
	$(call working,all that development needs: 2.6 GB)

.venv/.demo: deploy/locks/demo.lock pyproject.toml
	$(call working,the demo and the console: 90 MB)

demo: $(if $(wildcard .venv/.ready),.venv/.ready,.venv/.demo)  ## run the shop on orders of its own, and say what to look at
	@$(RUN)python -m services demo

setup-browser:   ## install Chromium for the tests of the console, where it is missing and may be
	@command -v chromium chromium-browser google-chrome >/dev/null || \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } || \
	  { echo "no Chromium here, and it cannot be installed: the console's tests will say that they were skipped"; exit 1; }

test: setup      ## run the tests, in five processes, since many wait
	-@$(MAKE) --silent setup-browser
	$(RUN)pytest -n 5 --no-loadscope-reorder --durations 25 --minutes

test-extended: setup  ## run the costly variants of what `make test` runs, as CI does
	$(RUN)pytest -n 5 --no-loadscope-reorder --durations 10 --minutes -m "extended and not slow"

test-quick: setup  ## run the tests that need neither processes, nor a broker, nor a JVM
	$(RUN)pytest -n 4 --no-loadscope-reorder -m "not slow and not extended and not heavy" tests/saga tests/contract tests/unit

test-long: setup ## run the long tests too: the whole real file, many kills
	$(RUN)pytest -m "slow or not slow"

simulate: setup  ## play the shop under 10,000 schedules of faults, on all cores
	$(RUN)eventlib simulate --schedules 10000

mutants: setup   ## plant mutants into the services, and list those that nothing notices; an ended run goes on
	$(RUN)python -m bench.mutation services

check: docs      ## lint, types, import rules, and the site of the documentation
	$(RUN)ruff check .
	$(RUN)ruff format --check .
	$(RUN)mypy --num-workers 2
	$(RUN)mypy --num-workers 2 --python-version 3.13
	$(RUN)lint-imports

docs: setup      ## build the site of the documentation, strictly, into build/site
	NO_MKDOCS_2_WARNING=1 $(RUN)mkdocs build --strict --quiet

# A copy of the tracked files in $(1), which are then built or tested away from the working copy.
copied = rm -rf $(2) && mkdir -p $(2) && git ls-files -z $(1) | xargs -0 tar -cf - | tar -xf - -C $(2)
HERE := $(CURDIR)

# $(1): the directory to make a wheel in, $(2): the Python that makes it, $(3): what its environment has besides
define built
	$(call copied,analytics eventlib pyproject.toml CHANGELOG.md LICENSE README.md,$(1)/source)
	rm -rf $(1)/dist
	cd $(1)/source && $(3) $(HERE)/$(2) -m hatchling build -t wheel -d $(HERE)/$(1)/dist
endef

# $(1): the directory with a wheel and an environment, $(2): the core that it has, $(3): the tests to run
# Tests that read the code read what the wheel has installed; processes that they start find `tests` by a path of the environment.
define tested
	$(1)/venv/bin/uv pip install --quiet --python $(1)/venv --no-deps --reinstall $(1)/dist/*.whl
	$(call copied,':!analytics' ':!eventlib',$(1)/tests)
	cd $(1)/venv/lib/python*/site-packages && echo $(HERE)/$(1)/tests > tests.pth && ln -s "$$PWD/analytics" "$$PWD/eventlib" $(HERE)/$(1)/tests
	$(1)/venv/bin/eventlib --version | grep "$(2)"
	cd $(1)/tests && ../venv/bin/pytest -n 4 --no-loadscope-reorder -m "not slow and not extended and not heavy" $(3)
endef

wheel: setup     ## make a wheel with the compiled core, for this machine's kind and Python, into dist
	$(call built,build/wheel,$(RUN)python,HATCH_BUILD_HOOK_ENABLE_MYPYC=1)
	mkdir -p dist && cp build/wheel/dist/*.whl dist

wheel-environment: setup
	$(call environment,requirements.lock,what tests need,build/wheel/venv,$(RUN)python)

test-wheel: setup  ## run the contract, saga and replay tests on the installed wheel, whose core is compiled
	@$(MAKE) --jobs 2 wheel wheel-environment
	$(call tested,build/wheel,compiled core,tests/contract tests/saga)

VERSIONED = build/$(notdir $(PYTHON))

test-python:     ## run the quick tests on the plain wheel, on another Python: make test-python PYTHON=python3.13
	$(call environment,requirements.lock,what tests need,$(VERSIONED)/venv,$(PYTHON))
	$(call built,$(VERSIONED),$(VERSIONED)/venv/bin/python)
	$(call tested,$(VERSIONED),pure Python,tests/contract tests/saga tests/unit)

release: setup   ## make a release here, and push nothing: make release VERSION=1.2.0
	$(RUN)python -m tests.release "$(VERSION)"

bench-budget: setup  ## count what a saga costs, and fail when that is 3 % more than the figure kept
	$(RUN)python -m bench.budget

bench: setup     ## measure, against the bare database and against a peer; writes build/bench.json
	$(RUN)python -m bench

bench-kafka: setup  ## the same on Kafka, against Kafka Streams and Faust (a JDK is needed); writes build/bench-kafka.json
	$(RUN)python -m bench.kafka_bench

bench-analytics: setup  ## measure the Spark jobs from every source, beside a bare scan; writes build/bench-analytics.json
	$(RUN)python -m bench.analytics_bench

COMPILE := $(RUN)uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --custom-compile-command "make lock"
PART := $(COMPILE) --no-annotate --constraint requirements.lock

lock: setup      ## renew requirements.lock, and the parts of it that images are made of
	$(COMPILE) --upgrade --all-extras --group dev --group bench --group docs pyproject.toml -o requirements.lock
	rm -f deploy/locks/*.lock
	printf 'hatchling\nsetuptools\n' | $(PART) - -o deploy/locks/build.lock
	printf 'hatchling\neditables\n' | $(PART) --extra console pyproject.toml - -o deploy/locks/demo.lock
	$(PART) --extra cli --extra console --extra http --extra identity --extra kafka --extra kms --extra live --extra personal --extra postgres --extra schemas --extra sinks --extra telemetry pyproject.toml -o deploy/locks/services.lock
	$(PART) --extra analytics --extra archive --extra cli --extra kafka --extra kms --extra personal --extra postgres --extra s3 --extra schemas --extra telemetry pyproject.toml \
	  -o deploy/locks/spark.lock

clean:           ## remove what was made
	rm -rf .venv build var .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

.PHONY: help release setup setup-browser wheel wheel-environment demo test test-extended test-wheel test-python test-quick test-long simulate mutants check docs bench bench-budget bench-kafka bench-analytics lock clean
