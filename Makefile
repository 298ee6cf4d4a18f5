# The way in, on a machine that has nothing yet: every target sets up what it needs. Thin on purpose; the work is in
# tools/, test/run.rb and bench/peers.

CARGO ?= cargo
PREFIX ?= $(HOME)/.local
export WITHOUT PREFIX DESTDIR
export PATH := $(PATH):$(HOME)/.cargo/bin

.NOTPARALLEL:
.PHONY: help setup build build-bench install uninstall dist deb test-systems demo test-setup test test-crates test-engines test-systemd check lint lint-text agents bench bench-engines sim clean
# Random tests of the crates take the same cases each time, so that a test of a change tells of the change. Another number
# searches elsewhere.
PROPTEST_RNG_SEED ?= 1
# How many cases each has. They are the same ones each time, so a search takes more of them, and another seed.
PROPTEST_CASES ?= 100
# Seeds of `make sim`: how many, and the first one.
SEEDS ?= 1000
FROM ?= 1

help:
	@echo "make install    build, and install below PREFIX=$(PREFIX), without root; make uninstall takes it away again"
	@echo "make dist    a tarball for every x86-64 Linux with glibc 2.17 or later, in dist/"
	@echo "make deb     a package for this Debian and later ones, in dist/"
	@echo "make test-systems    run the Ruby tests on Debian 12 and 13, the tarball on Debian 11, in chroots; as root"
	@echo "make demo    set up, build, and run examples/montage into tmp/demo"
	@echo "make test    set up, build, and run lints and all tests; WITHOUT=testbed,cluster leaves out those that need root"
	@echo "make check   while you work: format, lints, unit tests, scenarios, parity on the fake hub; no set-up, debug build"
	@echo "make build   set up, and build the engine (target/release)"
	@echo "make build-bench  set up, and build the I/O kernels (iobench/README.md)"
	@echo "make sim     run workflows in which things die: SEEDS=1000 FROM=1"
	@echo "make bench-engines  install Snakemake, Nextflow, Parsl, Dask, Spark and Hadoop's runner for rakudactl bench, into target/engines"
	@echo "make test-engines    install them, and hold examples that stand here for other engines, too, against Rakuda's"
	@echo "make test-systemd    start the information service as a unit of systemd, in namespaces of its own; as root"
	@echo "make bench   compare with other tools (bench/README.md); BENCH='--rounds 3 --only A,B' for less"
	@echo "make lint, make setup, make clean"

setup:
	@tools/setup

build: setup
	$(CARGO) build --release --locked --bins

install:
	@tools/install check
	$(CARGO) build --release --locked --bins
	@tools/install install

# Needs Python with venv, and fetches zig. MACHINE="x86_64 aarch64": for x86-64, with an engine for hosts of the other type.
dist:
	@tools/dist $(MACHINE)

# Needs dpkg-dev and binutils.
deb:
	@tools/install check
	$(CARGO) build --release --locked --bins
	@tools/deb

# Needs root and debootstrap; minutes for each system.
test-systems: build dist
	@tools/test-systems
	@tools/test-systems bullseye -- portable

uninstall:
	@tools/install uninstall

demo: build
	@tools/setup examples/montage/packages.apt
	rm -rf tmp/demo
	mkdir -p tmp/demo
	cd examples/montage && ../../bin/rakuda WORK=$(CURDIR)/tmp/demo

# The I/O kernels, and what their own checks need.
build-bench: setup
	@tools/setup iobench/packages.apt
	$(MAKE) -j2 -C iobench

# What tests and lints need is no part of `build`.
test-setup:
	@tools/setup packages.apt test/packages.apt examples/*/packages.apt iobench/packages.apt

# Lints and the crates' tests run beside the Ruby tests, which wait most of the time; so what is waited for from afar comes
# while the engine is built.
test: test-setup
	@tools/validators & validators=$$!; $(MAKE) build build-bench; built=$$?; wait $$validators && exit $$built
ifeq ($(findstring testbed,$(WITHOUT)),)
	@tools/setup testbed/packages.apt
endif
	BESIDE="make test-crates lint-text" ruby test/run.rb

# Clippy's driver in place of the compiler: lints and the programs of the tests come of one compilation, where `cargo clippy`
# would be one more. The second word is how `cargo clippy -- -D warnings` tells its driver so.
LINTING = RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings

# There are no tests in comments.
test-crates: build
	$(LINTING) $(CARGO) test --workspace --locked --all-targets --no-run
	$(LINTING) PROPTEST_RNG_SEED=$(PROPTEST_RNG_SEED) PROPTEST_CASES=$(PROPTEST_CASES) \
		$(CARGO) test --workspace --locked --lib --bins --tests
	bin/rakudactl sim faults --repeat 200
	bin/rakudactl sim faults --seed $$(git log -1 --format=%cd --date=format:%Y%m%d 2>/dev/null || echo 20260101)

# The program of bench/agents, as tests have it: not for speed.
agents:
	@$(LINTING) $(CARGO) build --workspace --locked --quiet --example agents

# Scenarios of the core that take seconds.
SCENARIOS = failures gangs kept planned room rule
# What needs no engine but one that is there already.
CHECKS = action_source architecture command_options configuration docs front last_status nodes_wanted parameters properties

check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --workspace --lib --locked --quiet
	$(CARGO) test -p rakuda-core --locked --quiet $(SCENARIOS:%=--test %)
	rubocop
	ON_FAKE=all ruby test/run.rb $(CHECKS:%=test/%_test.rb)
	ON_FAKE=all ruby test/run.rb test/parity_test.rb -- -n /on_fake/

lint: lint-text
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# What need not be compiled.
lint-text: test-setup
	$(CARGO) fmt --all --check
	rubocop --cache false
	shellcheck -x testbed/up testbed/down testbed/exec testbed/fault testbed/settings testbed/parts/*.sh testbed/parts/init \
		tools/install tools/dist tools/deb tools/test-systems tools/test-control-groups test/installation/first_hour.sh examples/everything/on-testbed libexec/rakuda-tasks iobench/test/check.sh
	$(MAKE) -C iobench lint

# Engines from PyPI and Maven Central that workflows are compared in; the others are Debian's.
bench-engines: build-bench
	@tools/setup bench/packages.apt
	python3 -m venv target/engines
	target/engines/bin/pip install --quiet --disable-pip-version-check -r bench/engines.txt
	rm -rf target/engines/classes
	mkdir -p target/engines/classes
	mvn --quiet --batch-mode --file bench/nextflow.xml dependency:copy-dependencies -DincludeScope=runtime \
		-DoutputDirectory=$(CURDIR)/target/engines/nextflow
	javac -Xlint:all,-classfile,-processing,-path -Werror -d target/engines/classes \
		-cp "$$(echo target/engines/lib/python3*/site-packages/pyspark/jars)/*" iobench/mapreduce/*.java
	jar cf target/engines/mapreduce.jar -C target/engines/classes .

# Half a minute, and what `bench-engines` takes.
test-engines: build bench-engines
	@tools/setup examples/genome/packages.apt examples/reads/packages.apt examples/tumours/packages.apt
	ruby test/run.rb bench/engines_test.rb

# Needs root, and a kernel with control groups of version 2.
test-systemd: test-setup build
	ruby test/run.rb test/installation/supervised_service.rb

bench: build
	@tools/setup bench/packages.apt examples/*/packages.apt
	bench/peers $(BENCH)
	bench/front
	bench/journal
	cargo bench --bench dispatch --bench spawn

sim: build
	bin/rakudactl sim faults --seed $(FROM) --repeat $(SEEDS)

clean:
	rm -rf target tmp
	$(MAKE) -C iobench clean
