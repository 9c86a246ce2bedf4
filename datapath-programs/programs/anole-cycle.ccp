# anole-cycle: one control cycle of Anole; the datapath changes rates and tells windows apart by itself.
#
# The clock starts when the agent changes to this program. The pacing rate is `low` for `window_us`,
# `high` for `window_us`, then `hold`, which the agent changes when it has decided. A mark takes effect
# at the first ACK past it. The agent sets Cwnd as a cap; pacing governs.
#
# An ACK tells about the rate at which its packet left, so ACKs are sorted by the time their packet was
# sent, Micros - rtt, whatever the queue did meanwhile; losses by the last round-trip time:
#   window 0: sent while `low` was in force; reported at the first ACK of a packet sent later
#   window 1: sent while `high` was in force; reported likewise
#   window 2: sent since the last report; reported `hold_us` after the last report, again and again
# Packets sent before the program started enter no sum. A timeout reports at once, and so do round-trip
# times that stay above `alarm_us` for a quarter of `hold_us`, as window 3; the alarm is off until the agent
# sets it again, the rate held is in force and window 2 is open. What waited while a host stood still arrives
# at once, and is over sooner.
#
# What hosts and radio links add to round-trip times passes within milliseconds, and makes a slope without a
# queue. A queue that grows is still there at the end: `late_us` is the smallest round-trip time of the second half
# of windows 0 and 1, and of the last quarter of the time between two reports of window 2.
#
# The sums give the least-squares slope of the round-trip time over send time, with its standard error, which
# is worth something only if samples are independent: packets that arrive together, as on Wi-Fi, count as one,
# so samples are `gap_us` apart at least;
# t is counted from the beginning of the window, t and rtt are in units of 16 us, so that n samples of
# t^2 stay below 2^64 for windows up to a minute. A call without a round-trip sample (a loss detection)
# reads it as 2^32 - 1 and enters no sum. `acked` and `lost` count everything since the last report.

(def
    (low 0) # pacing rate of window 0, bytes/s
    (high 0) # pacing rate of window 1, bytes/s
    (hold 0) # pacing rate afterwards, bytes/s
    (window_us 25000) # length of windows 0 and 1: half a round trip, us
    (hold_us 150000) # time between two reports of window 2, us
    (alarm_us 2000000000) # round-trip time that is reported at once when it lasts, us
    (high_us 0) # time since which it has been above `alarm_us`, us; 0 when it is not; state of the program
    (gap_us 0) # least time between two samples of the sums, us
    (sample_us 0) # time from which the next sample counts, us; state of the program
    (cycle 0) # number of this cycle, so that a late report of the one before is known
    (phase 0) # window that is open: 0, 1 or 2; state of the program
    (begin_us 0) # beginning of the open window in send time, us; state of the program
    (since_us 0) # time of the last report, us; state of the program
    (Report
        (volatile window 0) # 4 * cycle + the window that was open, 3 after an alarm
        (volatile acked 0) # bytes acknowledged since the last report
        (volatile covered 0) # bytes acknowledged that were sent in the window
        (volatile lost 0) # packets found lost since the last report
        (volatile missed 0) # packets found lost while ACKs of the window arrived
        (volatile timeout false) # a retransmission timeout happened since the last report
        (volatile elapsed_us 0) # time since the last report, us
        (rtt_us 0) # last round-trip time, us
        (volatile min_rtt_us +infinity) # smallest round-trip time in the window, us
        (volatile late_us +infinity) # smallest round-trip time late in the window, us
        (volatile n 0) # round-trip samples in the window
        (volatile sum_t 0) # sum of t, 16 us
        (volatile sum_rtt 0) # sum of rtt, 16 us
        (volatile sum_tt 0) # sum of t^2, (16 us)^2
        (volatile sum_trtt 0) # sum of t*rtt, (16 us)^2
        (volatile sum_rttrtt 0) # sum of rtt^2, (16 us)^2
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
    (:= first (+ Report.rtt_us begin_us))
    (:= end (+ first window_us))
    (:= late (- end (/ window_us 2)))
    (:= next (+ Micros 1))
    (:= high_us (if (== high_us 0) Micros))
    (:= high_us (if (> alarm_us Report.rtt_us) 0))
    (:= t 0)
    (fallthrough)
)
(when (> phase 1)
    (:= end (+ since_us hold_us))
    (:= late (- end (/ hold_us 4)))
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
(when (&& (> next late) (|| (> phase 1) (< Micros end)))
    (:= Report.late_us (min Report.late_us Flow.rtt_sample_us))
    (fallthrough)
)
(when (&& (> next first) (|| (> phase 1) (&& (> Report.rtt_us 0) (< Micros end))))
    (:= Report.covered (+ Report.covered Ack.bytes_acked))
    (:= Report.missed (+ Report.missed Ack.lost_pkts_sample))
    (:= Report.min_rtt_us (min Report.min_rtt_us Flow.rtt_sample_us))
    (:= t 1)
    (fallthrough)
)
(when (&& (> t 0) (&& (< Flow.rtt_sample_us 2000000000) (> next sample_us)))
    (:= sample_us (+ Micros gap_us))
    (:= t (/ (- (max Micros first) first) 16))
    (:= y (/ Flow.rtt_sample_us 16))
    (:= Report.n (+ Report.n 1))
    (:= Report.sum_t (+ Report.sum_t t))
    (:= Report.sum_rtt (+ Report.sum_rtt y))
    (:= Report.sum_tt (+ Report.sum_tt (* t t)))
    (:= Report.sum_trtt (+ Report.sum_trtt (* t y)))
    (:= Report.sum_rttrtt (+ Report.sum_rttrtt (* y y)))
    (fallthrough)
)
(when (&& (&& (> high_us 0) (> Micros (+ high_us (/ hold_us 4)))) (< Flow.rtt_sample_us 2000000000))
    (:= alarm_us 2000000000)
    (:= window_us 0)
    (:= Rate hold)
    (:= phase 3)
    (:= end 0)
    (fallthrough)
)
(when (|| Flow.was_timeout (> next end))
    (:= Report.window (+ (* 4 cycle) phase))
    (:= Report.elapsed_us (+ Report.elapsed_us (- (max Micros since_us) since_us)))
    (:= since_us Micros)
    (:= phase (min 2 (+ phase 1)))
    (:= begin_us (+ begin_us window_us))
    (:= begin_us (if (> phase 1) Micros))
    (report)
)
