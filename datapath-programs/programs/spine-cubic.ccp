# spine-cubic: the window of CUBIC with its two parameters as registers, all of it here: growth, decrease, K.
#
# With t the time since the last decrease, plus one round trip as RFC 9438 looks ahead:
#   below `ssthresh`       Cwnd += bytes acknowledged
#   above it               Cwnd += (target - Cwnd) / Cwnd per byte acknowledged,
#                          target = w_max + C * mss * (t - K)^3, limited to 1.5 * Cwnd
#   on a loss, once per (2 - beta) round trips:  w_max = Cwnd, less (1 - beta)/2 of it when below the last w_max;
#                          Cwnd *= beta;  K = cbrt((w_max - Cwnd) / (C * mss))
# A round-trip time of twice the smallest ends slow start. An agent that sets `ssthresh` to the window when the program
# begins leaves slow start out: w_max is that window. The window grows while it is in use, and t stands still while it is
# not, as in the program cubic (RFC 9438 section 5.8). It has no estimate of Reno's window: C is what the policy has for short paths.
#
# The cube root is Newton's, one step per ACK, from the last K: k -= (k - a/k^2)/3, where a is the third power.
# A round trip of ACKs without growth follows a decrease, and ten steps suffice from any start.
#
# Fixed point: beta and c in 1/65536; times in ms, distances from K limited to 60 s, so that the cube in units of
# 10^-3 s^3 is at most 2.2 * 10^8; C * mss below 2^34 (C below 16, segments below 2^14) keeps the product below 2^62.

(def
    (mss 1448) # segment size, bytes
    (interval_us 100000) # time between two reports, us
    (beta 45875) # what is left of the window after a loss, 1/65536
    (c 26214) # C of RFC 9438, packets/s^3, 1/65536
    (ssthresh +infinity) # slow-start threshold, bytes
    (w_max 0) # window before the last decrease, bytes; state of the program
    (drop 0) # what the decrease took of it, bytes; state of the program
    (k_ms 4000) # time from the decrease to w_max, ms; state of the program
    (seen_us 0) # the ACK before, us; state of the program
    (epoch_us 0) # the last decrease, us; state of the program
    (recovered_us 0) # losses before this time belong to the decrease already made, us; state of the program
    (base_us 2000000000) # smallest round-trip time so far, us; state of the program
    (used 0) # what is compared with the window to tell whether it is in use, bytes; state of the program
    (credit 0) # growth owed, byte * byte; state of the program
    (Report
        (volatile acked 0) # bytes acknowledged in this window
        (volatile lost 0) # packets found lost in this window
        (volatile timeout false) # a retransmission timeout happened in this window
        (volatile elapsed_us 0) # length of this window, us
        (rtt_us 0) # last round-trip time, us
        (volatile min_rtt_us +infinity) # smallest round-trip time in this window, us
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
    (:= slope (max 1 (* (min c 1048576) (min mss 16384))))
    (:= used (* 2 (+ Flow.bytes_in_flight Ack.bytes_acked)))
    (:= used (if (== Flow.bytes_pending 0) (+ mss (+ Flow.bytes_in_flight Ack.bytes_acked))))
    (fallthrough)
)
(when (< Flow.rtt_sample_us 2000000000)
    (:= Report.rtt_us Flow.rtt_sample_us)
    (:= Report.min_rtt_us (min Report.min_rtt_us Flow.rtt_sample_us))
    (:= base_us (min base_us Flow.rtt_sample_us))
    (fallthrough)
)
(when (> used Cwnd)
    (:= seen_us (+ seen_us Report.rtt_us))
    (fallthrough)
)
(when (> epoch_us 0)
    (:= epoch_us (+ epoch_us (- (max Ack.now seen_us) seen_us)))
    (fallthrough)
)
(when true
    (:= seen_us Ack.now)
    (fallthrough)
)
(when (|| (&& (> ssthresh Cwnd) (> Report.rtt_us (* 2 base_us))) (&& (== epoch_us 0) (> (+ Cwnd 1) ssthresh)))
    (:= ssthresh Cwnd)
    (:= w_max Cwnd)
    (:= drop 0)
    (:= epoch_us Ack.now)
    (fallthrough)
)
(when (&& (> Ack.lost_pkts_sample 0) (> Ack.now recovered_us))
    (:= drop Cwnd)
    (:= drop (if (> w_max Cwnd) (/ (* Cwnd (+ 65536 (min beta 65536))) 131072)))
    (:= w_max drop)
    (:= Cwnd (max (* 2 mss) (/ (* Cwnd (min beta 65536)) 65536)))
    (:= ssthresh Cwnd)
    (:= drop (- (max w_max Cwnd) Cwnd))
    (:= epoch_us Ack.now)
    (:= credit 0)
    (:= recovered_us (+ Ack.now (/ (* (- 131072 (min 65536 beta)) Report.rtt_us) 65536)))
    (fallthrough)
)
(when true
    (:= span (* 1000000 (/ (* drop 65536000) slope)))
    (:= down (max 1 (* (min k_ms 60000) (min k_ms 60000))))
    (:= k_ms (/ (+ (* 2 (min k_ms 60000)) (/ span down)) 3))
    (:= k_ms (max 1 (min k_ms 60000)))
    (fallthrough)
)
(when (&& (> ssthresh Cwnd) (> used Cwnd))
    (:= Cwnd (+ Cwnd Ack.bytes_acked))
    (fallthrough)
)
(when (&& (> (+ Cwnd 1) ssthresh) (&& (> used Cwnd) (> Ack.now recovered_us)))
    (:= t (/ (+ (- (max Ack.now epoch_us) epoch_us) Report.rtt_us) 1000))
    (:= span (min 60000 (- (max t k_ms) k_ms)))
    (:= up (/ (* slope (/ (* (/ (* span span) 1000) span) 1000)) 65536000))
    (:= span (min 60000 (- (max k_ms t) t)))
    (:= down (/ (* slope (/ (* (/ (* span span) 1000) span) 1000)) 65536000))
    (:= t (- (max (+ w_max up) down) down))
    (:= t (min (/ (* 3 Cwnd) 2) (max t Cwnd)))
    (:= credit (+ credit (* (- (max t Cwnd) Cwnd) Ack.bytes_acked)))
    (:= up (/ credit (max 1 Cwnd)))
    (:= credit (- credit (min credit (* up Cwnd))))
    (:= Cwnd (min 1073741824 (+ Cwnd up)))
    (fallthrough)
)
(when (|| Flow.was_timeout (> Micros interval_us))
    (:= Report.cwnd Cwnd)
    (:= Report.elapsed_us (+ Report.elapsed_us Micros))
    (:= Micros 0)
    (report)
)
