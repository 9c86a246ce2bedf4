/* SPDX-License-Identifier: GPL-2.0-only */
/* Flows come and go: their mailboxes, and the messages CREATE and (of the end) MEASURE. */
#ifndef ANNOUNCE_BPF_H
#define ANNOUNCE_BPF_H

#include <bpf/bpf_core_read.h>
#include "flow.bpf.h"

struct create {
	u16 type, length;
	u32 sid, init_cwnd, mss, src_ip, src_port, dst_ip, dst_port;
	char algorithm[FOLD_ALGORITHM_BYTES];
};

/* The algorithm that the flow asks for: "x-y" of anole_x_y, nothing of anole_ccp. */
static __always_inline void name_algorithm(const struct tcp_sock *tp, char *to)
{
	const struct tcp_congestion_ops *ops = tp->inet_conn.icsk_ca_ops;
	const int prefix = 6; /* "anole_" */
	int n;

	if (ops->name[prefix] == 'c' && ops->name[prefix + 1] == 'c' && ops->name[prefix + 2] == 'p' &&
	    !ops->name[prefix + 3])
		return;
	for (n = 0; n < 16 - prefix - 1; n++)
		to[n] = ops->name[prefix + n] == '_' ? '-' : ops->name[prefix + n];
}

/*
 * Addresses as the kernel has them (network byte order), ports as numbers. CREATE has 32 bits for each
 * address: those of IPv4, also over an IPv6 socket (::ffff:0:0/96); 0 for both under IPv6.
 */
static __always_inline void name_addresses(struct sock *sk, struct create *create)
{
	struct sock_common *common = &sk->__sk_common;

	create->src_port = common->skc_num;
	create->dst_port = __builtin_bswap16(common->skc_dport);
	if (common->skc_family == AF_INET) {
		create->src_ip = common->skc_rcv_saddr;
		create->dst_ip = common->skc_daddr;
	} else if (bpf_core_field_exists(common->skc_v6_daddr)) {
		const __be32 *from = common->skc_v6_rcv_saddr.in6_u.u6_addr32;
		const __be32 *to = common->skc_v6_daddr.in6_u.u6_addr32;

		if (!to[0] && !to[1] && to[2] == MAPPED_IPV4) {
			create->src_ip = from[3];
			create->dst_ip = to[3];
		}
	}
}

static __noinline int announce(struct sock *sk, struct flow *f)
{
	struct tcp_sock *tp = tcp(sk);
	struct create create = {.length = sizeof(create)};

	if (!f)
		return 0;
	create.sid = f->machine.head.sid;
	create.init_cwnd = fold_window(tp->snd_cwnd, tp->mss_cache);
	create.mss = tp->mss_cache;
	name_addresses(sk, &create);
	name_algorithm(tp, create.algorithm);
	tell_agent(&create, sizeof(create));
	return 0;
}

/* One that holds mailboxes. */
enum { HOLDER_USER, HOLDER_NET };
struct holder {
	u32 kind;
	u32 id; /* the user's, or the namespace's inode */
};

/* How many each holds. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 2 * MAX_FLOWS);
	__type(key, struct holder);
	__type(value, u64);
} holders SEC(".maps");

static __noinline int give_back_share(u32 kind, u32 id)
{
	struct holder holder = {.kind = kind, .id = id};
	u64 *held = bpf_map_lookup_elem(&holders, &holder);

	/* One that takes its first mailbox meanwhile may be counted as one too few. */
	if (held && __sync_fetch_and_sub(held, 1) <= 1)
		bpf_map_delete_elem(&holders, &holder);
	return 0;
}

/* Returns whether this holder may have one more, which is counted then. */
static __noinline int take_share(u32 kind, u32 id)
{
	struct holder holder = {.kind = kind, .id = id};
	u64 *held = bpf_map_lookup_elem(&holders, &holder), none = 0;

	if (!held) {
		bpf_map_update_elem(&holders, &holder, &none, BPF_NOEXIST);
		held = bpf_map_lookup_elem(&holders, &holder);
	}
	if (!held)
		return 0;
	if (__sync_fetch_and_add(held, 1) < MAX_HELD)
		return 1;
	__sync_fetch_and_sub(held, 1);
	return 0;
}

/* A mailbox for the flow, while there are any and neither its user nor its network namespace has too many;
 * returns whether it got one. */
static __noinline int take_slot(struct sock *sk, struct flow *f)
{
	struct mailbox *mail;
	u32 place;

	if (!f)
		return 0;
	f->user = sk->sk_uid.val;
	f->net = sk->__sk_common.skc_net.net->ns.inum;
	if (!take_share(HOLDER_USER, f->user))
		return 0;
	if (take_share(HOLDER_NET, f->net)) {
		if (!bpf_map_pop_elem(&free_slots, &place)) {
			mail = bpf_map_lookup_elem(&mailboxes, &place);
			if (mail) {
				f->slot = place + 1;
				mail->generation++;
				f->machine.head.sid = mail->generation << 16 | f->slot;
				mail->sid = f->machine.head.sid;
				return 1;
			}
		}
		give_back_share(HOLDER_NET, f->net);
	}
	give_back_share(HOLDER_USER, f->user);
	return 0;
}

/* Gives a new connection its storage and, if it can have one, a mailbox. */
static __noinline int open_flow(struct sock *sk)
{
	struct tcp_sock *tp = tcp(sk);
	u64 now_us = bpf_ktime_get_ns() / 1000;
	struct flow *f;

	f = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!f)
		return 0;
	count(&agent.opened);
	f->leniency = 1;
	f->lost = tp->lost;
	f->sacked = tp->sacked_out;
	f->delivered_ce = tp->delivered_ce;
	f->bytes_acked = tp->bytes_acked;
	if (!take_slot(sk, f)) {
		count(&agent.unslotted);
		f->next_create = now_us + CREATE_INTERVAL_US;
		return 0;
	}
	if (agent_lives(now_us)) {
		announce(sk, f);
		wait_for_answer(f, now_us);
		/* An agent that is merely slow must not see the flow twice. */
		f->next_create = now_us + AGENT_TIMEOUT_US;
	}
	return 0;
}

/* Gives the mailbox back and tells the agent. */
static __always_inline void close_flow(struct sock *sk)
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
			tell_agent(&end, sizeof(end));
		bpf_map_push_elem(&free_slots, &place, 0);
		give_back_share(HOLDER_USER, f->user);
		give_back_share(HOLDER_NET, f->net);
	}
	bpf_sk_storage_delete(&flows, sk);
}

#endif
