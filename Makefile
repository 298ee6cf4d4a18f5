# The way in, on a machine that has nothing yet: every target sets up what it needs. Thin on purpose; the work is in
# tools/, test/run.rb and bench/peers.

CARGO ?= cargo
export PATH := $(PATH):$(HOME)/.cargo/bin

.NOTPARALLEL:
.PHONY: help setup build demo test lint bench clean

help:
	@echo "make demo    set up, build, and run examples/montage into tmp/demo"
	@echo "make test    set up, build, and run lints and all tests"
	@echo "make build   set up, and build the engine (target/release)"
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
	$(CARGO) test --workspace --locked
	ruby test/run.rb

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	rubocop --cache false

bench: build
	@tools/setup bench/packages.apt
	bench/peers $(BENCH)
	bench/front
	cargo bench --bench dispatch --bench spawn

clean:
	rm -rf target tmp
