//! One colour and one marker for each algorithm, everywhere.
//!
//! Colours stay apart for colour-blind readers (after Okabe and Ito 2008), each lighter on a dark ground. A curve
//! whose label begins with no algorithm's name takes the first colour that is free in its plot, as do the flows of
//! one algorithm (`flow 2: cubic`), which only colours tell apart.

/// On a light and on a dark ground.
pub const COLOURS: [(&str, &str); 10] = [
    ("#0072b2", "#5ab4f0"),
    ("#d55e00", "#ff8f45"),
    ("#009e73", "#2fd0a0"),
    ("#c2649a", "#eba3cd"),
    ("#b07900", "#f0b429"),
    ("#2a95c9", "#94d6ff"),
    ("#6a51a3", "#b9a5e6"),
    ("#8c510a", "#d8a26a"),
    ("#a50026", "#ff8090"),
    ("#5c5c5c", "#b8b8b8"),
];

/// The form of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    Down,
}

const MARKERS: [Marker; 5] =
    [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond, Marker::Down];

/// Name, colour, marker.
const ALGORITHMS: [(&str, usize, Marker); 31] = [
    ("anole", 0, Marker::Circle),
    ("cubic", 1, Marker::Square),
    ("bbr", 2, Marker::Triangle),
    ("reno", 3, Marker::Diamond),
    ("vegas", 4, Marker::Down),
    ("aimd", 5, Marker::Square),
    ("libra-rl", 6, Marker::Circle),
    ("orca", 7, Marker::Square),
    ("orca-released", 7, Marker::Diamond),
    ("spine", 8, Marker::Triangle),
    ("native", 9, Marker::Down),
    ("sage", 5, Marker::Diamond),
    ("aurora", 3, Marker::Circle),
    ("astraea", 4, Marker::Triangle),
    ("indigo", 6, Marker::Diamond),
    ("c-libra", 0, Marker::Diamond),
    ("b-libra", 8, Marker::Circle),
    ("cl-libra", 4, Marker::Square),
    ("libra", 0, Marker::Down),
    ("antelope", 0, Marker::Triangle),
    ("rein", 4, Marker::Circle),
    ("spine-cubic", 8, Marker::Diamond),
    ("vivace", 3, Marker::Square),
    ("allegro", 3, Marker::Triangle),
    ("bbr3", 2, Marker::Circle),
    ("copa", 9, Marker::Circle),
    ("c2tcp", 6, Marker::Square),
    ("westwood", 7, Marker::Circle),
    ("illinois", 5, Marker::Circle),
    ("track", 9, Marker::Square),
    ("hold", 9, Marker::Diamond),
];

/// What stands before the name of a transport's own algorithm.
const TRANSPORTS: [&str; 2] = ["quic:", "linux:"];

/// What a plot is about, if it is in it; otherwise its first curve.
const SUBJECT: &str = "anole";

/// How a curve looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Number in `COLOURS`.
    pub colour: usize,
    /// Its points.
    pub marker: Marker,
    /// Another curve of this plot has the look.
    pub dashed: bool,
    /// Drawn last and strongest.
    pub subject: bool,
}

/// The algorithm that a label begins with: `anole+libra`, `linux:cubic`, `cubic 2`.
fn algorithm(label: &str) -> Option<&'static (&'static str, usize, Marker)> {
    let own = TRANSPORTS.iter().find_map(|transport| label.strip_prefix(transport)).unwrap_or(label);
    let name = own.split([' ', '+', ',', '(']).next().unwrap_or_default().to_lowercase();
    ALGORITHMS.iter().find(|(known, _, _)| *known == name)
}

/// Whether a label begins with the name of an algorithm that has a look of its own.
pub fn has_look(label: &str) -> bool {
    algorithm(label).is_some()
}

/// The styles of a plot's curves.
pub fn styles(labels: &[&str]) -> Vec<Style> {
    let known: Vec<_> = labels.iter().map(|label| algorithm(label)).collect();
    let subject =
        known.iter().position(|known| known.is_some_and(|(name, _, _)| *name == SUBJECT)).unwrap_or(0);
    let mut taken: Vec<usize> = known.iter().flatten().map(|(_, colour, _)| *colour).collect();
    let (mut styles, mut looks) = (Vec::new(), Vec::new());
    for (index, known) in known.into_iter().enumerate() {
        let (colour, marker) = known.map_or_else(
            || {
                let free = (0..COLOURS.len()).find(|colour| !taken.contains(colour));
                let colour = free.unwrap_or(index % COLOURS.len());
                taken.push(colour);
                (colour, MARKERS[index % MARKERS.len()])
            },
            |&(_, colour, marker)| (colour, marker),
        );
        // The second of a look has the next marker, and so on.
        let before = looks.iter().filter(|look| **look == (colour, marker)).count();
        looks.push((colour, marker));
        let place = MARKERS.iter().position(|known| *known == marker).unwrap_or(0);
        let marker = MARKERS[(place + before) % MARKERS.len()];
        styles.push(Style { colour, marker, dashed: before > 0, subject: index == subject });
    }
    styles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithm_looks_the_same_in_every_plot() {
        let of = |labels: &[&str], at: usize| styles(labels)[at];
        let cubic = of(&["cubic", "anole"], 0);
        for other in [
            of(&["bbr", "linux:cubic"], 1),
            of(&["mine", "cubic 1"], 1),
            of(&["flow 1", "CUBIC, 48 Mbps"], 1),
        ] {
            assert_eq!((other.colour, other.marker), (cubic.colour, cubic.marker));
        }
        assert!(of(&["cubic", "anole+libra"], 1).subject && !cubic.subject);
        assert!(of(&["mine", "cubic"], 0).subject);
        let looks: Vec<_> = ALGORITHMS.iter().map(|(_, colour, marker)| (colour, *marker as usize)).collect();
        assert!(has_look("c-libra, 2 x alpha") && !has_look("flow 1"));
        assert!((1..looks.len()).all(|at| !looks[..at].contains(&looks[at])));
    }

    #[test]
    fn other_labels_take_what_is_free_and_doubles_are_told_apart() {
        let all = styles(&["flow 1", "anole", "flow 2", "anole 2"]);
        assert_eq!((all[0].colour, all[2].colour), (1, 2));
        assert!(
            all[3].dashed
                && !all[1].dashed
                && all[3].colour == all[1].colour
                && all[3].marker != all[1].marker
        );
    }
}
