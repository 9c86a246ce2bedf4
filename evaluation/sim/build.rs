//! Lists the scenarios in `evaluation/scenarios/`, so that they are part of the library.

fn main() {
    let list = anole_embed::entries("../scenarios", "toml", "include_str");
    anole_embed::write("scenarios.rs", &format!("const SHIPPED: &[(&str, &str)] = &[\n{list}];\n"));
}
