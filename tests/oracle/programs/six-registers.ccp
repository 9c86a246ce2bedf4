# What window-based agents commonly report: acknowledged, lost, timeout, RTT, rates.

(def (Report
    (volatile acked 0) # bytes acknowledged since the last report
    (volatile loss 0) # packets found lost since the last report
    (volatile timeout false) # a retransmission timeout happened since the last report
    (volatile rtt 0) # last round-trip time, us
    (volatile rin 0) # last delivery rate, bytes/s
    (volatile rout 0) # last sending rate, bytes/s
))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.loss (+ Report.loss Ack.lost_pkts_sample))
    (:= Report.timeout Flow.was_timeout)
    (:= Report.rtt Flow.rtt_sample_us)
    (:= Report.rin Flow.rate_incoming)
    (:= Report.rout Flow.rate_outgoing)
    (fallthrough)
)
(when (|| Flow.was_timeout (> Report.loss 0))
    (:= Micros 0)
    (report)
)
(when (> Micros 50000)
    (:= Micros 0)
    (report)
)
