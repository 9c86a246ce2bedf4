/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * What TCP gets of the window that a program asks for, in packets, and what the fallback goes on with when
 * the agent is lost. Pure, for both of the kernel's datapaths.
 *
 *   timeout    what TCP has set (tcp_enter_loss(): a packet above what is in flight), and one more for each
 *              that is delivered, until the agent sets a window or a rate, or the program's window is
 *              reached
 *   idle       the restart window (RFC 5681, section 4.1), and one more for each that is delivered, until
 *              the program's window is reached
 *   recovery   while the report waits for its answer, as many as were delivered (packet conservation,
 *              RFC 6937)
 */
#ifndef FOLD_WINDOW_H
#define FOLD_WINDOW_H

#include "fold.h"

/* tcp_tso_autosize(): what hosts send at a time, halved for each 512 us of the smallest round-trip time. */
#define FOLD_TSO_BYTES	 65536U
#define FOLD_TSO_RTT_LOG 9
/* On a path that holds less than TCP sends at once: as much as BBR's startup lets stand there (its gain,
 * rounded up). */
#define FOLD_BURST_BDPS 3U
#define FOLD_INIT_CWND	10U /* RFC 6928 */

/* Bytes that wait to be sent, what was found lost among them. Less than a packet is nothing: the application
 * limits the flow, and its last bytes may wait for more of them (Nagle, TCP_CORK), as
 * tcp_rate_check_app_limited() counts. */
FOLD_INLINE u32 fold_pending(u32 unsent, u32 lost, u32 retransmitted, u32 mss)
{
	u32 pending = unsent + (lost > retransmitted ? (lost - retransmitted) * mss : 0);

	return pending < mss ? 0 : pending;
}

/* A window of packets, bytes: with which a flow is announced, and its first program begins. */
FOLD_INLINE u32 fold_window(u32 packets, u32 mss)
{
	u64 bytes = (u64)packets * mss;

	return bytes < FOLD_MAX_CWND_BYTES ? (u32)bytes : FOLD_MAX_CWND_BYTES;
}

/* What limits the window; all zero: nothing. */
struct fold_limit {
	u32 cap;	 /* packets; 0: none */
	u32 lost_flight; /* packets in flight at the timeout that the cap is of; 0: it is of idle */
};

/* TCP has set the window `cwnd` after a timeout with `flight` packets sent and not delivered. Timeouts
 * without anything delivered in between are one. */
FOLD_INLINE void fold_limit_timeout(struct fold_limit *limit, u32 cwnd, u32 flight)
{
	if (!limit->lost_flight || limit->cap > cwnd)
		limit->lost_flight = flight ? flight : 1;
	limit->cap = cwnd ? cwnd : 1;
}

/* The window restarts after idle; a timeout's limit is lower. */
FOLD_INLINE void fold_limit_idle(struct fold_limit *limit, u32 restart)
{
	if (!limit->cap || limit->cap > restart)
		limit->cap = restart ? restart : 1;
}

/* The agent has set a window or a rate: that is its answer to a timeout. */
FOLD_INLINE void fold_limit_answered(struct fold_limit *limit)
{
	if (limit->lost_flight)
		limit->cap = limit->lost_flight = 0;
}

/* The window in force where the program's is `cwnd`, after `acked` packets were delivered. */
FOLD_INLINE u32 fold_limited(struct fold_limit *limit, u32 cwnd, u32 acked)
{
	u32 cap = limit->cap + acked;

	if (limit->cap && cap < cwnd) {
		limit->cap = cap;
		return cap;
	}
	limit->cap = limit->lost_flight = 0;
	return cwnd;
}

/* Packet conservation: the window in force while losses are repaired and the agent has not answered yet. The
 * first packet of a recovery always leaves. */
FOLD_INLINE u32 fold_conserved(u32 cwnd, u32 in_flight, u32 acked, int is_first)
{
	u32 most = in_flight + (acked || !is_first ? acked : 1);

	most = most ? most : 1;
	return cwnd < most ? cwnd : most;
}

/* A reduction of the window under way (TCP_CA_CWR, TCP_CA_Recovery), packets. */
struct fold_reduction {
	u32 ssthresh;
	u32 prior;     /* the window when it began */
	u32 delivered; /* since then */
	u32 out;       /* sent since then */
};

/*
 * The window in force after `acked` more packets were delivered, with `in_flight` left: proportional rate
 * reduction with its slow-start bound (RFC 6937). What leaves is in proportion to what is delivered while
 * more than ssthresh is in flight, and slow start up to it then.
 */
FOLD_INLINE u32 fold_reduced(struct fold_reduction *reduction, u32 in_flight, u32 acked)
{
	u64 delivered = (u64)reduction->delivered + acked, ssthresh = reduction->ssthresh, most, least;
	u32 prior = reduction->prior ? reduction->prior : 1;

	reduction->delivered = delivered < 0xffffffff ? (u32)delivered : 0xffffffff;
	if (in_flight > ssthresh) {
		most = FOLD_DIV(ssthresh * reduction->delivered + prior - 1, (u64)prior);
		most = most > reduction->out ? most - reduction->out : 0;
	} else {
		most = delivered > reduction->out ? delivered - reduction->out : 0;
		most = (most > acked ? most : acked) + 1;
		most = most < ssthresh - in_flight ? most : ssthresh - in_flight;
	}
	/* The first packet of a recovery always leaves (fast retransmit). */
	least = !reduction->out;
	return in_flight + (u32)(most > least ? most : least);
}

/* What was delivered in a reduction of which only `out` is known, packets: the sender of those kept to the
 * proportion. With less, nothing would leave until that much is delivered again. */
FOLD_INLINE u32 fold_delivered(u32 out, u32 prior, u32 ssthresh)
{
	u64 delivered = prior > ssthresh && ssthresh ? FOLD_DIV((u64)out * prior, (u64)ssthresh) : out;

	return delivered < 0xffffffff ? (u32)delivered : 0xffffffff;
}

/*
 * The least window of a flow that is paced at `rate`, bytes: what TCP sends at once at this rate
 * (tcp_tso_autosize()), at most 64 KiB and FOLD_BURST_BDPS times what is in flight at it. With less than TCP
 * sends at once, packets leave one at a time, each with an ACK of its own, for several times the processor
 * time. `rate` and `min_rtt_us` are below 2^32.
 */
FOLD_INLINE u32 fold_burst(u64 rate, u32 min_rtt_us)
{
	u32 halvings = min_rtt_us >> FOLD_TSO_RTT_LOG;
	u64 bytes = (rate >> 10) + (halvings < 32 ? FOLD_TSO_BYTES >> halvings : 0);
	u64 most = FOLD_DIV(rate * min_rtt_us, (u64)1000000) * FOLD_BURST_BDPS;

	bytes = bytes < FOLD_TSO_BYTES ? bytes : FOLD_TSO_BYTES;
	return rate ? (u32)(bytes < most ? bytes : most) : 0;
}

/* What a flow was like when its agent was lost, packets. */
struct fold_lost {
	u32 cwnd;	 /* in force */
	u32 asked;	 /* the program's */
	u32 used;	 /* what was in flight, or delivered in a round trip; 0: not known */
	u32 app_limited; /* the application has too little to send */
};

/* Where the fallback goes on. */
struct fold_resumed {
	u32 cwnd;
	u32 ssthresh;
};

/*
 * From what the flow really used, since a program's window may be a loose cap. Where the application limits
 * it, that tells nothing of the path: at least ten packets, and slow start up to the program's window. After
 * a timeout without answer, as if CUBIC had governed: slow start up to 0.7 of what was in flight (RFC 9438,
 * section 4.8).
 */
FOLD_INLINE struct fold_resumed fold_resume(const struct fold_limit *limit, const struct fold_lost *lost)
{
	struct fold_resumed to;
	u32 floor = lost->asked < FOLD_INIT_CWND ? lost->asked : FOLD_INIT_CWND;

	to.cwnd = lost->used && lost->used < lost->cwnd ? lost->used : lost->cwnd;
	to.ssthresh = to.cwnd;
	if (limit->lost_flight) {
		u32 flight = limit->lost_flight < lost->asked ? limit->lost_flight : lost->asked;

		to.cwnd = lost->cwnd;
		to.ssthresh = (u64)flight * 7 / 10;
	} else if (lost->app_limited || limit->cap) {
		to.cwnd = to.cwnd > floor ? to.cwnd : floor;
		to.ssthresh = lost->asked;
	}
	floor = limit->lost_flight ? 1 : FOLD_MIN_CWND_PACKETS;
	to.cwnd = to.cwnd > floor ? to.cwnd : floor;
	to.ssthresh = to.ssthresh > 2 ? to.ssthresh : 2;
	return to;
}

#endif
