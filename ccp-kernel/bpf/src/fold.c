/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* ../../vm for user space: reads the agent's messages, with the code that the kernel module runs. */
#include <stddef.h>
#include "../../vm/program.h"
#include "../../vm/window.h"
#include "bpf/datapath.h"
#include "bpf/switch.h"

struct anole_message {
	u32 type, length, sid, uid;
};

/* Reads the first message of a datagram; returns enum fold_refusal. */
int anole_fold_read(const u8 *at, u32 bytes, struct anole_message *out)
{
	struct fold_message message;
	int refusal = fold_read(at, bytes, &message);

	*out = (struct anole_message){message.type, message.length, message.sid, message.uid};
	return refusal;
}

/* Makes a program of an INSTALL message; returns enum fold_refusal. */
int anole_fold_install(const u8 *at, u32 bytes, struct fold_program *program)
{
	struct fold_message message;
	int refusal = fold_read(at, bytes, &message);

	return refusal ? refusal : fold_install(&message, program);
}

/* Adds the registers of an UPDATE or CHANGE_PROG message to those that wait. */
int anole_fold_stage(const u8 *at, u32 bytes, struct fold_staged *staged)
{
	struct fold_message message;
	int refusal = fold_read(at, bytes, &message);

	if (!refusal)
		fold_stage(&message, staged);
	return refusal;
}

const char *anole_fold_refusal(int refusal)
{
	return fold_refusal_text(refusal);
}

/* For tests of ../../vm/window.h. */
u32 anole_fold_window(u32 packets, u32 mss)
{
	return fold_window(packets, mss);
}

u32 anole_fold_burst(u64 rate, u32 min_rtt_us)
{
	return fold_burst(rate, min_rtt_us);
}

u32 anole_fold_conserved(u32 cwnd, u32 in_flight, u32 acked, int is_first)
{
	return fold_conserved(cwnd, in_flight, acked, is_first);
}

u32 anole_fold_reduced(struct fold_reduction *reduction, u32 in_flight, u32 acked)
{
	return fold_reduced(reduction, in_flight, acked);
}

u32 anole_fold_delivered(u32 out, u32 prior, u32 ssthresh)
{
	return fold_delivered(out, prior, ssthresh);
}

void anole_fold_resume(const struct fold_limit *limit, const struct fold_lost *lost, struct fold_resumed *to)
{
	*to = fold_resume(limit, lost);
}

/* What Rust and generated code have to know of the structures, bytes. */
const u32 anole_layout[] = {
	sizeof(struct fold_program),
	sizeof(struct mailbox),
	sizeof(struct agent),
	sizeof(struct machine),
	offsetof(struct machine, state.reg),
	offsetof(struct machine, abort),
	offsetof(struct machine, control),
	offsetof(struct machine, now_us),
	offsetof(struct machine, mss),
	offsetof(struct machine, program),
	offsetof(struct machine, head),
	sizeof(struct switch_event),
	sizeof(struct switch_config),
};
