# orca: CUBIC's window, which the agent multiplies now and then, with all that a policy wants to know.
#
# The window grows per ACK as in the program cubic: slow start below `ssthresh`, above it the cubic of
# RFC 9438 with its estimate of Reno (see there for the equations, the ranges of the fixed point and the time in which
# the window is not in use).
# The agent takes CUBIC's decreases by setting Cwnd, `ssthresh`, `w_max`, `k_ms`, `prior` and `fresh` = 1. For a policy's action it sets Cwnd and `friendly` alone: the cubic keeps its clock, as in
# Linux when somebody else sets the window, and growth goes on from there.
#
# Packets are paced at 1.2 times window over smoothed round-trip time, the ratio of Linux in congestion
# avoidance, so that a window four times as large leaves no burst. The sums are those of the program
# rate-hold. One report per `interval_us`, and one at once after a loss or a timeout.

(def
    (mss 1448) # segment size, bytes
    (ssthresh +infinity) # slow-start threshold, bytes
    (interval_us 20000) # time between two reports, us
    (c_mss_10 5792) # C of RFC 9438 times the segment size, 1/10 bytes/s^3
    (divisor 1) # bytes acknowledged per byte of growth in slow start
    (w_max 0) # window before the last decrease, bytes
    (k_ms 0) # time from the epoch to w_max, ms
    (friendly 0) # Reno's window in this epoch, bytes
    (prior 0) # window before the last decrease, or at the end of slow start, bytes
    (fresh 0) # 1: an epoch begins at the next ACK above ssthresh
    (epoch_us 0) # beginning of the epoch, us; state of the program
    (seen_us 0) # the ACK before, us; state of the program
    (used 0) # what is compared with the window to tell whether it is in use, bytes; state of the program
    (credit 0) # growth owed, byte * byte; state of the program
    (friendly_credit 0) # Reno's growth owed, byte * byte; state of the program
    (srtt_8_us 0) # smoothed round-trip time, 1/8 us; state of the program
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
        (volatile cwnd 0) # congestion window at the report, bytes
    )
)
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
    (:= Report.timeout (|| Report.timeout Flow.was_timeout))
    (:= Report.rate_in Flow.rate_incoming)
    (:= Report.inflight Flow.bytes_in_flight)
    (fallthrough)
)
(when (< Flow.rtt_sample_us 2000000000)
    (:= srtt_8_us (+ (- srtt_8_us (/ srtt_8_us 8)) Flow.rtt_sample_us))
    (:= srtt_8_us (if (== Report.rtt_us 0) (* 8 Flow.rtt_sample_us)))
    (:= Report.rtt_us Flow.rtt_sample_us)
    (:= Report.min_rtt_us (min Report.min_rtt_us Flow.rtt_sample_us))
    (:= t (/ (min (+ Report.elapsed_us Micros) +infinity) 16))
    (:= w (/ Flow.rtt_sample_us 16))
    (:= Report.n (+ Report.n 1))
    (:= Report.sum_t (+ Report.sum_t t))
    (:= Report.sum_rtt (+ Report.sum_rtt w))
    (:= Report.sum_tt (+ Report.sum_tt (* t t)))
    (:= Report.sum_trtt (+ Report.sum_trtt (* t w)))
    (:= Report.sum_rttrtt (+ Report.sum_rttrtt (* w w)))
    (fallthrough)
)
(when true
    (:= used (* 2 (+ Flow.bytes_in_flight Ack.bytes_acked)))
    (:= used (if (== Flow.bytes_pending 0) (+ mss (+ Flow.bytes_in_flight Ack.bytes_acked))))
    (fallthrough)
)
(when (> used Cwnd)
    (:= seen_us (+ seen_us Report.rtt_us))
    (fallthrough)
)
(when true
    (:= epoch_us (+ epoch_us (- (max Ack.now seen_us) seen_us)))
    (:= seen_us Ack.now)
    (fallthrough)
)
(when (&& (< Cwnd ssthresh) (> used Cwnd))
    (:= Cwnd (+ Cwnd (/ Ack.bytes_acked (max 1 divisor))))
    (fallthrough)
)
(when (&& (> fresh 0) (> (+ Cwnd 1) ssthresh))
    (:= epoch_us Ack.now)
    (:= friendly Cwnd)
    (:= fresh 0)
    (:= credit 0)
    (:= friendly_credit 0)
    (fallthrough)
)
(when (&& (> (+ Cwnd 1) ssthresh) (> used Cwnd))
    (:= t (/ (+ (- (max Ack.now epoch_us) epoch_us) Report.rtt_us) 1000))
    (:= span (min 100000 (- (max t k_ms) k_ms)))
    (:= up (/ (* c_mss_10 (/ (* (/ (* span span) 1000) span) 1000)) 10000))
    (:= span (min 100000 (- (max k_ms t) t)))
    (:= down (/ (* c_mss_10 (/ (* (/ (* span span) 1000) span) 1000)) 10000))
    (:= w (- (max (+ w_max up) down) down))
    (:= w (min (/ (* 3 Cwnd) 2) (max w Cwnd)))
    (:= credit (+ credit (* (- (max w Cwnd) Cwnd) Ack.bytes_acked)))
    (:= up (/ credit (max 1 Cwnd)))
    (:= credit (- (max credit (* up Cwnd)) (* up Cwnd)))
    (:= friendly_credit (+ friendly_credit (/ (* 9 (* mss Ack.bytes_acked)) 17)))
    (:= friendly_credit (if (> (+ friendly 1) prior) (+ friendly_credit (/ (* 8 (* mss Ack.bytes_acked)) 17))))
    (:= w (/ friendly_credit (max 1 Cwnd)))
    (:= friendly_credit (- (max friendly_credit (* w Cwnd)) (* w Cwnd)))
    (:= friendly (+ friendly w))
    (:= Cwnd (max (+ Cwnd up) friendly))
    (fallthrough)
)
(when (> srtt_8_us 0)
    (:= Rate (/ (* Cwnd 9600000) (max 1 srtt_8_us)))
    (fallthrough)
)
(when (|| Flow.was_timeout (|| (> Ack.lost_pkts_sample 0) (> Micros interval_us)))
    (:= Report.cwnd Cwnd)
    (:= Report.elapsed_us (+ Report.elapsed_us Micros))
    (:= Micros 0)
    (report)
)
