# rate-hold: holds the window and the pacing rate that the agent set, and reports what happened.
#
# With `grow` the window grows by every byte acknowledged while it is in use, as in slow start, until a packet is lost
# or marked: what the agent would answer comes after the ACK that it is for, and after the last one of a flight too late.
#
# Sends one report per `interval_us`, one at once after a timeout, and one as soon as more than `most_acks`
# round-trip samples came in. With `report_loss` a packet lost or marked is reported at once too, unless the report
# before was such a one: a law that decreases does so once per round trip. The agent sets Cwnd (bytes) and Rate
# (bytes/s) directly. The sums give the
# least-squares slope of the round-trip time over arrival time with its standard error: t is counted from the
# start of the window, both t and rtt in units of 16 us, so that n samples of t^2 stay below 2^64 for windows up
# to a minute. A call without a round-trip sample (a loss detection) reads it as 2^32 - 1; such a call counts as
# an ACK and a loss, but enters no sum.

(def
    (interval_us 50000) # time between two reports, us
    (most_acks +infinity) # round-trip samples that a report may hold
    (grow 0) # 1: slow start; the program ends it
    (report_loss 0) # 1: a packet lost or marked is reported at once
    (reported_loss 0) # 1: the report before was of one
    (due_us 0) # the time between reports that counts now
    (Report
        (volatile acked 0) # bytes acknowledged in this window
        (volatile lost 0) # packets found lost in this window
        (volatile timeout false) # a retransmission timeout happened in this window
        (volatile elapsed_us 0) # length of this window, us
        (rtt_us 0) # last round-trip time, us
        (volatile min_rtt_us +infinity) # smallest round-trip time in this window, us
        (volatile n 0) # round-trip samples in this window
        (volatile sum_t 0) # sum of t, 16 us
        (volatile sum_rtt 0) # sum of rtt, 16 us
        (volatile sum_tt 0) # sum of t^2, (16 us)^2
        (volatile sum_trtt 0) # sum of t*rtt, (16 us)^2
        (volatile sum_rttrtt 0) # sum of rtt^2, (16 us)^2
        (rate_in 0) # last delivery rate, bytes/s
        (volatile inflight 0) # bytes in flight at the last ACK
        (volatile marked 0) # packets marked by ECN in this window
        (volatile limited true) # the application had nothing to send at any ACK of this window
    )
)
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
    (:= Report.timeout (|| Report.timeout Flow.was_timeout))
    (:= Report.rate_in Flow.rate_incoming)
    (:= Report.inflight Flow.bytes_in_flight)
    (:= Report.marked (+ Report.marked Ack.ecn_packets))
    (:= Report.limited (&& Report.limited (== Flow.bytes_pending 0)))
    (:= grow (if (|| Flow.was_timeout (> (+ Ack.lost_pkts_sample Ack.ecn_packets) 0)) 0))
    (:= due_us interval_us)
    (:= due_us (if (&& (> report_loss reported_loss) (> (+ Report.lost Report.marked) 0)) 0))
    (fallthrough)
)
(when (&& (> grow 0) (> (* 2 (+ Flow.bytes_in_flight Ack.bytes_acked)) Cwnd))
    (:= Cwnd (+ Cwnd Ack.bytes_acked))
    (fallthrough)
)
(when (< Flow.rtt_sample_us 2000000000)
    (:= Report.rtt_us Flow.rtt_sample_us)
    (:= Report.min_rtt_us (min Report.min_rtt_us Flow.rtt_sample_us))
    (:= t (/ (min (+ Report.elapsed_us Micros) +infinity) 16))
    (:= y (/ Flow.rtt_sample_us 16))
    (:= Report.n (+ Report.n 1))
    (:= Report.sum_t (+ Report.sum_t t))
    (:= Report.sum_rtt (+ Report.sum_rtt y))
    (:= Report.sum_tt (+ Report.sum_tt (* t t)))
    (:= Report.sum_trtt (+ Report.sum_trtt (* t y)))
    (:= Report.sum_rttrtt (+ Report.sum_rttrtt (* y y)))
    (fallthrough)
)
(when (|| (> Micros due_us) (|| Flow.was_timeout (> Report.n most_acks)))
    (:= reported_loss 0)
    (:= reported_loss (if (== due_us 0) 1))
    (:= Report.elapsed_us (+ Report.elapsed_us Micros))
    (:= Micros 0)
    (report)
)
