/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The fallback: the kernel's CUBIC through its kfuncs, or its Reno where CUBIC is not built in. Both decide
 * what the window becomes in Open, Disorder and Loss; since these flows have a cong_control(), what the
 * kernel does around it is done here: proportional rate reduction in CWR and Recovery (RFC 6937), the window
 * after them, restart after idle (RFC 2861) and the pacing rate.
 */
#ifndef FALLBACK_BPF_H
#define FALLBACK_BPF_H

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "kernel.h"

extern void cubictcp_init(struct sock *sk) __ksym __weak;
extern u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym __weak;
extern void cubictcp_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym __weak;
extern void cubictcp_state(struct sock *sk, u8 state) __ksym __weak;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym __weak;
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym __weak;
extern void cubictcp_cwnd_event_tx_start(struct sock *sk) __ksym __weak;
extern u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;
extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* The running kernel has CUBIC's kfuncs, and which of the two for idle restart. */
enum { CUBIC_NONE, CUBIC_EVENT, CUBIC_TX_START };
const volatile u8 have_cubic = CUBIC_EVENT;

/* Packets delivered since the reduction began: in the last word of the private area, beyond CUBIC's. */
#define PRR_DELIVERED(tp) ((tp)->inet_conn.icsk_ca_priv[12])

static __always_inline u8 ca_state(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
}

static __always_inline u32 in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

/* While the state becomes Loss: a retransmission timeout, at which the kernel sets the window to one packet
 * above what is in flight, and notes what to undo unless a reduction is under way (tcp_enter_loss()). A
 * path's MTU that shrank leaves the window, and nothing to undo (tcp_simple_retransmit()). */
static __always_inline int is_timeout(const struct tcp_sock *tp)
{
	return tp->snd_cwnd == in_flight(tp) + 1 && (ca_state(tp) > TCP_CA_Disorder || tp->undo_marker);
}

static __always_inline u32 clamped(const struct tcp_sock *tp, u32 cwnd)
{
	u32 clamp = tp->snd_cwnd_clamp;

	cwnd = cwnd < clamp ? cwnd : clamp;
	return cwnd ? cwnd : 1;
}

static __always_inline void fallback_init(struct sock *sk)
{
	if (have_cubic)
		cubictcp_init(sk);
}

/* A reduction that another algorithm began goes on. */
static __always_inline void fallback_join(struct tcp_sock *tp)
{
	PRR_DELIVERED(tp) = fold_delivered(tp->prr_out, tp->prior_cwnd, tp->snd_ssthresh);
}

/* From `cwnd` packets on. */
static __always_inline void fallback_resume(struct sock *sk, struct tcp_sock *tp, u32 cwnd, u32 ssthresh)
{
	fallback_init(sk);
	tp->snd_cwnd = clamped(tp, cwnd);
	tp->snd_ssthresh = ssthresh;
	fallback_join(tp);
}

static __always_inline u32 fallback_ssthresh(struct sock *sk, struct tcp_sock *tp)
{
	return have_cubic ? cubictcp_recalc_ssthresh(sk) : tcp_reno_ssthresh(sk);
}

static __always_inline void reduce(struct tcp_sock *tp, u32 acked)
{
	struct fold_reduction reduction = {
		.ssthresh = tp->snd_ssthresh,
		.prior = tp->prior_cwnd,
		.delivered = PRR_DELIVERED(tp),
		.out = tp->prr_out,
	};

	if (!acked || !reduction.prior)
		return;
	tp->snd_cwnd = clamped(tp, fold_reduced(&reduction, in_flight(tp), acked));
	PRR_DELIVERED(tp) = reduction.delivered;
}

/* The kernel's pacing without an algorithm's: twice the window per RTT in slow start, else 1.2 times. */
static __always_inline void pace(struct sock *sk, struct tcp_sock *tp)
{
	u32 cwnd = tp->snd_cwnd, out = tp->packets_out, srtt = tp->srtt_us;
	u64 rate = (u64)tp->mss_cache * (1000000 / 100 << 3);
	u64 limit = sk->sk_max_pacing_rate;

	rate *= cwnd < tp->snd_ssthresh / 2 ? 200 : 120;
	rate *= cwnd > out ? cwnd : out;
	if (srtt)
		rate /= srtt;
	sk->sk_pacing_rate = rate < limit ? rate : limit;
}

static __always_inline void fallback_ack(struct sock *sk, struct tcp_sock *tp, const struct rate_sample *rs)
{
	u32 acked = rs->acked_sacked;
	u8 state = ca_state(tp);

	if (have_cubic && acked) {
		struct ack_sample sample = {
			.pkts_acked = acked, .rtt_us = rs->rtt_us, .in_flight = rs->prior_in_flight};

		cubictcp_acked(sk, &sample);
	}
	if (state == TCP_CA_CWR || state == TCP_CA_Recovery) {
		reduce(tp, acked);
	} else if (acked) {
		if (have_cubic)
			cubictcp_cong_avoid(sk, tp->snd_una, acked);
		else
			tcp_reno_cong_avoid(sk, tp->snd_una, acked);
	}
	pace(sk, tp);
}

/* Called before the state changes to `next`. */
static __always_inline void fallback_state(struct sock *sk, struct tcp_sock *tp, u8 next)
{
	u8 state = ca_state(tp);
	u32 ssthresh = tp->snd_ssthresh;

	if (have_cubic)
		cubictcp_state(sk, next);
	/* A reduction ends at ssthresh, unless it was undone. */
	if (next < TCP_CA_CWR && ssthresh < TCP_INFINITE_SSTHRESH &&
	    (state == TCP_CA_CWR || (state == TCP_CA_Recovery && tp->undo_marker)))
		tp->snd_cwnd = clamped(tp, ssthresh);
}

/* RFC 2861: the window is halved for each timeout without sending, down to the initial one. */
static __always_inline u32 after_idle(struct sock *sk, struct tcp_sock *tp)
{
	u32 cwnd = tp->snd_cwnd, rto = tp->inet_conn.icsk_rto;
	u32 idle = (u32)bpf_jiffies64() - tp->lsndtime;
	u32 floor = cwnd < TCP_INIT_CWND ? cwnd : TCP_INIT_CWND;
	int n;

	if (!rto || !sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_slow_start_after_idle)
		return cwnd;
	for (n = 0; n < 31 && idle > rto && cwnd > floor; n++) {
		cwnd >>= 1;
		idle -= rto;
	}
	return cwnd > floor ? cwnd : floor;
}

/* The first packet after a pause. */
static __always_inline void fallback_transmit_start(struct sock *sk, struct tcp_sock *tp)
{
	u32 cwnd = tp->snd_cwnd, restart = after_idle(sk, tp);
	u32 known = cwnd / 4 * 3;

	if (restart < cwnd) {
		if (tp->snd_ssthresh < known)
			tp->snd_ssthresh = known;
		tp->snd_cwnd = restart;
	}
	if (have_cubic == CUBIC_EVENT)
		cubictcp_cwnd_event(sk, CA_EVENT_TX_START);
	else if (have_cubic == CUBIC_TX_START)
		cubictcp_cwnd_event_tx_start(sk);
}

#endif
