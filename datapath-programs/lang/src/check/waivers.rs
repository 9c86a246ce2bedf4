//! Comments that waive a warning on their line: `# check: allow underflow: why it cannot happen`.

use crate::finding::{Code, Finding, Severity};
use crate::syntax::{Position, WAIVER};

/// Removes what the source waives; gives back what is wrong with the waivers.
pub(super) fn apply(source: &str, findings: &mut Vec<Finding>) -> Vec<Finding> {
    let mut wrong = Vec::new();
    for (index, line) in source.lines().enumerate() {
        let Some((before, comment)) = line.split_once('#') else { continue };
        let Some((lead, waiver)) = comment.split_once(WAIVER) else { continue };
        let column = before.chars().count() + lead.chars().count() + 2;
        let position = Position { line: index as u32 + 1, column: column as u32 };
        let waiver = waiver.trim_start();
        let end = waiver.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(waiver.len());
        let (name, reason) = waiver.split_at(end);
        let Some(code) = Code::ALL.iter().find(|code| code.name() == name) else {
            let message = format!("there is no finding '{name}' to waive");
            wrong.push(Finding::new(position, Code::UnusedWaiver, message));
            continue;
        };
        if !reason.contains(char::is_alphanumeric) {
            let message = format!("a waiver gives its reason: # {WAIVER} {name}: why it does no harm");
            wrong.push(Finding::new(position, Code::UnusedWaiver, message));
        }
        let before = findings.len();
        findings.retain(|finding| {
            let here = finding.position.line == position.line && finding.code == *code;
            !(here && finding.severity() == Severity::Warning)
        });
        if findings.len() == before {
            let message = match code.severity() {
                Severity::Error => format!("'{name}' is an error and cannot be waived"),
                Severity::Warning => format!("nothing in this line is a '{name}'; remove the waiver"),
            };
            wrong.push(Finding::new(position, Code::UnusedWaiver, message));
        }
    }
    wrong
}
