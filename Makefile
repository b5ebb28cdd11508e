# Each target does all of its own set-up; what is there already is skipped.

CARGO = cargo
RELEASE = target/release
PACKAGES = target/packages

.PHONY: demo test packages clients bench conformance soak fuzz build toolchain lint

demo: build
	@echo "demo: a conversation with $(RELEASE)/topup"
	@$(CARGO) run --quiet --release --example demo -- $(RELEASE)/topup

test: toolchain lint
	@echo "test: the OCaml half, without Rust"
	@.ci/dune-test
	@echo "test: the Rust half and both executables"
	@.ci/toolchain ssh
	@$(CARGO) test --release
	@echo "test: a debug build, as cargo and an IDE make it"
	@$(CARGO) build
	@echo "test: a sample of the compiler's own expectations"
	@$(CARGO) bench --bench conformance
	@echo "test: a short soak"
	@$(CARGO) bench --bench soak
	@$(MAKE) --no-print-directory packages clients

# With Debian's own OCaml, which has packages; in a target folder of its own.
packages: toolchain
	@.ci/toolchain packages
	@echo "packages: topup with Debian's OCaml and its packages"
	@TOPUP_OCAML=/usr CARGO_TARGET_DIR=$(PACKAGES) $(CARGO) test --release --test it -- --ignored real_packages
	@echo "packages: what depends on the version of OCaml, with Debian's"
	@TOPUP_OCAML=/usr CARGO_TARGET_DIR=$(PACKAGES) $(CARGO) test --release --test it -- sessions:: survival::

# topup under real MCP clients, which are installed below target/clients.
clients: build
	@.ci/clients

lint: toolchain
	@if $(CARGO) fmt --version >/dev/null 2>&1; \
	then echo "lint: formatting" && $(CARGO) fmt --check; \
	else echo "lint: formatting skipped, cargo has no fmt (rustup component add rustfmt)"; fi
	@if $(CARGO) clippy --version >/dev/null 2>&1; \
	then echo "lint: clippy" && $(CARGO) clippy --quiet --release --all-targets -- -D warnings; \
	else echo "lint: clippy skipped, cargo has none (rustup component add clippy)"; fi

bench: build
	@.ci/toolchain ssh
	@$(CARGO) bench --bench bench

conformance: build
	@$(CARGO) bench --bench conformance -- --all --misses

# 200,000 evaluations with every kind of failure among them, a quarter of an hour and more.
soak: build
	@$(CARGO) bench --bench soak -- 194000 6000

fuzz:
	@.ci/fuzz

build: toolchain
	@echo "build: topup and topup-opt (release)"
	@$(CARGO) build --release

toolchain:
	@.ci/toolchain get
