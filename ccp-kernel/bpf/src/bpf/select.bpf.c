// SPDX-License-Identifier: GPL-2.0-only
/*
 * Chooses the congestion control of connections when they are established, in the cgroup that this is
 * attached to and those below it. One whose program has chosen for itself keeps its choice; so does one that
 * the same of a cgroup further in has decided on, which runs before.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "select.h"

char LICENSE[] SEC("license") = "GPL";

/* include/linux/socket.h, include/uapi/linux/tcp.h */
#define AF_INET	       2
#define SOL_TCP	       6
#define TCP_CONGESTION 13

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct inet_connection_sock {
	__u8 icsk_ca_setsockopt : 1; /* somebody has chosen */
};
struct tcp_sock {
	struct inet_connection_sock inet_conn;
};
#pragma clang attribute pop

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_PREFIXES);
	__type(key, struct prefix);
	__type(value, struct algorithm);
} prefixes SEC(".maps");

SEC("sockops")
int anole_select(struct bpf_sock_ops *ops)
{
	struct prefix remote = {.bits = 128};
	struct algorithm *chosen;
	struct bpf_sock *sk;
	struct tcp_sock *tp;
	__u32 last;

	if (ops->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	if (ops->family == AF_INET) {
		last = ops->remote_ip4;
		/* Keeps the two reads apart: the verifier wants each at a fixed place. */
		barrier_var(last);
		remote.address[2] = __builtin_bswap32(0x0000ffff);
	} else {
		remote.address[0] = ops->remote_ip6[0];
		remote.address[1] = ops->remote_ip6[1];
		remote.address[2] = ops->remote_ip6[2];
		last = ops->remote_ip6[3];
	}
	remote.address[3] = last;
	chosen = bpf_map_lookup_elem(&prefixes, &remote);
	sk = ops->sk;
	tp = chosen && sk ? bpf_skc_to_tcp_sock(sk) : 0;
	/* Refused where the route's choice is locked: it stays. */
	if (tp && !BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_setsockopt))
		bpf_setsockopt(ops, SOL_TCP, TCP_CONGESTION, chosen->name, sizeof(chosen->name));
	return 1;
}
