// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fallback, by CUBIC's window. TCP leaves an algorithm with cong_control() alone, so what it does around
 * others is done here: proportional rate reduction while a loss is repaired (RFC 6937), the window
 * afterwards, restart after idle (RFC 5681, section 4.1) and the pacing rate.
 */
#include "ccp.h"

static void set_window(struct tcp_sock *tp, u32 cwnd)
{
	tcp_snd_cwnd_set(tp, ccp_packets_allowed(tp, cwnd));
}

/* While the state becomes Loss: a retransmission timeout, at which the kernel sets the window to one packet
 * above what is in flight, and notes what to undo unless a reduction is under way (tcp_enter_loss()). A
 * path's MTU that shrank leaves the window, and nothing to undo (tcp_simple_retransmit()). */
bool ccp_is_timeout(const struct tcp_sock *tp)
{
	return tcp_snd_cwnd(tp) == tcp_packets_in_flight(tp) + 1 &&
	       (tp->inet_conn.icsk_ca_state > TCP_CA_Disorder || tp->undo_marker);
}

/* A reduction that another algorithm began goes on. */
void ccp_fallback_join(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	ccp_ca(sk)->prr_delivered = fold_delivered(tp->prr_out, tp->prior_cwnd, tp->snd_ssthresh);
}

/* From `cwnd` packets on. */
void ccp_fallback_resume(struct sock *sk, u32 cwnd, u32 ssthresh)
{
	struct tcp_sock *tp = tcp_sk(sk);

	set_window(tp, cwnd);
	tp->snd_ssthresh = ssthresh;
	tp->snd_cwnd_cnt = 0;
	ccp_fallback_join(sk);
	ccp_cubic_reset(sk);
}

static void reduce(struct sock *sk, u32 delivered)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct ccp_ca *ca = ccp_ca(sk);
	struct fold_reduction reduction = {
		.ssthresh = tp->snd_ssthresh,
		.prior = tp->prior_cwnd,
		.delivered = ca->prr_delivered,
		.out = tp->prr_out,
	};

	if (!delivered || !tp->prior_cwnd)
		return;
	set_window(tp, fold_reduced(&reduction, tcp_packets_in_flight(tp), delivered));
	ca->prr_delivered = reduction.delivered;
}

/* The kernel's pacing without an algorithm's own: two windows per RTT in slow start, then 1.2. */
void ccp_pace(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 rate = (u64)tp->mss_cache * ((USEC_PER_SEC / 100) << 3);
	u32 cwnd = tcp_snd_cwnd(tp);

	rate *= cwnd < tp->snd_ssthresh / 2 ? 200 : 120;
	rate *= max(cwnd, tp->packets_out);
	if (tp->srtt_us)
		rate = div_u64(rate, tp->srtt_us);
	WRITE_ONCE(sk->sk_pacing_rate, min_t(u64, rate, READ_ONCE(sk->sk_max_pacing_rate)));
}

void ccp_fallback_ack(struct sock *sk, const struct rate_sample *rs)
{
	u8 state = inet_csk(sk)->icsk_ca_state;

	if (state == TCP_CA_CWR || state == TCP_CA_Recovery)
		reduce(sk, rs->acked_sacked);
	else if (rs->acked_sacked)
		ccp_cubic_ack(sk, rs->acked_sacked);
	ccp_pace(sk);
}

/* Before the state becomes `next`: a reduction ends at ssthresh, unless it was undone. */
void ccp_fallback_state(struct sock *sk, u8 next)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u8 state = inet_csk(sk)->icsk_ca_state;

	if (next >= TCP_CA_CWR) {
		if (next == TCP_CA_Loss && ccp_is_timeout(tp))
			ccp_cubic_timeout(sk);
		return;
	}
	if (tp->snd_ssthresh < TCP_INFINITE_SSTHRESH &&
	    (state == TCP_CA_CWR || (state == TCP_CA_Recovery && tp->undo_marker)))
		set_window(tp, tp->snd_ssthresh);
}

/* Half of the window for each timeout without sending, down to the initial one, packets. */
u32 ccp_window_after_idle(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tcp_snd_cwnd(tp), least = min_t(u32, cwnd, TCP_INIT_CWND);
	s32 idle = tcp_jiffies32 - tp->lsndtime;
	s32 rto = inet_csk(sk)->icsk_rto;

	if (!sock_net(sk)->ipv4.sysctl_tcp_slow_start_after_idle || rto <= 0)
		return cwnd;
	for (; idle > rto && cwnd > least; idle -= rto)
		cwnd >>= 1;
	return max(cwnd, least);
}

void ccp_fallback_restart(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tcp_snd_cwnd(tp), restart = ccp_window_after_idle(sk);

	ccp_cubic_skip_idle(sk);
	if (restart >= cwnd)
		return;
	tp->snd_ssthresh = max_t(u32, tp->snd_ssthresh, (cwnd >> 1) + (cwnd >> 2));
	set_window(tp, restart);
}
