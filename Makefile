# Everything a person or CI runs here. `make` alone says what there is.

PYTHON ?= python3
TESTBED := $(PYTHON) -m tests.testbed
VENV := .venv/bin
SCAN := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kafka-medic-scan
DOCS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kafka-medic-docs
MYPY_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kafka-medic-mypy
# Whole runs and the controller's own tests; those that mostly wait for time limits, and the schedules.
SCENARIOS := tests/scenario tests/unit/controller
WAITS := tests/unit/clients tests/unit/simulation
MODE ?= kraft
RUNS ?= 3
PARTITIONS ?= 2000
SEED ?= 0
SCHEDULES ?= 100000
SCRIPTS ?= 100
CMD ?= $(SHELL)
BASE_IMAGE ?= python:3.12-slim-bookworm
TESTS ?= tests/integration tests/contract tests/e2e
# Whether the last test judges what the whole suite used. Nobody's choice of TESTS is the whole.
WHOLE_SUITE := $(if $(filter file,$(origin TESTS)),1)

.DEFAULT_GOAL := help
.PHONY: chart release upgrade help setup venv check browser format-check lint types imports prose scenarios waits unit simulate beside-simulate soak test simulated in-testbed gameday gameday-strimzi mutate-guards docs reference scan audit sbom pin-base demo bench-observe bench-fleet bench-large bench-stale bench-plan bench-topics bench-cruise-control bench-history bench-roll bench-elect bench-replace bench-offsets up down status logs enter crds lock clean-cache plugin

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Say what this machine lacks, install Debian packages, make .venv from the lock
	@$(TESTBED) setup

browser: ## Install the Debian package chromium (100 MB), in which make test looks at the pages
	@$(TESTBED) browser

# Compiled tests are kept, whatever the shell says: to rewrite their assertions takes seconds in each process.
unexport PYTHONDONTWRITEBYTECODE

venv:
	@$(TESTBED) venv

check: venv ## Format, lint, types, import directions, unit, scenario and property tests (about a minute)
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target format-check lint types imports scenarios unit waits

format-check:
	@$(VENV)/ruff format --check .

lint:
	@$(VENV)/ruff check .

# What mypy has found out serves every checkout. Beside the testbed's cache, which root may own.
types:
	@$(VENV)/mypy --cache-dir $(MYPY_CACHE)

imports:
	@$(VENV)/lint-imports

prose: ## How the docs read, in figures; fails for sentences of more than 40 words
	@$(VENV)/python -m tests.docs.prose

reference: ## Write docs/reference/ anew from the code, the Playbooks and the chart
	@$(VENV)/python -m tests.docs.reference

# pytest-xdist costs more here than it saves, so the tests run in three processes. One of them waits half of its time.
scenarios:
	@$(VENV)/python -m pytest -q $(SCENARIOS)

waits:
	@$(VENV)/python -m pytest -q $(WAITS)

unit:
	@$(VENV)/python -m pytest -q tests/unit tests/property $(addprefix --ignore=,$(SCENARIOS) $(WAITS))

SIMULATED := $(SCENARIOS) tests/unit/simulation tests/unit/playbook tests/property
SEEDS ?= 10000

simulate: venv ## Every scenario, a death at every write, and 10,000 seeded schedules against a simulated world (SEED=0)
	@THOROUGH=1 $(VENV)/python -m pytest -q -n 2 $(SIMULATED)
	@$(VENV)/python -m tests.simulation.soak --schedules $(SEEDS) --seed $(SEED)

# What check runs and simulate does not.
beside-simulate:
	@$(VENV)/python -m pytest -q tests/unit $(addprefix --ignore=,$(SIMULATED))

soak: venv ## New examples, and as many schedules as you like: SCHEDULES=100000 SEED=10000; JOURNAL=file goes on where it was
	@SEARCH=1 THOROUGH=1 $(VENV)/python -m pytest -q -n 2 tests/property
	@$(VENV)/python -m tests.simulation.soak --schedules $(SCHEDULES) --seed $(SEED) $(if $(JOURNAL),--journal $(JOURNAL))

# What check runs runs once: in simulate with all that is thorough, or beside it.
test: setup browser ## All that check and simulate run, but 3,000 schedules, and the tests in the testbed (KEEP=1 leaves it up)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target format-check lint types imports beside-simulate
	@$(MAKE) --no-print-directory --jobs 2 simulated in-testbed

# The tests in the testbed wait for Pods half of their time, and the schedules for nothing: they run beside each other.
# Nobody reads two reports at once: the schedules say theirs at their end.
simulated:
	@mkdir -p build
	@nice -n 19 $(MAKE) --no-print-directory simulate SEEDS=3000 >build/simulate.txt 2>&1 || { cat build/simulate.txt; exit 1; }
	@tail -n 3 build/simulate.txt

in-testbed:
	@$(TESTBED) run env WHOLE_SUITE=$(WHOLE_SUITE) $(VENV)/python -m pytest --durations=15 $(wildcard $(TESTS))

gameday: setup ## Each incident and its twin on real clusters of both kinds, and SCRIPTS=100 of each against the simulation
	@$(TESTBED) spark-image
	@EVERY_WRITE=1 $(TESTBED) run env SCRIPTS=$(SCRIPTS) $(VENV)/python -m pytest tests/process tests/gameday tests/contract/differential -s --timeout 3000

gameday-strimzi: setup ## Strimzi and Cruise Control, built from source (STRIMZI_SOURCE, CRUISE_CONTROL_SOURCE: folder or address), beside ours
	@$(TESTBED) strimzi-images
	@$(TESTBED) run $(VENV)/python -m pytest -s tests/strimzi --timeout 3000

# Needs Go and, the first time, minutes: promtool is built from source, with all that Prometheus can discover.
chart: venv ## The chart in five ways: helm lint, kubeconform, kube-score, checkov; alerts and dashboards by promtool
	@$(VENV)/python -m pytest -q --timeout 3000 tests/chart

BASE ?= testbed
REGISTRY ?= registry.example.com/kafka-medic

release: venv ## What a release consists of, into build/release, always to the same bytes (BASE=image@sha256:..., REGISTRY=host/owner)
	@$(VENV)/python -m release --base $(BASE) --registry $(REGISTRY)

PREVIOUS ?= 028b3e2

upgrade: setup ## The chart upgraded from commit PREVIOUS and from itself with runs in flight, tested and removed, on real Kubernetes
	@PREVIOUS=$(PREVIOUS) $(VENV)/python -m tests.upgrade.earlier
	@PREVIOUS=$(PREVIOUS) $(TESTBED) run $(VENV)/python -m pytest -s tests/upgrade --timeout 3000

mutate-guards: venv ## Each guard made permissive in turn: a test has to notice
	@$(VENV)/python -m tests.mutation

# MkDocs has an environment of its own too.
$(DOCS)/bin/mkdocs: locks/docs.txt
	@$(PYTHON) -m venv --clear $(DOCS)
	@$(DOCS)/bin/pip install --quiet --no-deps --require-hashes -r locks/docs.txt
	@touch $@

docs: $(DOCS)/bin/mkdocs ## Build the docs site into build/site; a broken link fails (SERVE=1 serves it)
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs $(if $(SERVE),serve,build) --strict

# Tools of their own lock, in an environment of their own: none of them is needed to run or to test.
$(SCAN)/bin/bandit: locks/scan.txt
	@$(PYTHON) -m venv --clear $(SCAN)
	@$(SCAN)/bin/pip install --quiet --no-deps --require-hashes -r locks/scan.txt
	@touch $@

scan: $(SCAN)/bin/bandit sbom ## Static checks of security (bandit), and the bill of materials of the image
	@$(SCAN)/bin/bandit --quiet --configfile pyproject.toml --recursive operator

sbom: $(SCAN)/bin/bandit ## Write build/sbom.cdx.json: what the image's Python stands on, by the lock (CycloneDX)
	@mkdir -p build
	@$(SCAN)/bin/cyclonedx-py requirements locks/runtime.txt --pyproject pyproject.toml --output-reproducible --of JSON -o build/sbom.cdx.json 2>/dev/null
	@echo "build/sbom.cdx.json: $$(grep -c '"bom-ref"' build/sbom.cdx.json) entries"

# Strict: a package that the service does not know counts as not audited, and fails. Needs the data of PyPI, or SERVICE=osv.
audit: $(SCAN)/bin/bandit ## Known vulnerabilities of the locked packages (pip-audit; needs the data of PyPI, or SERVICE=osv)
	@for lock in runtime build spark scan docs; do $(SCAN)/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off --vulnerability-service $(or $(SERVICE),pypi) -r locks/$$lock.txt || exit 1; done

pin-base: ## Write the present digest of the base image into both Dockerfiles (needs skopeo and the image's registry)
	@digest=$$(skopeo inspect --format '{{.Digest}}' docker://$(BASE_IMAGE)) && sed -i -E 's|^ARG BASE=.*|ARG BASE=$(BASE_IMAGE)@'"$$digest"'|' Dockerfile images/spark/Dockerfile && grep '^ARG BASE' Dockerfile

plugin: ## Build build/kubectl-kafka_medic, the kubectl plugin as one file that needs Python 3.11 alone
	@$(PYTHON) -m plugin.build

demo: setup ## Show an incident and its cure (MODE=kraft or zookeeper, KEEP=1 leaves the testbed up)
	@$(TESTBED) run $(VENV)/python -m tests.demo --mode $(MODE)

bench-observe: setup ## What it costs to observe large clusters over the wire, and to watch small ones (RUNS=3)
	@$(VENV)/python benchmarks/observe.py --runs $(RUNS)
	@$(TESTBED) run $(VENV)/python benchmarks/observe.py --testbed --runs $(RUNS)

bench-fleet: setup ## What one operator costs that watches 100 KafkaClusters, and what sick ones among them cost the others
	@$(TESTBED) run $(VENV)/python -m benchmarks.fleet

bench-large: setup ## Restart, raise and an aborted raise on 500 stub brokers, with two operators, one of them stopped and continued
	@$(TESTBED) run $(VENV)/python -m benchmarks.large

bench-stale: setup ## How soon a broker with a stale view is named, on 30 and on 500 stub brokers (RUNS=3)
	@$(TESTBED) run $(VENV)/python -m benchmarks.stale --runs $(RUNS)

bench-plan: venv ## How long plans of up to 20 million partitions take, and what others make of 20,000 (RUNS=3)
	@$(VENV)/python -m benchmarks.plan --runs $(RUNS)

bench-topics: venv ## How evenly the worst topic lies on the brokers, beside its bound, in one process and in blocks
	@$(VENV)/python -m benchmarks.plan_topics --large

bench-cruise-control: venv ## The planner beside Cruise Control's analyzer (CRUISE_CONTROL_CLASSPATH='out:lib/*', RUNS=3)
	@$(VENV)/python -m benchmarks.plan_cruise_control --runs $(RUNS)

HISTORY ?= /tmp/kafka-medic-history

bench-history: venv ## What a report and plans of 1,000 clusters with 20 million partitions take on Spark (HISTORY=folder, 1 GB)
	@test -d $(HISTORY) || $(VENV)/python -m benchmarks.fleet_history make --directory $(HISTORY)
	@$(VENV)/python -m benchmarks.fleet_history run plan --directory $(HISTORY) --balance replicas
	@$(VENV)/python -m benchmarks.fleet_history run plan --directory $(HISTORY)
	@$(VENV)/python -m benchmarks.fleet_history run report --directory $(HISTORY)

bench-roll: setup ## How long a roll of three brokers under load takes, in both modes, against what it takes at least
	@AT_ONCE=1 $(TESTBED) run $(VENV)/python -m pytest -s tests/gameday/test_whole_roll.py

bench-elect: setup ## Leaders given back in batches, beside one election of everything (PARTITIONS=2000)
	@$(TESTBED) run $(VENV)/python -m benchmarks.elections --partitions $(PARTITIONS)

bench-replace: setup ## A lost broker of 1 GB replaced by the operator, beside Kafka's own tool
	@$(TESTBED) run $(VENV)/python -m benchmarks.replace

bench-offsets: setup ## How long a look at 10,000 consumer groups takes (MODE=kraft or zookeeper, RUNS=3)
	@$(TESTBED) run $(VENV)/python -m benchmarks.offsets --mode $(MODE) --runs $(RUNS)

up: ## Start the testbed: Kubernetes on this machine, in namespaces of its own
	@$(TESTBED) up

down: ## End the testbed; only the cache of built things stays
	@$(TESTBED) down

status: ## Say what runs in the testbed
	@$(TESTBED) status

logs: ## Print the end of the testbed's logs
	@$(TESTBED) logs

enter: ## Run CMD='...' (or a shell) in the testbed's network, with its kubectl and helm
	@$(TESTBED) enter $(SHELL) -c '$(CMD)'

crds: ## Write crds/ anew from the types they come from
	@$(VENV)/python -m kafka_medic.resources.generate

lock: ## Resolve the dependencies anew into locks/
	@$(TESTBED) lock

clean-cache: ## Remove the cache of built things
	@rm -rf $(MYPY_CACHE)
	@$(TESTBED) clean-cache
