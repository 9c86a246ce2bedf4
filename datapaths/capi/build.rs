//! The shared library's name for the dynamic linker. The number changes with `ANOLE_ABI_VERSION`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libanole_datapath.so.1");
}
