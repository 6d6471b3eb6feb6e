# The only commands you need. Only python3 (3.11 or newer) and make are assumed; uv is fetched into .tools when absent.

UV_VERSION := 0.13.8
UV := $(shell command -v uv 2>/dev/null || echo .tools/bin/uv)
export UV_PYTHON_DOWNLOADS := never
RUN := $(UV) run --frozen

.PHONY: demo test check bench format clean help proto

help:
	@echo "make demo    run a whole round on this machine"
	@echo "make test    all tests"
	@echo "make check   style, types, import contracts, generated code"
	@echo "make bench   speed as ratios of one run"

demo: .venv/synced
	$(RUN) shuffledp demo

test: .venv/synced
	$(RUN) pytest -q -n auto --dist loadfile

check: .venv/synced
	$(UV) lock --check
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy
	@for file in tests/*/conftest.py; do $(RUN) mypy $$file || exit 1; done
	$(RUN) lint-imports
	$(RUN) buf lint proto
	$(RUN) sh proto/check.sh
	$(RUN) sh docs/check.sh
	@for part in core client shuffler analyst accountant; do \
	    $(UV) run --quiet --isolated --exact --frozen --no-dev --package shuffledp-$$part \
	        python .ci/import_all.py shuffledp_$$part || exit 1; done

bench: .venv/synced
	$(RUN) python -m bench

format: .venv/synced
	$(RUN) ruff check --fix
	$(RUN) ruff format

proto: .venv/synced
	$(RUN) sh proto/generate.sh

clean:
	rm -rf .venv .tools out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/synced: pyproject.toml uv.lock */pyproject.toml | uv
	$(UV) sync --frozen
	@touch $@

.PHONY: uv
uv:
	@command -v $(UV) >/dev/null 2>&1 || python3 -m pip install --quiet --disable-pip-version-check \
	    --root-user-action=ignore --target .tools uv==$(UV_VERSION)
