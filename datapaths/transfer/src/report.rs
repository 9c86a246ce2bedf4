//! What transfers came to.

use crate::Reading;
use std::io::Write;
use std::time::Duration;

/// What a transfer came to.
#[derive(Clone, Copy, Debug)]
pub struct TransferReport {
    /// From the first packet of the connection to the end of the handshake.
    pub handshake: Duration,
    /// From there to the end of the transfer.
    pub elapsed: Duration,
    /// The connection's counters at the end.
    pub reading: Reading,
}

impl TransferReport {
    /// Acknowledged bytes over the time of the transfer, 10^6 bits per second.
    pub fn throughput_mbps(&self) -> f64 {
        self.reading.delivered_bytes as f64 * 8e-6 / self.elapsed.as_secs_f64().max(1e-9)
    }

    fn json(&self, connection: usize) -> serde_json::Value {
        let r = &self.reading;
        serde_json::json!({
            "connection": connection,
            "handshake_s": self.handshake.as_secs_f64(), "elapsed_s": self.elapsed.as_secs_f64(),
            "throughput_mbps": self.throughput_mbps(),
            "sent_packets": r.sent_packets, "sent_bytes": r.sent_bytes,
            "delivered_packets": r.delivered_packets, "delivered_bytes": r.delivered_bytes,
            "lost_packets": r.lost_packets, "rtt_ms": r.rtt_ms(), "cwnd_bytes": r.cwnd_bytes,
            "pacing_mbps": r.pacing_mbps(), "governor": r.governor.name(),
            "reports": r.reports, "updates": r.updates, "fallbacks": r.fallbacks,
        })
    }

    fn line(&self) -> String {
        let r = &self.reading;
        let rtt = r.rtt_ms().map_or("?".to_string(), |ms| format!("{ms:.1}"));
        let pacing = r
            .pacing_mbps()
            .map_or("paced by the window".to_string(), |mbps| format!("pacing {mbps:.2} Mbps"));
        format!(
            "{:.2} Mbps, {} of {} packets lost, RTT {rtt} ms, window {} bytes, {pacing}, {} ({} reports, {} commands, {} fallbacks)",
            self.throughput_mbps(),
            r.lost_packets,
            r.sent_packets,
            r.cwnd_bytes,
            r.governor.name(),
            r.reports,
            r.updates,
            r.fallbacks,
        )
    }
}

/// Tells of transfers that ran together, each with its number in the trace, on standard output: a line for each and their
/// sum, or one JSON object.
pub fn summarise(cc: &str, alg: Option<&str>, reports: &[(usize, TransferReport)], json: bool) {
    let total: f64 = reports.iter().map(|(_, report)| report.throughput_mbps()).sum();
    if json {
        let connections: Vec<_> = reports.iter().map(|(number, report)| report.json(*number)).collect();
        let summary = serde_json::json!({
            "cc": cc, "alg": alg, "throughput_mbps": total, "connections": connections,
        });
        return tell(&summary.to_string());
    }
    for (number, report) in reports {
        tell(&format!("{number}: {}", report.line()));
    }
    tell(&format!("total: {total:.2} Mbps"));
}

/// Tells what a server's connection delivered: a line, or a JSON object.
pub fn received(remote: &str, bytes: u64, lasted: Duration, error: Option<&str>, json: bool) {
    let seconds = lasted.as_secs_f64();
    let goodput = bytes as f64 * 8e-6 / seconds.max(1e-9);
    if json {
        let row = serde_json::json!({
            "remote": remote, "received_bytes": bytes, "lasted_s": seconds, "goodput_mbps": goodput, "error": error,
        });
        return tell(&row.to_string());
    }
    let error = error.map_or(String::new(), |error| format!(" ({error})"));
    tell(&format!("{remote}: {bytes} bytes in {seconds:.2} s, {goodput:.2} Mbps{error}"));
}

/// A line on standard output; whoever closed it does not want it.
fn tell(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
