# The way in, on a machine that has nothing yet: every target sets up what it needs. Thin on purpose; the work is in
# tools/, test/run.rb and bench/peers.

CARGO ?= cargo
export WITHOUT
export PATH := $(PATH):$(HOME)/.cargo/bin

.NOTPARALLEL:
.PHONY: help setup build demo test lint bench sim clean
# Seeds of `make sim`: so many, from this one on.
SEEDS ?= 1000
FROM ?= 1

help:
	@echo "make demo    set up, build, and run examples/montage into tmp/demo"
	@echo "make test    set up, build, and run lints and all tests; WITHOUT=testbed,cluster leaves out those that need root"
	@echo "make build   set up, and build the engine (target/release)"
	@echo "make sim     run workflows in which things die: SEEDS=1000 FROM=1"
	@echo "make bench   compare with other tools (bench/README.md); BENCH='--rounds 3 --only A,B' for less"
	@echo "make lint, make setup, make clean"

setup:
	@tools/setup

build: setup
	$(CARGO) build --release --locked --bins

demo: build
	rm -rf tmp/demo
	mkdir -p tmp/demo
	cd examples/montage && ../../bin/rakuda WORK=$(CURDIR)/tmp/demo

test: build lint
	@tools/validators
ifeq ($(findstring testbed,$(WITHOUT)),)
	@tools/setup testbed/packages.apt
endif
	$(CARGO) test --workspace --locked
	bin/rakudactl sim faults --repeat 200
	bin/rakudactl sim faults --seed $$(git log -1 --format=%cd --date=format:%Y%m%d 2>/dev/null || echo 20260101)
	ruby test/run.rb

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	rubocop --cache false
	shellcheck -x testbed/up testbed/down testbed/exec testbed/fault testbed/settings testbed/parts/*.sh testbed/parts/init

bench: build
	@tools/setup bench/packages.apt
	bench/peers $(BENCH)
	bench/front
	bench/journal
	cargo bench --bench dispatch --bench spawn

sim: build
	bin/rakudactl sim faults --seed $(FROM) --repeat $(SEEDS)

clean:
	rm -rf target tmp
