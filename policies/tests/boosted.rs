//! Antelope's shipped models predict what XGBoost does (`training/antelope.py vectors` writes the expectations).

use anole_policies::{Boosters, Policies as _, Shipped};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Vectors {
    rows: Vec<Vec<Option<f32>>>,
    predicted: BTreeMap<String, Vec<f32>>,
}

#[test]
fn shipped_boosters_predict_what_xgboost_predicts() {
    let vectors: Vectors = serde_json::from_str(include_str!("antelope-xgboost.json")).unwrap();
    let boosters = Shipped.boosters(None, 7).unwrap();
    let names: Vec<&str> = boosters.names().collect();
    assert_eq!(names, ["bbr", "c2tcp", "cubic", "illinois", "vegas", "westwood"]);
    assert!(names.iter().copied().eq(vectors.predicted.keys().map(String::as_str)));
    for (name, expected) in &vectors.predicted {
        let booster = boosters.get(name).unwrap();
        assert!(expected.iter().any(|value| (value - expected[0]).abs() > 0.05), "{name}: all alike");
        for (row, expected) in vectors.rows.iter().zip(expected) {
            let row: Vec<f32> = row.iter().map(|value| value.unwrap_or(f32::NAN)).collect();
            let predicted = booster.predict(&row);
            assert!((predicted - expected).abs() < 1e-5, "{name}, {row:?}: {predicted}, XGBoost {expected}");
        }
    }
}

#[test]
fn another_width_is_refused() {
    let text = include_str!("../shipped/antelope.json");
    let refused = Boosters::parse(text, 6).unwrap_err().to_string();
    assert!(refused.contains('7') && refused.contains('6'), "{refused}");
}

#[test]
fn a_policy_s_name_names_no_models() {
    let refused = Shipped.boosters(Some("libra"), 7).unwrap_err().to_string();
    assert!(
        refused.starts_with("\"libra\" names no models of antelope; give a file, FILE.json"),
        "{refused}"
    );
}
