# Does nothing with an ACK.

(def (Report (volatile nothing 0)))
(when false
    (report)
)
