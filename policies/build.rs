//! Lists the schemas in `schemas/` and the policies in `shipped/`, so that both are part of the library.

fn main() {
    let schemas = anole_embed::entries("schemas", "toml", "include_str");
    let shipped = anole_embed::entries("shipped", "safetensors", "include_bytes");
    let text = format!(
        "const SCHEMAS: &[(&str, &str)] = &[\n{schemas}];\n\
         pub(crate) const SHIPPED: &[(&str, &[u8])] = &[\n{shipped}];\n"
    );
    anole_embed::write("embedded_files.rs", &text);
}
