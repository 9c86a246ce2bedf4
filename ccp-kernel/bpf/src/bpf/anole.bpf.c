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
#include "machine.bpf.h"
#include "fallback.bpf.h"

char LICENSE[] SEC("license") = "GPL";

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
	u32 cap;      /* packets, after a timeout or idle; 0: none */
	u32 acked;    /* packets, with the present ACK */
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

/* The window that TCP obeys now, bytes. */
static __always_inline u32 window(const struct tcp_sock *tp)
{
	u64 bytes = (u64)tp->snd_cwnd * tp->mss_cache;

	return bytes < FOLD_MAX_CWND_BYTES ? bytes : FOLD_MAX_CWND_BYTES;
}

struct create {
	u16 type, length;
	u32 sid, init_cwnd, mss, src_ip, src_port, dst_ip, dst_port;
	char algorithm[FOLD_ALGORITHM_BYTES];
};

/* The algorithm that the flow asks for: "x" of anole_x, nothing of anole_ccp. */
static __always_inline void name_algorithm(const struct tcp_sock *tp, char *to)
{
	const struct tcp_congestion_ops *ops = tp->inet_conn.icsk_ca_ops;
	const int prefix = 6; /* "anole_" */
	int n;

	if (ops->name[prefix] == 'c' && ops->name[prefix + 1] == 'c' && ops->name[prefix + 2] == 'p' &&
	    !ops->name[prefix + 3])
		return;
	for (n = 0; n < 16 - prefix - 1; n++)
		to[n] = ops->name[prefix + n];
}

static __noinline int announce(struct sock *sk, struct flow *f)
{
	struct tcp_sock *tp = tcp(sk);
	struct create create = {.length = sizeof(create)};

	if (!f)
		return 0;
	create.sid = f->machine.head.sid;
	create.init_cwnd = window(tp);
	create.mss = tp->mss_cache;
	if (sk->__sk_common.skc_family == AF_INET) {
		create.src_ip = sk->__sk_common.skc_rcv_saddr;
		create.dst_ip = sk->__sk_common.skc_daddr;
	}
	create.src_port = sk->__sk_common.skc_num;
	create.dst_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	name_algorithm(tp, create.algorithm);
	if (bpf_ringbuf_output(&events, &create, sizeof(create), 0))
		count(&agent.unsent);
	return 0;
}

SEC("struct_ops")
void BPF_PROG(anole_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp(sk);
	u64 now_us = bpf_ktime_get_ns() / 1000;
	struct mailbox *mail;
	struct flow *f;
	u32 place;

	fallback_init(sk);
	f = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!f)
		return;
	count(&agent.opened);
	f->leniency = 1;
	f->lost = tp->lost;
	f->sacked = tp->sacked_out;
	f->delivered_ce = tp->delivered_ce;
	f->bytes_acked = tp->bytes_acked;
	if (bpf_map_pop_elem(&free_slots, &place)) {
		count(&agent.unslotted);
		return;
	}
	mail = bpf_map_lookup_elem(&mailboxes, &place);
	if (!mail)
		return;
	f->slot = place + 1;
	mail->generation++;
	f->machine.head.sid = mail->generation << 16 | f->slot;
	mail->program = 0;
	mail->staged.present[0] = mail->staged.present[1] = 0;
	mail->state = MAIL_EMPTY;
	mail->sid = f->machine.head.sid;
	if (agent_lives(now_us)) {
		announce(sk, f);
		wait_for_answer(f, now_us);
		/* An agent that is merely slow must not see the flow twice. */
		f->next_create = now_us + AGENT_TIMEOUT_US;
	}
}

SEC("struct_ops")
void BPF_PROG(anole_release, struct sock *sk)
{
	struct flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);
	struct mailbox *mail;
	u32 place;

	if (!f)
		return;
	place = f->slot - 1;
	mail = f->slot ? bpf_map_lookup_elem(&mailboxes, &place) : 0;
	if (mail) {
		struct {
			u16 type, length;
			u32 sid, uid, n;
		} end = {.type = 1, .length = sizeof(end), .sid = f->machine.head.sid};

		mail->sid = 0;
		if (agent_lives(bpf_ktime_get_ns() / 1000))
			bpf_ringbuf_output(&events, &end, sizeof(end), 0);
		bpf_map_push_elem(&free_slots, &place, 0);
	}
	bpf_sk_storage_delete(&flows, sk);
}

/* What this ACK tells, in the language's terms. */
static __always_inline void measure(struct tcp_sock *tp, const struct rate_sample *rs, struct flow *f,
				    struct fold_sample *sample)
{
	u32 mss = tp->mss_cache, sacked = tp->sacked_out, newly = sacked - f->sacked;
	s64 bytes = tp->bytes_acked - f->bytes_acked + (s64)(s32)newly * mss;
	u32 lost = tp->lost, marked = tp->delivered_ce;

	/* Cumulatively or selectively, each byte counts once; selective ones are whole packets. */
	sample->bytes_acked = bytes > 0 ? bytes : 0;
	sample->packets_acked = rs->acked_sacked;
	if ((s32)newly > 0) {
		sample->packets_misordered = newly;
		sample->bytes_misordered = newly * mss;
	}
	sample->ecn_packets = marked - f->delivered_ce;
	sample->ecn_bytes = sample->ecn_packets * mss;
	/* Not the sample's own count, which leaves out what a timeout found lost. */
	sample->lost_packets = lost - f->lost;
	sample->was_timeout = f->was_timeout;
	sample->rtt_us = rs->rtt_us > 0 ? rs->rtt_us : 0;
	/* A sample that is not valid leaves the rates as they were. */
	if (rs->delivered > 0 && rs->interval_us > 0) {
		u64 delivered = (u64)rs->delivered * mss * 1000000;

		if (rs->snd_interval_us)
			f->rate_outgoing = delivered / rs->snd_interval_us;
		if (rs->rcv_interval_us)
			f->rate_incoming = delivered / rs->rcv_interval_us;
	}
	sample->rate_outgoing = f->rate_outgoing;
	sample->rate_incoming = f->rate_incoming;
	sample->packets_in_flight = in_flight(tp);
	sample->bytes_in_flight = sample->packets_in_flight * mss;
	/* 0 while the application has nothing to send. */
	sample->bytes_pending = tp->write_seq - tp->snd_nxt;
	f->lost = lost;
	f->sacked = sacked;
	f->delivered_ce = marked;
	f->bytes_acked = tp->bytes_acked;
	f->was_timeout = 0;
	f->acked = rs->acked_sacked;
}

/* The agent has answered. */
static __always_inline void answered(struct flow *f, u64 now_us)
{
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

/* Hands the flow's window and rate to TCP. */
static __always_inline void obey(struct sock *sk, struct tcp_sock *tp, struct flow *f)
{
	u32 mss = f->machine.mss, rate = f->machine.control.rate;
	u32 cwnd = mss ? f->machine.control.cwnd / mss : 0;

	cwnd = clamped(tp, cwnd);
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
		u64 limit = sk->sk_max_pacing_rate;

		if (sk->sk_pacing_status == SK_PACING_NONE)
			sk->sk_pacing_status = SK_PACING_NEEDED;
		sk->sk_pacing_rate = rate < limit ? rate : limit;
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

static __always_inline void run_fallback(struct sock *sk, struct tcp_sock *tp, const struct rate_sample *rs,
					 struct flow *f, int alive)
{
	u64 now_us = f->machine.now_us;

	if (f->governed)
		lose_agent(sk, tp, f);
	fallback_ack(sk, tp, rs);
	if (alive && f->slot && now_us >= f->next_create) {
		announce(sk, f);
		wait_for_answer(f, now_us);
		f->next_create = now_us + CREATE_INTERVAL_US;
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
		fallback_ack(sk, tp, rs);
		return;
	}
	f->machine.now_us = tp->tcp_mstamp;
	f->machine.mss = tp->mss_cache;
	measure(tp, rs, f, &sample);
	alive = agent_lives(f->machine.now_us);
	if (alive && f->slot) {
		if (!f->governed) {
			f->machine.control.cwnd = window(tp);
			f->machine.control.rate = 0;
		}
		took = take_mail(f);
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
		if (bpf_ringbuf_output(&events, &m->head, bytes, 0))
			count(&agent.unsent);
		wait_for_answer(f, m->now_us);
		machine_reset(m, program);
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
	f->cap = 0;
	return tcp(sk)->snd_cwnd;
}

SEC("struct_ops")
void BPF_PROG(anole_set_state, struct sock *sk, u8 next)
{
	struct flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);
	struct tcp_sock *tp = tcp(sk);

	if (f && next == TCP_CA_Loss)
		f->was_timeout = 1;
	if (!f || !f->governed)
		fallback_state(sk, tp, next);
	else if (next == TCP_CA_Loss)
		f->cap = tp->snd_cwnd; /* which the kernel has just set to one packet above what is in flight
					*/
}

SEC("struct_ops")
void BPF_PROG(anole_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);
	struct tcp_sock *tp = tcp(sk);
	u32 restart;

	if (!f || !f->governed) {
		fallback_event(sk, tp, event);
	} else if (event == CA_EVENT_TX_START && !f->machine.control.rate) {
		restart = after_idle(sk, tp);
		if (restart < tp->snd_cwnd) {
			f->cap = restart;
			tp->snd_cwnd = restart;
		}
	}
}

#define OPS                                                                                                  \
	.init = (void *)anole_init, .release = (void *)anole_release, .ssthresh = (void *)anole_ssthresh,    \
	.undo_cwnd = (void *)anole_undo_cwnd, .set_state = (void *)anole_set_state,                          \
	.cwnd_event = (void *)anole_cwnd_event, .flags = TCP_CONG_NON_RESTRICTED, .name = "anole_ccp"

/*
 * One of these is registered: with a link since Linux 6.4. Any user may choose it, as Reno and CUBIC: what it
 * does to the network is bounded whoever asks for it.
 */
SEC(".struct_ops.link")
struct tcp_congestion_ops linked = {OPS, .cong_control = (void *)anole_cong_control};
SEC(".struct_ops.link")
struct tcp_congestion_ops linked_2 = {OPS, .cong_control = (void *)anole_cong_control_2};
SEC(".struct_ops")
struct tcp_congestion_ops unlinked_2 = {OPS, .cong_control = (void *)anole_cong_control_2};

/* Never registered; they make `finish` and `interpret` what `jumps` takes, programs for cong_control. */
SEC(".struct_ops")
struct tcp_congestion_ops part_finish = {.cong_control = (void *)anole_finish, .name = "anole_finish"};
SEC(".struct_ops")
struct tcp_congestion_ops part_interpret = {.cong_control = (void *)anole_interpret, .name = "anole_interp"};
