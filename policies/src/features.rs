//! From what a flow measured to the network's input.

use crate::observation::Observation;
use crate::schema::{Action, Feature, Schema, Signal};
use crate::window::Window;
use anole_model::Rate;

/// Bits per second in one Mbps.
const MBPS: f64 = 1e6;

/// The features of one flow, with their history.
#[derive(Clone, Debug)]
pub struct Features {
    features: Vec<Feature>,
    /// The latest values of each feature, before its clip.
    recent: Vec<Window>,
    /// The input: `history` sets of features, oldest first.
    input: Vec<f32>,
    /// Largest delivery rate so far, Mbps.
    max_delivery: f64,
    /// Delivery rate, and the largest one, as of the interval before, Mbps; none at first.
    before: Option<(f64, f64)>,
    /// Outputs of the last decision, as applied.
    previous: Vec<f64>,
}

impl Features {
    /// The features of a new flow.
    pub fn new(schema: &Schema) -> Features {
        Features {
            recent: schema.features.iter().map(|f| Window::new(f.statistic, f.window)).collect(),
            features: schema.features.clone(),
            input: vec![0.0; schema.inputs()],
            max_delivery: 0.0,
            before: None,
            previous: match &schema.action {
                Action::CwndTable { table } => vec![table.len().saturating_sub(1) as f64],
                _ => Vec::new(),
            },
        }
    }

    /// A delivery rate that there once was, Mbps.
    pub(crate) fn remember(&mut self, mbps: f64) {
        self.max_delivery = self.max_delivery.max(mbps);
    }

    /// Takes what was measured since the last call, and gives the network's input. Every value in it is
    /// finite and within its feature's clip; sets before the first call are zeros, whatever the clips.
    pub fn push(&mut self, seen: &Observation) -> &[f32] {
        self.max_delivery = self.max_delivery.max(mbps(seen.delivery_rate));
        let width = self.features.len();
        let first = self.input.len() - width;
        if first > 0 {
            self.input.copy_within(width.., 0);
        }
        for index in 0..width {
            let value = self.value(index, seen);
            let statistic = self.recent[index].push(value);
            let [low, high] = self.features[index].clip;
            // NaN, from a division of infinities, becomes the lower bound.
            self.input[first + index] = statistic.max(low).min(high) as f32;
        }
        self.before = Some((mbps(seen.delivery_rate), self.max_delivery));
        &self.input
    }

    /// The network's input as of the last call of [`Features::push`].
    pub fn input(&self) -> &[f32] {
        &self.input
    }

    /// Notes what the last decision was, for `previous-action`.
    pub fn decided(&mut self, outputs: &[f64]) {
        self.previous.clear();
        self.previous.extend_from_slice(outputs);
    }

    fn value(&self, index: usize, seen: &Observation) -> f64 {
        let feature = &self.features[index];
        let value = self.signal(feature.signal, feature.index, seen);
        match feature.per.map(|per| self.signal(per, feature.index, seen)) {
            None => feature.scale * value,
            Some(per) if per > 0.0 => feature.scale * value / per,
            Some(_) => 0.0,
        }
    }

    fn signal(&self, signal: Signal, index: usize, seen: &Observation) -> f64 {
        let packet = f64::from(seen.mss.max(1));
        match signal {
            Signal::SendingRateMbps => mbps(seen.rate),
            Signal::DeliveryRateMbps => mbps(seen.delivery_rate),
            Signal::MaxDeliveryRateMbps => self.max_delivery,
            Signal::MaxDeliveryRate10sMbps => mbps(seen.max_delivery_10s),
            Signal::PreviousDeliveryRateMbps => {
                self.before.map_or(mbps(seen.delivery_rate), |(delivery, _)| delivery)
            }
            Signal::PreviousMaxDeliveryRateMbps => self.before.map_or(self.max_delivery, |(_, max)| max),
            Signal::LossMbps => seen.lost * packet * 8.0 / MBPS / seen.interval.as_secs_f64().max(1e-6),
            Signal::LossRate => seen.loss_rate,
            Signal::SrttMs => 1e3 * seen.srtt.as_secs_f64(),
            Signal::RttMs => 1e3 * seen.rtt.as_secs_f64(),
            Signal::MinRttMs => 1e3 * seen.min_rtt.as_secs_f64(),
            Signal::MinRtt10sMs => 1e3 * seen.min_rtt_10s.as_secs_f64(),
            Signal::MinRtt2sMs => 1e3 * seen.min_rtt_2s.as_secs_f64(),
            Signal::QueueDelayMs => 1e3 * (seen.srtt.as_secs_f64() - seen.min_rtt.as_secs_f64()).max(0.0),
            Signal::IntervalQueueDelayMs => {
                1e3 * (seen.rtt.as_secs_f64() - seen.min_rtt.as_secs_f64()).max(0.0)
            }
            Signal::RttVarMs => 1e3 * seen.rtt_var.as_secs_f64(),
            Signal::RttGradient => seen.rtt_gradient,
            Signal::IntervalMs => 1e3 * seen.interval.as_secs_f64(),
            Signal::CwndPackets => seen.cwnd as f64 / packet,
            Signal::CwndMbps => seen.cwnd as f64 * 8.0 / MBPS / seen.min_rtt.as_secs_f64().max(1e-6),
            Signal::InflightPackets => seen.inflight as f64 / packet,
            Signal::BdpPackets => self.max_delivery * MBPS / 8.0 * seen.min_rtt_10s.as_secs_f64() / packet,
            Signal::QueuedPackets => seen.delivery_rate.bytes_in(seen.rtt - seen.min_rtt_10s) / packet,
            Signal::Acks => seen.acks,
            Signal::LostPackets => seen.lost,
            Signal::PreviousActionIs => {
                f64::from(u8::from(self.previous.first().is_some_and(|&entry| entry == index as f64)))
            }
            Signal::PreviousAction => self.previous.get(index).copied().unwrap_or(0.0),
            Signal::One => 1.0,
        }
    }
}

fn mbps(rate: Rate) -> f64 {
    rate.bytes_per_s() * 8.0 / MBPS
}
