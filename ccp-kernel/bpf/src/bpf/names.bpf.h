/* SPDX-License-Identifier: GPL-2.0-only */
/* The names under which the callbacks of anole.bpf.c, which includes this at its end, are registered. */
#ifndef NAMES_BPF_H
#define NAMES_BPF_H

/* Of the two last callbacks, a kernel calls one at the first packet after a pause. */
#define OPS                                                                                                  \
	.init = (void *)anole_init, .release = (void *)anole_release, .ssthresh = (void *)anole_ssthresh,    \
	.undo_cwnd = (void *)anole_undo_cwnd, .set_state = (void *)anole_set_state,                          \
	.flags = TCP_CONG_NON_RESTRICTED, .name = "anole_ccp", .cwnd_event = (void *)anole_cwnd_event,       \
	.cwnd_event_tx_start = (void *)anole_cwnd_event_tx_start

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

/* Further names, one for each algorithm that is asked for; user space writes them before it loads. */
#define NAMES(n)                                                                                             \
	SEC(".struct_ops.link")                                                                              \
	struct tcp_congestion_ops linked_n##n = {OPS, .cong_control = (void *)anole_cong_control};           \
	SEC(".struct_ops.link")                                                                              \
	struct tcp_congestion_ops linked_2_n##n = {OPS, .cong_control = (void *)anole_cong_control_2};       \
	SEC(".struct_ops")                                                                                   \
	struct tcp_congestion_ops unlinked_2_n##n = {OPS, .cong_control = (void *)anole_cong_control_2}
NAMES(0);
NAMES(1);
NAMES(2);
NAMES(3);
NAMES(4);
NAMES(5);
NAMES(6);
NAMES(7);
NAMES(8);
NAMES(9);
NAMES(10);
NAMES(11);
NAMES(12);
NAMES(13);
NAMES(14);
NAMES(15);
NAMES(16);
NAMES(17);
NAMES(18);
NAMES(19);
NAMES(20);
NAMES(21);
NAMES(22);
NAMES(23);
NAMES(24);
NAMES(25);
NAMES(26);
NAMES(27);
NAMES(28);
NAMES(29);
NAMES(30);
NAMES(31);
NAMES(32);
NAMES(33);
NAMES(34);
NAMES(35);
NAMES(36);
NAMES(37);
NAMES(38);
NAMES(39);

/* Never registered; they make `finish` and `interpret` what `jumps` takes, programs for cong_control. */
SEC(".struct_ops")
struct tcp_congestion_ops part_finish = {.cong_control = (void *)anole_finish, .name = "anole_finish"};
SEC(".struct_ops")
struct tcp_congestion_ops part_interpret = {.cong_control = (void *)anole_interpret, .name = "anole_interp"};

#endif
