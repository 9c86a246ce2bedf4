// SPDX-License-Identifier: GPL-2.0-only
/*
 * CUBIC (RFC 9438) in integers. Windows in packets, t in ms since congestion avoidance began
 * (section 4.2, 4.3):
 *
 *   W_cubic(t) = C * (t - K)^3 + plateau      K = cbrt((plateau - cwnd) / C)     C = 0.4 packets / s^3
 *   W_est     += alpha * acked / cwnd         alpha = 3 (1 - beta) / (1 + beta) until it is at the window
 *                                             before the loss, then 1
 *   on an ACK:   cwnd = W_est                                   while W_cubic(t) < W_est
 *                cwnd += (target - cwnd) / cwnd per packet      otherwise,
 *                        target = W_cubic(t + RTT) within [cwnd, 1.5 cwnd]
 *   on a loss:   plateau = cwnd, or cwnd * (1 + beta) / 2 when it is below the last one; cwnd *= beta = 0.7
 *
 * Deviation: slow start ends with a loss or at its threshold; there is no HyStart++ (RFC 9406).
 */
#include <linux/math64.h>
#include "ccp.h"

/* 1 / C in ms^3 per packet. */
#define MS3_PER_PACKET 2500000000ULL
#define ESTIMATE_SHIFT 16
/* alpha, in units of the estimate. */
#define ALPHA_FRIENDLY ((9 << ESTIMATE_SHIFT) / 17)
#define ALPHA_RENO     (1 << ESTIMATE_SHIFT)
/* Beyond 100 s from the plateau the cube is larger than any target; its product stays below 2^63. */
#define MAX_DISTANCE_MS 100000
/* The largest window whose K is worked out: 2^30 * MS3_PER_PACKET < 2^63. */
#define MAX_RISE (1U << 30)

/* The integer cube root, from its highest bit down. */
static u32 cube_root(u64 value)
{
	u64 root = 0;
	int bit;

	for (bit = 20; bit >= 0; bit--) {
		u64 next = root | 1ULL << bit;

		if (next * next * next <= value)
			root = next;
	}
	return root;
}

static u32 w_cubic(const struct ccp_cubic *cubic, u64 t_ms)
{
	bool below = t_ms < cubic->k_ms;
	u64 distance = min_t(u64, below ? cubic->k_ms - t_ms : t_ms - cubic->k_ms, MAX_DISTANCE_MS);
	u64 offset = div64_u64(distance * distance * distance, MS3_PER_PACKET);

	if (below)
		return offset < cubic->plateau ? cubic->plateau - offset : 0;
	return min_t(u64, cubic->plateau + offset, U32_MAX);
}

static void begin_epoch(struct ccp_cubic *cubic, u32 cwnd, u64 now_us)
{
	cubic->epoch_us = now_us;
	cubic->estimate = (u64)cwnd << ESTIMATE_SHIFT;
	/* Without a loss the window is flat here first. */
	cubic->plateau = max(cubic->max, cwnd);
	cubic->k_ms = cube_root(min_t(u32, cubic->plateau - cwnd, MAX_RISE) * MS3_PER_PACKET);
}

/* `acked` packets were acknowledged outside of a reduction. */
void ccp_cubic_ack(struct sock *sk, u32 acked)
{
	struct ccp_cubic *cubic = &ccp_ca(sk)->cubic;
	struct tcp_sock *tp = tcp_sk(sk);
	u64 now_us = tp->tcp_mstamp, t_ms;
	u32 cwnd, target;

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_snd_cwnd(tp) < tp->snd_ssthresh) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	cwnd = max_t(u32, tcp_snd_cwnd(tp), 1);
	if (!cubic->epoch_us)
		begin_epoch(cubic, cwnd, now_us);
	cubic->estimate +=
		div_u64((u64)acked * ((cubic->estimate >> ESTIMATE_SHIFT) < cubic->prior ? ALPHA_FRIENDLY
											 : ALPHA_RENO),
			cwnd);
	t_ms = div_u64(now_us - min(cubic->epoch_us, now_us), USEC_PER_MSEC);
	if (w_cubic(cubic, t_ms) < cubic->estimate >> ESTIMATE_SHIFT) {
		target = min_t(u64, cubic->estimate >> ESTIMATE_SHIFT, U32_MAX);
		if (target > cwnd)
			tcp_snd_cwnd_set(tp, ccp_packets_allowed(tp, target));
		return;
	}
	target = w_cubic(cubic, t_ms + (tp->srtt_us >> 3) / USEC_PER_MSEC);
	target = min_t(u64, target, (u64)cwnd * 3 / 2);
	if (target > cwnd)
		tcp_cong_avoid_ai(tp, max_t(u32, cwnd / (target - cwnd), 1), acked);
}

/* A loss: what the window becomes. */
u32 ccp_cubic_ssthresh(struct sock *sk)
{
	struct ccp_cubic *cubic = &ccp_ca(sk)->cubic;
	u32 cwnd = tcp_snd_cwnd(tcp_sk(sk));

	cubic->prior = cwnd;
	cubic->max = cwnd < cubic->max ? (u32)div_u64((u64)cwnd * 17, 20) : cwnd;
	cubic->epoch_us = 0;
	return max_t(u32, div_u64((u64)cwnd * 7, 10), 2);
}

/* A window that another algorithm left: the next epoch starts flat. */
void ccp_cubic_reset(struct sock *sk)
{
	ccp_ca(sk)->cubic = (struct ccp_cubic){0};
}

/* After a timeout's ssthresh: the next epoch starts flat (section 4.8); alpha is 1 from the window before it
 * on (section 4.3). */
void ccp_cubic_timeout(struct sock *sk)
{
	ccp_ca(sk)->cubic = (struct ccp_cubic){.prior = ccp_ca(sk)->cubic.prior};
}

/* Time without sending is no time of the epoch (section 5.8). */
void ccp_cubic_skip_idle(struct sock *sk)
{
	struct ccp_cubic *cubic = &ccp_ca(sk)->cubic;
	s32 idle = tcp_jiffies32 - tcp_sk(sk)->lsndtime;

	/* In milliseconds first: microseconds have 32 bits, 71 minutes. */
	if (cubic->epoch_us && idle > 0)
		cubic->epoch_us += (u64)jiffies_to_msecs(idle) * USEC_PER_MSEC;
}
