#!/bin/sh
# Compiles the BPF objects that are in the repository (to another folder if one is given). Needs the Debian
# packages clang, llvm and libbpf-dev.
set -eu
cd "$(dirname "$0")/src/bpf"
out=${1:-prebuilt}
for name in anole harness; do
    clang -target bpf -mcpu=v3 -g -O2 -Wall -Wextra -Wno-unused-parameter -Werror \
        -I"/usr/include/$(uname -m)-linux-gnu" -c $name.bpf.c -o "$out/$name.bpf.o"
    llvm-strip -g "$out/$name.bpf.o"
done
cat anole.bpf.c harness.bpf.c datapath.h fallback.bpf.h kernel.h machine.bpf.h \
    ../../../vm/fold.h ../../../vm/machine.h ../../../vm/message.h |
    sha256sum | cut -d' ' -f1 >"$out/sources.sha256"
