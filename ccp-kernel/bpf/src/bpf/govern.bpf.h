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

/* The agent has answered; `is_new`: another one than before. */
static __always_inline void answered(struct flow *f, u64 now_us, int is_new)
{
	if (f->waiting_since)
		count(&agent.waits[wait_step(now_us - f->waiting_since)]);
	f->waiting_since = 0;
	if (f->lost_at) {
		/* One that answers the first CREATE at once was not lost. */
		if (!is_new && now_us - f->lost_at < CREATE_INTERVAL_US)
			f->leniency = 2 * f->leniency < MAX_LENIENCY ? 2 * f->leniency : MAX_LENIENCY;
		else
			f->leniency = 1;
		f->lost_at = 0;
	}
}

/* Takes the flow's mail, if there is any; returns whether there was. What is not for this flow, or of an
 * earlier agent, is dropped. Mail that was written before the program told of a timeout is no answer to it.
 */
static __always_inline int take_mail(struct flow *f, int was_timeout)
{
	u32 place = f->slot - 1;
	struct mailbox *mail = bpf_map_lookup_elem(&mailboxes, &place);
	int ours, is_new;

	if (!mail || mail->state != MAIL_FULL ||
	    __sync_val_compare_and_swap(&mail->state, MAIL_FULL, MAIL_READING) != MAIL_FULL)
		return 0;
	ours = mail->to == f->machine.head.sid && mail->epoch == agent.epoch;
	is_new = f->epoch != mail->epoch;
	if (ours) {
		if (mail->program)
			f->epoch = mail->epoch;
		else if (is_new)
			f->machine.program = 0;
		if (!was_timeout && fold_commands(&mail->staged))
			fold_limit_answered(&f->limit);
		machine_take(&f->machine, mail);
	}
	__sync_lock_test_and_set(&mail->state, MAIL_EMPTY);
	if (ours)
		answered(f, f->machine.now_us, is_new);
	return ours;
}

static __always_inline int is_lost(const struct flow *f, const struct tcp_sock *tp)
{
	u64 patience = (u64)(tp->srtt_us >> 3) * LOST_AFTER_RTTS;

	if (patience < AGENT_TIMEOUT_US)
		patience = AGENT_TIMEOUT_US;
	return f->waiting_since && f->machine.now_us - f->waiting_since > patience * f->leniency;
}

/* The program's window, packets. */
static __always_inline u32 asked(const struct flow *f)
{
	return f->machine.mss ? f->machine.control.cwnd / f->machine.mss : 0;
}

/* Hands the flow's window and rate to TCP. */
static __always_inline void obey(struct sock *sk, struct tcp_sock *tp, struct flow *f)
{
	u32 mss = f->machine.mss, cwnd = asked(f), least;
	u64 rate = f->machine.control.rate, limit = sk->sk_max_pacing_rate;

	rate = rate < limit ? rate : limit;
	least = mss ? fold_burst(rate, tp->rtt_min.s[0].v) / mss : 0;
	cwnd = fold_limited(&f->limit, clamped(tp, cwnd > least ? cwnd : least), f->acked);
	if (f->waiting_since && ca_state(tp) == TCP_CA_Recovery)
		cwnd = fold_conserved(cwnd, in_flight(tp), f->acked, !tp->prr_out);
	if (cwnd != tp->snd_cwnd) {
		tp->snd_cwnd = cwnd;
		tp->snd_ssthresh = cwnd < 2 ? 2 : cwnd;
	}
	if (rate) {
		if (sk->sk_pacing_status == SK_PACING_NONE)
			sk->sk_pacing_status = SK_PACING_NEEDED;
		sk->sk_pacing_rate = rate;
	} else {
		pace(sk, tp);
	}
}

/* The fallback governs from now on. */
static __always_inline void lose_agent(struct sock *sk, struct tcp_sock *tp, struct flow *f)
{
	u64 delivered = f->rate_incoming * (tp->srtt_us >> 3) / 1000000;
	u32 mss = f->machine.mss, flight = in_flight(tp) + f->acked;
	struct fold_lost lost = {.cwnd = tp->snd_cwnd, .asked = asked(f), .app_limited = f->app_limited};
	struct fold_resumed to;

	delivered = mss ? delivered / mss : 0;
	lost.used = delivered > flight ? delivered : flight;
	to = fold_resume(&f->limit, &lost);
	f->governed = 0;
	f->limit = (struct fold_limit){};
	f->lost_at = f->machine.now_us;
	f->next_create = 0;
	f->machine.control.rate = 0;
	count(&agent.fallbacks);
	fallback_resume(sk, tp, to.cwnd, to.ssthresh);
}

static __always_inline void gain_agent(struct tcp_sock *tp, struct flow *f)
{
	f->governed = 1;
	count(&agent.adopted);
}

#endif
