// SPDX-License-Identifier: GPL-2.0-only
/*
 * The congestion control plane's datapath for Linux TCP: a tcp_congestion_ops in BPF.
 *
 * At every ACK either the flow's fold program runs, if an agent governs it, or the fallback does. The agent
 * governs a flow from its first CHANGE_PROG until it is lost: its heartbeat is stale, or a message of the
 * flow has waited for an answer for longer than max(500 ms, 4 RTT). A flow that is not governed announces
 * itself (CREATE) every 250 ms while there is an agent.
 *
 * A program's window and rate are bounded (vm/machine.h), and what TCP knows better comes on top: after a
 * timeout, and after idle where no rate is set, the window starts small and grows by what is delivered until
 * it reaches the program's.
 *
 * Messages to the agent are CCP's, as they are, through the ring buffer `events`. Those of the agent come
 * through a mailbox each flow has (datapath.h).
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "datapath.h"
#include "flow.bpf.h"
#include "machine.bpf.h"
#include "fallback.bpf.h"
#include "announce.bpf.h"
#include "sample.bpf.h"
#include "govern.bpf.h"

char LICENSE[] SEC("license") = "GPL";

SEC("struct_ops")
void BPF_PROG(anole_init, struct sock *sk)
{
	fallback_init(sk);
	/* The connection may have been open for long. */
	fallback_join(tcp(sk));
	open_flow(sk);
}

SEC("struct_ops")
void BPF_PROG(anole_release, struct sock *sk)
{
	close_flow(sk);
}

static __always_inline void run_fallback(struct sock *sk, struct tcp_sock *tp, const struct rate_sample *rs,
					 struct flow *f, int alive)
{
	u64 now_us = f->machine.now_us;

	if (f->governed)
		lose_agent(sk, tp, f);
	fallback_ack(sk, tp, rs);
	if (!alive || now_us < f->next_create)
		return;
	f->next_create = now_us + CREATE_INTERVAL_US;
	if (f->slot || take_slot(sk, f)) {
		announce(sk, f);
		wait_for_answer(f, now_us);
	}
}

/* One ACK. The jumps return only if there is nothing to jump to. */
static __always_inline void on_ack(unsigned long long *ctx, struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp(sk);
	struct flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);
	struct fold_sample sample = {};
	int alive, took;

	if (!f) {
		/* The ACK of a SYN comes before `init`. Later on there was no memory for the flow, or the
		 * kernel left `init` out, as it does now and then on a busy processor when a cgroup's program
		 * chooses. */
		if (BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_initialized))
			open_flow(sk);
		fallback_ack(sk, tp, rs);
		return;
	}
	f->machine.now_us = tp->tcp_mstamp;
	f->machine.mss = tp->mss_cache;
	measure(tp, rs, f, &sample);
	alive = agent_lives(f->machine.now_us);
	if (alive && f->slot) {
		if (!f->governed) {
			f->machine.control.cwnd = fold_window(tp->snd_cwnd, tp->mss_cache);
			f->machine.control.rate = 0;
		}
		took = take_mail(f, sample.was_timeout);
		if (f->machine.program && f->epoch == agent.epoch && !is_lost(f, tp)) {
			if (!f->governed)
				gain_agent(tp, f);
			machine_begin(&f->machine, &sample, took);
			bpf_tail_call(ctx, &jumps, f->machine.program - 1);
			bpf_tail_call(ctx, &jumps, JUMP_INTERPRET);
		}
	}
	run_fallback(sk, tp, rs, f, alive);
}

/* Since Linux 6.10, and before. */
SEC("struct_ops")
void anole_cong_control(unsigned long long *ctx)
{
	on_ack(ctx, (void *)ctx[0], (void *)ctx[3]);
}

SEC("struct_ops")
void anole_cong_control_2(unsigned long long *ctx)
{
	on_ack(ctx, (void *)ctx[0], (void *)ctx[1]);
}

static __always_inline void end_run(struct sock *sk, struct flow *f)
{
	struct machine *m = &f->machine;
	struct fold_program *program = machine_program(m);
	u32 bytes;

	if (!program)
		return;
	switch (machine_end(m, program)) {
	case FOLD_ABORTED:
		count(&agent.aborts);
		wait_for_answer(f, m->now_us);
		break;
	case FOLD_REPORTS:
		bytes = m->head.length;
		if (bytes > FOLD_MAX_MEASURE_BYTES)
			bytes = FOLD_MAX_MEASURE_BYTES;
		/* What could not be sent is in the next report. */
		if (tell_agent(&m->head, bytes))
			machine_reset(m, program);
		wait_for_answer(f, m->now_us);
		break;
	}
	obey(sk, tcp(sk), f);
}

/* Where the fold programs' own BPF programs end. */
SEC("struct_ops")
void anole_finish(unsigned long long *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);

	if (f)
		end_run(sk, f);
}

SEC("struct_ops")
void anole_interpret(unsigned long long *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);

	if (!f)
		return;
	machine_interpret(&f->machine);
	end_run(sk, f);
}

SEC("struct_ops")
u32 BPF_PROG(anole_ssthresh, struct sock *sk)
{
	struct flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);
	u32 cwnd = tcp(sk)->snd_cwnd;

	/* A reduction begins, whoever governs it. */
	PRR_DELIVERED(tcp(sk)) = 0;
	if (!f || !f->governed)
		return fallback_ssthresh(sk, tcp(sk));
	/* The program decides; the fallback, should it take over, goes on from here. */
	return cwnd < 2 ? 2 : cwnd;
}

SEC("struct_ops")
u32 BPF_PROG(anole_undo_cwnd, struct sock *sk)
{
	struct flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);

	if (!f || !f->governed)
		return tcp_reno_undo_cwnd(sk);
	/* The next ACK sets the program's window again. */
	f->limit = (struct fold_limit){};
	return tcp(sk)->snd_cwnd;
}

SEC("struct_ops")
void BPF_PROG(anole_set_state, struct sock *sk, u8 next)
{
	struct flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);
	struct tcp_sock *tp = tcp(sk);

	if (f && next == TCP_CA_Loss) {
		if (is_timeout(tp)) {
			f->was_timeout = 1;
			if (f->governed)
				fold_limit_timeout(&f->limit, tp->snd_cwnd, tp->packets_out - tp->sacked_out);
		} else {
			/* Packets that have become too large are no sign of congestion. */
			f->lost = tp->lost;
		}
	}
	if (!f || !f->governed)
		fallback_state(sk, tp, next);
}

/* The first packet after a pause. A pacing rate keeps a burst from leaving; without one the window has to. */
static __always_inline void on_transmit_start(struct sock *sk)
{
	struct flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);
	struct tcp_sock *tp = tcp(sk);
	u32 restart;

	if (!f || !f->governed) {
		fallback_transmit_start(sk, tp);
	} else if (!f->machine.control.rate) {
		restart = after_idle(sk, tp);
		if (restart < tp->snd_cwnd) {
			fold_limit_idle(&f->limit, restart);
			tp->snd_cwnd = restart;
		}
	}
}

/* Since Linux 7.1, and before. */
SEC("struct_ops")
void BPF_PROG(anole_cwnd_event_tx_start, struct sock *sk)
{
	on_transmit_start(sk);
}

SEC("struct_ops")
void BPF_PROG(anole_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		on_transmit_start(sk);
}

#include "names.bpf.h"
