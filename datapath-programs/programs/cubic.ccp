# cubic: the window of RFC 9438 grows per ACK here; the agent takes the decreases.
#
# Below `ssthresh` the window grows by the bytes acknowledged over `divisor` (RFC 9406: 4 in conservative
# slow start, else 1). Above it, with t the time since the
# epoch began, plus one round trip as the RFC looks ahead:
#   target = w_max + C * mss * (t - K)^3      bytes, t and K in seconds
#   Cwnd  += (target - Cwnd) / Cwnd per byte acknowledged, target limited to 1.5 * Cwnd
# and never below the estimate of what Reno would have (`friendly`, alpha = 9/17 of a segment per
# window up to `prior`, a whole one from there; RFC 9438 eq. 4). The agent answers a loss by setting Cwnd, `ssthresh`, `w_max`, `k_ms`,
# `prior` and `fresh` = 1: the epoch then begins at the next ACK above `ssthresh`, on the datapath's clock.
#
# The window grows while it is in use: more than half of it while more waits to be sent, otherwise all of it.
# Time in which it is not, and what a gap between two ACKs exceeds a round trip by, moves the epoch on (RFC 9438
# section 5.8).
#
# Fixed point: times in ms, distances from K limited to 100 s, so that (t-K)^2 <= 10^10 and the cube
# in units of 10^-3 s^3 <= 10^9; times a register < 2^32 that stays below 2^62. Divisions truncate:
# `credit` and `friendly_credit` keep the remainders, which lag by less than one byte per window.

(def
    (mss 1448) # segment size, bytes
    (ssthresh +infinity) # slow-start threshold, bytes
    (interval_us 100000) # time between two reports, us
    (c_mss_10 5792) # C of RFC 9438 times the segment size, 1/10 bytes/s^3
    (divisor 1) # bytes acknowledged per byte of growth in slow start
    (w_max 0) # window before the last decrease, bytes
    (k_ms 0) # time from the epoch to w_max, ms
    (friendly 0) # Reno's window in this epoch, bytes; state of the program
    (prior 0) # window before the last decrease, or at the end of slow start, bytes
    (fresh 0) # 1: an epoch begins at the next ACK above ssthresh
    (epoch_us 0) # beginning of the epoch, us; state of the program
    (seen_us 0) # the ACK before, us; state of the program
    (used 0) # what is compared with the window to tell whether it is in use, bytes; state of the program
    (credit 0) # growth owed, byte * byte; state of the program
    (friendly_credit 0) # Reno's growth owed, byte * byte; state of the program
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
(when (|| Flow.was_timeout (|| (> Ack.lost_pkts_sample 0) (> Micros interval_us)))
    (:= Report.cwnd Cwnd)
    (:= Micros 0)
    (report)
)
