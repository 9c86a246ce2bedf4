# AIMD within the datapath, in fixed point: the window in 1/1024 bytes, one packet of 1448 bytes more per
# round trip, half at a loss; pacing at 1.25 windows per round trip. Reports every 50 ms.

(def
    (wnd 148275200) # window, 1/1024 bytes; 100 packets at first
    (Report
        (volatile acked 0) # bytes acknowledged since the last report
        (volatile loss 0) # packets found lost since the last report
        (volatile cwnd 0) # window, bytes
    )
)
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.loss (+ Report.loss Ack.lost_pkts_sample))
    (:= wnd (+ wnd (/ (* (* Ack.bytes_acked 1448) 1048576) (max wnd 1024))))
    (:= wnd (min wnd 1500000000))
    (:= Cwnd (/ wnd 1024))
    (:= Rate (/ (* Cwnd 1250000) (max Flow.rtt_sample_us 1)))
    (:= Report.cwnd Cwnd)
    (fallthrough)
)
(when (> Ack.lost_pkts_sample 0)
    (:= wnd (max (/ wnd 2) 2965504))
    (:= Cwnd (/ wnd 1024))
    (fallthrough)
)
(when (> Micros 50000)
    (:= Micros 0)
    (report)
)
