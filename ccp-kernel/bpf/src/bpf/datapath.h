/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* What the BPF programs share with user space, which maps it into its memory. */
#ifndef DATAPATH_H
#define DATAPATH_H

#include "../../../vm/machine.h"
#include "../../../vm/message.h"

/* Flows that the agent may govern at once; others stay with the fallback. A mailbox is 1 KiB. */
#define MAX_FLOWS 16384
/* Of one user, or of one network namespace: some stay for others. */
#define MAX_HELD (MAX_FLOWS / 4 * 3)
/* Programs at once, in `programs` and at the same place in `jumps`. */
#define MAX_PROGRAMS 64
/* What else `jumps` holds. */
#define JUMP_INTERPRET MAX_PROGRAMS
#define JUMP_FINISH    (MAX_PROGRAMS + 1)
#define MAX_JUMPS      (MAX_PROGRAMS + 2)
/* Room for messages to the agent that it has not read, bytes: a power of two. */
#define EVENT_BYTES (4 << 20)

/* Steps of the histogram below: exact up to 15, then eight for each doubling of what has 32 bits. */
#define WAIT_STEPS 256

/* Written by the agent about ten times a second, read at every ACK. */
struct agent {
	u64 heartbeat_us; /* CLOCK_MONOTONIC */
	u32 epoch;	  /* counts agents: programs of an earlier one do not run */
	u32 sleeps;	  /* it waits to be woken; the datapath takes that back when it wakes it */
	/* Written by the datapath. */
	u64 opened;    /* flows */
	u64 unslotted; /* flows that found no mailbox at first: MAX_FLOWS or MAX_HELD have one */
	u64 fallbacks; /* times that a flow lost its agent */
	u64 adopted;   /* times that an agent took a flow */
	u64 aborts;    /* runs of programs that were given up half-way */
	u64 unsent;    /* messages that found no room */
	/* How long messages waited until their answers were in force, us. */
	u64 waits[WAIT_STEPS];
};

/*
 * Who may touch a mailbox. Either side takes a mailbox by changing the state that it found, atomically, to
 * its own; a flow that finds it in the agent's hands looks again at its next ACK. The mailbox may have
 * changed hands before that: what is in it says to whom it was written, and by whose agent, and counts for
 * nobody else.
 */
enum mail_state { MAIL_EMPTY, MAIL_FULL, MAIL_WRITING, MAIL_READING };

/* What the agent told a flow since its latest ACK. */
struct mailbox {
	u32 state;
	u32 sid; /* the flow's id; 0: nobody's */
	u32 generation;
	/* The mail. */
	u32 to;	     /* sid */
	u32 epoch;   /* of the agent that wrote it */
	u32 program; /* starts this one: place in `programs`, from 1 */
	struct fold_staged staged;
};

/* A flow's program and registers. MEASURE is sent from here as it lies: its header, then the reports. */
struct machine {
	struct fold_control control;
	u64 now_us;
	u32 mss;
	u32 program; /* place in `programs`, from 1; 0: none */
	u32 abort;   /* enum fold_abort */
	u32 zero;    /* a 0 that the verifier does not know to be one */
	struct {
		u16 type, length;
		u32 sid, uid, n;
	} head;
	struct fold_state state;
};

#endif
