/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * Installs a program: checks every operation, register and range of an INSTALL message once, resolves each
 * operand to its place in the register file, and lays the expressions out as one stream of instructions, so
 * that running it needs no check but the arithmetic's.
 *
 * Refused is what libccp faults on or leaves undefined (256 instructions, expressions beyond the program's
 * instructions, register indices beyond the kind's limit, definitions without an immediate, more than 110
 * reports), more immediates than the register file holds, and expressions that share instructions so often
 * that an ACK would run more than FOLD_MAX_CODE of them.
 */
#ifndef FOLD_PROGRAM_H
#define FOLD_PROGRAM_H

#include "message.h"

/* One operand as the wire has it. */
struct fold_operand {
	u8 kind;
	u32 index;
	int slot; /* -1: an immediate */
};

/* Reads the operand at `at`; returns whether it exists. */
static inline int fold_operand(const u8 *at, struct fold_operand *operand)
{
	operand->kind = at[0];
	operand->index = fold_get32(at + 1);
	operand->slot = fold_slot(operand->kind, operand->index);
	return operand->slot >= 0 || operand->kind == FOLD_KIND_IMMEDIATE;
}

/* The place of an immediate among the program's, which it joins if it is new; -1 if they are too many. */
static inline int fold_constant(struct fold_program *program, u32 value)
{
	u32 n;

	for (n = 0; n < program->n_constants; n++)
		if (program->set[n].value == value)
			return FOLD_CONSTANT + n;
	if (n >= FOLD_MAX_CONSTANTS)
		return -1;
	program->set[n].value = value;
	program->set[n].slot = FOLD_CONSTANT + n;
	program->n_constants = n + 1;
	return FOLD_CONSTANT + n;
}

/* Decodes the instruction at `at`; its immediates join the program's. */
static inline int fold_decode(struct fold_program *program, const u8 *at, struct fold_insn *insn)
{
	struct fold_operand result, left, right;

	*insn = (struct fold_insn){0};
	if (at[0] > FOLD_SUB)
		return FOLD_BAD_OPCODE;
	if (!fold_operand(at + 1, &result) || !fold_operand(at + 6, &left) || !fold_operand(at + 11, &right))
		return FOLD_BAD_REGISTER;
	if (result.kind == FOLD_KIND_IMMEDIATE || result.kind == FOLD_KIND_PRIMITIVE)
		return FOLD_BAD_REGISTER;
	insn->op = at[0];
	insn->result = result.slot;
	if (insn->op == FOLD_DEF)
		return right.kind == FOLD_KIND_IMMEDIATE ? FOLD_TAKEN : FOLD_BAD_DEFINITION;
	/* BIND ignores its left operand, so an immediate there needs no place. */
	if (insn->op == FOLD_BIND)
		left.slot = result.slot;
	else if (left.slot < 0)
		left.slot = fold_constant(program, left.index);
	if (right.slot < 0)
		right.slot = fold_constant(program, right.index);
	if (left.slot < 0 || right.slot < 0)
		return FOLD_TOO_MANY_CONSTANTS;
	insn->left = left.slot;
	insn->right = right.slot;
	return FOLD_TAKEN;
}

/*
 * Adds the volatile or the other definitions to `set`; returns how many report registers they define. As in
 * libccp, definitions count up to the first other instruction.
 */
static inline u32 fold_define(struct fold_program *program, const struct fold_message *message,
			      int is_volatile)
{
	/* Stands for "infinity" in old agents; the value is what portus's +infinity gives. */
	const u32 infinity = 0x3fffffff;
	const u8 *at = message->instructions;
	struct fold_operand left, right;
	u32 n, reports = 0;

	for (n = 0; n < message->n_instructions && at[0] == FOLD_DEF; n++, at += FOLD_CODE_BYTES) {
		int report, known_volatile;

		fold_operand(at + 6, &left);
		fold_operand(at + 11, &right);
		known_volatile =
			left.kind == FOLD_KIND_VOLATILE_REPORT || left.kind == FOLD_KIND_VOLATILE_CONTROL;
		report = left.kind == FOLD_KIND_VOLATILE_REPORT || left.kind == FOLD_KIND_REPORT;
		if (!report && left.kind != FOLD_KIND_CONTROL && left.kind != FOLD_KIND_VOLATILE_CONTROL)
			continue;
		if (known_volatile != is_volatile || program->n_sets >= FOLD_MAX_SETS)
			continue;
		reports += report;
		program->set[program->n_sets].value = right.index == infinity ? 0xffffffffU : right.index;
		program->set[program->n_sets].slot = left.slot;
		program->n_sets++;
	}
	return reports;
}

static inline int fold_is_ecn(u32 slot)
{
	return slot == FOLD_ECN_BYTES || slot == FOLD_ECN_PACKETS;
}

static inline int fold_emit(struct fold_program *program, struct fold_insn insn)
{
	if (program->n_code >= FOLD_MAX_CODE)
		return FOLD_TOO_LONG;
	program->code[program->n_code++] = insn;
	return FOLD_TAKEN;
}

/* Lays out `count` instructions from the `first` on; definitions do nothing when run. */
static inline int fold_lay_out(struct fold_program *program, const struct fold_message *message, u32 first,
			       u32 count)
{
	const u8 *at = message->instructions + FOLD_CODE_BYTES * first;
	struct fold_insn insn;
	int refusal = FOLD_TAKEN;

	for (; count && !refusal; count--, at += FOLD_CODE_BYTES) {
		refusal = fold_decode(program, at, &insn);
		if (!refusal && insn.op != FOLD_DEF)
			refusal = fold_emit(program, insn);
	}
	return refusal;
}

static inline int fold_expression(struct fold_program *program, const struct fold_message *message,
				  const u8 *at)
{
	u32 condition = fold_get32(at), conditions = fold_get32(at + 4);
	u32 event = fold_get32(at + 8), events = fold_get32(at + 12);
	u32 n = message->n_instructions, unless;
	int refusal;

	if (conditions > n || condition > n - conditions || events > n || event > n - events)
		return FOLD_BAD_EXPRESSION;
	refusal = fold_lay_out(program, message, condition, conditions);
	unless = program->n_code;
	if (!refusal)
		refusal = fold_emit(program, (struct fold_insn){.op = FOLD_UNLESS});
	if (!refusal)
		refusal = fold_lay_out(program, message, event, events);
	if (!refusal)
		refusal = fold_emit(program, (struct fold_insn){.op = FOLD_NEXT});
	if (!refusal)
		program->code[unless].result = program->n_code;
	return refusal;
}

/* Makes a program of an INSTALL message that fold_read() has taken; returns enum fold_refusal. */
static inline int fold_install(const struct fold_message *message, struct fold_program *program)
{
	struct fold_insn insn;
	u32 n, reports;
	int refusal;

	if (message->type != FOLD_INSTALL)
		return FOLD_BAD_TYPE;
	program->uid = message->uid;
	program->n_code = program->n_reports = program->n_constants = program->n_volatile = program->n_sets =
		0;
	program->reads_ecn = 0;
	for (n = 0; n < message->n_instructions; n++) {
		refusal = fold_decode(program, message->instructions + FOLD_CODE_BYTES * n, &insn);
		if (refusal)
			return refusal;
		program->reads_ecn |= fold_is_ecn(insn.left) || fold_is_ecn(insn.right);
	}
	program->n_sets = program->n_constants;
	reports = fold_define(program, message, 1);
	program->n_volatile = program->n_sets - program->n_constants;
	reports += fold_define(program, message, 0);
	if (reports > FOLD_MAX_REPORTS)
		return FOLD_TOO_MANY_REPORTS;
	program->n_reports = reports;
	for (n = 0; n < message->n_expressions; n++) {
		refusal = fold_expression(program, message, message->expressions + FOLD_CODE_BYTES * n);
		if (refusal)
			return refusal;
	}
	return FOLD_TAKEN;
}

#endif
