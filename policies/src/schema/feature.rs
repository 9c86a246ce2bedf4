//! What a policy sees.

use serde::Deserialize;

/// One input: `clip(scale · signal / per)`, or its mean, minimum or maximum over the last `window`
/// intervals.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// Name.
    pub name: String,
    /// What it is made of.
    pub signal: Signal,
    /// What it is divided by; the feature is 0 where this is 0.
    #[serde(default)]
    pub per: Option<Signal>,
    /// Factor.
    #[serde(default = "one_f64")]
    pub scale: f64,
    /// Smallest and largest value.
    pub clip: [f64; 2],
    /// Unit of the feature after division and scaling; "1" for a ratio.
    pub unit: String,
    /// Intervals over which `statistic` is taken.
    #[serde(default = "super::one")]
    pub window: usize,
    /// What is taken over the window.
    #[serde(default)]
    pub statistic: Statistic,
    /// Which element, of signals that have several (`previous-action`, `previous-action-is`).
    #[serde(default)]
    pub index: usize,
}

fn one_f64() -> f64 {
    1.0
}

/// What is taken over a feature's window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// The arithmetic mean.
    #[default]
    Mean,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
}

/// What a feature may be made of; units are in the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    /// Sending rate in force.
    SendingRateMbps,
    /// Delivery rate over the interval.
    DeliveryRateMbps,
    /// Largest delivery rate so far.
    MaxDeliveryRateMbps,
    /// Largest delivery rate of the last five to ten seconds.
    #[serde(rename = "max-delivery-rate-10s-mbps")]
    MaxDeliveryRate10sMbps,
    /// Delivery rate over the interval before; the same as over this one at first.
    PreviousDeliveryRateMbps,
    /// Largest delivery rate up to the interval before; up to this one at first.
    PreviousMaxDeliveryRateMbps,
    /// Lost bytes per time.
    LossMbps,
    /// Packets lost over packets sent.
    LossRate,
    /// Smoothed round-trip time.
    SrttMs,
    /// Mean round-trip time of the interval.
    RttMs,
    /// Smallest round-trip time so far.
    MinRttMs,
    /// Smallest round-trip time of the last five to ten seconds.
    #[serde(rename = "min-rtt-10s-ms")]
    MinRtt10sMs,
    /// Smallest round-trip time of the last one to two seconds.
    #[serde(rename = "min-rtt-2s-ms")]
    MinRtt2sMs,
    /// Smoothed round-trip time less the smallest one.
    QueueDelayMs,
    /// Mean round-trip time of the interval less the smallest one.
    IntervalQueueDelayMs,
    /// Smoothed mean deviation of the round-trip time.
    RttVarMs,
    /// d(RTT)/dt, s/s.
    RttGradient,
    /// Length of the interval.
    IntervalMs,
    /// Congestion window.
    CwndPackets,
    /// Congestion window over the smallest round-trip time.
    CwndMbps,
    /// Packets in flight.
    InflightPackets,
    /// Packets that the largest delivery rate brings in the smallest round-trip time of the last five to ten seconds.
    BdpPackets,
    /// Packets of the flow that wait in the queue: what is delivered in the part of the interval's round-trip time that is
    /// beyond the smallest one of the last five to ten seconds (Vegas' difference).
    QueuedPackets,
    /// ACKs with a round-trip sample.
    Acks,
    /// Packets found lost in the interval.
    LostPackets,
    /// Output `index` of the previous decision, as applied; before the first it is 0, and a table's
    /// last index (Indigo).
    PreviousAction,
    /// 1 where the previous decision was entry `index` of the table, else 0.
    PreviousActionIs,
    /// 1.
    One,
}
