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
	create.init_cwnd = window(tp);
	create.mss = tp->mss_cache;
	name_addresses(sk, &create);
	name_algorithm(tp, create.algorithm);
	tell_agent(&create, sizeof(create));
	return 0;
}

/* Gives a new connection its storage and, while there are any, a mailbox. */
static __noinline int open_flow(struct sock *sk)
{
	struct tcp_sock *tp = tcp(sk);
	u64 now_us = bpf_ktime_get_ns() / 1000;
	struct mailbox *mail;
	struct flow *f;
	u32 place;

	f = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!f)
		return 0;
	count(&agent.opened);
	f->leniency = 1;
	f->lost = tp->lost;
	f->sacked = tp->sacked_out;
	f->delivered_ce = tp->delivered_ce;
	f->bytes_acked = tp->bytes_acked;
	if (bpf_map_pop_elem(&free_slots, &place)) {
		count(&agent.unslotted);
		return 0;
	}
	mail = bpf_map_lookup_elem(&mailboxes, &place);
	if (!mail)
		return 0;
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
	}
	bpf_sk_storage_delete(&flows, sk);
}

#endif
