# bbr: paces at a gain times the bottleneck bandwidth, less a hundredth, and samples that bandwidth on every ACK.
#
# With `cycling` = 1 the gain follows BBR's cycle of eight phases of `phase_us` each: 1.25, 0.75, then
# six times 1 (Cardwell et al. 2016). The phase of 1.25 goes on until a packet was lost or 1.25 `bdp` are
# in flight, but no longer than four times `phase_us`; the phase of 0.75 ends early once no more than
# `bdp` is in flight. With `cycling` = 0 the gain is `gain_64`/64 throughout, and a phase with a gain
# below 1 ends early in the same way. A delivery rate above `bw` raises it at once; only the agent lowers
# it. One report at the end of each phase, and one at once after a timeout.
#
# The window grows by what is acknowledged up to `target`. In the round trip after a loss it is what was in flight, so
# that no more is sent than what leaves; once that flight is repaired, two round trips later, it is what it was before.
# With `held` = 1 it is no larger than `target`, and is restored when `held` is 0 again.

(def
    (bw 1500) # bottleneck bandwidth, bytes/s
    (bdp 0) # bandwidth times smallest round-trip time, bytes
    (phase_us 1000) # length of a phase, us; the first ACK ends the first one
    (cycling 0) # 1: the gain follows the cycle
    (gain_64 64) # gain without a cycle, 1/64; 64 with it
    (phase 0) # phase of the cycle, 0 to 7; the agent sets where it starts
    (due_us 0) # when this phase ends, us
    (target 0) # window to grow to, bytes
    (least 5840) # four packets, the least window of a recovery, bytes
    (held 0) # 1: the window is held at the target or below
    (prior 0) # window before a recovery or a hold, bytes; state of the program
    (conserve_us 0) # end of the round trip after a loss, us; state of the program
    (repair_us 0) # when what was in flight at that loss is repaired, us; state of the program
    (Report
        (volatile rate 0) # largest delivery rate sampled in this phase, bytes/s
        (volatile acked 0) # bytes acknowledged in this phase
        (volatile lost 0) # packets found lost in this phase
        (volatile timeout false) # a retransmission timeout happened in this phase
        (volatile elapsed_us 0) # length of this phase, us
        (rtt_us 0) # last round-trip time, us
        (volatile min_rtt_us +infinity) # smallest round-trip time in this phase, us
        (volatile inflight 0) # bytes in flight at the report
        (volatile limited true) # the application had nothing to send at any ACK of this phase
    )
)
(when (< Flow.rtt_sample_us 2000000000)
    (:= Report.rtt_us Flow.rtt_sample_us)
    (:= Report.min_rtt_us (min Report.min_rtt_us Flow.rtt_sample_us))
    (fallthrough)
)
(when true
    (:= Report.rate (max Report.rate (min Flow.rate_incoming Flow.rate_outgoing)))
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
    (:= Report.timeout (|| Report.timeout Flow.was_timeout))
    (:= Report.inflight Flow.bytes_in_flight)
    (:= Report.limited (&& Report.limited (== Flow.bytes_pending 0)))
    (:= bw (max bw Report.rate))
    (:= Rate (/ (* 99 (/ (* bw gain_64) 64)) 100))
    (:= due_us phase_us)
    (fallthrough)
)
(when (&& (> cycling 0) (== phase 0))
    (:= Rate (/ (* 99 bw) 80))
    (:= reached (+ Flow.bytes_in_flight Ack.bytes_acked))
    (:= due_us (if (&& (== Report.lost 0) (< (* 4 reached) (* 5 bdp))) (* 4 phase_us)))
    (fallthrough)
)
(when (&& (> cycling 0) (== phase 1))
    (:= Rate (/ (* 297 bw) 400))
    (fallthrough)
)
(when (&& (|| (< gain_64 64) (&& (> cycling 0) (== phase 1))) (< Flow.bytes_in_flight bdp))
    (:= due_us 0)
    (fallthrough)
)
(when (&& (> Ack.lost_pkts_sample 0) (> Ack.now repair_us))
    (:= prior (max prior Cwnd))
    (:= conserve_us (+ Ack.now Report.rtt_us))
    (:= repair_us (+ Ack.now (* 3 Report.rtt_us)))
    (:= Cwnd 0)
    (fallthrough)
)
(when (> conserve_us Ack.now)
    (:= lost (/ (* least Ack.lost_pkts_sample) 4))
    (:= Cwnd (- (max Cwnd lost) lost))
    (:= Cwnd (max (max Cwnd least) (+ Flow.bytes_in_flight Ack.bytes_acked)))
    (fallthrough)
)
(when (&& (== held 0) (> (+ Ack.now 1) conserve_us))
    (:= Cwnd (+ Cwnd Ack.bytes_acked))
    (fallthrough)
)
(when (&& (== held 0) (> (+ Ack.now 1) repair_us))
    (:= Cwnd (max Cwnd prior))
    (:= prior 0)
    (fallthrough)
)
(when (> held 0)
    (:= prior (max prior Cwnd))
    (fallthrough)
)
(when true
    (:= Cwnd (min Cwnd target))
    (fallthrough)
)
(when (|| Flow.was_timeout (> Micros due_us))
    (:= phase (+ phase 1))
    (:= phase (if (> phase 7) 0))
    (:= Report.elapsed_us (+ Report.elapsed_us Micros))
    (:= Micros 0)
    (report)
)
