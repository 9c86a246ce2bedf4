"""Lab 2: AIMD as a fold program. Hand in this file."""

import anole_ccp

# The program runs in the datapath, on every ACK.
PROGRAM = """
(def
    (mss 1448)              # payload of a packet, bytes; on_flow sets it
    (Report
        (cwnd 0)            # window at the report, bytes
        (cuts 0)            # decreases so far
    )
)
# TODO: grow by one mss for each window of bytes acknowledged.
# TODO: halve Cwnd when Ack.lost_pkts_sample is above 0, once for each window, and count it in Report.cuts.
(when (> Micros 100000)
    (:= Micros 0)
    (:= Report.cwnd Cwnd)
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
