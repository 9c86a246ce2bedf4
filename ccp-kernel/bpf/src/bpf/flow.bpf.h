/* SPDX-License-Identifier: GPL-2.0-only */
/* A flow under control, and where flows, their mail and their messages lie. */
#ifndef FLOW_BPF_H
#define FLOW_BPF_H

#include <bpf/bpf_helpers.h>
#include "kernel.h"
#include "datapath.h"
#include "../../../vm/window.h"

/* The same figures as in the other datapaths. */
#define HEARTBEAT_STALE_US 500000ULL
#define AGENT_TIMEOUT_US   500000ULL
#define LOST_AFTER_RTTS	   4
#define CREATE_INTERVAL_US 250000ULL
#define MAX_LENIENCY	   8

struct agent agent SEC(".data.agent");

struct flow {
	u32 slot;     /* its mailbox, from 1; 0: none */
	u32 epoch;    /* of the agent whose program runs */
	u32 governed; /* by the agent */
	struct fold_limit limit;
	u32 user; /* who holds the mailbox, and the namespace */
	u32 net;
	u32 acked; /* packets, with the present ACK */
	u32 app_limited;
	u32 was_timeout;
	u32 leniency; /* how many times the usual time this agent may take */
	u32 lost;     /* the kernel's counters at the latest ACK */
	u32 sacked;
	u32 delivered_ce;
	u64 bytes_acked;
	u64 rate_incoming; /* of the latest valid sample, bytes/s */
	u64 rate_outgoing;
	u64 waiting_since; /* us; 0: nothing waits for an answer */
	u64 lost_at;	   /* us; 0: not lost */
	u64 next_create;   /* us */
	struct machine machine;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_FLOWS);
	__type(key, u32);
	__type(value, struct mailbox);
} mailboxes SEC(".maps");

/* Mailboxes that nobody has; user space fills it once. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, MAX_FLOWS);
	__uint(value_size, sizeof(u32));
} free_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, EVENT_BYTES);
} events SEC(".maps");

static __always_inline struct tcp_sock *tcp(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline int agent_lives(u64 now_us)
{
	/* The heartbeat may be a little ahead of the ACK's clock. */
	return (s64)(now_us - agent.heartbeat_us) < (s64)HEARTBEAT_STALE_US;
}

static __always_inline void wait_for_answer(struct flow *f, u64 now_us)
{
	if (!f->waiting_since)
		f->waiting_since = now_us;
}

static __always_inline void count(u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

/*
 * A message to the agent; returns whether there was room for it. Waking it costs microseconds at an ACK
 * (interrupts to this processor and to the agent's), so that only one that sleeps is woken, once.
 *
 * It never sleeps with a message unread. Here the message is committed and then `sleeps` is read; there
 * `sleeps` is written and then the ring buffer is looked at (Datapath::receive in src/lib.rs). Each has a
 * full barrier in between, here of the atomic exchange itself, so that at least one side sees what the other
 * wrote. A message behind one that another processor has not committed yet cannot be read; the commit of that
 * one has its own look at `sleeps` behind it.
 */
static __always_inline int tell_agent(void *message, u32 bytes)
{
	int sent = !bpf_ringbuf_output(&events, message, bytes, BPF_RB_NO_WAKEUP);
	void *nothing;

	if (!sent)
		count(&agent.unsent);
	if (!__sync_val_compare_and_swap(&agent.sleeps, 1, 0))
		return sent;
	/* Readers skip what is discarded. Without room for it the ring buffer is full, and the agent's wait
	 * ends by itself. */
	nothing = bpf_ringbuf_reserve(&events, sizeof(u64), 0);
	if (nothing)
		bpf_ringbuf_discard(nothing, BPF_RB_FORCE_WAKEUP);
	return sent;
}

#endif
