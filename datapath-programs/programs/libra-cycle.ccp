# libra-cycle: one control cycle of Libra; the datapath changes rates and tells windows apart by itself.
#
# The clock starts when the agent changes to this program, at the end of an exploration of `before_us`. The
# pacing rate is `low` for `window_us`, `high` for `window_us`, then `hold`, which the agent changes while it
# explores again. A mark takes effect at the first ACK past it. The agent sets Cwnd.
#
# An ACK tells about the rate at which its packet left, so ACKs are sorted by the time their packet was sent,
# Micros - rtt, whatever the queue did meanwhile. Times count from the beginning of that exploration, so that
# none is negative:
#   window 0: sent in the exploration; reported at the first ACK of a packet sent later
#   window 1: sent while `low` was in force; reported likewise
#   window 2: sent while `high` was in force; reported likewise
#   window 3: everything that arrived since the last report; reported `hold_us` after it, again and again
# A timeout reports at once.
#
# The sums give the least-squares slope of the round-trip time over send time, in window 3 over arrival time,
# with its standard error, which is worth something only if samples are independent: packets that arrive
# together, as on Wi-Fi, count as one, so samples are `gap_us` apart at least. `late_us` is the smallest
# round-trip time of the window's second half: what hosts and radio links add has passed by then. t and rtt are
# in units of 16 us, so that n samples of t^2 stay below 2^64 for windows up to a minute. A call without a
# round-trip sample (a loss detection) reads it as 2^32 - 1 and enters no sum.

(def
    (low 0) # pacing rate of window 1, bytes/s
    (high 0) # pacing rate of window 2, bytes/s
    (hold 0) # pacing rate afterwards, bytes/s
    (before_us 0) # length of the exploration before, us
    (window_us 25000) # length of windows 1 and 2: half a round trip, us
    (hold_us 100000000) # time between two reports of window 3, us
    (gap_us 0) # least time between two samples of the sums, us
    (sample_us 0) # time from which the next sample counts, us; state of the program
    (cycle 0) # number of this cycle, so that a late report of the one before is known
    (phase 0) # window that is open: 0, 1, 2 or 3; state of the program
    (begin_us 0) # beginning of the open window, in window 3 of its report, us; state of the program
    (since_us 0) # time of the last report, at first `before_us`, us; state of the program
    (Report
        (volatile window 0) # 4 * cycle + the window that was open
        (volatile acked 0) # bytes acknowledged since the last report
        (volatile lost 0) # packets found lost since the last report
        (volatile timeout false) # a retransmission timeout happened since the last report
        (volatile elapsed_us 0) # time since the last report, us
        (rtt_us 0) # last round-trip time, us
        (volatile min_rtt_us +infinity) # smallest round-trip time in the window, us
        (volatile late_us +infinity) # smallest round-trip time in the window's second half, us
        (volatile n 0) # round-trip samples in the window
        (volatile sum_t 0) # sum of t, 16 us
        (volatile sum_rtt 0) # sum of rtt, 16 us
        (volatile sum_tt 0) # sum of t^2, (16 us)^2
        (volatile sum_trtt 0) # sum of t*rtt, (16 us)^2
        (volatile sum_rttrtt 0) # sum of rtt^2, (16 us)^2
        (rate_in 0) # last delivery rate, bytes/s
        (volatile inflight 0) # bytes in flight at the last ACK
    )
)
(when (< Flow.rtt_sample_us 2000000000)
    (:= Report.rtt_us Flow.rtt_sample_us)
    (fallthrough)
)
(when true
    (:= Rate hold)
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
    (:= Report.timeout (|| Report.timeout Flow.was_timeout))
    (:= Report.rate_in Flow.rate_incoming)
    (:= Report.inflight Flow.bytes_in_flight)
    (:= next (+ Micros (+ before_us 1)))
    (:= first (+ Report.rtt_us begin_us))
    (:= end (+ first window_us))
    (:= t 0)
    (fallthrough)
)
(when (== phase 0)
    (:= end (+ first before_us))
    (fallthrough)
)
(when (> phase 2)
    (:= first begin_us)
    (:= end (+ first hold_us))
    (fallthrough)
)
(when (< Micros (* 2 window_us))
    (:= Rate high)
    (fallthrough)
)
(when (< Micros window_us)
    (:= Rate low)
    (fallthrough)
)
(when (&& (< Flow.rtt_sample_us 2000000000) (&& (> next first) (|| (> phase 2) (< next end))))
    (:= Report.min_rtt_us (min Report.min_rtt_us Flow.rtt_sample_us))
    (:= t (+ (- next first) 15))
    (fallthrough)
)
(when (&& (> t 0) (> (+ next next) (+ first end)))
    (:= Report.late_us (min Report.late_us Flow.rtt_sample_us))
    (fallthrough)
)
(when (&& (< Flow.rtt_sample_us 2000000000) (&& (> t 0) (> next sample_us)))
    (:= sample_us (+ next gap_us))
    (:= t (/ t 16))
    (:= y (/ Flow.rtt_sample_us 16))
    (:= Report.n (+ Report.n 1))
    (:= Report.sum_t (+ Report.sum_t t))
    (:= Report.sum_rtt (+ Report.sum_rtt y))
    (:= Report.sum_tt (+ Report.sum_tt (* t t)))
    (:= Report.sum_trtt (+ Report.sum_trtt (* t y)))
    (:= Report.sum_rttrtt (+ Report.sum_rttrtt (* y y)))
    (fallthrough)
)
(when (|| Flow.was_timeout (> next end))
    (:= Report.window (+ (* 4 cycle) phase))
    (:= Report.elapsed_us (+ Report.elapsed_us (- (max next since_us) since_us)))
    (:= since_us next)
    (:= begin_us (+ begin_us window_us))
    (:= begin_us (if (== phase 0) before_us))
    (:= begin_us (if (> phase 1) next))
    (:= phase (min 3 (+ phase 1)))
    (report)
)
