//! The scenario as the file spells it: every key optional, every value with its place; and `--set`.

use super::error::{FROM_SET, ScenarioError};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// What `--set` may give: its text is not the file's, so that no value in it, however deep, has a place there.
trait FromSet: Sized {
    fn without_places(self) -> Self {
        self
    }
}

impl FromSet for bool {}
impl FromSet for f64 {}
impl FromSet for u32 {}
impl FromSet for u64 {}
impl FromSet for String {}
impl<A, B> FromSet for (A, B) {}

impl<T: FromSet> FromSet for Vec<T> {
    fn without_places(self) -> Vec<T> {
        self.into_iter().map(T::without_places).collect()
    }
}

/// Defines a table whose keys are all optional and known.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident { $($key:ident: $ty:ty,)* }) => {
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        $(#[$doc])*
        pub(super) struct $name { $(pub $key: Option<Spanned<$ty>>,)* }

        impl FromSet for $name {
            fn without_places(self) -> $name {
                $name { $($key: self.$key.map(|value| Spanned::new(FROM_SET, value.into_inner().without_places())),)* }
            }
        }
    };
}

/// Defines a table that `--set` reaches: one can be laid over another. Alternatives are sets of keys of which
/// one at most makes sense: laying one over removes the others of its set.
macro_rules! settable_table {
    ($(#[$doc:meta])* $name:ident { $($key:ident: $ty:ty,)* } alternatives $([$($alternative:ident),*])*) => {
        table! { $(#[$doc])* $name { $($key: $ty,)* } }

        impl $name {
            fn lay_over(&mut self, patch: &$name) {
                $(if false $(|| patch.$alternative.is_some())* {
                    $(self.$alternative = None;)*
                })*
                $(if patch.$key.is_some() {
                    self.$key = patch.$key.clone();
                })*
            }
        }
    };
}

settable_table! {
    /// The keys above the tables.
    RawTop {
        name: String,
        source: String,
        duration_s: f64,
        warmup_s: f64,
        seed: u64,
        mss_bytes: u32,
        agent_delay_us: f64,
        inference_us: f64,
    }
    alternatives
}

settable_table! {
    /// `[[link]]`
    RawLink {
        name: String,
        capacity_mbps: f64,
        trace: String,
        lte: RawLte,
        one_way_delay_ms: f64,
        reverse_delay_ms: f64,
        buffer_bdp: f64,
        buffer_bytes: u64,
        buffer_packets: u64,
        random_loss: f64,
        queue: String,
        aggregation_ms: (f64, f64),
        ack_aggregation_ms: (f64, f64),
        jitter_ms: f64,
        ack_jitter_ms: f64,
        hold_ms: Vec<f64>,
        hold_slot_ms: f64,
        burst_loss: RawBurstLoss,
        reorder: RawReorder,
        ack_capacity_mbps: f64,
        ack_buffer_packets: u64,
        cross: Vec<RawCross>,
    }
    alternatives [capacity_mbps, trace, lte] [buffer_bdp, buffer_bytes, buffer_packets]
}

table! {
    /// `lte = { mean_mbps = 12.0, … }` of a link.
    #[derive(Clone)]
    #[serde(expecting = "a table such as { mean_mbps = 12.0 }")]
    RawLte {
        mean_mbps: f64,
        deviation: f64,
        memory_s: f64,
        outage_every_s: f64,
        outage_s: f64,
        flicker: f64,
        burst: f64,
    }
}

table! {
    /// `burst_loss = { enter = 0.001, … }` of a link.
    #[derive(Clone)]
    #[serde(expecting = "a table such as { enter = 0.001, leave = 0.1 }")]
    RawBurstLoss {
        enter: f64,
        leave: f64,
        loss: f64,
    }
}

table! {
    /// `reorder = { share = 0.01, by_ms = 5.0 }` of a link.
    #[derive(Clone)]
    #[serde(expecting = "a table such as { share = 0.01, by_ms = 5.0 }")]
    RawReorder {
        share: f64,
        by_ms: f64,
    }
}

table! {
    /// `[[link.cross]]`
    #[derive(Clone)]
    RawCross {
        mbps: f64,
        start_s: f64,
        stop_s: f64,
        on_s: f64,
        off_s: f64,
        random: bool,
        packet_bytes: u32,
    }
}

table! {
    /// `[[change]]`
    RawChange {
        at_s: f64,
        every_s: f64,
        link: String,
        capacity_mbps: f64,
        one_way_delay_ms: f64,
        random_loss: f64,
        buffer_bytes: u64,
        jitter_ms: f64,
    }
}

table! {
    /// `[[random_change]]`
    RawRandomChange {
        every_s: f64,
        link: String,
        capacity_mbps: (f64, f64),
        one_way_delay_ms: (f64, f64),
        random_loss: (f64, f64),
    }
}

settable_table! {
    /// `[[flow]]`
    RawFlow {
        alg: String,
        under_test: bool,
        count: u32,
        start_s: f64,
        start_spacing_s: f64,
        stop_s: f64,
        path: Vec<String>,
        extra_delay_ms: f64,
        arrivals_per_s: f64,
        bytes: u64,
        bytes_up_to: u64,
        app_mbps: f64,
        app_until_s: f64,
        app_frame_ms: f64,
        delayed_ack: bool,
        ack_jitter_us: f64,
        ecn: bool,
        classic: String,
        policy: String,
        preference: String,
        preference_at: Vec<(f64, String)>,
    }
    alternatives [start_spacing_s, arrivals_per_s]
}

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawScenario {
    pub name: Option<Spanned<String>>,
    pub source: Option<Spanned<String>>,
    pub duration_s: Option<Spanned<f64>>,
    pub warmup_s: Option<Spanned<f64>>,
    pub seed: Option<Spanned<u64>>,
    pub mss_bytes: Option<Spanned<u32>>,
    pub agent_delay_us: Option<Spanned<f64>>,
    pub inference_us: Option<Spanned<f64>>,
    #[serde(default)]
    pub link: Vec<Spanned<RawLink>>,
    #[serde(default)]
    pub change: Vec<Spanned<RawChange>>,
    #[serde(default)]
    pub random_change: Vec<Spanned<RawRandomChange>>,
    #[serde(default)]
    pub flow: Vec<Spanned<RawFlow>>,
}

/// Applies one `KEY=VALUE`.
pub(super) fn apply(
    raw: &mut RawScenario,
    params: &mut BTreeMap<String, f64>,
    option: &str,
) -> Result<(), ScenarioError> {
    apply_or_say(raw, params, option)
        .map_err(|message| ScenarioError::Set { option: option.to_string(), message })
}

fn apply_or_say(
    raw: &mut RawScenario,
    params: &mut BTreeMap<String, f64>,
    option: &str,
) -> Result<(), String> {
    let (key, value) =
        option.split_once('=').ok_or("expected KEY=VALUE, for example bottleneck.random_loss=0.01")?;
    let (key, value) = (key.trim(), value.trim());
    let Some((table, key)) = key.rsplit_once('.') else {
        let patch: RawTop = patch(key, value)?;
        raw.lay_over(patch);
        return Ok(());
    };
    match table {
        "param" => {
            let number: f64 = value.parse().map_err(|_| format!("\"{value}\" is not a number"))?;
            params.insert(key.to_string(), number);
        }
        "flow" => {
            let patch: RawFlow = patch(key, value)?;
            let mut tested: Vec<_> = raw.flow.iter_mut().map(Spanned::get_mut).collect();
            // A scenario with a single entry leaves no doubt about which flows are meant.
            if tested.len() > 1 {
                tested.retain(|f| f.under_test.as_ref().is_some_and(|t| *t.get_ref()));
            }
            if tested.is_empty() {
                return Err("no [[flow]] has under_test = true".to_string());
            }
            tested.into_iter().for_each(|flow| flow.lay_over(&patch));
        }
        table if table.starts_with("flow.") => {
            let entries = raw.flow.len();
            let entry = table["flow.".len()..].parse::<usize>().ok().and_then(|n| n.checked_sub(1));
            let flow = entry.and_then(|entry| raw.flow.get_mut(entry)).ok_or_else(|| {
                format!("no [[flow]] \"{}\"; they are numbered from 1 to {entries}", &table["flow.".len()..])
            })?;
            let patch: RawFlow = patch(key, value)?;
            flow.get_mut().lay_over(&patch);
        }
        name => {
            let named = |link: &RawLink| link.name.as_ref().is_some_and(|n| n.get_ref() == name);
            let names: Vec<String> = raw
                .link
                .iter()
                .filter_map(|l| l.get_ref().name.as_ref())
                .map(|n| n.get_ref().clone())
                .collect();
            let link = raw.link.iter_mut().map(Spanned::get_mut).find(|l| named(l)).ok_or_else(|| {
                format!("no link \"{name}\"; write LINK.KEY (links: {}), flow.KEY, flow.NUMBER.KEY, param.NAME or a key of the top level",
                    names.join(", "))
            })?;
            let patch: RawLink = patch(key, value)?;
            link.lay_over(&patch);
        }
    }
    Ok(())
}

impl RawScenario {
    fn lay_over(&mut self, patch: RawTop) {
        let taken = |this: &mut RawScenario| RawTop {
            name: this.name.take(),
            source: this.source.take(),
            duration_s: this.duration_s.take(),
            warmup_s: this.warmup_s.take(),
            seed: this.seed.take(),
            mss_bytes: this.mss_bytes.take(),
            agent_delay_us: this.agent_delay_us.take(),
            inference_us: this.inference_us.take(),
        };
        let mut top = taken(self);
        top.lay_over(&patch);
        let RawTop { name, source, duration_s, warmup_s, seed, mss_bytes, agent_delay_us, inference_us } =
            top;
        (self.name, self.source, self.duration_s) = (name, source, duration_s);
        (self.warmup_s, self.seed, self.mss_bytes) = (warmup_s, seed, mss_bytes);
        (self.agent_delay_us, self.inference_us) = (agent_delay_us, inference_us);
    }
}

/// A table with one key. A value that is not TOML by itself is meant as a string, unless it is a number that is too large.
fn patch<T: for<'a> Deserialize<'a> + FromSet>(key: &str, value: &str) -> Result<T, String> {
    let is_value = toml::from_str::<toml::Table>(&format!("x = {value}")).is_ok_and(|t| t.len() == 1);
    let is_digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let is_large = is_digits && value.parse::<i64>().is_err();
    let value = if is_value || is_large { value.to_string() } else { toml::Value::from(value).to_string() };
    let key = toml::Value::from(key).to_string();
    let patch = toml::from_str(&format!("{key} = {value}")).map(T::without_places);
    patch.map_err(|e| e.message().trim().replace('\n', "; "))
}
