/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * The virtual machine: runs a flow's program, once per ACK. The meaning of every operation, and the order of
 * what happens around a run, are libccp's:
 *
 * 1. Cwnd and Rate take the values that the transport obeys now.
 * 2. A staged program becomes the running one: its definitions are set, Micros restarts. Registers that it
 *    does not define keep what an earlier program left.
 * 3. Staged registers are set. A staged window or rate other than 0 goes to the transport even when the
 *    program then aborts.
 * 4. The expressions are evaluated in order until one is true and does not fall through. Arithmetic is on
 *    u64; overflow, underflow and division by zero abort the run half-way: what was written stays, nothing
 *    is reported, and the transport keeps its window and rate.
 * 5. Cwnd and Rate other than 0 go to the transport, within the bounds.
 * 6. If asked for, the report registers are sent, then volatile definitions are set again. A report that
 * could not be sent keeps them, so that the next one tells all of it.
 *
 * Two departures: marks are told as losses to a program that reads no ECN, and a report may be kept.
 *
 * A BPF program calls the same functions one by one, with fold_step() in a bpf_loop() callback; the others
 * call fold_ack().
 */
#ifndef FOLD_MACHINE_H
#define FOLD_MACHINE_H

#include "fold.h"

/* A run: where it stands. */
struct fold_run {
	const struct fold_program *program;
	struct fold_state *state;
	u32 pc;
	u32 abort; /* enum fold_abort */
};

FOLD_INLINE u64 *fold_reg(struct fold_state *state, u32 slot)
{
	return &state->reg[slot & (FOLD_REGISTERS - 1)];
}

/* Hands the window and the rate to the transport, within the bounds; 0 leaves them as they are. */
FOLD_INLINE void fold_obey(const struct fold_state *state, u32 mss, struct fold_control *control)
{
	u64 cwnd = state->reg[FOLD_CWND], rate = state->reg[FOLD_RATE];
	u64 low = (u64)FOLD_MIN_CWND_PACKETS * mss;
	u64 high = low > FOLD_MAX_CWND_BYTES ? low : FOLD_MAX_CWND_BYTES;

	if (cwnd) {
		cwnd = cwnd < low ? low : cwnd > high ? high : cwnd;
		control->cwnd = cwnd > 0xffffffffU ? 0xffffffffU : cwnd;
	}
	if (rate)
		control->rate = rate < FOLD_MIN_RATE   ? FOLD_MIN_RATE
				: rate > FOLD_MAX_RATE ? FOLD_MAX_RATE
						       : rate;
}

/* Sets the registers of `set[n]`. */
FOLD_INLINE void fold_set_one(struct fold_state *state, const struct fold_program *program, u32 n)
{
	const struct fold_set *set = &program->set[n & (FOLD_MAX_SETS - 1)];

	*fold_reg(state, set->slot) = set->value;
}

/* A program starts: its immediates, its volatile definitions, the others, then Micros. */
FOLD_INLINE void fold_start(struct fold_state *state, const struct fold_program *program, u64 now_us)
{
	u32 n;

	for (n = 0; n < FOLD_MAX_SETS && n < program->n_sets; n++)
		fold_set_one(state, program, n);
	state->micros_zero = now_us;
}

/* After a report: volatile definitions are set again. */
FOLD_INLINE void fold_reset(struct fold_state *state, const struct fold_program *program)
{
	u32 n;

	for (n = 0; n < FOLD_MAX_SETS && n < program->n_volatile; n++)
		fold_set_one(state, program, program->n_constants + n);
}

FOLD_INLINE int fold_is_staged(const struct fold_staged *staged)
{
	return (staged->present[0] | staged->present[1]) != 0;
}

/* Whether the window or the rate is among what waits. */
FOLD_INLINE int fold_commands(const struct fold_staged *staged)
{
	u64 present = staged->present[FOLD_FIELD_CWND >> 6];

	return (present >> (FOLD_FIELD_CWND & 63) & 1 && staged->value[FOLD_FIELD_CWND]) ||
	       (present >> (FOLD_FIELD_RATE & 63) & 1 && staged->value[FOLD_FIELD_RATE]);
}

/* Sets the `n`th register that may wait, if it does. */
FOLD_INLINE void fold_take_one(struct fold_state *state, const struct fold_staged *staged, u32 n)
{
	if (n < FOLD_FIELDS && (staged->present[(n >> 6) & 1] >> (n & 63) & 1))
		*fold_reg(state,
			  n < FOLD_MAX_CONTROLS ? FOLD_CONTROL + n : FOLD_CWND + (n - FOLD_FIELD_CWND)) =
			staged->value[n];
}

/* Sets every register that waits, and forgets them. */
FOLD_INLINE void fold_take(struct fold_state *state, struct fold_staged *staged)
{
	u32 n;

	for (n = 0; n < FOLD_FIELDS; n++)
		fold_take_one(state, staged, n);
	staged->present[0] = staged->present[1] = 0;
}

/*
 * Packets lost, as the program is told. One that does not read ECN would go on as if nothing had been marked,
 * while the other end is told that the window was reduced (RFC 3168, section 6.1.2): it gets a loss for the
 * marks of a round trip.
 */
FOLD_INLINE u64 fold_told_losses(struct fold_state *state, u64 now_us, const struct fold_sample *sample,
				 int reads_ecn)
{
	if (sample->rtt_us)
		state->rtt_us = sample->rtt_us;
	if (reads_ecn || !sample->ecn_packets || now_us < state->mark_end_us)
		return sample->lost_packets;
	state->mark_end_us = now_us + state->rtt_us;
	return (u64)sample->lost_packets + 1;
}

/* Before the program runs: the primitives of this ACK, Micros and the flags. */
FOLD_INLINE void fold_begin(struct fold_state *state, u64 now_us, const struct fold_sample *sample,
			    int reads_ecn)
{
	u64 *primitive = &state->reg[FOLD_PRIMITIVE];

	primitive[0] = sample->bytes_acked;
	primitive[1] = sample->bytes_misordered;
	primitive[2] = sample->ecn_bytes;
	primitive[3] = sample->ecn_packets;
	primitive[4] = fold_told_losses(state, now_us, sample, reads_ecn);
	primitive[5] = now_us;
	primitive[6] = sample->packets_acked;
	primitive[7] = sample->packets_misordered;
	primitive[8] = sample->bytes_in_flight;
	primitive[9] = sample->bytes_pending;
	primitive[10] = sample->packets_in_flight;
	primitive[11] = sample->rate_incoming;
	primitive[12] = sample->rate_outgoing;
	primitive[13] = sample->rtt_us ? sample->rtt_us : 0xffffffffU;
	primitive[14] = sample->was_timeout != 0;
	state->reg[FOLD_MICROS] = now_us - state->micros_zero;
	state->reg[FOLD_EVENT_FLAG] = 0;
	state->reg[FOLD_FALLTHROUGH] = 0;
	state->reg[FOLD_SHOULD_REPORT] = 0;
}

/* The program may have set Micros; time does not pass within a run, so its zero is worked out once. */
FOLD_INLINE void fold_end(struct fold_state *state, u64 now_us)
{
	state->micros_zero = now_us - state->reg[FOLD_MICROS];
}

/* (weight * old + (10 - weight) * new) / 10, modulo 2^64; the new value alone while the old one is 0. */
FOLD_INLINE u64 fold_ewma(u64 weight, u64 old, u64 new)
{
	return old ? FOLD_DIV(weight * old + (10 - weight) * new, (u64)10) : new;
}

FOLD_INLINE u32 fold_distance(u32 from, u32 to)
{
	return to > from ? to - from : 0xffffffffU - from + to;
}

/* The later of two 32-bit sequence numbers that may have wrapped; 0 is no number. */
FOLD_INLINE u64 fold_max_wrapped(u64 a, u64 b)
{
	if (a == 0)
		return b;
	if (b == 0)
		return a;
	return fold_distance(b, a) < fold_distance(a, b) ? (u32)a : (u32)b;
}

/* One instruction; returns whether the run has ended. */
FOLD_INLINE int fold_step(struct fold_run *run)
{
	struct fold_state *state = run->state;
	const struct fold_insn *insn;
	u64 left, right, value;
	u32 pc = run->pc;

	if (pc >= FOLD_MAX_CODE || pc >= run->program->n_code)
		return 1;
	insn = &run->program->code[pc & (FOLD_MAX_CODE - 1)];
	run->pc = pc + 1;
	left = *fold_reg(state, insn->left);
	right = *fold_reg(state, insn->right);
	switch (insn->op) {
	case FOLD_ADD:
		value = left + right;
		if (value < left) {
			run->abort = FOLD_ADD_OVERFLOW;
			return 1;
		}
		break;
	case FOLD_BIND:
		value = right;
		break;
	case FOLD_OP_DIV:
		if (right == 0) {
			run->abort = FOLD_DIVISION_BY_ZERO;
			return 1;
		}
		value = FOLD_DIV(left, right);
		break;
	case FOLD_EQUAL:
		value = left == right;
		break;
	case FOLD_EWMA:
		value = fold_ewma(left, *fold_reg(state, insn->result), right);
		break;
	case FOLD_GREATER:
		value = left > right;
		break;
	case FOLD_IF:
		if (left == 0)
			return 0;
		value = right;
		break;
	case FOLD_LESS:
		value = left < right;
		break;
	case FOLD_MAX:
		value = left > right ? left : right;
		break;
	case FOLD_MAX_WRAP:
		value = fold_max_wrapped(left, right);
		break;
	case FOLD_MIN:
		value = left < right ? left : right;
		break;
	case FOLD_MUL:
		/* libccp's check, which misses some overflows; the wrapped product is then the result. */
		value = left * right;
		if (value < left && right > 0) {
			run->abort = FOLD_MUL_OVERFLOW;
			return 1;
		}
		break;
	case FOLD_NOT_IF:
		if (left != 0)
			return 0;
		value = right;
		break;
	case FOLD_SUB:
		if (right > left) {
			run->abort = FOLD_SUB_UNDERFLOW;
			return 1;
		}
		value = left - right;
		break;
	case FOLD_UNLESS:
		/* Forward only, so that a run ends whatever the code says. */
		if (state->reg[FOLD_EVENT_FLAG] == 0 && insn->result > pc)
			run->pc = insn->result;
		return 0;
	case FOLD_NEXT:
		return state->reg[FOLD_EVENT_FLAG] != 0 && state->reg[FOLD_FALLTHROUGH] == 0;
	default:
		return 1;
	}
	*fold_reg(state, insn->result) = value;
	return 0;
}

enum fold_outcome {
	FOLD_RAN,
	FOLD_REPORTS, /* send the first `n_reports` registers, then call fold_reset() */
	FOLD_ABORTED,
};

#if !defined(__bpf__) /* there the steps are taken in bpf_loop(), and programs and mail lie in maps */
/*
 * One ACK of a flow that runs `program`. `start`: it is staged and starts now. Updates `control`, returns
 * enum fold_outcome.
 */
FOLD_INLINE int fold_ack(struct fold_state *state, const struct fold_program *program, int start,
			 struct fold_staged *staged, u64 now_us, const struct fold_sample *sample, u32 mss,
			 struct fold_control *control, u32 *abort)
{
	struct fold_run run = {.program = program, .state = state};

	state->reg[FOLD_CWND] = control->cwnd;
	state->reg[FOLD_RATE] = control->rate;
	if (start)
		fold_start(state, program, now_us);
	if (fold_is_staged(staged)) {
		fold_take(state, staged);
		fold_obey(state, mss, control);
	}
	fold_begin(state, now_us, sample, program->reads_ecn);
	while (!fold_step(&run))
		;
	fold_end(state, now_us);
	*abort = run.abort;
	if (run.abort)
		return FOLD_ABORTED;
	fold_obey(state, mss, control);
	return state->reg[FOLD_SHOULD_REPORT] ? FOLD_REPORTS : FOLD_RAN;
}
#endif

#endif
