# reno: the window of RFC 5681 grows per ACK here; the agent takes the decreases.
#
# Below `ssthresh` the window grows by the bytes acknowledged, above it by one segment per window of
# acknowledged bytes (RFC 3465 counting). It grows only while it is in use, as in the program cubic, so that
# an idle application does not inflate it. Sends one report per `interval_us`, and one at once after a
# loss or a timeout. The agent answers a loss by setting Cwnd, `ssthresh` and `credit`.

(def
    (mss 1448) # segment size, bytes
    (ssthresh +infinity) # slow-start threshold, bytes
    (interval_us 100000) # time between two reports, us
    (credit 0) # bytes acknowledged since the last additive step
    (used 0) # what is compared with the window to tell whether it is in use, bytes; state of the program
    (Report
        (volatile acked 0) # bytes acknowledged in this window
        (volatile lost 0) # packets found lost in this window
        (volatile timeout false) # a retransmission timeout happened in this window
        (rtt_us 0) # last round-trip time, us
        (volatile min_rtt_us +infinity) # smallest round-trip time in this window, us
        (volatile cwnd 0) # congestion window at the report, bytes
    )
)
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
    (:= Report.timeout (|| Report.timeout Flow.was_timeout))
    (fallthrough)
)
(when (< Flow.rtt_sample_us 2000000000)
    (:= Report.rtt_us Flow.rtt_sample_us)
    (:= Report.min_rtt_us (min Report.min_rtt_us Flow.rtt_sample_us))
    (fallthrough)
)
(when true
    (:= used (* 2 (+ Flow.bytes_in_flight Ack.bytes_acked)))
    (:= used (if (== Flow.bytes_pending 0) (+ mss (+ Flow.bytes_in_flight Ack.bytes_acked))))
    (fallthrough)
)
(when (> used Cwnd)
    (:= slow (min Ack.bytes_acked (- (max ssthresh Cwnd) Cwnd)))
    (:= Cwnd (+ Cwnd slow))
    (:= credit (+ credit (- (max Ack.bytes_acked slow) slow)))
    (fallthrough)
)
(when (> credit Cwnd)
    (:= credit (- (max credit Cwnd) Cwnd))
    (:= Cwnd (+ Cwnd mss))
    (fallthrough)
)
(when (|| Flow.was_timeout (|| (> Ack.lost_pkts_sample 0) (> Micros interval_us)))
    (:= Report.cwnd Cwnd)
    (:= Micros 0)
    (report)
)
