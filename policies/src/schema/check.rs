//! What a schema must be beyond well-formed TOML.

use super::{Action, AlgorithmTable, Architecture, Head, Layer, ParameterRange, Schema, Signal};
use crate::file::MAX_DATA;
use anole_model::names::{did_you_mean, nearest};
use anole_programs::Program;

/// Largest width of a layer.
const MAX_UNITS: usize = 8192;
/// Most layers of a network.
const MAX_LAYERS: usize = 32;
/// Most products of a convolution for one answer: as many as a file has weights, of which a dense layer takes each once.
const MAX_PRODUCTS: usize = MAX_DATA / size_of::<f32>();
/// Longest history, sets of features.
const MAX_HISTORY: usize = 64;
/// Longest window of a statistic, intervals: Sage's is 1000.
const MAX_WINDOW: usize = 2000;
/// Largest input of a network.
const MAX_CLIP: f64 = 1e9;
/// Longest time between decisions, ms.
const MAX_INTERVAL_MS: f64 = 10_000.0;
/// Round-trip times that a flow remembers are five to ten seconds old: probes further apart find them forgotten.
const PROBE_S: [f64; 2] = [1.0, 10.0];

/// A rule that is broken, and the key that breaks it.
pub(super) struct Broken {
    /// Header of the table, as written.
    table: &'static str,
    /// Which of the tables with this header, from 0.
    nth: usize,
    key: String,
    pub(super) message: String,
}

impl Broken {
    /// The line of the key, or of its table, from 1.
    pub(super) fn line(&self, text: &str) -> usize {
        let lines = || text.lines().map(str::trim).enumerate();
        let start = match self.table {
            "" => 0,
            header => match lines().filter(|(_, line)| before_comment(line) == header).nth(self.nth) {
                Some((at, _)) => at + 1,
                None => return 1,
            },
        };
        let mut table = lines().skip(start).take_while(|(_, line)| !line.starts_with('['));
        let key = table.find(|(_, line)| line.split('=').next().is_some_and(|k| k.trim() == self.key));
        key.map_or(start.max(1), |(at, _)| at + 1)
    }
}

/// A table's header; none has `#` in its name.
fn before_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim_end()
}

/// The place where a rule may be broken.
type Place<'a> = (&'static str, usize, &'a str);

fn require(met: bool, (table, nth, key): Place, message: impl FnOnce() -> String) -> Result<(), Broken> {
    if met { Ok(()) } else { Err(Broken { table, nth, key: key.to_string(), message: message() }) }
}

/// The first rule that the schema breaks.
pub(super) fn check(schema: &Schema) -> Result<(), Broken> {
    let named = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    require(!schema.name.is_empty() && schema.name.chars().all(named), ("", 0, "name"), || {
        format!("name \"{}\" is to be of lower-case letters, digits and hyphens", schema.name)
    })?;
    require((1..=MAX_HISTORY).contains(&schema.history), ("", 0, "history"), || {
        format!("history {} is outside 1..={MAX_HISTORY}", schema.history)
    })?;
    let interval = schema.interval;
    require(interval.ms > 0.0 && interval.ms <= MAX_INTERVAL_MS, ("[interval]", 0, "ms"), || {
        format!("ms = {} is outside ]0, {MAX_INTERVAL_MS}]", interval.ms)
    })?;
    require((0.0..=100.0).contains(&interval.rtts), ("[interval]", 0, "rtts"), || {
        format!("rtts = {} is outside [0, 100]", interval.rtts)
    })?;
    action(&schema.action)?;
    algorithm(&schema.algorithm, &schema.action)?;
    features(schema)?;
    network(schema)
}

fn action(action: &Action) -> Result<(), Broken> {
    let bounds = |factor: f64, key, low: f64, high: f64| {
        require(factor > 0.0 && factor.is_finite(), ("[action]", 0, key), || {
            format!("{key} = {factor} is to be above 0")
        })?;
        require(low < high && low.is_finite() && high.is_finite(), ("[action]", 0, "low"), || {
            format!("low = {low} is to be below high = {high}")
        })
    };
    match action {
        &Action::RateExp { base, low, high }
        | &Action::CwndExp { base, low, high }
        | &Action::CubicCwndExp { base, low, high } => bounds(base, "base", low, high),
        &Action::RateStep { step, low, high } | &Action::CwndStep { step, low, high, .. } => {
            bounds(step, "step", low, high)
        }
        Action::CwndTable { table } => {
            let place = ("[action]", 0, "table");
            require(!table.is_empty(), place, || "the table is empty".to_string())?;
            let odd = table.iter().find(|entry| {
                !(entry.factor.is_finite() && entry.factor >= 0.0 && entry.packets.is_finite())
            });
            require(odd.is_none(), place, || {
                "a factor is to be 0 or more, and both numbers finite".to_string()
            })
        }
        Action::Parameters { program, parameter } => parameters(program, parameter),
    }
}

/// The nearest of the names that there are, or all of them.
fn instead(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(near) => did_you_mean(Some(&near)),
        None => format!("; there are {}", known.join(", ")),
    }
}

/// The registers are those of a program that policies can ask for reports.
fn parameters(program: &str, parameter: &[ParameterRange]) -> Result<(), Broken> {
    let known: Vec<&str> = anole_programs::ALL.iter().map(|program| program.name).collect();
    let place = ("[action]", 0, "program");
    let found = anole_programs::find(program);
    require(found.is_some(), place, || {
        format!("no fold program is named \"{program}\"{}", instead(program, &known))
    })?;
    let Some(program) = found else { return Ok(()) };
    require(program.control(INTERVAL).is_some(), place, || {
        format!("{} has no register {INTERVAL}, so no policy can say when it reports", program.name)
    })?;
    require(!parameter.is_empty(), ("[action]", 0, "parameter"), || "no parameter".to_string())?;
    for (n, range) in parameter.iter().enumerate() {
        register(program, range, n)?;
        let twice = parameter[..n].iter().any(|before| before.name == range.name);
        require(!twice, ("[[action.parameter]]", n, "name"), || format!("{} is set twice", range.name))?;
    }
    Ok(())
}

/// The registers that an agent sets for every policy.
const INTERVAL: &str = "interval_us";
const MSS: &str = "mss";

fn register(program: &Program, range: &ParameterRange, n: usize) -> Result<(), Broken> {
    let place = |key| ("[[action.parameter]]", n, key);
    let ParameterRange { name, low, high, scale } = range;
    let settable = |name: &&str| ![INTERVAL, MSS].contains(name);
    let known: Vec<&str> = program.controls.iter().map(|register| register.name).filter(settable).collect();
    require(known.contains(&name.as_str()), place("name"), || {
        format!("{} has no register \"{name}\" for a policy{}", program.name, instead(name, &known))
    })?;
    require(low.is_finite() && high.is_finite() && low < high, place("low"), || {
        format!("{name}: low = {low} is to be below high = {high}")
    })?;
    let fits = *scale > 0.0 && *low >= 0.0 && high * scale <= f64::from(u32::MAX);
    require(fits, place(if *low < 0.0 { "low" } else { "scale" }), || {
        format!("{name}: {low} to {high} times scale = {scale} is no range of a register of 32 bits")
    })
}

/// What the table says is about registers that the action sets, within their ranges.
fn algorithm(table: &AlgorithmTable, action: &Action) -> Result<(), Broken> {
    let none = Vec::new();
    let ranges = match action {
        Action::Parameters { parameter, .. } => parameter,
        _ => &none,
    };
    let known: Vec<&str> = ranges.iter().map(|range| range.name.as_str()).collect();
    let check = |place: Place, name: &str, values: &[f64]| {
        let range = ranges.iter().find(|range| range.name == name);
        require(range.is_some(), place, || {
            format!("\"{name}\" is no register that the action sets{}", instead(name, &known))
        })?;
        let within =
            |range: &ParameterRange| values.iter().all(|value| (range.low..=range.high).contains(value));
        require(range.is_some_and(within), place, || {
            format!("{name}: {values:?} is outside the action's range")
        })
    };
    if let Some(after) = table.probe_rtt_s {
        let place = ("[algorithm]", 0, "probe_rtt_s");
        let is_window =
            matches!(action, Action::CwndExp { .. } | Action::CwndStep { .. } | Action::CwndTable { .. });
        require(is_window, place, || "probe_rtt_s halves a window, and this action sets none".to_string())?;
        require((PROBE_S[0]..=PROBE_S[1]).contains(&after), place, || {
            format!("probe_rtt_s = {after} is outside {PROBE_S:?}")
        })?;
    }
    for (name, value) in &table.startup {
        check(("[algorithm.startup]", 0, name), name, &[*value])?;
    }
    for (n, own) in table.parameters.iter().enumerate() {
        check(("[[algorithm.parameter]]", n, "register"), &own.register, &[own.low, own.default, own.high])?;
        let sorted = own.low <= own.default && own.default <= own.high;
        require(sorted, ("[[algorithm.parameter]]", n, "default"), || {
            format!("{}: default = {} is outside [{}, {}]", own.name, own.default, own.low, own.high)
        })?;
    }
    Ok(())
}

fn features(schema: &Schema) -> Result<(), Broken> {
    require(!schema.features.is_empty(), ("", 0, "feature"), || "no feature".to_string())?;
    for (n, feature) in schema.features.iter().enumerate() {
        let place = |key| ("[[feature]]", n, key);
        let name = &feature.name;
        let [low, high] = feature.clip;
        require(low < high && low.abs() <= MAX_CLIP && high.abs() <= MAX_CLIP, place("clip"), || {
            format!("{name}: clip = [{low}, {high}] is no interval within ±{MAX_CLIP:e}")
        })?;
        require(feature.scale.is_finite(), place("scale"), || format!("{name}: scale is no number"))?;
        require((1..=MAX_WINDOW).contains(&feature.window), place("window"), || {
            format!("{name}: window {} is outside 1..={MAX_WINDOW}", feature.window)
        })?;
        let elements = match (feature.signal, &schema.action) {
            (Signal::PreviousAction, action) => action.width(),
            (Signal::PreviousActionIs, Action::CwndTable { table }) => table.len(),
            (Signal::PreviousActionIs, _) => 0,
            _ => 1,
        };
        require(feature.index < elements, place("index"), || {
            format!("{name}: index {} where the signal has {elements} elements", feature.index)
        })?;
    }
    Ok(())
}

/// A layer fits the width before it and the layers that it names.
fn takes(layer: &Layer, n: usize, before: usize, earlier: &[Layer]) -> Result<(), Broken> {
    let place = |key| ("[[network.layer]]", n, key);
    match *layer {
        Layer::Dense { .. } | Layer::Lstm { .. } | Layer::Gru { .. } => Ok(()),
        Layer::LayerNorm { units, .. } => require(units == before, place("units"), || {
            format!("units = {units}, the layer before gives {before}")
        }),
        Layer::Add { units, of, .. } => {
            require(units == before, place("units"), || {
                format!("units = {units}, the layer before gives {before}")
            })?;
            let other = earlier.get(of).map(Layer::units);
            require(other == Some(units), place("of"), || match other {
                Some(other) => format!("layer {of} gives {other} values, not {units}"),
                None => format!("of = {of} is to be an earlier layer, from 0 to {}", n.saturating_sub(1)),
            })
        }
        Layer::Conv1d(conv) => {
            let [channels, _] = conv.channels;
            let bounded = [conv.channels[0], conv.channels[1], conv.length, conv.kernel, conv.stride];
            require(bounded.iter().all(|value| (1..=MAX_UNITS).contains(value)), place("channels"), || {
                format!("channels, length, kernel and stride are to be in 1..={MAX_UNITS}")
            })?;
            require(conv.padding < conv.kernel, place("padding"), || {
                format!("padding = {} is to be below kernel = {}", conv.padding, conv.kernel)
            })?;
            require(channels * conv.length == before, place("length"), || {
                format!("{channels} channels of {} values, where {before} values come", conv.length)
            })?;
            let products = layer.units().saturating_mul(channels * conv.kernel);
            require(products <= MAX_PRODUCTS, place("kernel"), || {
                format!("{products} products for one answer; at most {MAX_PRODUCTS} are possible")
            })
        }
    }
}

fn network(schema: &Schema) -> Result<(), Broken> {
    let width = schema.action.width();
    let units = |units: usize, place: Place| {
        require((1..=MAX_UNITS).contains(&units), place, || {
            format!("{} = {units} is outside 1..={MAX_UNITS}", place.2)
        })
    };
    let (layer, head) = match &schema.network {
        Architecture::Sequential { layer, head } => (layer, *head),
        &Architecture::Hierarchical { watcher, generator, outputs } => {
            units(watcher, ("[network]", 0, "watcher"))?;
            units(generator, ("[network]", 0, "generator"))?;
            return require(outputs == width, ("[network]", 0, "outputs"), || {
                format!("outputs = {outputs}, the action takes {width}")
            });
        }
    };
    require((1..=MAX_LAYERS).contains(&layer.len()), ("[network]", 0, "layer"), || {
        format!("{} layers; 1 to {MAX_LAYERS} are possible", layer.len())
    })?;
    let mut before = schema.inputs();
    for (n, each) in layer.iter().enumerate() {
        let key = if matches!(each, Layer::Conv1d(_)) { "kernel" } else { "units" };
        units(each.units(), ("[[network.layer]]", n, key))?;
        takes(each, n, before, &layer[..n])?;
        before = each.units();
    }
    let last = &layer[layer.len() - 1];
    let place = ("[[network.layer]]", layer.len() - 1, "units");
    let head_place = ("[network]", 0, "head");
    match (head, &schema.action) {
        (Head::Argmax, Action::CwndTable { table }) => require(last.units() == table.len(), place, || {
            format!("units = {}, the table has {} entries", last.units(), table.len())
        }),
        (Head::Argmax, _) | (_, Action::CwndTable { .. }) => {
            require(false, head_place, || "head \"argmax\" and action \"cwnd-table\" go together".to_string())
        }
        (Head::Direct, _) => require(last.units() == width, place, || {
            format!("units = {}, the action takes {width}", last.units())
        }),
        (Head::Mixture, _) => {
            require(width == 1, head_place, || format!("a mixture is of one action, not of {width}"))?;
            let dense = matches!(last, Layer::Dense { .. });
            require(dense && last.units() % 3 == 0, place, || {
                "a mixture's last layer is dense, its units K logits, K means, K deviations".to_string()
            })
        }
    }
}
