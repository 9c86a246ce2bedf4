/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * Fold programs and the registers of the flows that run them, in C for the kernel, for BPF and for user
 * space. message.h reads and writes CCP's messages, program.h makes a struct fold_program of an INSTALL
 * message, machine.h runs it.
 *
 * A program is one stream of instructions that only ever moves forward, at most FOLD_MAX_CODE long: each
 * expression is its condition, UNLESS, its event, NEXT. Every index into the register file and into the
 * stream is masked to a power of two, so that the BPF verifier sees its bound. No allocation, no float, no
 * recursion, no library.
 *
 * The register file, 512 words of 64 bits:
 *
 *   0-109    report registers      228-235  locals              257-511  the running program's
 *   110-219  control registers     236-241  implicit registers           immediates
 *   220-227  temporaries           242-256  primitives of the ACK
 */
#ifndef FOLD_H
#define FOLD_H

#if defined(__KERNEL__)
#include <linux/math64.h>
#include <linux/types.h>
#define FOLD_DIV(a, b) div64_u64(a, b)
#else
#define FOLD_DIV(a, b) ((a) / (b))
#if !defined(__bpf__) /* a BPF program includes vmlinux.h first */
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
#endif
#endif

#define FOLD_INLINE static inline __attribute__((always_inline, unused))

/* The flow's bounds: what no program and no agent may exceed. */
#define FOLD_MIN_CWND_PACKETS 2U
#define FOLD_MAX_CWND_BYTES   (1U << 30)
#define FOLD_MIN_RATE	      1500U	  /* bytes/s: a packet per second */
#define FOLD_MAX_RATE	      4000000000U /* bytes/s */

#define FOLD_MAX_REPORTS  110U
#define FOLD_MAX_CONTROLS 110U
#define FOLD_MAX_TMPS	  8U
#define FOLD_MAX_LOCALS	  8U
#define FOLD_IMPLICITS	  6U
#define FOLD_PRIMITIVES	  15U

#define FOLD_REGISTERS 512U /* a power of two */
#define FOLD_REPORT    0U
#define FOLD_CONTROL   (FOLD_REPORT + FOLD_MAX_REPORTS)
#define FOLD_TMP       (FOLD_CONTROL + FOLD_MAX_CONTROLS)
#define FOLD_LOCAL     (FOLD_TMP + FOLD_MAX_TMPS)
#define FOLD_IMPLICIT  (FOLD_LOCAL + FOLD_MAX_LOCALS)
#define FOLD_PRIMITIVE (FOLD_IMPLICIT + FOLD_IMPLICITS)
#define FOLD_CONSTANT  (FOLD_PRIMITIVE + FOLD_PRIMITIVES)

#define FOLD_ECN_BYTES	 (FOLD_PRIMITIVE + 2)
#define FOLD_ECN_PACKETS (FOLD_PRIMITIVE + 3)

#define FOLD_EVENT_FLAG	   (FOLD_IMPLICIT + 0)
#define FOLD_FALLTHROUGH   (FOLD_IMPLICIT + 1)
#define FOLD_SHOULD_REPORT (FOLD_IMPLICIT + 2)
#define FOLD_MICROS	   (FOLD_IMPLICIT + 3)
#define FOLD_CWND	   (FOLD_IMPLICIT + 4)
#define FOLD_RATE	   (FOLD_IMPLICIT + 5)

/* Instructions of a flattened program. A compiler's programs have at most 255 + 2 * 256; only expressions
 * that share instructions come near, and those that go beyond are refused: an ACK's work must end soon. */
#define FOLD_MAX_CODE 2048U /* a power of two */
/* Immediates that a program may use outside its definitions: what is left of the register file. */
#define FOLD_MAX_CONSTANTS (FOLD_REGISTERS - FOLD_CONSTANT)
/* Immediates and definitions (at most 255 each). */
#define FOLD_MAX_SETS 512U /* a power of two */

/* The operations of the wire, in its numbering, and two for the flow of control. */
enum fold_op {
	FOLD_ADD,
	FOLD_BIND,
	FOLD_DEF, /* never in a flattened program: definitions are in `set` */
	FOLD_OP_DIV,
	FOLD_EQUAL,
	FOLD_EWMA,
	FOLD_GREATER,
	FOLD_IF,
	FOLD_LESS,
	FOLD_MAX,
	FOLD_MAX_WRAP,
	FOLD_MIN,
	FOLD_MUL,
	FOLD_NOT_IF,
	FOLD_SUB,
	FOLD_UNLESS, /* go on at `result` while the event flag is 0 */
	FOLD_NEXT,   /* end, unless the event flag is 0 or the expression falls through */
};

struct fold_insn {
	u8 op;
	u8 pad;
	u16 result; /* a register; of UNLESS, a place in the code */
	u16 left;
	u16 right;
};

/* A register's value at a program's start. */
struct fold_set {
	u32 value;
	u16 slot;
	u16 pad;
};

/* A validated program; running it cannot fault. */
struct fold_program {
	u32 uid;
	u32 n_code;
	u32 n_reports;
	/* `set` holds the immediates, then the volatile definitions, then the others. */
	u32 n_constants;
	u32 n_volatile;
	u32 n_sets;
	u32 reads_ecn; /* without it, marks are told as losses: fold_told_losses() */
	struct fold_set set[FOLD_MAX_SETS];
	struct fold_insn code[FOLD_MAX_CODE];
};

/* The registers of one flow. */
struct fold_state {
	u64 reg[FOLD_REGISTERS];
	u64 micros_zero; /* when Micros was 0, us; wraps */
	u64 rtt_us;	 /* latest sample; 0: none yet */
	u64 mark_end_us; /* marks before this time belong to one that was told as a loss */
};

/* Registers that wait for the flow's next ACK: the control registers, then Cwnd and Rate. */
#define FOLD_FIELDS	(FOLD_MAX_CONTROLS + 2)
#define FOLD_FIELD_CWND FOLD_MAX_CONTROLS
#define FOLD_FIELD_RATE (FOLD_MAX_CONTROLS + 1)
struct fold_staged {
	u64 present[2]; /* a bit for each value */
	u64 value[FOLD_FIELDS];
};

/* What one ACK, loss detection or timeout tells, in the terms of the language's primitives. */
struct fold_sample {
	u32 bytes_acked;
	u32 packets_acked;
	u32 bytes_misordered;
	u32 packets_misordered;
	u32 ecn_bytes;
	u32 ecn_packets;
	u32 lost_packets;
	u32 was_timeout;
	u64 rtt_us;	   /* 0: no sample, which programs read as 2^32 - 1 */
	u64 rate_outgoing; /* bytes/s */
	u64 rate_incoming; /* bytes/s */
	u32 bytes_in_flight;
	u32 packets_in_flight;
	u32 bytes_pending;
	u32 pad;
};

/* What the transport has to obey. */
struct fold_control {
	u32 cwnd; /* bytes */
	u32 rate; /* bytes/s; 0 leaves pacing to the transport */
};

enum fold_abort {
	FOLD_NO_ABORT,
	FOLD_ADD_OVERFLOW,
	FOLD_DIVISION_BY_ZERO,
	FOLD_MUL_OVERFLOW,
	FOLD_SUB_UNDERFLOW,
};

#endif
