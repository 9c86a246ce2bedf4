# Every target but install does its own set-up: see tools/setup.sh.
#
#   make         builds ./anole-ccp (the agent), ./anole-eval (evaluation), ./anole-quic and ./anole-usertcp (bulk transfers), ./anole-policy
#   make demo    builds, runs real QUIC transfers under Anole, CUBIC and BBR, writes out/demo/index.html
#   make test    everything that CI runs
#   make check-realtime  figures over real packets, which depend on the host: no part of make test
#   make bench   figures: packets per second, ns per ACK beside libccp
#   make fuzz    coverage-guided fuzzing of the wire codec and the installer (nightly Rust, cargo-fuzz)
#   make policy-server  builds LibTorch's library and server, where --backend torch and server find them
#   make capi    builds libanole_datapath for transports in C: target/capi (docs/porting-from-libccp.md)
#   make train   makes .venv with PyTorch and the simulator as a Python extension (see training/README.md)
#   make docs    writes the documentation as a site: target/site/index.html
#   make install puts the programs that make has built, their manual pages and shell completions under $(PREFIX)
#   make uninstall  removes what make install put there

PREFIX ?= /usr/local
BINARIES = anole-ccp anole-eval anole-quic anole-usertcp anole-policy
BUILT = .

MAN = $(DESTDIR)$(PREFIX)/share/man/man1
BASH = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSH = $(DESTDIR)$(PREFIX)/share/zsh/site-functions
FISH = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d

.PHONY: all setup demo policy-server capi docs train test check-realtime lint bench fuzz install uninstall clean

all: setup
	cargo build --locked --release --bins
	@for b in $(BINARIES); do ln -f target/release/$$b $$b 2>/dev/null || cp -f target/release/$$b $$b; done

setup:
	@tools/setup.sh build

demo: all
	./anole-eval demo --out out/demo

policy-server:
	@tools/setup.sh policy
	cmake -S policy-server -B policy-server/build -G Ninja -DCMAKE_BUILD_TYPE=Release -DANOLE_TESTS=OFF
	cmake --build policy-server/build

capi:
	@tools/setup.sh build
	cargo build --locked --release -p anole-capi
	datapaths/capi/package.sh target/release target/capi

docs:
	@tools/setup.sh train
	tools/python.sh
	tools/site.sh

train:
	@tools/setup.sh train
	tools/python.sh

test:
	@tools/setup.sh test
	tools/test.sh

check-realtime:
	@tools/setup.sh test
	tools/check-realtime.sh

lint:
	@tools/setup.sh test
	tools/test.sh lint

bench: all
	./anole-eval bench
	cd tests/oracle && cargo run --locked --release --bin bench

fuzz:
	@tools/setup.sh fuzz
	cd datapaths/core && cargo +nightly fuzz run codec -- -max_total_time=60
	cd datapaths/core && cargo +nightly fuzz run installer -- -max_total_time=60

# Builds nothing: root often has no Rust.
install:
	@for b in $(BINARIES); do \
		[ -x $(BUILT)/$$b ] || { echo "make install: $(BUILT)/$$b is not there; run make first" >&2; exit 1; }; \
	done
	install -d $(DESTDIR)$(PREFIX)/bin $(MAN) $(BASH) $(ZSH) $(FISH)
	install -m 755 $(BINARIES:%=$(BUILT)/%) $(DESTDIR)$(PREFIX)/bin
	@set -e; pages=$$(mktemp -d); trap 'rm -rf "$$pages"' EXIT; for b in $(BINARIES); do \
		$(BUILT)/$$b write-pages "$$pages/$$b"; \
		install -m 644 "$$pages/$$b"/man1/* $(MAN); \
		install -m 644 "$$pages/$$b/completions/$$b.bash" $(BASH)/$$b; \
		install -m 644 "$$pages/$$b/completions/_$$b" $(ZSH); \
		install -m 644 "$$pages/$$b/completions/$$b.fish" $(FISH); \
	done

uninstall:
	@for b in $(BINARIES); do \
		rm -f $(DESTDIR)$(PREFIX)/bin/$$b $(MAN)/$$b.1 $(MAN)/$$b-*.1 \
			$(BASH)/$$b $(ZSH)/_$$b $(FISH)/$$b.fish; \
	done

clean:
	cargo clean
	rm -rf $(BINARIES) out
