# ramp: exponential growth until the round-trip time rises.
#
# The window grows by `gain_16`/16 of the bytes acknowledged (16 doubles it every round trip) and the
# packets are paced at `pace_16`/16 of window over round-trip time. When eight round-trip samples in a
# row (the count of HyStart, RFC 9406) exceed `exit_rtt_us`, growth stops and a report goes out at once. They
# are `gap_us` apart at least, since packets that arrive together, as on Wi-Fi, tell no more than one.
# Otherwise one report per `interval_us`, and one at once after a timeout. The window grows only while it is
# in use: half of it was in flight at once in the last two intervals (Linux's max_packets_out; packets that are
# paced leave later than the ACKs that let them go), all of it where nothing is left to send.

(def
    (mss 1448) # segment size, bytes
    (gain_16 16) # growth per byte acknowledged, 1/16
    (pace_16 20) # pacing rate over window per round trip, 1/16
    (exit_rtt_us +infinity) # round-trip time above which the ramp ends, us
    (interval_us 50000) # time between two reports, us
    (gap_us 0) # least time between two samples that count, us
    (sample_us 0) # time from which the next sample counts, us; state of the program
    (credit 0) # growth owed, 1/16 byte; state of the program
    (over 0) # round-trip samples in a row above `exit_rtt_us`; state of the program
    (flight 0) # most bytes in flight since the last report; state of the program
    (flown 0) # the same between the two before; state of the program
    (used 0) # what is compared with the window to tell whether it is in use, bytes; state of the program
    (Report
        (volatile acked 0) # bytes acknowledged in this window
        (volatile lost 0) # packets found lost in this window
        (volatile timeout false) # a retransmission timeout happened in this window
        (volatile elapsed_us 0) # length of this window, us
        (rtt_us 0) # last round-trip time, us
        (volatile min_rtt_us +infinity) # smallest round-trip time in this window, us
        (ended 0) # 1: the round-trip time rose and the ramp has ended
        (volatile cwnd 0) # congestion window at the report, bytes
    )
)
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
    (:= Report.timeout (|| Report.timeout Flow.was_timeout))
    (:= before Report.ended)
    (:= flight (max flight (+ Flow.bytes_in_flight Ack.bytes_acked)))
    (:= used (* 2 (max flight flown)))
    (:= used (if (== Flow.bytes_pending 0) (+ mss (+ Flow.bytes_in_flight Ack.bytes_acked))))
    (fallthrough)
)
(when (< Flow.rtt_sample_us 2000000000)
    (:= Report.rtt_us Flow.rtt_sample_us)
    (:= Report.min_rtt_us (min Report.min_rtt_us Flow.rtt_sample_us))
    (:= next (+ over 1))
    (:= over (!if (< Micros sample_us) next))
    (:= next (+ Micros gap_us))
    (:= sample_us (!if (< Micros sample_us) next))
    (:= over (if (< Flow.rtt_sample_us exit_rtt_us) 0))
    (:= Report.ended (if (> over 7) 1))
    (fallthrough)
)
(when (&& (< Report.ended 1) (> used Cwnd))
    (:= credit (+ credit (* gain_16 Ack.bytes_acked)))
    (:= Cwnd (+ Cwnd (/ credit 16)))
    (:= credit (- (max credit (* 16 (/ credit 16))) (* 16 (/ credit 16))))
    (fallthrough)
)
(when (> Report.rtt_us 0)
    (:= Rate (/ (* (* Cwnd pace_16) 62500) (max 1 Report.rtt_us))) # check: allow overflow: the window is below 2^32 bytes, pace_16 below 2^10
    (fallthrough)
)
(when (|| Flow.was_timeout (|| (> Micros interval_us) (> Report.ended before)))
    (:= Report.elapsed_us (+ Report.elapsed_us Micros))
    (:= Report.cwnd Cwnd)
    (:= sample_us (- (max sample_us Micros) Micros))
    (:= flown flight)
    (:= flight 0)
    (:= Micros 0)
    (report)
)
