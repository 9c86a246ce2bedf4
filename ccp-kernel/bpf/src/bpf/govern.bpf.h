/* SPDX-License-Identifier: GPL-2.0-only */
/* Who governs a flow, and how TCP obeys the agent. */
#ifndef GOVERN_BPF_H
#define GOVERN_BPF_H

#include "flow.bpf.h"
#include "machine.bpf.h"
#include "fallback.bpf.h"

/* The step of a time in the histogram of waits. */
static __always_inline u32 wait_step(u64 us)
{
	u32 rest = us < ~0U ? us : ~0U, shift;

	for (shift = 0; shift < 28 && rest > 15; shift++)
		rest >>= 1;
	return (shift * 8 + rest) % WAIT_STEPS;
}

/* The agent has answered. */
static __always_inline void answered(struct flow *f, u64 now_us)
{
	if (f->waiting_since)
		count(&agent.waits[wait_step(now_us - f->waiting_since)]);
	f->waiting_since = 0;
	if (f->lost_at) {
		/* One that answers the first CREATE at once was not lost. */
		if (now_us - f->lost_at < CREATE_INTERVAL_US)
			f->leniency = 2 * f->leniency < MAX_LENIENCY ? 2 * f->leniency : MAX_LENIENCY;
		else
			f->leniency = 1;
		f->lost_at = 0;
	}
}

/* Takes the flow's mail, if there is any; returns whether there was. */
static __always_inline int take_mail(struct flow *f)
{
	u32 place = f->slot - 1;
	struct mailbox *mail = bpf_map_lookup_elem(&mailboxes, &place);

	if (!mail || mail->state != MAIL_FULL ||
	    __sync_val_compare_and_swap(&mail->state, MAIL_FULL, MAIL_READING) != MAIL_FULL)
		return 0;
	if (mail->program)
		f->epoch = agent.epoch;
	else if (f->epoch != agent.epoch)
		f->machine.program = 0;
	machine_take(&f->machine, mail);
	__sync_lock_test_and_set(&mail->state, MAIL_EMPTY);
	answered(f, f->machine.now_us);
	return 1;
}

static __always_inline int is_lost(const struct flow *f, const struct tcp_sock *tp)
{
	u64 patience = (u64)(tp->srtt_us >> 3) * LOST_AFTER_RTTS;

	if (patience < AGENT_TIMEOUT_US)
		patience = AGENT_TIMEOUT_US;
	return f->waiting_since && f->machine.now_us - f->waiting_since > patience * f->leniency;
}

/*
 * Packets that TCP sends at once at this pacing rate, if the window lets it (tcp_tso_autosize()): those of a
 * millisecond, and where the round trip is shorter than some milliseconds, as many as hosts take at a time. A
 * smaller window, as on a path of a few packets, makes it send one packet at a time, each with an ACK of its
 * own, for several times the processor time. BBR allows for three such bursts.
 */
static __always_inline u32 burst(const struct tcp_sock *tp, u64 rate, u32 mss)
{
	u32 halvings = tp->rtt_min.s[0].v >> TSO_RTT_LOG;

	if (!rate || !mss)
		return 0;
	return (u32)((rate >> 10) + (halvings < 32 ? TSO_BYTES >> halvings : 0)) / mss;
}

/* Hands the flow's window and rate to TCP. */
static __always_inline void obey(struct sock *sk, struct tcp_sock *tp, struct flow *f)
{
	u32 mss = f->machine.mss, cwnd = mss ? f->machine.control.cwnd / mss : 0, least;
	u64 rate = f->machine.control.rate, limit = sk->sk_max_pacing_rate;

	rate = rate < limit ? rate : limit;
	least = burst(tp, rate, mss);
	cwnd = clamped(tp, cwnd > least ? cwnd : least);
	if (f->cap) {
		f->cap += f->acked;
		if (f->cap < cwnd)
			cwnd = f->cap;
		else
			f->cap = 0;
	}
	if (cwnd != tp->snd_cwnd) {
		tp->snd_cwnd = cwnd;
		tp->snd_ssthresh = cwnd;
	}
	if (rate) {
		if (sk->sk_pacing_status == SK_PACING_NONE)
			sk->sk_pacing_status = SK_PACING_NEEDED;
		sk->sk_pacing_rate = rate;
	} else {
		pace(sk, tp);
	}
}

/* The fallback governs from now on: from what the flow really used, since a window may be a loose cap. */
static __always_inline void lose_agent(struct sock *sk, struct tcp_sock *tp, struct flow *f)
{
	u64 used = f->rate_incoming * (tp->srtt_us >> 3) / 1000000;
	u32 mss = f->machine.mss, cwnd = tp->snd_cwnd, flight = in_flight(tp) + f->acked;

	used = mss ? used / mss : 0;
	used = used > flight ? used : flight;
	if (used && used < cwnd)
		cwnd = used;
	f->governed = 0;
	f->cap = 0;
	f->lost_at = f->machine.now_us;
	f->next_create = 0;
	f->machine.control.rate = 0;
	count(&agent.fallbacks);
	fallback_resume(sk, tp, cwnd);
}

static __always_inline void gain_agent(struct tcp_sock *tp, struct flow *f)
{
	f->governed = 1;
	count(&agent.adopted);
}

#endif
