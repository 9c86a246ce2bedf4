//! The committed header is the one that cbindgen makes of the source.

#![allow(clippy::disallowed_methods, reason = "reads the header")]

use std::path::Path;

#[test]
fn header_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml is one");
    let sources = ["types", "handle", "api"].map(|name| root.join(format!("src/{name}.rs")));
    let builder = sources
        .iter()
        .fold(cbindgen::Builder::new().with_config(config), |builder, file| builder.with_src(file));
    let mut made = Vec::new();
    builder.generate().expect("cbindgen reads the source").write(&mut made);
    let made = String::from_utf8(made).expect("a header is text");
    let path = root.join("include/anole_datapath.h");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &made).expect("the header can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "include/anole_datapath.h is out of date: run UPDATE_GOLDEN=1 cargo test -p anole-capi"
    );
}
