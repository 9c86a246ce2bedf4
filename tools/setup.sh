#!/bin/sh
# Checks for what the build and the tests need, and installs the Debian packages that are missing when
# it may (root or password-less sudo). Otherwise it lists what to install and stops.
#
#   tools/setup.sh build    what `make` and `make demo` need
#   tools/setup.sh policy   what `make policy-server` needs: that, CMake and LibTorch
#   tools/setup.sh fuzz     what `make fuzz` needs: that of build, nightly Rust and cargo-fuzz
#   tools/setup.sh train    what training needs: that of build, and .venv with PyTorch
#   tools/setup.sh test     all of it but fuzz, and the formatters and linters for `make test`
set -eu

want=${1:-build}
cd "$(dirname "$0")/.."

# What stands for a package, a program or a file, and the package.
needs="cc:build-essential pkg-config:pkg-config /usr/include/libelf.h:libelf-dev /usr/include/zlib.h:zlib1g-dev"
torch="cmake:cmake ninja:ninja-build /usr/include/nlohmann/json.hpp:nlohmann-json3-dev
    /usr/lib/*/libtorch_cpu.so:libtorch-dev /usr/lib/*/openblas-pthread/libopenblas.so.0:libopenblas0-pthread"
python="/usr/lib/python3*/ensurepip:python3-venv"
# A virtual machine for the kernel module; without them its test is skipped.
vm="qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio /sbin/depmod:kmod xz:xz-utils
    iperf3:iperf3 /sbin/ip:iproute2 /sbin/tc:iproute2 /usr/sbin/dkms:dkms
    /usr/share/keyrings/debian-archive-keyring.gpg:debian-archive-keyring"
case "$want" in
build | fuzz) ;;
policy) needs="$needs $torch" ;;
train) needs="$needs $python" ;;
test) needs="$needs $torch $python $vm /usr/include/gtest/gtest.h:libgtest-dev clang-format:clang-format clang:clang
    llvm-strip:llvm /usr/include/bpf/bpf_helpers.h:libbpf-dev ip:iproute2
    /usr/include/lwip/lwip/tcp.h:liblwip-dev nc:netcat-openbsd chromium:chromium" ;;
*)
    echo "tools/setup.sh: \"$want\" is none of build, policy, fuzz, train, test" >&2
    exit 2
    ;;
esac

missing=""
set -f # the patterns below are matched one by one
for need in $needs; do
    what=${need%%:*}
    case "$what" in
    /*) set +f; set -- $what; set -f; [ -e "$1" ] || missing="$missing ${need##*:}" ;;
    *) command -v "$what" >/dev/null 2>&1 || missing="$missing ${need##*:}" ;;
    esac
done
set +f

if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ]; then
        as_root=""
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        as_root="sudo"
    else
        echo "These Debian packages are needed and cannot be installed without root:$missing" >&2
        echo "Install them with: sudo apt-get install$missing" >&2
        exit 1
    fi
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "Please install the equivalents of these Debian packages:$missing" >&2
        exit 1
    fi
    echo "Installing:$missing"
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
    # shellcheck disable=SC2086 # a list of words
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing >/dev/null
fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "Rust is needed (rustup, https://rustup.rs): cargo was not found on the PATH" >&2
    exit 1
fi
need=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
have=$(rustc --version | cut -d' ' -f2)
if [ "$(printf '%s\n%s\n' "$need" "$have" | sort -V | head -n 1)" != "$need" ]; then
    echo "Rust $need or newer is needed; this is $have. Update with: rustup update stable" >&2
    exit 1
fi
if [ "$want" = test ]; then
    for component in rustfmt clippy; do
        cargo "$(echo "$component" | sed 's/rustfmt/fmt/')" --version >/dev/null 2>&1 || rustup component add "$component"
    done
fi
if [ "$want" = fuzz ]; then
    cargo +nightly --version >/dev/null 2>&1 || rustup toolchain install nightly --profile minimal
    cargo fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz --locked
fi
