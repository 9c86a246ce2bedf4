//! Gradient-boosted regression trees, as XGBoost saves them in JSON.
//!
//! A booster maps a row of numbers to one number: the sum of a base value and of one leaf of each tree. At a node a
//! value below the condition goes left, a missing one (not a number) where the node says. A file holds one booster for
//! each name: `{"boosters": {"bbr": <what XGBoost saves>, …}}`; what XGBoost saves besides trees is passed over.

use serde::Deserialize;
use std::collections::BTreeMap;

/// No more trees in a booster, and nodes in a tree: a file from outside is refused before it takes time or memory.
const MAX_TREES: usize = 4096;
const MAX_NODES: usize = 1 << 16;

/// Why boosters are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoostedError {
    /// It is no JSON, or other JSON.
    #[error("no file of boosters: {0}; training/antelope.py writes one")]
    Json(String),
    /// A booster that cannot be evaluated.
    #[error("booster \"{name}\": {what}")]
    Booster {
        /// Its name.
        name: String,
        /// What is wrong.
        what: String,
    },
}

/// Boosters by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Boosters(BTreeMap<String, Booster>);

impl Boosters {
    /// Reads a file; every booster has to take `width` values.
    pub fn parse(text: &str, width: usize) -> Result<Boosters, BoostedError> {
        let file: RawFile =
            serde_json::from_str(text).map_err(|error| BoostedError::Json(error.to_string()))?;
        let read = |(name, raw): (String, RawModel)| match Booster::of(raw, width) {
            Ok(booster) => Ok((name, booster)),
            Err(what) => Err(BoostedError::Booster { name, what }),
        };
        file.boosters.into_iter().map(read).collect::<Result<_, _>>().map(Boosters)
    }

    /// The booster with this name.
    pub fn get(&self, name: &str) -> Option<&Booster> {
        self.0.get(name)
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Trees whose leaves are summed.
#[derive(Clone, Debug, PartialEq)]
pub struct Booster {
    base: f32,
    trees: Vec<Vec<Node>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Node {
    Leaf(f32),
    Split { feature: usize, below: f32, left: usize, right: usize, missing_left: bool },
}

impl Booster {
    /// The prediction for a row; a feature beyond its end is missing.
    pub fn predict(&self, row: &[f32]) -> f32 {
        self.trees.iter().fold(self.base, |sum, tree| sum + leaf(tree, row))
    }

    fn of(raw: RawModel, width: usize) -> Result<Booster, String> {
        let learner = raw.learner;
        if learner.gradient_booster.name != "gbtree" {
            return Err(format!("it is a \"{}\"; only gbtree is read", learner.gradient_booster.name));
        }
        let features: usize = number(&learner.learner_model_param.num_feature, "num_feature")?;
        if features != width {
            return Err(format!("it takes {features} features, not {width}"));
        }
        let base: f32 = number(&learner.learner_model_param.base_score, "base_score")?;
        let trees = learner.gradient_booster.model.trees;
        if trees.len() > MAX_TREES || !base.is_finite() {
            return Err(format!(
                "it has {} trees (at most {MAX_TREES}) and the base value {base}",
                trees.len()
            ));
        }
        let trees = trees.into_iter().enumerate();
        let trees = trees.map(|(n, tree)| nodes(tree, width).map_err(|what| format!("tree {n}: {what}")));
        Ok(Booster { base, trees: trees.collect::<Result<_, _>>()? })
    }
}

/// The leaf that a row comes to. Children stand behind their parents, so that this ends.
fn leaf(tree: &[Node], row: &[f32]) -> f32 {
    let mut at = 0;
    loop {
        match tree[at] {
            Node::Leaf(value) => return value,
            Node::Split { feature, below, left, right, missing_left } => {
                let value = row.get(feature).copied().unwrap_or(f32::NAN);
                let goes_left = if value.is_nan() { missing_left } else { value < below };
                at = if goes_left { left } else { right };
            }
        }
    }
}

/// Checked, so that walking through them can neither leave the tree nor go on for ever.
fn nodes(raw: RawTree, width: usize) -> Result<Vec<Node>, String> {
    let count = raw.left_children.len();
    let lengths = [raw.right_children.len(), raw.split_indices.len(), raw.split_conditions.len()];
    if count == 0 || count > MAX_NODES || lengths != [count; 3] || raw.default_left.len() != count {
        return Err(format!("its lists do not have the same length between 1 and {MAX_NODES}"));
    }
    if raw.split_type.iter().any(|&kind| kind != 0) {
        return Err("it has categorical splits, which are not read".to_string());
    }
    let node = |n: usize| {
        let value = raw.split_conditions[n];
        if !value.is_finite() {
            return Err(format!("node {n} has the value {value}"));
        }
        let child = |child: i32| usize::try_from(child).ok().filter(|child| (n + 1..count).contains(child));
        match (raw.left_children[n], raw.right_children[n]) {
            (-1, -1) => Ok(Node::Leaf(value)),
            (left, right) => match (child(left), child(right)) {
                (Some(left), Some(right)) if raw.split_indices[n] < width => Ok(Node::Split {
                    feature: raw.split_indices[n],
                    below: value,
                    left,
                    right,
                    missing_left: raw.default_left[n] != 0,
                }),
                _ => Err(format!("node {n} has no such children or feature")),
            },
        }
    };
    (0..count).map(node).collect()
}

/// XGBoost writes numbers as text, since version 3 one in brackets.
fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    bare.parse().map_err(|_| format!("{what} is \"{text}\""))
}

#[derive(Deserialize)]
struct RawFile {
    boosters: BTreeMap<String, RawModel>,
}

#[derive(Deserialize)]
struct RawModel {
    learner: RawLearner,
}

#[derive(Deserialize)]
struct RawLearner {
    gradient_booster: RawBooster,
    learner_model_param: RawParameters,
}

#[derive(Deserialize)]
struct RawBooster {
    name: String,
    model: RawTrees,
}

#[derive(Deserialize)]
struct RawParameters {
    base_score: String,
    num_feature: String,
}

#[derive(Deserialize)]
struct RawTrees {
    trees: Vec<RawTree>,
}

#[derive(Deserialize)]
struct RawTree {
    left_children: Vec<i32>,
    right_children: Vec<i32>,
    split_indices: Vec<usize>,
    split_conditions: Vec<f32>,
    default_left: Vec<u8>,
    #[serde(default)]
    split_type: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two trees over two features: 1 + (x0 < 2 ? 10 : x1 < 0.5 ? 20 : 30) + 100.
    fn file(change: impl Fn(String) -> String) -> String {
        change(
            r#"{"boosters": {"bbr": {"version": [3, 0, 0], "learner": {
                "learner_model_param": {"base_score": "[1E0]", "num_feature": "2", "num_class": "0"},
                "gradient_booster": {"name": "gbtree", "model": {"trees": [
                    {"left_children": [1, -1, 3, -1, -1], "right_children": [2, -1, 4, -1, -1],
                     "split_indices": [0, 0, 1, 0, 0], "split_conditions": [2.0, 10.0, 0.5, 20.0, 30.0],
                     "default_left": [1, 0, 0, 0, 0], "split_type": [0, 0, 0, 0, 0]},
                    {"left_children": [-1], "right_children": [-1], "split_indices": [0],
                     "split_conditions": [100.0], "default_left": [0]}]}}}}}}"#
                .to_string(),
        )
    }

    #[test]
    fn a_row_comes_to_one_leaf_of_each_tree() {
        let boosters = Boosters::parse(&file(|text| text), 2).unwrap();
        assert_eq!(boosters.names().collect::<Vec<_>>(), ["bbr"]);
        let booster = boosters.get("bbr").unwrap();
        assert_eq!(booster.predict(&[1.9, 0.0]), 111.0);
        assert_eq!(booster.predict(&[2.0, 0.4]), 121.0);
        assert_eq!(booster.predict(&[2.0, 0.5]), 131.0);
        // Missing: left at the first node, right at the other.
        assert_eq!(booster.predict(&[f32::NAN, 0.0]), 111.0);
        assert_eq!(booster.predict(&[3.0]), 131.0);
    }

    #[test]
    fn what_cannot_be_walked_through_is_refused_with_its_place() {
        let refused = |from: &str, to: &str| {
            Boosters::parse(&file(|text| text.replace(from, to)), 2).unwrap_err().to_string()
        };
        assert_eq!(
            refused("[1, -1, 3,", "[0, -1, 3,"),
            "booster \"bbr\": tree 0: node 0 has no such children or feature"
        );
        assert_eq!(
            refused("[2, -1, 4,", "[2, -1, 9,"),
            "booster \"bbr\": tree 0: node 2 has no such children or feature"
        );
        assert!(
            refused("[0, 0, 1,", "[0, 0, 2,").ends_with("tree 0: node 2 has no such children or feature")
        );
        assert!(refused("[0, 0, 0, 0, 0]}", "[0, 0, 1, 0, 0]}").contains("categorical"));
        assert!(refused("[2.0, 10.0,", "[2.0,").contains("its lists do not have the same length"));
        assert!(refused("gbtree", "dart").contains("only gbtree is read"));
        assert!(
            refused("\"num_feature\": \"2\"", "\"num_feature\": \"3\"")
                .contains("it takes 3 features, not 2")
        );
        assert!(refused("[1E0]", "x").contains("base_score is \"x\""));
        assert!(Boosters::parse("[]", 2).unwrap_err().to_string().starts_with("no file of boosters: "));
    }

    proptest! {
        #[test]
        fn any_tree_is_refused_or_walked_through(
            left in prop::collection::vec(-2..6i32, 1..6),
            right in prop::collection::vec(-2..6i32, 1..6),
            row in prop::collection::vec(-1.0..1.0f32, 0..3),
        ) {
            let count = left.len().min(right.len());
            let raw = RawTree {
                left_children: left[..count].to_vec(),
                right_children: right[..count].to_vec(),
                split_indices: vec![0; count],
                split_conditions: vec![0.5; count],
                default_left: vec![0; count],
                split_type: Vec::new(),
            };
            if let Ok(tree) = nodes(raw, 1) {
                prop_assert_eq!(leaf(&tree, &row), 0.5);
            }
        }
    }
}
