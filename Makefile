# The only commands you need. Only python3 (3.11 or newer) and make are assumed; uv is fetched into .tools when absent.

UV_VERSION := 0.13.8
UV := $(shell command -v uv 2>/dev/null || echo .tools/bin/uv)
export UV_PYTHON_DOWNLOADS := never
# Empty is "no": some machines forbid compiled modules, and a system is 15 processes that would each compile the same ones.
export PYTHONDONTWRITEBYTECODE :=
RUN := $(UV) run --frozen

.PHONY: demo docs test test-labs test-class test-slow test-docker test-ray nightly test-python check check-style check-types check-packages bench soak wheels \
    accel accel-test device-test accel-timing accel-sanitize sbom advisories version images up round question rotate down lab-server lab-round handouts fuzz fuzz-rechecks format clean help proto module

help:
	@echo "make demo        run a whole round on this machine"
	@echo "make check       style, types, import contracts, generated code, documentation (1 min)"
	@echo "make test        all tests except slow ones and those of containers (20 min)"
	@echo "make docs        the documentation as a site, out/site/index.html (30 s)"
	@echo "make up          a deployment in containers; then make round, make down (docs/operations.md)"
	@echo
	@echo "Tests:"
	@echo "make test-python PYTHON=/usr/bin/python3: tests of processes and sockets under another Python (4 min)"
	@echo "make test-slow   whole pages as typed, wheels, full-size attacks, wrong programs of the labs (13 min)"
	@echo "make test-docker the container deployment (8 min), after building its images (4 min)"
	@echo "make test-ray    rounds mixed on a Ray cluster, one of whose machines is killed (6 min)"
	@echo "make nightly     what takes an idle machine: make test-ray, and its cost beside mixing in memory (10 min)"
	@echo "make test-labs   the labs' solutions and wrong programs; INSTANCES=200 SYSTEMS=20 (3 CPU hours) before a term, LAB=09 for one lab"
	@echo "make test-class  CLASS=200 submissions of a lab, ten of them hostile, are graded to a complete table (8 min)"
	@echo "make device-test the device in Rust against the test vectors, and its C library; needs cargo"
	@echo "make fuzz        the accountant against an independent oracle (hours); CASES=2000 SEED=7 ONLY=123 FROM=123 KINDS=split-mix SECONDS=600 EXTREME=1"
	@echo "make fuzz-rechecks hostile certificates whose check takes long; SECONDS=90 SEED=7"
	@echo "make bench       speed, as ratios within one run"
	@echo "make soak        a system under attack for MINUTES=10"
	@echo
	@echo "Builds:"
	@echo "make accel       build and install the optional accelerator; needs cargo"
	@echo "make images      container images"
	@echo "make wheels      a wheel of every package, in dist/; make sbom lists their contents as CycloneDX"
	@echo "make version     set VERSION=1.2.3 in every package"
	@echo "make module    the small module for web pages, from its source"
	@echo "make handouts    the labs' handouts and slides as PDF; make lab-server CLASS=FILE.csv serves a class"
	@echo "make format      format the code and apply automatic fixes"

demo: .venv/synced
	$(RUN) shuffledp demo

test: .venv/synced
	$(RUN) pytest -q -n auto --dist loadfile --no-loadscope-reorder -m "not docker and not slow and not ray"

# Solutions and wrong programs of every lab, or of LAB=09, on so many fresh instances; SYSTEMS of them with the checks of
# real systems. Three CPU hours with INSTANCES=200 SYSTEMS=20.
test-labs: .venv/synced
	LAB_INSTANCES=$(or $(INSTANCES),20) LAB_SYSTEMS=$(or $(SYSTEMS),0) \
	    $(RUN) pytest -q -n auto --dist worksteal tests/labs/test_solutions_and_mutants.py $(if $(LAB),-k "$(LAB)")

# A class of CLASS submissions of lab 8, of which ten are hostile: the time that it takes. About 8 minutes.
test-class: .venv/synced
	LAB_CLASS=$(or $(CLASS),200) $(RUN) pytest -q -s -n 0 tests/labs/test_graded_class.py

test-slow: .venv/synced
	$(RUN) pytest -q -n auto --dist loadfile --no-loadscope-reorder -m slow

# Under another interpreter, in an environment of its own. Here: what runs processes, sockets and event loops, in which
# versions of Python differ; FOLDERS=tests for everything.
PYTHON ?= /usr/bin/python3
FOLDERS ?= $(addprefix tests/,client core shuffler analyst accountant)
test-python: export UV_PROJECT_ENVIRONMENT := $(CURDIR)/.venv-python
test-python: | uv
	$(UV) sync --quiet --frozen --python $(PYTHON)
	$(RUN) --python $(PYTHON) python -VV
	$(RUN) --python $(PYTHON) pytest -q -n auto --dist loadfile --no-loadscope-reorder \
	    -m "not docker and not slow and not ray" $(FOLDERS)

# One after another, on two deployments that the tests bring up: both at once are too much for two cores.
test-docker: images
	$(RUN) pytest -q -m docker

# On a Ray cluster of this machine, with the Ray of uv.lock, which is in no other environment: 200 MB, and `uv sync` removes it.
# And where an engine answers on one in containers.
test-ray: .venv/synced
	! docker info >/dev/null 2>&1 || OVERLAYS=ray sh deploy/images.sh
	$(UV) sync --frozen --inexact --compile-bytecode --quiet --package shuffledp-shuffler --extra ray
	$(RUN) pytest -q -n 0 -m ray

# For an idle machine, once a night: `NIGHTLY=1 .ci/run` adds it to the gate.
nightly: test-ray
	$(RUN) python -m bench clustered

# Two at a time: types and the site take most of it.
check: .venv/synced
	@$(MAKE) --no-print-directory --jobs=2 check-types docs check-packages check-style

check-style: .venv/synced
	$(UV) lock --check
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) lint-imports
	$(RUN) buf lint proto
	$(RUN) sh proto/check.sh
	$(RUN) python -m shuffledp_client.web.build --check
	$(RUN) sh docs/check.sh

check-types: .venv/synced
	$(RUN) mypy
	@for file in tests/*/conftest.py; do $(RUN) mypy $$file || exit 1; done

# Each package with what it declares, and nothing else; but Ray, which is large, and imported by a process of its own only.
check-packages: .venv/synced
	@for part in core privacy client shuffler analyst accountant labs experiments; do \
	    $(UV) run --quiet --isolated --exact --frozen --no-dev --package shuffledp-$$part --all-extras \
	        $$([ $$part != shuffler ] || echo --no-extra ray) python .ci/import_all.py shuffledp_$$part || exit 1; done
	@$(UV) run --quiet --isolated --exact --frozen --no-dev --package shuffledp python .ci/import_all.py shuffledp

# Warnings are errors, and so is anything that a page would load from elsewhere.
docs: .venv/synced
	$(RUN) sphinx-build --quiet --fail-on-warning --keep-going -c docs/site -d out/site-cache docs out/site
	$(RUN) python docs/site/offline.py out/site

bench: .venv/synced
	$(RUN) python -m bench

# Not part of any other target: `uv sync` removes it again, and everything works without.
accel: .venv/synced
	$(UV) pip install --quiet --reinstall ./accel
	$(RUN) python -c "import shuffledp_accel; print('shuffledp-accel:', shuffledp_accel.paths() or 'no fast path on this processor')"

# The arithmetic against published vectors and its own emulation; under Miri with TOOLCHAIN=+nightly MIRI=miri.
accel-test:
	cd accel && cargo $(TOOLCHAIN) $(MIRI) test $(if $(MIRI),,--release) --locked

# The device's core in Rust, against the test vectors that it answers.
device-test:
	cd crates/shuffledp-device && cargo test --workspace --locked --quiet
	cd crates/shuffledp-device && cargo clippy --workspace --all-targets --locked --quiet -- -D warnings

# Whether time depends on secrets: |t| of Welch's test; with LEAK=1 a leak is planted that it must find.
accel-timing:
	cd accel && cargo run --release --locked --quiet --example timing $(if $(LEAK),--features planted-leak)

# Errors with memory, by AddressSanitizer: OVERRUN=1 plants one that it must find. Then branches and addresses that depend on
# secrets, by Valgrind, which must be installed: LEAK=1 plants such a branch. Some minutes.
ADDRESS := --config 'target.x86_64-unknown-linux-gnu.rustflags=["-Zsanitizer=address"]' --target x86_64-unknown-linux-gnu
accel-sanitize:
	cd accel && RUSTC_BOOTSTRAP=1 cargo test $(ADDRESS) --target-dir target/address --release --locked --quiet \
	    $(if $(OVERRUN),--features planted-overrun)
	cd accel && cargo build --target-dir target/memcheck --release --locked --quiet --example secrets \
	    --features 'memcheck$(if $(LEAK), planted-leak)'
	cd accel && valgrind --quiet --error-exitcode=1 target/memcheck/release/examples/secrets

fuzz: .venv/synced
	$(RUN) python tests/oracle/fuzz.py --cases $(or $(CASES),2000) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY)) $(if $(FROM),--from $(FROM)) $(if $(KINDS),--kinds $(KINDS)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(EXTREME),--extreme)

fuzz-rechecks: .venv/synced
	$(RUN) python tests/oracle/fuzz_rechecks.py $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS))

soak: .venv/synced
	$(RUN) python -m bench.soak --minutes $(MINUTES)

wheels: | uv
	$(UV) build --quiet --all-packages --wheel --out-dir dist

sbom: .venv/synced
	@mkdir -p dist
	sh deploy/sbom.sh dist/sbom.cdx.json --all-packages --all-extras

# Known vulnerabilities of what is locked. Needs the network: status 3 and "no database" without one.
advisories: | uv
	@sh deploy/advisories.sh

# The packages are released together, with one version; a test holds that they have it.
version: | uv
	sed -i -e 's/^version = ".*"/version = "$(VERSION)"/' -e '/"shuffledp/s/==[^"]*"/==$(VERSION)"/' pyproject.toml */pyproject.toml
	sed -i 's/^version: .*/version: $(VERSION)/' CITATION.cff
	$(UV) lock --quiet && sed -i 's/, size = [0-9]*//' uv.lock

# The deployment in containers. OVERLAYS="postgres observability console devices gateway web corrupt student ray" or some;
# FLEET_USERS, FLEETS: how many.
COMPOSE := sh deploy/compose.sh
export UV
FLEETS ?= 1
MINUTES ?= 10
FLEET_USERS ?= 1000
export FLEET_USERS

images: .venv/synced
	sh deploy/images.sh

up: images
	$(COMPOSE) up --detach --scale fleet=$(FLEETS) || { sh deploy/unhealthy.sh; exit 1; }
	$(COMPOSE) ps
	@echo "all healthy. A round: make round. Logs: deploy/compose.sh logs --follow. End: make down"

round:
	@USERS=$${USERS:-$$(($(FLEETS) * $(FLEET_USERS)))} sh deploy/round.sh

# The question of the overlay `web`, for the simulated people and one person more, who answers on the page.
question:
	@users=$${USERS:-$$(($(FLEETS) * $(FLEET_USERS)))}; USERS=$$users MECHANISM=krr-histogram MAX_VALUE=2 \
	    sh deploy/round.sh --suite hpke-mlkem768-x25519 --max-reports $$((users + 1))

# New TLS keys and certificates for every party, without a restart. ROTATE=--authority: a new authority and roster, too.
rotate:
	@$(COMPOSE) run --rm --no-deps --entrypoint "sh /containers/rotate-keys.sh $(ROTATE)" keys

# Keys, ledger and results are kept in volumes; VOLUMES=1 erases them, too.
down:
	$(COMPOSE) --profile operator down --remove-orphans $(if $(VOLUMES),--volumes)

# One deployment for a class: make lab-server CLASS=class.csv HOST=192.0.2.7, then make lab-round, as often as you like.
lab-server: images
	@test -n "$(CLASS)" || { echo "whom to enrol: make lab-server CLASS=FILE.csv, with the column name" >&2; exit 2; }
	OVERLAYS="$${OVERLAYS:-devices observability}" $(COMPOSE) up --detach --scale fleet=0
	@sh deploy/class.sh enrol "$(CLASS)"
	@sh deploy/class.sh page

lab-round:
	@sh deploy/class.sh round $(OPTIONS)

# The handouts of the labs on paper: out/handouts, and ten slides for each: out/slides. Chromium prints them, with COURSE and DATE (today) at the foot.
handouts: docs
	$(RUN) python docs/site/paper.py out/site/labs out/handouts --course "$(COURSE)" --date "$(DATE)"
	$(RUN) python docs/site/slides.py out/slides --course "$(COURSE)" --date "$(DATE)"

format: .venv/synced
	$(RUN) ruff check --fix
	$(RUN) ruff format

proto: .venv/synced
	$(RUN) sh proto/generate.sh

module: .venv/synced
	$(RUN) python -m shuffledp_client.web.build

clean:
	rm -rf .venv .venv-python .tools out dist accel/target crates/*/target .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/synced: pyproject.toml uv.lock */pyproject.toml | uv
	$(UV) sync --frozen
	@touch $@

.PHONY: uv
uv:
	@command -v $(UV) >/dev/null 2>&1 || python3 -m pip install --quiet --disable-pip-version-check \
	    --root-user-action=ignore --target .tools uv==$(UV_VERSION)
