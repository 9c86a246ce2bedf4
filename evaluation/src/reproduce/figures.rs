//! Figures of an experiment: read off its runs as its file says.

use super::file::{Names, Raw, RawFigure, RawReference, RawTarget, Statistic, fill, plain};
use super::measure::Measure;
use super::outcome::{Figure, Results, Target, mean};
use toml::Value;

/// Every figure of an experiment whose subject has this label.
pub fn figures(raw: &Raw, subject: &str, results: &Results) -> Result<Vec<Figure>, String> {
    let mut figures = Vec::new();
    for figure in &raw.figures {
        let at = |error: String| format!("figure \"{}\": {error}", figure.what);
        for mut names in raw.combinations(&figure.over, subject).map_err(at)? {
            if figure.contender != "each" {
                let contender = fill(&figure.contender, &names).map_err(at)?;
                figures.extend(one(figure, names, &contender, results).map_err(at)?);
                continue;
            }
            for contender in results.contenders() {
                names.insert("contender".to_string(), contender.to_string());
                let its = one(figure, names.clone(), contender, results).map_err(at)?;
                // It need not run there.
                figures.extend(its.filter(|its| !its.cells.is_empty()));
            }
        }
    }
    Ok(figures)
}

/// The setting's name; the only one if there is one.
fn setting(given: Option<&String>, names: &Names, results: &Results) -> Result<String, String> {
    match (given, &results.settings()[..]) {
        (Some(setting), all) => {
            let name = fill(setting, names)?;
            match all.contains(&name.as_str()) {
                true => Ok(name),
                false => Err(format!("no setting \"{name}\"; there are {}", all.join(", "))),
            }
        }
        (None, [only]) => Ok(only.to_string()),
        (None, _) => Err("say in which setting".to_string()),
    }
}

fn one(
    figure: &RawFigure,
    names: Names,
    contender: &str,
    results: &Results,
) -> Result<Option<Figure>, String> {
    let places: Vec<String> = match &figure.settings[..] {
        [] => vec![setting(figure.setting.as_ref(), &names, results)?],
        several => {
            let place = |name: &String| setting(Some(name), &names, results);
            several.iter().map(place).collect::<Result<_, _>>()?
        }
    };
    for condition in &figure.only_if {
        let who = fill(&condition.contender, &names)?;
        runs_there(&who, &places, results)?;
        let seen = mean(&each(&places, &who, &condition.measure, results));
        if !holds(target(&condition.bound, &names)?, seen) {
            return Ok(None);
        }
    }
    let values = |who: &str| values(figure, &names, &places, who, results);
    let mut what = fill(&figure.what, &names)?;
    let mut values_of = values(contender)?;
    let mut whose = contender.to_string();
    let of_each = (figure.contender == "each").then(|| contender.to_string());
    if !figure.lowest_of.is_empty() {
        let all = figure.lowest_of.iter().map(|who| {
            let who = fill(who, &names)?;
            Ok((values(&who)?, who))
        });
        let Some((lowest, who)) = lowest(all.collect::<Result<Vec<_>, String>>()?) else {
            return Ok(None);
        };
        values_of = lowest;
        what += &format!(": {who}");
        whose = who;
    }
    if let Some(statistic) = figure.statistic {
        values_of = vec![statistic.of(values_of)];
    }
    let values = values_of.into_iter().map(|value| value * figure.scale).collect();
    let mut cells = numbers(&places, std::slice::from_ref(&whose), results);
    // Read off nothing, a figure has no reference either.
    if let Some(per) = figure.per.as_ref().filter(|_| !cells.is_empty()) {
        let (there, theirs) = references(per, &names, &places, &whose, results)?;
        cells.extend(
            numbers(&there, &theirs, results)
                .into_iter()
                .filter(|cell| !cells.contains(cell))
                .collect::<Vec<_>>(),
        );
    }
    let paper = fill(&figure.paper, &names)?;
    let target = target(&figure.target, &names)?;
    let runs = cells.iter().flat_map(|&cell| &results.0[cell].runs);
    let disturbed = runs.filter(|run| run.disturbed.is_some()).count();
    let unit = figure.unit.clone();
    Ok(Some(Figure { what, contender: of_each, paper, values, unit, target, cells, disturbed }))
}

/// A measure of each run in some settings.
fn each(places: &[String], who: &str, measure: &Measure, results: &Results) -> Vec<f64> {
    places.iter().flat_map(|place| results.each(place, who, |run| measure.of(run))).collect()
}

/// The measure of each run, as a share of the reference's if there is one.
fn values(
    figure: &RawFigure,
    names: &Names,
    places: &[String],
    who: &str,
    results: &Results,
) -> Result<Vec<f64>, String> {
    let measure = &figure.measure;
    let ours = each(places, who, measure, results);
    let Some(per) = &figure.per else { return Ok(ours) };
    let (there, contenders) = references(per, names, places, who, results)?;
    let theirs = contenders.iter().map(|contender| each(&there, contender, measure, results));
    let better = highest(theirs);
    let whole = mean(&better);
    let share = |(n, ours): (usize, &f64)| {
        let reference = if per.paired { better.get(n).copied().unwrap_or(f64::NAN) } else { whole };
        let share = if per.difference { 1.0 + (ours - reference) / whole.abs() } else { ours / reference };
        if per.regret { 1.0 - share } else { share }
    };
    Ok(ours.iter().enumerate().map(share).collect())
}

/// The values with the lowest mean, and whose they are. One that ran and measured nothing goes before all others: the
/// figure is missed then. Those that did not run are left out, unless none did.
fn lowest(all: Vec<(Vec<f64>, String)>) -> Option<(Vec<f64>, String)> {
    let rank = |values: &[f64]| {
        let mean = mean(values);
        (values.is_empty(), if mean.is_nan() { f64::NEG_INFINITY } else { mean })
    };
    all.into_iter().min_by(|(a, _), (b, _)| {
        let (a, b) = (rank(a), rank(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    })
}

/// The values with the highest mean; nothing where none of them has one.
fn highest(all: impl Iterator<Item = Vec<f64>>) -> Vec<f64> {
    let measured = all.filter(|values| !mean(values).is_nan());
    measured.max_by(|a, b| mean(a).total_cmp(&mean(b))).unwrap_or_default()
}

/// The settings and contenders of which the best one is the reference.
fn references(
    per: &RawReference,
    names: &Names,
    places: &[String],
    who: &str,
    results: &Results,
) -> Result<(Vec<String>, Vec<String>), String> {
    let there = match &per.setting {
        Some(_) => vec![setting(per.setting.as_ref(), names, results)?],
        None => places.to_vec(),
    };
    let filled = per.contenders.iter().map(|contender| fill(contender, names));
    let mut contenders: Vec<String> = filled.collect::<Result<_, _>>()?;
    // Empty: there is no such candidate.
    contenders.retain(|contender| !contender.is_empty());
    contenders.iter().try_for_each(|contender| runs_there(contender, &there, results))?;
    if per.all {
        contenders = results.contenders().into_iter().map(str::to_string).collect();
    } else if per.contenders.is_empty() {
        contenders.push(who.to_string());
    }
    Ok((there, contenders))
}

/// Refuses a contender that has no cell in these settings.
fn runs_there(who: &str, places: &[String], results: &Results) -> Result<(), String> {
    match places.iter().any(|place| results.number(place, who).is_some()) {
        true => Ok(()),
        false => Err(format!(
            "no contender \"{who}\" in {}; there are {}",
            places.join(", "),
            results.contenders().join(", ")
        )),
    }
}

/// The numbers of some contenders' cells in some settings.
fn numbers(places: &[String], contenders: &[String], results: &Results) -> Vec<usize> {
    let of_place = |place: &String| {
        let numbers = contenders.iter().filter_map(move |who| results.number(place, who));
        numbers.collect::<Vec<_>>()
    };
    places.iter().flat_map(of_place).collect()
}

impl Statistic {
    fn of(self, mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        let whole = mean(&values);
        match self {
            _ if whole.is_nan() => f64::NAN,
            // One run has neither; 0 would meet any target.
            Statistic::Range | Statistic::Deviation if values.len() < 2 => f64::NAN,
            Statistic::P10 => values.get(values.len() / 10).copied().unwrap_or(f64::NAN),
            Statistic::Range => match (values.first(), values.last()) {
                (Some(low), Some(high)) => high - low,
                _ => f64::NAN,
            },
            Statistic::Deviation => {
                let squares: f64 = values.iter().map(|x| (x - whole) * (x - whole)).sum();
                (squares / (values.len() - 1) as f64).sqrt()
            }
        }
    }
}

/// A target with its columns put in.
pub fn target(raw: &RawTarget, names: &Names) -> Result<Target, String> {
    let low = raw.at_least.as_ref().map(|value| number(value, names)).transpose()?.flatten();
    let high = raw.at_most.as_ref().map(|value| number(value, names)).transpose()?.flatten();
    Ok(match (low, high) {
        (Some(low), Some(high)) => Target::Within(low, high),
        (Some(low), None) => Target::AtLeast(low),
        (None, Some(high)) => Target::AtMost(high),
        (None, None) => Target::None,
    })
}

/// A number, or text that is one once its columns are put in; empty text is none.
pub fn number(value: &Value, names: &Names) -> Result<Option<f64>, String> {
    let text = fill(&plain(value), names)?;
    match text.trim() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| format!("\"{text}\" is not a number")),
    }
}

fn holds(target: Target, value: f64) -> bool {
    match target {
        Target::None => true,
        Target::AtLeast(low) => value >= low,
        Target::AtMost(high) => value <= high,
        Target::Within(low, high) => (low..=high).contains(&value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_measured_nothing_is_no_reference_and_not_passed_over_as_the_lowest() {
        let all = [vec![2.0, 4.0], vec![5.0, f64::NAN], vec![1.0, 1.0], Vec::new()];
        assert_eq!(highest(all.clone().into_iter()), [2.0, 4.0]);
        assert!(highest([vec![f64::NAN], Vec::new()].into_iter()).is_empty());
        let named = |numbers: &[usize]| {
            let named = numbers.iter().map(|&n| (all[n].clone(), n.to_string()));
            lowest(named.collect()).map(|(_, who)| who)
        };
        assert_eq!(named(&[0, 1, 2, 3]).as_deref(), Some("1"));
        assert_eq!(named(&[0, 2, 3]).as_deref(), Some("2"));
        assert_eq!((named(&[3]).as_deref(), named(&[])), (Some("3"), None));
    }

    #[test]
    fn one_value_has_no_spread() {
        for statistic in [Statistic::Range, Statistic::Deviation] {
            assert!(statistic.of(vec![0.9]).is_nan() && statistic.of(Vec::new()).is_nan(), "{statistic:?}");
        }
        assert_eq!(Statistic::Range.of(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(Statistic::Deviation.of(vec![1.0, 3.0]), 2f64.sqrt());
        assert_eq!(Statistic::P10.of(vec![0.9]), 0.9);
    }

    #[test]
    fn a_run_that_measured_nothing_leaves_no_statistic() {
        for statistic in [Statistic::P10, Statistic::Range, Statistic::Deviation] {
            assert!(statistic.of(vec![0.9, f64::NAN, 0.8]).is_nan(), "{statistic:?}");
        }
    }
}
