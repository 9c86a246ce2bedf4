# spine: the executor of Spine (CoNEXT 2022, Sec. 4): four parameters say how the window moves per ACK.
#
#   srtt / smallest RTT < 1 + alpha_tol :  Cwnd += alpha_thr per byte acknowledged
#   otherwise                           :  Cwnd -= alpha_lat per byte acknowledged
#   on a loss, once per round trip      :  Cwnd *= alpha_loss
#   pacing rate = Cwnd / srtt
#
# The smallest RTT is that of the last three and a half to seven seconds: a path may become longer (BBR forgets after ten).
# alpha_thr and alpha_lat are packets per packet acknowledged, so 0.1 is 10 % per round trip. The window
# grows only while it is in use, as in the program cubic, and stays between two segments and 1 GiB. A sender that drops to alpha_loss of its window is silent for the rest of a round
# trip: the losses of the next (2 - alpha_loss) round trips belong to the decrease already made.
#
# Fixed point: parameters in 1/65536, at most 2^18; windows below 2^30, round-trip times below 2^31 us, so
# that every product stays below 2^52. `credit` and `debit` keep what the divisions leave. The sums are
# those of the program rate-hold. One report per `interval_us`, and one at once after a timeout.

(def
    (mss 1448) # segment size, bytes
    (interval_us 50000) # time between two reports, us
    (alpha_thr 6554) # growth per byte acknowledged, 1/65536
    (alpha_lat 0) # decrease per byte acknowledged, 1/65536
    (alpha_tol 131072) # tolerated queueing delay over the smallest round-trip time, 1/65536
    (alpha_loss 32768) # factor on a loss, 1/65536
    (base_us 2000000000) # smallest round-trip time of the last 3.5 to 7 s, us
    (base_now_us 2000000000) # smallest round-trip time since the last change of base_old_us, us; state of the program
    (base_old_us 2000000000) # smallest round-trip time of the 3.5 s before, us; state of the program
    (renew_us 0) # when base_now_us becomes base_old_us, us; state of the program
    (srtt_8_us 0) # smoothed round-trip time, 1/8 us; state of the program
    (recovered_us 0) # losses before this time belong to the decrease already made, us; state of the program
    (credit 0) # growth owed, 1/65536 byte; state of the program
    (debit 0) # decrease owed, 1/65536 byte; state of the program
    (used 0) # what is compared with the window to tell whether it is in use, bytes; state of the program
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
    (:= y (/ Flow.rtt_sample_us 16))
    (:= Report.n (+ Report.n 1))
    (:= Report.sum_t (+ Report.sum_t t))
    (:= Report.sum_rtt (+ Report.sum_rtt y))
    (:= Report.sum_tt (+ Report.sum_tt (* t t)))
    (:= Report.sum_trtt (+ Report.sum_trtt (* t y)))
    (:= Report.sum_rttrtt (+ Report.sum_rttrtt (* y y)))
    (:= base_old_us (if (> Ack.now renew_us) base_now_us))
    (:= base_now_us (if (> Ack.now renew_us) Flow.rtt_sample_us))
    (:= renew_us (if (> Ack.now renew_us) (+ Ack.now 3500000)))
    (:= base_now_us (min base_now_us Flow.rtt_sample_us))
    (:= base_us (min base_now_us base_old_us))
    (fallthrough)
)
(when true
    (:= limit_8_us (/ (* (min base_us 2000000000) (+ 65536 (min alpha_tol 262144))) 8192))
    (fallthrough)
)
(when (< srtt_8_us limit_8_us)
    (:= used (* 2 (+ Flow.bytes_in_flight Ack.bytes_acked)))
    (:= used (if (== Flow.bytes_pending 0) (+ mss (+ Flow.bytes_in_flight Ack.bytes_acked))))
    (:= credit (+ credit (* alpha_thr Ack.bytes_acked)))
    (:= credit (if (< used Cwnd) 0))
    (:= step (/ credit 65536))
    (:= credit (- credit (min credit (* 65536 step))))
    (:= Cwnd (min 1073741824 (+ Cwnd step)))
    (fallthrough)
)
(when (> (+ srtt_8_us 1) limit_8_us)
    (:= debit (+ debit (* alpha_lat Ack.bytes_acked)))
    (:= step (/ debit 65536))
    (:= debit (- debit (min debit (* 65536 step))))
    (:= Cwnd (- Cwnd (min Cwnd step)))
    (fallthrough)
)
(when (&& (> Ack.lost_pkts_sample 0) (> Ack.now recovered_us))
    (:= Cwnd (/ (* Cwnd alpha_loss) 65536))
    (:= recovered_us (+ Ack.now (/ (* (- 131072 (min 131072 alpha_loss)) (/ srtt_8_us 8)) 65536)))
    (fallthrough)
)
(when true
    (:= Cwnd (max Cwnd (* 2 mss)))
    (fallthrough)
)
(when (> srtt_8_us 0)
    (:= Rate (/ (* Cwnd 8000000) (max 1 srtt_8_us)))
    (fallthrough)
)
(when (|| Flow.was_timeout (> Micros interval_us))
    (:= Report.cwnd Cwnd)
    (:= Report.elapsed_us (+ Report.elapsed_us Micros))
    (:= Micros 0)
    (report)
)
