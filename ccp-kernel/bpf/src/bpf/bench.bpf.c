// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the datapath is measured beside (src/bench.rs), under the same statistics of the kernel: CUBIC, whose
 * callbacks call the kernel's and do nothing else; and a congestion control that does nothing, for what the
 * statistics themselves add to each callback.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

extern void cubictcp_init(struct sock *sk) __ksym;
extern u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;
extern void cubictcp_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;
extern void cubictcp_state(struct sock *sk, u8 state) __ksym;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;
extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/*
 * The callbacks of kernel.h and those that only CUBIC has, but for the one that is told of idle times; CO-RE
 * goes by the name before "___".
 */
struct tcp_congestion_ops___bench {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 state);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	void (*cong_control)(struct sock *sk, const struct rate_sample *rs);
	u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
	void (*init)(struct sock *sk);
};

SEC("struct_ops")
void BPF_PROG(bench_init, struct sock *sk)
{
	cubictcp_init(sk);
}

SEC("struct_ops")
u32 BPF_PROG(bench_ssthresh, struct sock *sk)
{
	return cubictcp_recalc_ssthresh(sk);
}

SEC("struct_ops")
void BPF_PROG(bench_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	cubictcp_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
void BPF_PROG(bench_set_state, struct sock *sk, u8 state)
{
	cubictcp_state(sk, state);
}

SEC("struct_ops")
void BPF_PROG(bench_acked, struct sock *sk, const struct ack_sample *sample)
{
	cubictcp_acked(sk, sample);
}

SEC("struct_ops")
u32 BPF_PROG(bench_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops")
void bench_nothing(unsigned long long *ctx)
{
}

SEC("struct_ops")
u32 BPF_PROG(bench_keep, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_cwnd;
}

SEC("struct_ops")
u32 BPF_PROG(bench_keep_too, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_cwnd;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___bench cubic = {
	.init = (void *)bench_init,
	.ssthresh = (void *)bench_ssthresh,
	.cong_avoid = (void *)bench_cong_avoid,
	.set_state = (void *)bench_set_state,
	.pkts_acked = (void *)bench_acked,
	.undo_cwnd = (void *)bench_undo_cwnd,
	.name = "bench_cubic",
};

SEC(".struct_ops.link")
struct tcp_congestion_ops___bench nothing = {
	.cong_control = (void *)bench_nothing,
	.ssthresh = (void *)bench_keep,
	.undo_cwnd = (void *)bench_keep_too,
	.name = "bench_nothing",
};
