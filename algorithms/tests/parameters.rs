//! `docs/anole/parameters.md` says what the code says.
//! `UPDATE_GOLDEN=1 cargo test -p anole-algorithms --test parameters` writes it anew; review the difference.

#![allow(clippy::disallowed_methods, reason = "a test reads its page and one variable")]

use std::fmt::Write;
use std::{env, fs};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/anole/parameters.md");
const HEAD: &str = "\
# Anole: parameters

Generated from `algorithms/src/hybrid/anole/params.rs`; change it there, then run
`UPDATE_GOLDEN=1 cargo test -p anole-algorithms --test parameters`.

One set serves every link. Where the meaning says *chosen*, the paper leaves the value open and an experiment of this
project set it; [decisions.md](decisions.md) has what other values do. Rates are in Mbps, times in s. A value is changed by
`--set param.NAME=VALUE` (`anole-eval sim`, `emulate`), `--param NAME=VALUE` (`anole-eval reproduce`, `anole-ccp`)
or `[param]` in a configuration file of the agent. A value outside its range is refused.

| name | default | range | meaning, unit, source |
|---|---|---|---|
";

#[test]
fn the_page_lists_every_parameter() {
    let mut page = String::from(HEAD);
    for p in anole_algorithms::find("anole").unwrap().parameters {
        writeln!(page, "| `{}` | {} | {} to {} | {} |", p.name, p.default, p.min, p.max, p.doc).unwrap();
    }
    if env::var("UPDATE_GOLDEN").is_ok() {
        fs::write(PAGE, &page).unwrap();
    }
    let found = fs::read_to_string(PAGE).unwrap_or_default();
    assert!(found == page, "{PAGE} is out of date; write it anew with UPDATE_GOLDEN=1");
}
