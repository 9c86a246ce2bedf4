# Ten registers with a filter and extremes, as delay- and model-based agents report.

(def (Report
    (volatile acked 0) # bytes acknowledged since the last report
    (volatile packets 0) # packets acknowledged since the last report
    (volatile loss 0) # packets found lost since the last report
    (volatile timeout false) # a retransmission timeout happened since the last report
    (volatile rtt 0) # last round-trip time, us
    (volatile minrtt +infinity) # smallest round-trip time since the last report, us
    (volatile maxrtt 0) # largest round-trip time since the last report, us
    (srtt 0) # filtered round-trip time, us
    (volatile rin 0) # largest delivery rate since the last report, bytes/s
    (volatile inflight 0) # bytes in flight at the last ACK
))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.packets (+ Report.packets Ack.packets_acked))
    (:= Report.loss (+ Report.loss Ack.lost_pkts_sample))
    (:= Report.timeout (|| Report.timeout Flow.was_timeout))
    (:= Report.rtt Flow.rtt_sample_us)
    (:= Report.minrtt (min Report.minrtt Flow.rtt_sample_us))
    (:= Report.maxrtt (max Report.maxrtt Flow.rtt_sample_us))
    (:= Report.srtt (ewma 9 Flow.rtt_sample_us))
    (:= Report.rin (max Report.rin Flow.rate_incoming))
    (:= Report.inflight Flow.bytes_in_flight)
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
