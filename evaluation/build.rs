//! Lists the experiments in `experiments/`, so that they are part of the program.

fn main() {
    let list = anole_embed::entries("experiments", "toml", "include_str");
    anole_embed::write("experiments.rs", &format!("const SHIPPED: &[(&str, &str)] = &[\n{list}];\n"));
}
