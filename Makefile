# Each target does all of its own set-up; what is there already is skipped.

CARGO = cargo
RELEASE = target/release

.PHONY: demo test bench conformance build toolchain lint

demo: build
	@echo "demo: a conversation with $(RELEASE)/topup"
	@$(CARGO) run --quiet --release --example demo -- $(RELEASE)/topup

test: toolchain lint
	@echo "test: the OCaml half, without Rust"
	@.ci/dune-test
	@echo "test: the Rust half and both executables"
	@$(CARGO) test --release
	@echo "test: a sample of the compiler's own expectations"
	@$(CARGO) bench --bench conformance

lint: toolchain
	@echo "lint: formatting and clippy"
	@$(CARGO) fmt --check
	@$(CARGO) clippy --quiet --release --all-targets -- -D warnings

bench: build
	@$(CARGO) bench --bench bench

conformance: build
	@$(CARGO) bench --bench conformance -- --all --misses

build: toolchain
	@echo "build: topup and topup-opt (release)"
	@$(CARGO) build --release

toolchain:
	@.ci/toolchain get
