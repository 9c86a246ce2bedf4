#!/bin/sh
# Compiles the BPF object that is in the repository; needs clang and libbpf-dev.
set -eu
cd "$(dirname "$0")/src/bpf"
include=/usr/include/$(cc -print-multiarch 2>/dev/null || echo x86_64-linux-gnu)
for name in anole harness; do
    clang -target bpf -mcpu=v3 -g -O2 -Wall -Wextra -Wno-unused-parameter -Werror -I"$include" \
        -c $name.bpf.c -o prebuilt/$name.bpf.o
    llvm-strip -g prebuilt/$name.bpf.o
done
cat ./*.c ./*.h ../../../vm/*.h | sha256sum | cut -d' ' -f1 > prebuilt/sources.sha256
