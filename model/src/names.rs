//! Names that a user may have meant.

/// Edits (a letter more, less or other, or two letters swapped) that count as slips of the pen.
const MAX_EDITS: usize = 2;
/// Longest name that is compared, bytes: the distance takes quadratic time.
const MAX_BYTES: usize = 64;

/// The name among `known` that is spelled most like `name`, if one is close: at most two edits away
/// (Damerau-Levenshtein distance, upper and lower case alike), and fewer than either has letters. Of several
/// that are equally close, the first in alphabetical order.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    if name.len() > MAX_BYTES {
        return None;
    }
    let name = name.to_lowercase();
    known
        .into_iter()
        .filter(|candidate| candidate.len() <= MAX_BYTES)
        .map(|candidate| (strsim::damerau_levenshtein(&name, &candidate.to_lowercase()), candidate))
        .filter(|&(edits, candidate)| edits <= MAX_EDITS && edits < candidate.len().min(name.len()))
        .min()
        .map(|(_, candidate)| candidate.to_string())
}

/// What an error message says of the nearest name at its end; nothing without one.
pub fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 5] = ["anole", "cubic", "reno", "bbr", "interval_us"];

    #[test]
    fn slips_are_corrected() {
        let slips = [
            ("cubik", "cubic"),
            ("cubick", "cubic"),
            ("anol", "anole"),
            ("rneo", "reno"),
            ("BBR", "bbr"),
            ("intervall_ms", "interval_us"),
        ];
        for (slip, meant) in slips {
            assert_eq!(nearest(slip, KNOWN).as_deref(), Some(meant), "{slip}");
        }
        assert_eq!(nearest("ba", ["bc", "bb"]).as_deref(), Some("bb"));
    }

    #[test]
    fn other_words_are_not() {
        for word in ["", "x", "copa", &"anole".repeat(20)] {
            assert_eq!(nearest(word, KNOWN), None, "{word}");
        }
    }

    #[test]
    fn a_message_ends_with_the_nearest_name_or_without_one() {
        assert_eq!(did_you_mean(Some("reno")), "; did you mean reno?");
        assert_eq!(did_you_mean(None), "");
    }
}
