# Everything a newcomer needs: `make demo` and `make test`. Each builds .venv on its own.
PYTHON ?= python3
BIN := .venv/bin

# The pins hold for the packages and for what builds them.
# Relative, because pip splits these at spaces, which the path of a clone may have.
export PIP_CONSTRAINT := pins.txt
export PIP_BUILD_CONSTRAINT := pins.txt
# What `make torture` tries, for hours: pairs of neighboring files, tables with 1,000 odd cells each, damaged files.
PAIRS ?= 100000
CROWDS ?= 1000
FUZZED ?= 1000000

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start Dimly more than a hundred times: its byte code is kept, whatever the machine's habit.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo docs docs-screens package test test-short test-fast test-generic test-s3 test-spark4 torture lint bench bench-quick setup pins clean

help:            ## show this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 14

demo: .venv/demo ## the whole story on made-up people: plan, publish, verify, ask, report
	$(BIN)/dimly demo

test: .venv/dev  ## all tests, doctests included
	$(BIN)/python -m pytest -n auto --dist loadgroup src tests

# What every change has to pass: of each test four cases, without those marked thorough.
test-short: .venv/dev ## every test with four of its cases at most, without the thorough ones
	$(BIN)/python -m pytest -n auto --dist loadgroup --cases 4 src tests

# For daily work: no Spark, no kills, no statistics (audits and simulations among them), no browser, neither the demo nor
# the pages, and none of the other files that take some ten seconds.
SLOW := tests/crash tests/statistical tests/docs tests/studio tests/unit/spark tests/unit/audit tests/unit/lab \
  $(wildcard tests/unit/test_benchmark_*) tests/golden/test_processors.py tests/engines/test_growing.py tests/engines/test_sizes.py \
  $(addprefix tests/cli/test_,directed.py lab.py odd_values.py publish_spark.py session.py survey.py) \
  $(addprefix tests/privacy/test_,neighboring_files.py directions.py leaks.py edited_plans.py composition_accountants.py survey.py) \
  $(addprefix tests/unit/analyst/,segments/test_segments.py likelihood test_joined_releases.py) \
  $(addprefix tests/unit/analyst/neighbors/test_,index.py expected_precision.py graph.py) \
  $(addprefix tests/unit/curator/,survey/test_private_directions.py test_options.py ledger/test_concurrency.py) \
  $(addprefix tests/unit/,planner/test_predicted_figures.py studio/test_plan_draft.py mechanisms/error/test_dimension.py) \
  $(addprefix tests/unit/release/test_,other_readers.py page_headers.py)
test-fast: .venv/dev ## two cases of most tests: no Spark, no kills, no statistics, no browser, no demo
	$(BIN)/python -m pytest -n auto --dist loadgroup --cases 2 $(addprefix --ignore=,$(SLOW)) -k "not Spark" src tests

# Where results could hang on the processor: what is exact, kernels, sampling, estimates and their intervals.
NUMERICAL := tests/golden/test_golden.py tests/privacy/test_noise_tables.py tests/unit/privacy/test_calibration.py \
  tests/unit/mechanisms/projection tests/unit/mechanisms/noise \
  $(addprefix tests/unit/curator/test_,kernels.py sampling.py perturb.py) \
  $(addprefix tests/unit/analyst/,likelihood test_estimate.py test_intervals.py neighbors/test_kernels.py neighbors/test_query.py) \
  $(addprefix tests/unit/analyst/structure/,test_denoise.py test_parallel_analysis.py) tests/statistical/test_sampling.py

test-generic: .venv/dev ## the numerical tests again, as on a processor without newer instructions
	$(BIN)/python -m tests.processors -n auto --dist loadgroup $(CASES) $(NUMERICAL)

torture: .venv/dev ## 200 publications killed, 100 interrupted, 100,000 pairs of neighboring files, 1,000,000 damaged files
	DIMLY_KILLS=200 $(BIN)/python -m pytest -n auto tests/crash/test_kill.py tests/crash/test_signals.py
	DIMLY_PAIRS=$(PAIRS) DIMLY_CROWDS=$(CROWDS) $(BIN)/python -m pytest -n auto tests/privacy/test_neighboring_files.py
	DIMLY_FUZZED=$(FUZZED) $(BIN)/python -m pytest -n auto tests/privacy/test_fuzzed_sources.py
	DIMLY_SPARK_PAIRS=50 $(BIN)/python -m pytest tests/privacy/test_neighboring_frames.py

test-spark4: .venv/dev ## the tests of the Spark engine on Spark 4, which needs a Java 17 of the system's own
	@command -v java >/dev/null || test -n "$$JAVA_HOME" || { echo "Spark 4 needs Java 17: install it first." >&2; exit 1; }
	$(PYTHON) -m venv .venv-spark4
	.venv-spark4/bin/python -m pip install --quiet --editable '.[dev]'
	PIP_CONSTRAINT= .venv-spark4/bin/python -m pip install --quiet 'pyspark>=4,<5'
	DIMLY_PARTITIONS=200 .venv-spark4/bin/python -m pytest tests/unit/spark tests/engines tests/docs/test_scale.py -k "spark or Spark or scale"

test-s3: .venv/dev ## releases in an S3 bucket: Hadoop's own connector, and a server on this machine (400 MB of packages)
	$(PYTHON) -m venv .venv-s3
	PIP_CONSTRAINT= .venv-s3/bin/python -m pip install --quiet 'moto[s3,server]>=5'
	PIP_CONSTRAINT= .venv-s3/bin/python -m pip install --quiet --no-deps 'sagemaker-pyspark==1.4.5'
	DIMLY_TESTS_S3_SERVER=.venv-s3/bin/moto_server \
	PYSPARK_SUBMIT_ARGS="--jars $$(ls .venv-s3/lib/python3*/site-packages/sagemaker_pyspark/jars/*.jar | grep -E 'hadoop-aws|sdk-bundle' | paste -sd,) pyspark-shell" \
	$(BIN)/python -m pytest tests/unit/spark/test_object_store.py

lint: .venv/dev  ## ruff, mypy --strict, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs-screens: .venv/dev ## renew the pictures of the studio in docs/figures (needs Chromium)
	$(BIN)/python -m tests.studio.screens

# Warnings are errors; notebooks, figures and the API's examples are made anew; links are checked in what was built.
docs: .venv/docs ## the site, in build/site
	rm -rf build/site docs/reference/generated
	$(BIN)/python -m sphinx -W --keep-going -q -b html -d build/doctrees docs build/site
	$(BIN)/python docs/check_site.py build/site
	@echo "open build/site/index.html"

package: .venv/dev ## wheel and sdist in dist/, each installed into a new environment and tried there
	rm -rf dist && $(BIN)/python -m build --outdir dist
	$(BIN)/python tests/package.py dist

bench: .venv/bench ## every benchmark, each a ratio to a peer in the same run; renews docs/benchmarks.md
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.report

bench-quick: .venv/bench ## the same in under three minutes
	$(BIN)/python -m benchmarks --quick

setup: .venv/all ## install every extra

pins:            ## renew pins.txt (needs uv)
	uv pip compile --universal --python-version 3.11 --all-extras --no-annotate --no-header --no-emit-index-url \
	  --upgrade pyproject.toml -o pins.txt

clean:           ## remove .venv and every cache
	rm -rf .venv .venv-s3 .venv-spark4 .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Dimly needs Python 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv .venv

# One stamp per set of extras; each includes the core.
.venv/demo: EXTRAS := [plots]
.venv/dev: EXTRAS := [dev]
.venv/bench: EXTRAS := [bench]
.venv/docs: EXTRAS := [docs]
.venv/all: EXTRAS := [all,dev,bench]
# Byte code is written when a module is first imported: of ten thousand files, most never are.
.venv/demo .venv/dev .venv/bench .venv/docs .venv/all: .venv/bin/python pyproject.toml pins.txt
	$(BIN)/python -m pip install --quiet --no-compile --editable '.$(EXTRAS)'
	@touch $@
