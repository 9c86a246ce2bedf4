#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT
# Compiles the BPF objects that are in the repository (to another folder if one is given), and writes beside them
# what they were made of and by. Needs the Debian packages clang, llvm and libbpf-dev.
#
# Two runs of one compiler give the same bytes, wherever the sources are: no path of the machine is in them.
set -eu
cd "$(dirname "$0")/src/bpf"
out=${1:-prebuilt}
for source in *.bpf.c; do
    object=$out/${source%.c}.o
    clang -target bpf -mcpu=v3 -g -O2 -Wall -Wextra -Wno-unused-parameter -Werror \
        -fdebug-compilation-dir=. -I"/usr/include/$(uname -m)-linux-gnu" -c "$source" -o "$object"
    llvm-strip -g "$object"
done
# In the order of their names, as tests/prebuilt.rs reads the sources.
LC_ALL=C
{
    echo "compiler $(clang --version | head -n 1)"
    echo "sources $(cat *.[ch] ../../../vm/*.h | sha256sum | cut -d' ' -f1)"
    (cd "$out" && sha256sum -- *.o) | while read -r hash object; do echo "$object $hash"; done
} >"$out/manifest.txt"
