/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* What switch.bpf.c shares with user space. */
#ifndef SWITCH_H
#define SWITCH_H

#include <linux/types.h>

#define SWITCH_ARMS	   8
#define SWITCH_CHOICES	   16384 /* that wait for their flows' next round trip */
#define SWITCH_PREFIXES	   65536
#define SWITCH_EVENT_BYTES (1 << 20)

/* A congestion control's name as the kernel has it, filled up with NULs; all of them: none. */
struct switch_name {
	__u64 words[2];
};

/* Set before the programs are loaded. An arm is a place among the names. */
struct switch_config {
	struct switch_name arms[SWITCH_ARMS];
	__u32 first;  /* 1 + the arm of every new flow; 0: what is known of its peer, else what it has */
	__u32 filled; /* no padding */
};

enum switch_what {
	SWITCH_BEGINS,	/* a flow is followed */
	SWITCH_STRETCH, /* some round trips under one arm */
	SWITCH_ENDS,	/* it is closed */
	SWITCH_LEFT,	/* it is followed no more: its program or its route has chosen */
};

struct switch_event {
	__u64 cookie; /* of the socket */
	__u64 elapsed_us;
	__u64 acked;	/* bytes */
	__u64 pacing;	/* the largest rate of the flow so far, bytes/s; 0: none yet */
	__u64 rtt_us;	/* the smoothed one, summed over the packets */
	__u32 what;	/* enum switch_what */
	__u32 arm;	/* that governs */
	__u32 starting; /* it grows exponentially */
	__u32 packets;	/* delivered */
	__u32 lost;
	__u32 srtt_us;
	__u32 min_rtt_us;
	__u32 mss;
	__u32 remote; /* IPv4 address as a number; 0 under IPv6 */
	__u32 local_port;
	__u32 remote_port;
	__u32 filled; /* no padding */
};

#endif
