#!/bin/sh
# Puts libanole_datapath, its header and a pkg-config file under PREFIX.
#
#   datapaths/capi/package.sh FOLDER PREFIX    FOLDER has what cargo built: libanole_capi.a and .so
#
# The static library is one object in which everything but the functions of the header is local, so that two libraries
# made by Rust fit into one program, and no name of ours meets one of theirs.
set -eu

if [ $# != 2 ]; then
    echo "usage: package.sh FOLDER PREFIX" >&2
    exit 2
fi
here=$(dirname "$0")
built=$1 prefix=$2
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml")
abi=$(sed -n 's/^#define ANOLE_ABI_VERSION //p' "$here/include/anole_datapath.h")
mkdir -p "$prefix/include" "$prefix/lib/pkgconfig"

one=$prefix/lib/libanole_datapath.o
kept=$(sed -n 's/.*[ *]\(anole_[a-z_]*\)(.*/-u \1/p' "$here/include/anole_datapath.h" | grep -v config_of_header)
# shellcheck disable=SC2086 # a list of options
ld -r --gc-sections $kept -o "$one" "$built/libanole_capi.a"
# Without LLVM's bitcode as well, which Rust's standard library carries and which ld joins to something that is none.
objcopy --wildcard --keep-global-symbol='anole_*' --strip-unneeded -R .llvmbc -R .llvmcmd "$one"
rm -f "$prefix/lib/libanole_datapath.a"
ar rcs "$prefix/lib/libanole_datapath.a" "$one"
rm "$one"

install -m 644 "$built/libanole_capi.so" "$prefix/lib/libanole_datapath.so.$abi"
ln -sf "libanole_datapath.so.$abi" "$prefix/lib/libanole_datapath.so"
install -m 644 "$here/include/anole_datapath.h" "$prefix/include/"
cat >"$prefix/lib/pkgconfig/anole-datapath.pc" <<PC
prefix=\${pcfiledir}/../..
Name: anole-datapath
Description: CCP datapath runtime for transports
Version: $version
Cflags: -I\${prefix}/include
Libs: -L\${prefix}/lib -lanole_datapath
Libs.private: -lpthread -ldl -lm
PC
