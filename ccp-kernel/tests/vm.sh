#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Boots a Debian kernel in a virtual machine (software emulation), with the module built against its headers,
# and runs guest.sh there. Nothing of the host is changed: packages are unpacked into target/vm.
#
#   tests/vm.sh oldest      Debian 11's kernel, 5.10
#   tests/vm.sh stable      Debian 12's, 6.1
#   tests/vm.sh backports   that of bookworm-backports, 6.12
#   tests/vm.sh newest      that of trixie-backports; the module's sources are compiled, and nothing is booted
#
# BUILD_ONLY=1  the module is built, and nothing is booted
# The module is built as DKMS does it where that is installed, by make alone otherwise.
# AGENT=FILE   the agent's program; ../target/{release,debug}/anole-ccp by default. Without one, the part of
#              the test that needs it is left out.
# BPF_TEST=FILE  the eBPF datapath's test program over loopback (bpf/tests/loopback, compiled), to be run there
#              too, before the module takes the name anole_ccp
# BPF_BRIEFLY=1  of the eBPF datapath only whether this kernel takes it and a flow obeys it
# CROSS_CHECK="KBIT RATE RTT"  what a simulator says of CUBIC on a link of KBIT kbit/s, 50 ms RTT and a queue of two
#              BDP, over 30 s: its payload in kbit/s and its mean RTT in ms. The kernel's CUBIC over netem is held
#              against it, as two figures.
# ANOLE_FIGURES=FILE  figures that depend on the host's speed are appended to it (tools/check-realtime.sh); no check
#              depends on one
# TIMEOUT_S=N  the virtual machine is ended after this (900)
#
# Exits with 0 if every check passes, 77 if something that it needs is missing.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
which=${1:-stable}
timeout_s=${TIMEOUT_S:-900}
cache=$here/../target/vm/$which
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# The mirror that this host takes Debian's packages from.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    sed -n 's,/debian/*$,,p' | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }')

skip() {
    "$here/../../tools/skips.sh" add "ccp-kernel/vm.sh::$which" "$1"
    exit 77
}

case "$which" in
oldest) suites="debian bullseye main
debian-security bullseye-security main" ;;
newest) suites="debian trixie-backports main" ;;
stable) suites="debian bookworm main
debian-security bookworm-security main" ;;
backports) suites="debian bookworm-backports main" ;;
*)
    echo "usage: tests/vm.sh oldest|stable|backports|newest" >&2
    exit 2
    ;;
esac
if [ -n "${AGENT:-}" ] && [ ! -x "$AGENT" ]; then
    echo "AGENT=$AGENT: there is no such program" >&2
    exit 2
fi

export PATH="$PATH:/usr/sbin:/sbin"
[ "$(uname -m)" = x86_64 ] || skip "this is no x86_64 machine"
for need in qemu-system-x86_64:qemu-system-x86 cpio:cpio depmod:kmod busybox:busybox-static xz:xz-utils \
    iperf3:iperf3 ip:iproute2 tc:iproute2 gcc:build-essential make:build-essential apt-get:apt dpkg-deb:dpkg; do
    command -v "${need%%:*}" >/dev/null || skip "${need%%:*} is missing (package ${need##*:})"
done
[ -n "$mirror" ] || skip "apt has no mirror of Debian's packages"
[ -e $keyring ] || skip "$keyring is missing (package debian-archive-keyring)"
[ -e /usr/include/libelf.h ] || [ -e /usr/lib/x86_64-linux-gnu/libelf.so.1 ] || skip "libelf is missing (package libelf1)"

# apt with a state of its own.
apt() {
    tool=$1
    shift
    "$tool" -q -o Dir::State="$cache/apt/state" -o Dir::State::status="$cache/apt/status" \
        -o Dir::Cache="$cache/apt/cache" -o Dir::Etc::SourceList="$cache/apt/sources.list" \
        -o Dir::Etc::SourceParts=/dev/null -o APT::Sandbox::User="$(id -un)" -o APT::Architecture=amd64 "$@"
}

# The names of packages that others depend on.
depends() {
    apt apt-cache show --no-all-versions "$@" | sed -n 's/^Depends: //p' | tr ',' '\n' | sed 's/^ *\([^ ]*\).*/\1/'
}

# Unpacks kernel, modules and headers into $cache/root, once.
fetch() {
    rm -rf "$cache"
    mkdir -p "$cache/apt/state/lists/partial" "$cache/apt/cache/archives/partial" "$cache/debs" "$cache/root"
    : >"$cache/apt/status"
    echo "$suites" | while read -r archive suite component; do
        echo "deb [signed-by=$keyring] $mirror/$archive $suite $component"
    done >"$cache/apt/sources.list"
    apt apt-get update >"$cache/apt.log" 2>&1 || skip "Debian's packages are out of reach ($cache/apt.log)"
    version=$(depends linux-image-amd64 | sed -n 's/^linux-image-\(.*\)-amd64$/\1/p')
    [ -n "$version" ] || skip "$which has no linux-image-amd64"
    # Modules and tools for building may be packages of their own.
    image=linux-image-$version-amd64 headers=linux-headers-$version-amd64
    [ "$which" != newest ] || image=
    # shellcheck disable=SC2086 # a list of words
    further=$(depends $image "$headers" | grep -E '^linux-(modules-.*[0-9].*|headers-.*-common|kbuild-.*)$')
    # shellcheck disable=SC2086 # a list of words
    (cd "$cache/debs" && apt apt-get download $image "$headers" $further >>"$cache/apt.log" 2>&1) ||
        skip "the packages of $version cannot be fetched ($cache/apt.log)"
    for package in "$cache"/debs/*.deb; do
        dpkg-deb -x "$package" "$cache/root"
    done
    [ -e "$cache/root/lib/modules" ] || ln -s usr/lib "$cache/root/lib"
    # The headers name each other by absolute paths; without vmlinux no BTF is asked for, which needs pahole.
    sed -i "s,^\(include \|KBUILD_OUTPUT=\)/usr/src,\1$cache/root/usr/src," "$cache"/root/usr/src/linux-headers-*-amd64/Makefile
    rm -f "$cache"/root/usr/src/linux-headers-*-amd64/vmlinux
    rm -rf "$cache/debs" "$cache/apt"
    [ "$which" = newest ] || depmod -b "$cache/root" "$version-amd64"
    echo "$version-amd64" >"$cache/version"
}

[ -s "$cache/version" ] || fetch
cache=$(cd "$cache" && pwd)
version=$(cat "$cache/version")
headers=$cache/root/usr/src/linux-headers-$version
echo "kernel $version"

# The module, from a copy, so that nothing is built between the sources.
build=$cache/module
rm -rf "$build"
compiler=gcc
command -v gcc-12 >/dev/null && compiler=gcc-12
# Newer kernels ask for what gcc knows from 14 on, and run as well without.
cc=$cache/cc
cat >"$cc" <<EOF
#!/bin/sh
for argument; do
    shift
    case "\$argument" in -fmin-function-alignment=*) ;; *) set -- "\$@" "\$argument" ;; esac
done
exec $compiler "\$@"
EOF
chmod +x "$cc"
if [ "$which" = newest ]; then
    # What the kernel's build does besides takes programs of Debian 13.
    make -s -C "$here/../module" dkms-source DESTDIR="$build"
    module=$(echo "$build"/usr/src/*)
    # shellcheck disable=SC2046 # a list of words
    make -s -C "$headers" M="$module" CC="$cc" CCP_WERROR=1 $(cd "$module" && echo *.c | sed 's/\.c\>/.o/g')
    echo "the module's sources compile"
    exit 0
fi
if command -v dkms >/dev/null; then
    mkdir -p "$build/usr/src" "$build/dkms" "$build/$version"
    make -s -C "$here/../module" dkms DESTDIR="$build" CC="$cc" CCP_WERROR=1 DKMS_KERNEL="-k $version" \
        DKMS="dkms --sourcetree $build/usr/src --dkmstree $build/dkms --installtree $build --no-depmod \
            --kernelsourcedir $headers" >"$build/dkms.log" 2>&1 ||
        { cat "$build/dkms.log"; find "$build/dkms" -name make.log -exec cat {} +; exit 1; }
    module=$(find "$build/$version" -name 'tcp_anole_ccp.ko*')
    case "$module" in *.xz) xz -d "$module" && module=${module%.xz} ;; esac
    echo "built by DKMS: $module"
else
    make -s -C "$here/../module" dkms-source DESTDIR="$build"
    make -s -C "$build"/usr/src/* KDIR="$headers" CC="$cc" CCP_WERROR=1
    module=$(echo "$build"/usr/src/*/tcp_anole_ccp.ko)
fi
[ -s "$module" ] || { echo "no module was built" && exit 1; }
[ -z "${BUILD_ONLY:-}" ] || exit 0

# The initial file system: busybox, tools with their libraries, the kernel's modules, the test.
initrd=$cache/initrd
rm -rf "$initrd"
mkdir -p "$initrd/bin" "$initrd/modules" "$initrd/proc" "$initrd/sys" "$initrd/dev" "$initrd/run" "$initrd/tmp" "$initrd/etc"
cp "$(command -v busybox)" "$initrd/bin/busybox"
for applet in $("$initrd/bin/busybox" --list | grep -vx busybox); do
    ln -sf busybox "$initrd/bin/$applet"
done
add_program() { # FILE
    rm -f "$initrd/bin/$(basename "$1")"
    cp -L "$1" "$initrd/bin/"
    ldd "$1" 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "$initrd$(dirname "$library")"
        cp -Ln "$library" "$initrd$library"
    done
}
add_program "$(command -v ip)"
add_program "$(command -v tc)"
add_program "$(command -v ss)"
add_program "$(command -v iperf3)"
for program in attack probe; do
    gcc -Wall -Wextra -Werror -O1 -static "$here/$program.c" -o "$initrd/bin/$program"
done
for agent in "${AGENT:-}" "$here/../../target/release/anole-ccp" "$here/../../target/debug/anole-ccp"; do
    if [ -x "$agent" ]; then
        add_program "$agent"
        strip "$initrd/bin/anole-ccp"
        echo "agent $agent"
        break
    fi
done
if [ -n "${BPF_TEST:-}" ]; then
    add_program "$BPF_TEST"
    mv "$initrd/bin/$(basename "$BPF_TEST")" "$initrd/bin/bpf-loopback"
fi
[ -z "${BPF_BRIEFLY:-}" ] || touch "$initrd/bpf-briefly"
[ -z "${CROSS_CHECK:-}" ] || echo "$CROSS_CHECK" >"$initrd/cross-check"
for name in veth sch_netem tcp_diag; do
    modprobe -d "$cache/root" -S "$version" --show-depends "$name" | while read -r command file rest; do
        [ "$command" = insmod ] || continue
        base=$(basename "${file%.xz}")
        grep -qx "$base" "$initrd/modules/order" 2>/dev/null && continue
        case "$file" in
        *.xz) xz -dc "$file" >"$initrd/modules/$base" ;;
        *) cp "$file" "$initrd/modules/$base" ;;
        esac
        echo "$base" >>"$initrd/modules/order"
    done
done
cp "$module" "$initrd/modules/"
cp "$here/init" "$here/guest.sh" "$initrd/"
chmod +x "$initrd/init"
printf 'root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n' >"$initrd/etc/passwd"
(cd "$initrd" && find . | cpio -o -H newc --quiet | gzip -1) >"$cache/initrd.gz"

log=$cache/console.log
# Under software emulation a kernel can die of its own code patching before it gets to init: what is under test has not
# begun then, and it is booted again. A host that stands still is no lock-up of the kernel.
for _ in 1 2 3; do
    timeout "$timeout_s" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -m 1024 -smp 2 \
        -kernel "$cache/root/boot/vmlinuz-$version" -initrd "$cache/initrd.gz" \
        -append "console=ttyS0 quiet panic=-1 oops=panic nowatchdog rcupdate.rcu_cpu_stall_suppress=1" \
        -nographic -no-reboot -nodefaults -serial stdio -monitor none \
        </dev/null >"$log" 2>&1 || echo "the virtual machine was ended after $timeout_s s"
    ! grep -qa 'BOOTED in' "$log" || break
    echo "the kernel did not come to init"
done
tr -d '\r' <"$log"
tr -d '\r' <"$log" | sed -n 's/^skipped: //p' | while IFS= read -r reason; do
    "$here/../../tools/skips.sh" add "ccp-kernel/guest.sh::$which" "$reason"
done
[ -z "${ANOLE_FIGURES:-}" ] || tr -d '\r' <"$log" | sed -n "s/^FIGURE /$version: /p" >>"$ANOLE_FIGURES"
if ! grep -q '^DONE' "$log"; then
    echo "The virtual machine did not come to its end; see $log"
    exit 1
fi
if tr -d '\r' <"$log" | grep '^FAIL'; then
    exit 1
fi
echo "every check passed"
