.DEFAULT_GOAL := help
.PHONY: help demo test lint bench mysql-start mysql-stop lock clean

PYTHON ?= python3

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## watch a migration under load, on a throwaway MySQL
	@ci/demo

test: ## lint, then run every test against a real MySQL
	@ci/test

lint: ## ruff, mypy and the import contracts
	@ci/lint

bench: ## measure copy, feed and cutover stall
	@ci/bench

mysql-start: ## start a MySQL to play with and print how to reach it
	@$(PYTHON) ci/mysql_server.py start

mysql-stop: ## stop it and remove its data
	@$(PYTHON) ci/mysql_server.py stop

lock: ## pin the dependencies of pyproject.toml anew
	@ci/lock

clean: ## remove .venv, caches and servers
	@ci/clean
