"""Lab 2: AIMD as a fold program. Hand in this file."""

import anole_ccp

PROGRAM = """
(def
    (mss 1448)              # payload of a packet, bytes; on_flow sets it
    (credit 0)              # bytes acknowledged since the window last grew
    (cuts 0)                # decreases so far
    (quiet 0)               # bytes to be acknowledged before the next loss counts: the window that lost
    (Report
        (cwnd 0)            # window at the report, bytes
        (cuts 0)            # decreases so far
    )
)
(when true
    (:= quiet (- (max quiet Ack.bytes_acked) Ack.bytes_acked))
    (:= credit (+ credit Ack.bytes_acked))
    (fallthrough)
)
(when (&& (> Ack.lost_pkts_sample 0) (== quiet 0))
    (:= quiet Cwnd)
    (:= Cwnd (/ Cwnd 2))
    (:= credit 0)
    (:= cuts (+ cuts 1))
    (fallthrough)
)
(when (> credit Cwnd)
    (:= credit (- credit Cwnd))
    (:= Cwnd (+ Cwnd mss))
    (fallthrough)
)
(when (> Micros 100000)
    (:= Micros 0)
    (:= Report.cwnd Cwnd)
    (:= Report.cuts cuts)
    (report)
)
"""


class Aimd(anole_ccp.Algorithm):
    """The datapath does everything; the agent only listens."""

    program = PROGRAM

    def on_flow(self, flow):
        return {"cwnd": flow.init_cwnd, "mss": flow.mss}

    def on_report(self, report):
        return None
