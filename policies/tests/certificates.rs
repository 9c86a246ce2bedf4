//! The certificates of the shipped policies are those of docs/certificates.md. When a change is meant:
//! `UPDATE_GOLDEN=1 cargo test -p anole-policies --test certificates`, and read the difference.

#![allow(clippy::disallowed_methods, reason = "a test reads and writes files")]

use anole_policies::certificate::{Holds, Property, certify};
use anole_policies::{Policies as _, PolicyFile, Shipped};
use std::{env, fs, thread};

/// Pieces for each property: what the page and the program say.
const PIECES: usize = 1000;
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/certificates.md");
/// The table lies between these lines.
const MARKS: [&str; 2] =
    ["<!-- table: cargo test -p anole-policies --test certificates -->\n", "<!-- end -->\n"];

/// Proven / broken / open in per cent; of noise also the largest step.
fn cell(holds: &Holds) -> String {
    match holds {
        &Holds::Shares { proven, broken, step, .. } => {
            let per_cent = [proven, broken, (1.0 - proven - broken).max(0.0)].map(|share| 100.0 * share);
            let [proven, broken, open] = per_cent;
            let step = if step > 0.0 { format!("; step ≤ {step:.2}") } else { String::new() };
            format!("{proven:.0} / {broken:.0} / {open:.0} %{step}")
        }
        Holds::Registers => "registers".to_string(),
        Holds::Open => "open".to_string(),
    }
}

#[test]
fn the_page_has_the_certificates_of_the_shipped_policies() {
    let mut table = String::from("| policy |");
    table += &Property::ALL.map(|property| format!(" {} |", property.text())).concat();
    table += "\n|---|---|---|---|\n";
    let row = |name: String| {
        let bytes = Shipped::bytes(&name).unwrap();
        let cells = match certify(&PolicyFile::read(bytes, &name).unwrap(), PIECES) {
            Ok(certificate) => certificate.holds.iter().map(|(_, holds)| cell(holds)).collect(),
            Err(_) => vec!["no bounds".to_string(); Property::ALL.len()],
        };
        format!("| `{name}` | {} |\n", cells.join(" | "))
    };
    let rows: Vec<_> = Shipped.names().into_iter().map(|name| thread::spawn(move || row(name))).collect();
    rows.into_iter().for_each(|row| table += &row.join().unwrap());
    let page = fs::read_to_string(PAGE).unwrap();
    let parts = page.split_once(MARKS[0]).and_then(|(head, rest)| Some((head, rest.split_once(MARKS[1])?)));
    let (head, (recorded, rest)) = parts.expect("docs/certificates.md has lost the marks about its table");
    if env::var("UPDATE_GOLDEN").is_ok() {
        fs::write(PAGE, [head, MARKS[0], &table, MARKS[1], rest].concat()).unwrap();
        return;
    }
    assert_eq!(recorded, table, "docs/certificates.md; see the comment at the head of this test");
}
