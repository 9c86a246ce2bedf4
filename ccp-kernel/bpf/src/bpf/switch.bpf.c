// SPDX-License-Identifier: GPL-2.0-only
/*
 * Follows the connections of a cgroup, sums up what happens to each, and sets their congestion control, one
 * of the kernel's own, as the agent says (Zhou et al., "Antelope", ICNP 2021).
 *
 *   established   the algorithm for its peer's /24, if one is known; event: begins
 *   round trip    at least 20 packets and 1 ms: event: stretch; then the agent's choice, if there is one
 *   closed        event: ends
 *
 * The kernel calls once per round trip, not per ACK: a stretch is a round trip at least. A choice is heeded
 * at the next one. State is in the socket's storage and goes with it; choices and prefixes are bounded maps
 * that forget the oldest. Without an agent this is not attached, and every connection keeps what it has.
 *
 * Left alone: connections whose program or route has chosen, at any time, subflows of MPTCP, and algorithms
 * other than the arms. Once this has set one, a program that chooses the one in force goes unnoticed: the
 * kernel marks both alike.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_core_read.h>
#include "switch.h"

char LICENSE[] SEC("license") = "GPL";

/* include/linux/socket.h, include/uapi/linux/tcp.h */
#define AF_INET	       2
#define SOL_TCP	       6
#define TCP_CONGESTION 13
#define MAPPED_IPV4    __builtin_bswap32(0x0000ffff)
/* net/ipv4/tcp_bbr.c: the first of enum bbr_mode */
#define BBR_STARTUP 0

#define LEAST_PACKETS 20 /* Antelope, section IV-A */
#define LEAST_US      1000
#define NO_ARM	      SWITCH_ARMS

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sock {
	unsigned long sk_pacing_rate;
};
struct inet_sock {
	struct sock sk;
};
struct tcp_congestion_ops {
	char name[16];
};
struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	__u8 icsk_ca_setsockopt : 1; /* somebody has chosen */
	__u64 icsk_ca_priv[13];
};
struct minmax_sample {
	__u32 v;
};
struct minmax {
	struct minmax_sample s[3];
};
struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u64 tcp_mstamp;
	__u64 bytes_acked;
	__u32 mss_cache;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 sacked_out;
	__u32 delivered;
	__u32 lost;
	__u32 srtt_us; /* 8 times */
	struct minmax rtt_min;
	_Bool is_mptcp;
};
/* Of the module tcp_bbr, in icsk_ca_priv. */
struct bbr {
	__u32 mode : 3;
};
#pragma clang attribute pop

struct flow {
	__u64 cookie;
	__u64 began_us; /* the stretch; what follows, up to rtt_us, at its beginning */
	__u64 acked;
	__u32 delivered;
	__u32 lost;
	__u64 rtt_us; /* summed over the packets of the stretch */
	__u32 summed; /* delivered, when that was last added to */
	__u32 arm;    /* NO_ARM: it is left alone */
	__u32 set;    /* whether the arm in force, or one before, was set here */
	__u64 pacing; /* largest so far, bytes/s */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

/* Cookie to arm. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SWITCH_CHOICES);
	__type(key, __u64);
	__type(value, __u32);
} choices SEC(".maps");

/* The upper 24 bits of a peer's IPv4 address to an arm. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SWITCH_PREFIXES);
	__type(key, __u32);
	__type(value, __u32);
} prefixes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, SWITCH_EVENT_BYTES);
} events SEC(".maps");

const volatile struct switch_config config = {};

/* The arm that governs, or NO_ARM. */
static __always_inline __u32 arm_of(const struct tcp_sock *tp)
{
	const __u64 *name = (const __u64 *)tp->inet_conn.icsk_ca_ops->name;
	__u64 first = name[0], second = name[1];

	for (__u32 arm = 0; arm < SWITCH_ARMS; arm++)
		if (first && config.arms[arm].words[0] == first && config.arms[arm].words[1] == second)
			return arm;
	return NO_ARM;
}

static __always_inline int is_chosen(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_setsockopt);
}

/* Slow start, or BBR's startup: BBR leaves the threshold without meaning. Where its state is not known, it
 * has none. */
static __always_inline int is_starting(const struct tcp_sock *tp)
{
	const __u64 *name = (const __u64 *)tp->inet_conn.icsk_ca_ops->name;
	const struct bbr *bbr = (const struct bbr *)tp->inet_conn.icsk_ca_priv;

	if (*name == *(const __u64 *)"bbr\0\0\0\0")
		return bpf_core_field_exists(bbr->mode) && BPF_CORE_READ_BITFIELD(bbr, mode) == BBR_STARTUP;
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* Bytes that have arrived: the acknowledged, and the packets behind a gap. */
static __always_inline __u64 acked_bytes(const struct tcp_sock *tp)
{
	return tp->bytes_acked + (__u64)tp->sacked_out * tp->mss_cache;
}

static __always_inline void begin_stretch(struct flow *flow, const struct tcp_sock *tp)
{
	flow->began_us = tp->tcp_mstamp;
	flow->acked = acked_bytes(tp);
	flow->delivered = flow->summed = tp->delivered;
	flow->lost = tp->lost;
	flow->rtt_us = 0;
}

/* The peer's IPv4 address as a number, over an IPv6 socket too; 0 for others. */
static __always_inline __u32 remote_of(struct bpf_sock_ops *ops)
{
	__u32 address;

	if (ops->family == AF_INET) {
		address = ops->remote_ip4;
		/* Keeps the two reads apart: the verifier wants each at a fixed place. */
		barrier_var(address);
	} else {
		if (ops->remote_ip6[0] || ops->remote_ip6[1] || ops->remote_ip6[2] != MAPPED_IPV4)
			return 0;
		address = ops->remote_ip6[3];
	}
	return bpf_ntohl(address);
}

/* False if there is no room. */
static __always_inline int tell(struct bpf_sock_ops *ops, const struct tcp_sock *tp, const struct flow *flow,
				__u32 what)
{
	struct switch_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	__u64 acked = acked_bytes(tp);

	if (!event)
		return 0;
	event->cookie = flow->cookie;
	event->elapsed_us = tp->tcp_mstamp - flow->began_us;
	event->acked = acked > flow->acked ? acked - flow->acked : 0;
	event->pacing = flow->pacing;
	event->rtt_us = flow->rtt_us;
	event->what = what;
	event->arm = flow->arm;
	event->starting = is_starting(tp);
	event->packets = tp->delivered - flow->delivered;
	event->lost = tp->lost - flow->lost;
	event->srtt_us = tp->srtt_us >> 3;
	event->min_rtt_us = tp->rtt_min.s[0].v;
	event->mss = tp->mss_cache;
	event->remote = remote_of(ops);
	event->local_port = ops->local_port;
	event->remote_port = bpf_ntohl(ops->remote_port);
	event->filled = 0;
	bpf_ringbuf_submit(event, 0);
	return 1;
}

/* The route may refuse. */
static __always_inline int set_arm(struct bpf_sock_ops *ops, struct flow *flow, __u32 arm)
{
	struct switch_name name;

	if (arm >= SWITCH_ARMS)
		return 0;
	name.words[0] = config.arms[arm].words[0];
	name.words[1] = config.arms[arm].words[1];
	if (!name.words[0] || arm == flow->arm)
		return 0;
	if (bpf_setsockopt(ops, SOL_TCP, TCP_CONGESTION, &name, sizeof(name)))
		return -1;
	flow->arm = arm;
	flow->set = 1;
	return 0;
}

static __always_inline void leave(struct bpf_sock_ops *ops, const struct tcp_sock *tp, struct flow *flow)
{
	tell(ops, tp, flow, SWITCH_LEFT);
	flow->arm = NO_ARM;
}

static __always_inline void established(struct bpf_sock_ops *ops, struct bpf_sock *sk,
					const struct tcp_sock *tp)
{
	__u32 prefix = remote_of(ops) >> 8, *known, arm = arm_of(tp);
	struct flow *flow;

	if (arm == NO_ARM || is_chosen(tp) || (bpf_core_field_exists(tp->is_mptcp) && tp->is_mptcp))
		return;
	flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flow)
		return;
	flow->cookie = bpf_get_socket_cookie(ops);
	flow->arm = arm;
	begin_stretch(flow, tp);
	known = prefix ? bpf_map_lookup_elem(&prefixes, &prefix) : 0;
	if (set_arm(ops, flow, config.first ? config.first - 1 : known ? *known : NO_ARM) < 0) {
		flow->arm = NO_ARM;
		return;
	}
	bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG |
					       BPF_SOCK_OPS_STATE_CB_FLAG);
	tell(ops, tp, flow, SWITCH_BEGINS);
}

static __always_inline void round_trip(struct bpf_sock_ops *ops, const struct tcp_sock *tp, struct flow *flow)
{
	__u64 pacing = tp->inet_conn.icsk_inet.sk.sk_pacing_rate;
	__u32 packets = tp->delivered - flow->delivered, *choice, arm;

	if (arm_of(tp) != flow->arm || (is_chosen(tp) && !flow->set))
		return leave(ops, tp, flow);
	/* No limit, before the first round trip is over. */
	if (pacing != (unsigned long)~0ULL && pacing > flow->pacing)
		flow->pacing = pacing;
	flow->rtt_us += (__u64)(tp->delivered - flow->summed) * (tp->srtt_us >> 3);
	flow->summed = tp->delivered;
	/* Without room the next one tells all of it. */
	if (packets >= LEAST_PACKETS && tp->tcp_mstamp - flow->began_us >= LEAST_US &&
	    tell(ops, tp, flow, SWITCH_STRETCH))
		begin_stretch(flow, tp);
	choice = bpf_map_lookup_elem(&choices, &flow->cookie);
	if (!choice)
		return;
	arm = *choice;
	bpf_map_delete_elem(&choices, &flow->cookie);
	if (arm == flow->arm)
		return;
	if (set_arm(ops, flow, arm) < 0)
		return leave(ops, tp, flow);
	begin_stretch(flow, tp);
}

SEC("sockops")
int anole_switch(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;
	struct flow *flow;

	if (!tp)
		return 1;
	if (ops->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || ops->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB) {
		established(ops, sk, tp);
		return 1;
	}
	flow = bpf_sk_storage_get(&flows, sk, 0, 0);
	if (!flow || flow->arm == NO_ARM)
		return 1;
	if (ops->op == BPF_SOCK_OPS_RTT_CB)
		round_trip(ops, tp, flow);
	else if (ops->op == BPF_SOCK_OPS_STATE_CB && ops->args[1] == BPF_TCP_CLOSE)
		tell(ops, tp, flow, SWITCH_ENDS);
	return 1;
}
