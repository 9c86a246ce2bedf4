/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is used of the kernel's types. Fields are found by name in the running kernel's BTF when the object
 * is loaded (CO-RE), so only names and types matter here, not order or offsets.
 */
#ifndef KERNEL_H
#define KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;
typedef u16 __sum16;
typedef _Bool bool;

/* include/uapi/linux/bpf.h */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_NOEXIST = 1 };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1 << 10, BPF_SK_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };

/* include/net/tcp.h, include/uapi/linux/tcp.h, include/net/sock.h */
enum { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };
enum { SK_PACING_NONE, SK_PACING_NEEDED };
enum { TCP_CONG_NON_RESTRICTED = 1 };
#define TCP_INFINITE_SSTHRESH 0x7fffffffU
#define TCP_INIT_CWND	      10U /* RFC 6928 */
#define AF_INET		      2
/* The third word of an IPv6 address in ::ffff:0:0/96. */
#define MAPPED_IPV4 __builtin_bswap32(0x0000ffff)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

enum tcp_ca_event {
	CA_EVENT_TX_START,
	CA_EVENT_CWND_RESTART,
	CA_EVENT_COMPLETE_CWR,
	CA_EVENT_LOSS,
	CA_EVENT_ECN_NO_CE,
	CA_EVENT_ECN_IS_CE,
};

struct netns_ipv4 {
	u8 sysctl_tcp_slow_start_after_idle;
};
struct ns_common {
	unsigned int inum;
};
struct net {
	struct ns_common ns;
	struct netns_ipv4 ipv4;
};
typedef struct {
	u32 val;
} kuid_t;
typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};
struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	u16 skc_num;
	u16 skc_family;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};
struct sock {
	struct sock_common __sk_common;
	u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	kuid_t sk_uid;
};
struct inet_sock {
	struct sock sk;
};
struct inet_connection_sock {
	struct inet_sock icsk_inet;
	u32 icsk_rto;
	const struct tcp_congestion_ops *icsk_ca_ops;
	u8 icsk_ca_state : 5;
	u8 icsk_ca_initialized : 1;
	u64 icsk_ca_priv[13];
};
struct minmax_sample {
	u32 t;
	u32 v;
};
struct minmax {
	struct minmax_sample s[3];
};
struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u64 tcp_mstamp;
	u64 bytes_acked;
	u32 mss_cache;
	u32 snd_cwnd;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 snd_una;
	u32 snd_nxt;
	u32 write_seq;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 lost;
	u32 delivered_ce;
	u32 app_limited; /* 0: the application keeps the window full */
	u32 srtt_us;	 /* 8 times the smoothed RTT */
	u32 lsndtime;
	u32 prior_cwnd;
	u32 prr_out;
	u32 undo_marker;
	struct minmax rtt_min; /* us */
};
struct rate_sample {
	s32 delivered;
	long interval_us;
	u32 snd_interval_us;
	u32 rcv_interval_us;
	long rtt_us;
	u32 acked_sacked;
	u32 prior_in_flight;
	bool is_app_limited;
};
struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
};
struct tcp_congestion_ops {
	/* Since 7.1; first, where src/object.rs takes it out for kernels before. */
	void (*cwnd_event_tx_start)(struct sock *sk);
	u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, u8 state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*cong_control)(struct sock *sk, const struct rate_sample *rs);
	u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
	u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

#pragma clang attribute pop

#endif
