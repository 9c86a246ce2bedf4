/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The virtual machine around a run. A run is two programs: one that takes the flow's mail and the ACK's
 * primitives and then jumps (tail call) to the fold program's own BPF program, and `finish`, to which that
 * one jumps when it is done. Where there is none, the interpreter does both.
 */
#ifndef MACHINE_BPF_H
#define MACHINE_BPF_H

#include <bpf/bpf_helpers.h>
#include "datapath.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PROGRAMS);
	__type(key, u32);
	__type(value, struct fold_program);
} programs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, MAX_JUMPS);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
} jumps SEC(".maps");

struct setting {
	struct fold_state *state;
	const struct fold_program *program;
	const struct mailbox *mail;
};

static long start_one(u32 n, struct setting *to)
{
	if (n >= to->program->n_sets)
		return 1;
	fold_set_one(to->state, to->program, n);
	return 0;
}

static long reset_one(u32 n, struct setting *to)
{
	if (n >= to->program->n_volatile)
		return 1;
	fold_set_one(to->state, to->program, to->program->n_constants + n);
	return 0;
}

static long take_one(u32 n, struct setting *to)
{
	fold_take_one(to->state, &to->mail->staged, n);
	return 0;
}

static __always_inline struct fold_program *machine_program(const struct machine *m)
{
	u32 place = m->program - 1;

	return bpf_map_lookup_elem(&programs, &place);
}

/* Takes what is in a mailbox that this side holds. */
static __always_inline void machine_take(struct machine *m, struct mailbox *mail)
{
	struct setting to = {.state = &m->state, .mail = mail};

	m->state.reg[FOLD_CWND] = m->control.cwnd;
	m->state.reg[FOLD_RATE] = m->control.rate;
	if (mail->program) {
		m->program = mail->program;
		mail->program = 0;
		to.program = machine_program(m);
		if (!to.program) {
			m->program = 0;
			return;
		}
		bpf_loop(FOLD_MAX_SETS, start_one, &to, 0);
		m->state.micros_zero = m->now_us;
	}
	if (fold_is_staged(&mail->staged)) {
		bpf_loop(FOLD_FIELDS, take_one, &to, 0);
		mail->staged.present[0] = mail->staged.present[1] = 0;
		fold_obey(&m->state, m->mss, &m->control);
	}
}

/* Before a run; `took`: machine_take() has loaded the window and the rate. */
static __always_inline void machine_begin(struct machine *m, const struct fold_sample *sample, int took)
{
	const struct fold_program *program = 0;

	if (!took) {
		m->state.reg[FOLD_CWND] = m->control.cwnd;
		m->state.reg[FOLD_RATE] = m->control.rate;
	}
	m->abort = FOLD_NO_ABORT;
	if (sample->ecn_packets)
		program = machine_program(m);
	fold_begin(&m->state, m->now_us, sample, program && program->reads_ecn);
}

static long step_one(u32 n, struct fold_run *run)
{
	return fold_step(run);
}

/* The run itself, one instruction after the other. */
static __always_inline void machine_interpret(struct machine *m)
{
	/* With a constant as its start, the verifier would walk through every value of pc. */
	struct fold_run run = {.program = machine_program(m), .state = &m->state, .pc = m->zero};

	if (!run.program)
		return;
	bpf_loop(FOLD_MAX_CODE, step_one, &run, 0);
	m->abort = run.abort;
}

/* After a run; returns enum fold_outcome. After FOLD_REPORTS, machine_reset() is due. */
static __always_inline int machine_end(struct machine *m, const struct fold_program *program)
{
	fold_end(&m->state, m->now_us);
	if (m->abort)
		return FOLD_ABORTED;
	fold_obey(&m->state, m->mss, &m->control);
	if (!m->state.reg[FOLD_SHOULD_REPORT])
		return FOLD_RAN;
	m->head.type = 1; /* MEASURE */
	m->head.n = program->n_reports < FOLD_MAX_REPORTS ? program->n_reports : FOLD_MAX_REPORTS;
	m->head.length = sizeof(m->head) + 8 * m->head.n;
	m->head.uid = program->uid;
	return FOLD_REPORTS;
}

static __always_inline void machine_reset(struct machine *m, const struct fold_program *program)
{
	struct setting to = {.state = &m->state, .program = program};

	if (program->n_volatile)
		bpf_loop(FOLD_MAX_SETS, reset_one, &to, 0);
}

#endif
