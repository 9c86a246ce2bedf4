//! Names that a user may have meant.

/// The nearest of `known` to `name`, if any is near enough to be a slip of the pen.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .filter(|(similarity, _)| *similarity > NEAR)
        .map(|(_, candidate)| candidate.to_string())
}

/// Jaro-Winkler similarity above which a name is offered; "cubik" is 0.92 from "cubic", "xyz" below 0.5
/// from every name here.
const NEAR: f64 = 0.7;

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_are_corrected_and_nonsense_is_not() {
        let known = ["anole", "cubic", "reno"];
        assert_eq!(nearest("cubik", known).as_deref(), Some("cubic"));
        assert_eq!(nearest("anol", known).as_deref(), Some("anole"));
        assert_eq!(nearest("xyz", known), None);
    }
}
