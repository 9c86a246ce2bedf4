# The smallest program that an agent can use: the bytes acknowledged, reported every 50 ms.

(def (Report
    (volatile acked 0) # bytes acknowledged since the last report
))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (fallthrough)
)
(when (> Micros 50000)
    (:= Micros 0)
    (report)
)
