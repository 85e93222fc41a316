.DEFAULT_GOAL := help
LANES := ci-semisync ci-file-position ci-delays ci-told ci-cases-after ci-attached ci-gentle ci-tools ci-rules ci-large ci-faults ci-pages ci-wheel-bare ci-image ci-mysql80 ci-mysql84 ci-mysql9
.PHONY: simulate help demo docs test lint aims bench faults fault-moves fuzz fuzz-migrations kills kill-revisions swaps $(LANES) mysql-start mysql-stop lock clean

PYTHON ?= python3

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## watch a migration under load, on a throwaway MySQL
	@ci/demo

docs: ## build the documentation as a site, in build/site
	@ci/docs

test: ## lint, the wheel, and the usual tests against a real MySQL; the lanes have the rest
	@ci/test

aims: ## print the aims of the shape of the package: what each is now, and what it is to be
	@.venv/bin/python ci/aims.py

lint: ## ruff, mypy and the import contracts
	@ci/lint

simulate: ## whole migrations on a model server, every schedule from a seed: RUNS=10000 SEED=0 PROCS=0, MOVES=1, KEEPS=1, REQUESTS=1, REVOKES=1, REVERTS=1 or UNIQUES=1, PLANT=name; EXHAUSTIVE=8: small ones, walked
	@ci/simulate

swaps: ## swap a table 100 times under 16 writers (SWAPS, WRITERS)
	@ci/swaps

bench: ## compare whole migrations, feed and swap with their peers
	@ci/bench

faults: ## migrations with an injected fault, then a resume: RUNS=200, SEED=n to repeat one, KEEP=1 for --keep in all that can
	@ci/faults

fault-moves: ## moves to one server or two with an injected fault; half are reverted: RUNS=200, or SEED=n
	@ci/fault-moves

kills: ## kill -9 at every named point of a migration, then the same command
	@ci/kills

kill-revisions: ## generated revisions that happen as a whole, killed again and again (PROJECTS, KILLINGS, SEED)
	@ci/kill-revisions

fuzz: ## 100 000 random rows of each type family through the row decoder
	@ci/fuzz

fuzz-migrations: ## random tables, changes, writers against a native ALTER: RUNS=500, or SEED=n
	@ci/fuzz-migrations

ci-semisync: ## lane: commits that are in the binlog but not yet visible (semi-sync)
	@ci/lane-semisync

ci-file-position: ## lane: the integration tests of make test without GTIDs
	@ci/lane-file-position

ci-delays: ## lane: the integration tests with random pauses between statements
	@ci/lane-delays

ci-told: ## lane: the integration tests on a server that is told to lack what 8.0.19 lacks (SPIRIT_PY_TEST_TOLD)
	@ci/lane-told

ci-cases-after: ## lane: every case with its writes after the last checksum, a fifth without GTIDs too
	@ci/lane-cases-after

ci-attached: ## lane: parents, children and triggers through 50 swaps, some killed
	@ci/lane-attached

ci-gentle: ## lane: all tests of which make test draws some, such as the slow ones and the cases
	@ci/lane-gentle

ci-tools: ## lane: the tests of the tests' own tools: oracle, fuzzer, harness, servers, scripts of ci/
	@ci/lane-tools

ci-rules: ## lane: each rule of docs/rules.md broken once: its tests must fail
	@ci/lane-rules

ci-large: ## lane: huge transactions and tables in bounded memory
	@ci/lane-large

ci-faults: ## lane: lost executors, limits of the server, planted bugs
	@ci/lane-faults

ci-pages: ## lane: pages of real runs and of the documentation in a headless Chromium
	@ci/lane-pages

ci-wheel-bare: ## lane: the wheel on a clean Debian names what is missing, then migrates
	@ci/lane-wheel-bare

ci-image: ## lane: the container image is built, and migrates a table
	@ci/lane-image

ci-mysql80: ## lane: the tests of make test on MySQL 8.0, in containers
	@ci/lane-mysql80

ci-mysql84: ## lane: the tests of make test on MySQL 8.4, in containers
	@ci/lane-mysql84

ci-mysql9: ## lane: the tests of make test on the newest MySQL 9, in containers
	@ci/lane-mysql9

mysql-start: ## start a MySQL for experiments and print how to connect to it
	@$(PYTHON) ci/mysql_server.py start

mysql-stop: ## stop it and remove its data
	@$(PYTHON) ci/mysql_server.py stop

lock: ## pin the dependencies of pyproject.toml again
	@ci/lock

clean: ## remove .venv, caches, servers and what Spark left
	@ci/clean
