#!/bin/sh
# Compiles the BPF objects that are in the repository (to another folder if one is given). Needs the Debian
# packages clang, llvm and libbpf-dev.
set -eu
cd "$(dirname "$0")/src/bpf"
out=${1:-prebuilt}
for source in *.bpf.c; do
    object=$out/${source%.c}.o
    clang -target bpf -mcpu=v3 -g -O2 -Wall -Wextra -Wno-unused-parameter -Werror \
        -I"/usr/include/$(uname -m)-linux-gnu" -c "$source" -o "$object"
    llvm-strip -g "$object"
done
# In the order of their names, as tests/prebuilt.rs reads them.
LC_ALL=C
cat *.[ch] ../../../vm/*.h | sha256sum | cut -d' ' -f1 >"$out/sources.sha256"
