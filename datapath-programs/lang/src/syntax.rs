//! Reads a fold program into a tree that keeps the position of every part.
//!
//! ```text
//! program     := (def declaration* [(Report declaration+)] declaration*)  event+
//! declaration := ([volatile] name initial)
//! event       := (when condition statement+)
//! ```
//! A `#` starts a comment that runs to the end of the line. portus refuses comments in most places,
//! wants some parentheses without blanks, and reads two words where a name runs on after a number, so
//! it never sees the source itself but the tree written out anew ([`ParsedProgram::text`]).

/// What a comment says to waive a warning on its line, followed by the warning's name and a reason.
pub const WAIVER: &str = "check: allow";

/// A place in the source, both counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column, in characters.
    pub column: u32,
}

/// Why a source is not a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{}: {message}", position.line, position.column)]
pub struct SyntaxError {
    /// Where.
    pub position: Position,
    /// What is wrong and what to write instead.
    pub message: String,
}

/// An atom or a list, with the position of its first character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A name, a number, an operator or `true`, `false`, `+infinity`.
    Atom(Position, String),
    /// What stands between two parentheses.
    List(Position, Vec<Node>),
}

/// One register that a program declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Where.
    pub position: Position,
    /// The name as written, without `Report.`.
    pub name: String,
    /// Set back to its initial value after each report.
    pub volatile: bool,
    /// The initial value as written.
    pub initial: String,
    /// The comment on the same line: meaning and unit.
    pub comment: String,
}

/// A program's declarations and events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedProgram {
    /// The comment lines above the program.
    pub header: String,
    /// Report registers, in wire order.
    pub reports: Vec<Declaration>,
    /// Control registers, in wire order.
    pub controls: Vec<Declaration>,
    /// `(when …)` lists.
    pub events: Vec<Node>,
    /// The program without comments, in the one layout that portus always takes.
    pub text: String,
}

impl Node {
    /// Where the node begins.
    pub fn position(&self) -> Position {
        match self {
            Node::Atom(position, _) | Node::List(position, _) => *position,
        }
    }
    /// The text of an atom.
    pub fn atom(&self) -> Option<&str> {
        match self {
            Node::Atom(_, text) => Some(text),
            Node::List(..) => None,
        }
    }
    /// The parts of a list.
    pub fn list(&self) -> Option<&[Node]> {
        match self {
            Node::Atom(..) => None,
            Node::List(_, parts) => Some(parts),
        }
    }
}

/// Reads a program.
pub fn parse(source: &str) -> Result<ParsedProgram, SyntaxError> {
    let nodes = read_nodes(source)?;
    let text = write_out(&nodes);
    let start = Position { line: 1, column: 1 };
    let mut nodes = nodes.into_iter();
    let def = nodes.next().ok_or_else(|| error(start, "the program is empty; it starts with (def …)"))?;
    let lines: Vec<&str> = source.lines().collect();
    let (reports, controls) = read_definitions(&def, &lines)?;
    let events: Vec<Node> = nodes.collect();
    for event in &events {
        let is_when = event.list().and_then(|parts| parts.first()).and_then(Node::atom) == Some("when");
        if !is_when {
            return Err(error(event.position(), "expected (when condition statement…)"));
        }
    }
    if events.is_empty() {
        return Err(error(def.position(), "a program needs at least one (when …) after (def …)"));
    }
    let header = lines
        .iter()
        .take_while(|line| line.trim_start().starts_with('#') || line.trim().is_empty())
        .map(|line| line.trim_start().trim_start_matches('#').strip_prefix(' ').unwrap_or("").trim_end())
        .collect::<Vec<_>>()
        .join("\n");
    Ok(ParsedProgram { header: header.trim().to_string(), reports, controls, events, text })
}

/// Writes a tree with one space between words, and a line for each list inside a top-level one.
fn write_out(nodes: &[Node]) -> String {
    let mut out = String::new();
    for node in nodes {
        write_node(node, 0, &mut out);
        out.push('\n');
    }
    out
}

fn write_node(node: &Node, depth: usize, out: &mut String) {
    match node {
        Node::Atom(_, word) => out.push_str(word),
        Node::List(_, parts) => {
            out.push('(');
            for (index, part) in parts.iter().enumerate() {
                match part {
                    // The condition of a when stays on its line.
                    Node::List(..)
                        if depth == 0 && index > 0 && !(index == 1 && parts[0].atom() == Some("when")) =>
                    {
                        out.push_str("\n  ");
                    }
                    _ if index > 0 => out.push(' '),
                    _ => {}
                }
                write_node(part, depth + 1, out);
            }
            out.push(')');
        }
    }
}

fn error(position: Position, message: impl Into<String>) -> SyntaxError {
    SyntaxError { position, message: message.into() }
}

/// Nesting that no sensible program reaches; portus recurses and would overflow its stack.
const MAX_DEPTH: usize = 64;

fn read_nodes(source: &str) -> Result<Vec<Node>, SyntaxError> {
    let mut open: Vec<(Position, Vec<Node>)> = Vec::new();
    let mut done = Vec::new();
    let mut atom: Option<(Position, String)> = None;
    let mut position = Position { line: 1, column: 1 };
    let mut in_comment = false;
    for c in source.chars().chain(std::iter::once('\n')) {
        in_comment = (in_comment || c == '#') && c != '\n';
        // Other blanks than these portus does not know; they become part of a word, which is then refused.
        if in_comment || matches!(c, ' ' | '\t' | '\r' | '\n' | '(' | ')') {
            if let Some((at, word)) = atom.take() {
                open.last_mut().map_or(&mut done, |(_, parts)| parts).push(Node::Atom(at, word));
            }
        } else {
            atom.get_or_insert_with(|| (position, String::new())).1.push(c);
        }
        if c == '(' && !in_comment {
            if open.len() == MAX_DEPTH {
                return Err(error(position, format!("more than {MAX_DEPTH} levels of parentheses")));
            }
            open.push((position, Vec::new()));
        } else if c == ')' && !in_comment {
            let (at, parts) = open.pop().ok_or_else(|| error(position, "unmatched ')'"))?;
            open.last_mut().map_or(&mut done, |(_, outer)| outer).push(Node::List(at, parts));
        }
        position = match c {
            '\n' => Position { line: position.line + 1, column: 1 },
            _ => Position { column: position.column + 1, ..position },
        };
    }
    match open.pop() {
        Some((at, _)) => Err(error(at, "'(' is never closed")),
        None => Ok(done),
    }
}

type Definitions = (Vec<Declaration>, Vec<Declaration>);

fn read_definitions(def: &Node, lines: &[&str]) -> Result<Definitions, SyntaxError> {
    let parts = def.list().filter(|parts| parts.first().and_then(Node::atom) == Some("def"));
    let parts = parts.ok_or_else(|| error(def.position(), "a program starts with (def …)"))?;
    let (mut reports, mut controls) = (Vec::new(), Vec::new());
    let mut report_seen = false;
    for part in &parts[1..] {
        match part.list() {
            Some([Node::Atom(_, word), fields @ ..])
                if word == "Report" && fields.iter().all(|f| f.list().is_some()) =>
            {
                if report_seen {
                    return Err(error(part.position(), "a program has one (Report …)"));
                }
                report_seen = true;
                if fields.is_empty() {
                    return Err(error(
                        part.position(),
                        "(Report …) needs at least one ([volatile] name initial-value)",
                    ));
                }
                for field in fields {
                    reports.push(read_declaration(field, lines)?);
                }
            }
            _ => controls.push(read_declaration(part, lines)?),
        }
    }
    Ok((reports, controls))
}

fn read_declaration(node: &Node, lines: &[&str]) -> Result<Declaration, SyntaxError> {
    let position = node.position();
    let parts = node.list().unwrap_or(&[]);
    let words: Vec<&str> = parts.iter().filter_map(Node::atom).collect();
    let (volatile, name, initial) = match words[..] {
        ["volatile", name, initial] if parts.len() == 3 => (true, name, initial),
        [name, initial] if parts.len() == 2 => (false, name, initial),
        _ => return Err(error(position, "expected ([volatile] name initial-value)")),
    };
    let line = lines.get(position.line as usize - 1).unwrap_or(&"");
    let comment = line.split_once('#').map_or("", |(_, comment)| comment);
    let comment = comment.split_once(WAIVER).map_or(comment, |(before, _)| before).trim().to_string();
    Ok(Declaration { position, name: name.to_string(), volatile, initial: initial.to_string(), comment })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PROGRAM: &str = "# what it does\n#\n#   with a formula\n\n(def\n    (k 5) # a unit, us; check: allow unused-register: shown\n    (volatile v true)\n    (Report (volatile r 0) # bytes\n            (s +infinity)))\n(when (> k 1) # why\n    (:= Report.r\n        k)\n    (report))\n";

    fn failure(source: &str) -> (u32, u32) {
        let SyntaxError { position, .. } = parse(source).unwrap_err();
        (position.line, position.column)
    }

    #[test]
    fn declarations_are_read_with_their_comments() {
        let program = parse(PROGRAM).unwrap();
        assert_eq!(program.header, "what it does\n\n  with a formula");
        let read = |d: &Declaration| (d.name.clone(), d.volatile, d.initial.clone(), d.comment.clone());
        let expected = |name: &str, volatile, initial: &str, comment: &str| {
            (name.to_string(), volatile, initial.to_string(), comment.to_string())
        };
        let controls: Vec<_> = program.controls.iter().map(read).collect();
        assert_eq!(controls, [expected("k", false, "5", "a unit, us;"), expected("v", true, "true", "")]);
        let reports: Vec<_> = program.reports.iter().map(read).collect();
        assert_eq!(reports, [expected("r", true, "0", "bytes"), expected("s", false, "+infinity", "")]);
        assert_eq!(program.reports[0].position, Position { line: 8, column: 13 });
        assert_eq!(program.events[0].position(), Position { line: 10, column: 1 });
    }

    #[test]
    fn the_text_is_laid_out_for_portus() {
        let expected = "(def\n  (k 5)\n  (volatile v true)\n  (Report (volatile r 0) (s +infinity)))\n(when (> k 1)\n  (:= Report.r k)\n  (report))\n";
        assert_eq!(parse(PROGRAM).unwrap().text, expected);
        assert_eq!(parse(expected).unwrap().text, expected);
    }

    #[test]
    fn errors_stand_where_the_mistake_is() {
        assert_eq!(failure(""), (1, 1));
        assert_eq!(failure("\n (when true (report))"), (2, 2));
        assert_eq!(failure("(def (x 1)\n(when true (report))"), (1, 1));
        assert_eq!(failure("(def (x 1))\n(when true (report)"), (2, 1));
        assert_eq!(failure("(def (x 1))\n(when true (report)))"), (2, 21));
        assert_eq!(failure("(def\n  (x 1 2)) (when true (report))"), (2, 3));
        assert_eq!(failure("(def (x 1))"), (1, 1));
        assert_eq!(failure("(def (x 1)) # (when true (report))"), (1, 1));
        assert_eq!(failure("(def (Report)) (when true (report))"), (1, 6));
        assert_eq!(failure(&"(".repeat(100)), (1, 65));
    }

    proptest! {
        #[test]
        fn positions_point_at_the_words(words in prop::collection::vec("[a-z]{1,5}|[\u{e4}\u{20ac}]{1,3}", 1..20), gap in "[ \t\n]{1,3}") {
            let source = words.join(&gap);
            let lines: Vec<Vec<char>> = source.lines().map(|line| line.chars().collect()).collect();
            let nodes = read_nodes(&source).unwrap();
            prop_assert_eq!(nodes.len(), words.len());
            for (node, word) in nodes.iter().zip(&words) {
                let Position { line, column } = node.position();
                let there: String = lines[line as usize - 1][column as usize - 1..].iter().take(word.chars().count()).collect();
                prop_assert_eq!(&there, word);
                prop_assert_eq!(node.atom(), Some(word.as_str()));
            }
        }

        #[test]
        fn writing_out_keeps_the_tree(source in "[()a-z0-9 #\n:=+]{0,120}") {
            let Ok(nodes) = read_nodes(&source) else { return Ok(()) };
            let text = write_out(&nodes);
            prop_assert_eq!(write_out(&read_nodes(&text).unwrap()), text);
        }
    }
}
