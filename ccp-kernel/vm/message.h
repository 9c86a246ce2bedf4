/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * The messages of CCP, as a datapath reads and writes them. Little-endian; a header of u16 type, u16 length
 * (header included) and u32 flow, then:
 *
 *   0 CREATE       to agent     u32 init_cwnd, mss, src_ip, src_port, dst_ip, dst_port; char[64] algorithm
 *   1 MEASURE      to agent     u32 program, n; n * u64 value (none: the flow has ended)
 *   2 INSTALL      to datapath  u32 program, n_expr, n_instr; 16 bytes each expression, then instruction
 *   3 UPDATE       to datapath  u32 n; n * (u8 kind, u32 index, u64 value)
 *   4 CHANGE_PROG  to datapath  u32 program, n; n * (u8 kind, u32 index, u64 value)
 *   5 READY        to agent     u32 datapath id
 *
 *   expression   u32 first instruction and number of its condition, then of its event
 *   instruction  u8 operation; u8 kind, u32 index of result, of left and of right operand
 *
 * Reading is total: any bytes give a message that is valid throughout, or a refusal. A body has exactly the
 * length that its counts ask for.
 */
#ifndef FOLD_MESSAGE_H
#define FOLD_MESSAGE_H

#include "fold.h"

enum fold_message_type { FOLD_CREATE, FOLD_MEASURE, FOLD_INSTALL, FOLD_UPDATE, FOLD_CHANGE_PROG, FOLD_READY };

#define FOLD_HEADER_BYTES      8U
#define FOLD_FIELD_BYTES       13U
#define FOLD_CODE_BYTES	       16U
#define FOLD_MAX_UPDATES       222U
#define FOLD_MAX_EXPRESSIONS   256U
#define FOLD_MAX_INSTRUCTIONS  255U
#define FOLD_CREATE_BYTES      96U
#define FOLD_ALGORITHM_BYTES   64U
#define FOLD_READY_BYTES       12U
#define FOLD_MAX_MEASURE_BYTES (FOLD_HEADER_BYTES + 8 + 8 * FOLD_MAX_REPORTS)

/* Registers by their kind on the wire. */
enum fold_kind {
	FOLD_KIND_CONTROL,
	FOLD_KIND_IMMEDIATE,
	FOLD_KIND_IMPLICIT,
	FOLD_KIND_LOCAL,
	FOLD_KIND_PRIMITIVE,
	FOLD_KIND_VOLATILE_REPORT,
	FOLD_KIND_REPORT,
	FOLD_KIND_TMP,
	FOLD_KIND_VOLATILE_CONTROL,
};

/* Why a message is refused. */
enum fold_refusal {
	FOLD_TAKEN,
	FOLD_BAD_LENGTH,	 /* fewer or more bytes than the header and the counts ask for */
	FOLD_BAD_TYPE,		 /* no message that a datapath takes */
	FOLD_BAD_COUNT,		 /* more registers, expressions or instructions than a message may carry */
	FOLD_BAD_FIELD,		 /* a register that no agent may set */
	FOLD_BAD_OPCODE,	 /* no such operation */
	FOLD_BAD_REGISTER,	 /* no such register, or one that may not stand there */
	FOLD_BAD_DEFINITION,	 /* a definition's initial value is no immediate */
	FOLD_BAD_EXPRESSION,	 /* runs instructions that the program does not have */
	FOLD_TOO_MANY_REPORTS,	 /* more report registers than a report carries */
	FOLD_TOO_MANY_CONSTANTS, /* more immediates than the register file holds */
	FOLD_TOO_LONG,		 /* its expressions run more than FOLD_MAX_CODE instructions in all */
};

FOLD_INLINE const char *fold_refusal_text(int refusal)
{
	switch (refusal) {
	case FOLD_TAKEN:
		return "taken";
	case FOLD_BAD_LENGTH:
		return "its length is not what its header and counts ask for";
	case FOLD_BAD_TYPE:
		return "no INSTALL, UPDATE or CHANGE_PROG message";
	case FOLD_BAD_COUNT:
		return "more than 222 registers, 256 expressions or 255 instructions";
	case FOLD_BAD_FIELD:
		return "a register that no agent may set";
	case FOLD_BAD_OPCODE:
		return "an instruction's operation does not exist";
	case FOLD_BAD_REGISTER:
		return "an instruction's register does not exist or may not stand there";
	case FOLD_BAD_DEFINITION:
		return "a definition's initial value is no immediate";
	case FOLD_BAD_EXPRESSION:
		return "an expression runs instructions that the program does not have";
	case FOLD_TOO_MANY_REPORTS:
		return "more than 110 report definitions";
	case FOLD_TOO_MANY_CONSTANTS:
		return "more than 255 distinct immediates outside definitions";
	case FOLD_TOO_LONG:
		return "its expressions run more than 2048 instructions in all";
	default:
		return "unknown refusal";
	}
}

FOLD_INLINE u32 fold_get16(const u8 *at)
{
	return at[0] | (u32)at[1] << 8;
}

FOLD_INLINE u32 fold_get32(const u8 *at)
{
	return fold_get16(at) | fold_get16(at + 2) << 16;
}

FOLD_INLINE u64 fold_get64(const u8 *at)
{
	return fold_get32(at) | (u64)fold_get32(at + 4) << 32;
}

FOLD_INLINE void fold_put16(u8 *at, u32 value)
{
	at[0] = value;
	at[1] = value >> 8;
}

FOLD_INLINE void fold_put32(u8 *at, u32 value)
{
	fold_put16(at, value);
	fold_put16(at + 2, value >> 16);
}

FOLD_INLINE void fold_put64(u8 *at, u64 value)
{
	fold_put32(at, value);
	fold_put32(at + 4, value >> 32);
}

/* Where a register lives; -1 for immediates and for what does not exist. */
static inline int fold_slot(u8 kind, u32 index)
{
	u32 base, limit;

	switch (kind) {
	case FOLD_KIND_CONTROL:
	case FOLD_KIND_VOLATILE_CONTROL:
		base = FOLD_CONTROL, limit = FOLD_MAX_CONTROLS;
		break;
	case FOLD_KIND_REPORT:
	case FOLD_KIND_VOLATILE_REPORT:
		base = FOLD_REPORT, limit = FOLD_MAX_REPORTS;
		break;
	case FOLD_KIND_IMPLICIT:
		base = FOLD_IMPLICIT, limit = FOLD_IMPLICITS;
		break;
	case FOLD_KIND_LOCAL:
		base = FOLD_LOCAL, limit = FOLD_MAX_LOCALS;
		break;
	case FOLD_KIND_PRIMITIVE:
		base = FOLD_PRIMITIVE, limit = FOLD_PRIMITIVES;
		break;
	case FOLD_KIND_TMP:
		base = FOLD_TMP, limit = FOLD_MAX_TMPS;
		break;
	default:
		return -1;
	}
	return index < limit ? (int)(base + index) : -1;
}

/* A message to the datapath, checked; it points into the bytes that it was read from. */
struct fold_message {
	u32 type;   /* INSTALL, UPDATE or CHANGE_PROG */
	u32 length; /* bytes, header included: where the datagram's next message starts */
	u32 sid;
	u32 uid; /* not in UPDATE */
	u32 n_fields;
	const u8 *fields;
	/* INSTALL */
	u32 n_expressions;
	u32 n_instructions;
	const u8 *expressions;
	const u8 *instructions;
};

static inline int fold_check_fields(const struct fold_message *message)
{
	const u8 *field = message->fields;
	u32 n;

	for (n = 0; n < message->n_fields; n++, field += FOLD_FIELD_BYTES) {
		/* libccp takes and ignores the implicit registers other than Cwnd and Rate. */
		if (field[0] == FOLD_KIND_IMPLICIT)
			continue;
		if (field[0] != FOLD_KIND_CONTROL && field[0] != FOLD_KIND_VOLATILE_CONTROL)
			return FOLD_BAD_FIELD;
		if (fold_get32(field + 1) >= FOLD_MAX_CONTROLS)
			return FOLD_BAD_FIELD;
	}
	return FOLD_TAKEN;
}

/*
 * Reads the first message of a datagram of `bytes` bytes. If it is refused, `length` is still where the next
 * one starts, or 0 if that is not known.
 */
static inline int fold_read(const u8 *at, u32 bytes, struct fold_message *message)
{
	u32 length, head;

	*message = (struct fold_message){0};
	if (bytes < FOLD_HEADER_BYTES)
		return FOLD_BAD_LENGTH;
	length = fold_get16(at + 2);
	if (length < FOLD_HEADER_BYTES || length > bytes)
		return FOLD_BAD_LENGTH;
	message->type = fold_get16(at);
	message->length = length;
	message->sid = fold_get32(at + 4);
	switch (message->type) {
	case FOLD_INSTALL:
		head = FOLD_HEADER_BYTES + 12;
		if (length < head)
			return FOLD_BAD_LENGTH;
		message->uid = fold_get32(at + 8);
		message->n_expressions = fold_get32(at + 12);
		message->n_instructions = fold_get32(at + 16);
		if (message->n_expressions > FOLD_MAX_EXPRESSIONS ||
		    message->n_instructions > FOLD_MAX_INSTRUCTIONS)
			return FOLD_BAD_COUNT;
		message->expressions = at + head;
		message->instructions = message->expressions + FOLD_CODE_BYTES * message->n_expressions;
		if (length != head + FOLD_CODE_BYTES * (message->n_expressions + message->n_instructions))
			return FOLD_BAD_LENGTH;
		return FOLD_TAKEN;
	case FOLD_UPDATE:
		head = FOLD_HEADER_BYTES + 4;
		break;
	case FOLD_CHANGE_PROG:
		head = FOLD_HEADER_BYTES + 8;
		break;
	default:
		return FOLD_BAD_TYPE;
	}
	if (length < head)
		return FOLD_BAD_LENGTH;
	if (message->type == FOLD_CHANGE_PROG)
		message->uid = fold_get32(at + 8);
	message->n_fields = fold_get32(at + head - 4);
	message->fields = at + head;
	if (message->n_fields > FOLD_MAX_UPDATES)
		return FOLD_BAD_COUNT;
	if (length != head + FOLD_FIELD_BYTES * message->n_fields)
		return FOLD_BAD_LENGTH;
	return fold_check_fields(message);
}

/* The fields of an UPDATE or CHANGE_PROG join those that wait for the next ACK; a later one wins. */
static inline void fold_stage(const struct fold_message *message, struct fold_staged *staged)
{
	const u8 *field = message->fields;
	u32 n;

	if (message->type == FOLD_CHANGE_PROG)
		staged->present[0] = staged->present[1] = 0;
	for (n = 0; n < message->n_fields; n++, field += FOLD_FIELD_BYTES) {
		u32 index = fold_get32(field + 1);

		if (field[0] == FOLD_KIND_IMPLICIT) {
			if (index != FOLD_CWND - FOLD_IMPLICIT && index != FOLD_RATE - FOLD_IMPLICIT)
				continue;
			index = index - (FOLD_CWND - FOLD_IMPLICIT) + FOLD_FIELD_CWND;
		}
		if (index >= FOLD_FIELDS)
			continue;
		staged->value[index] = fold_get64(field + 5);
		staged->present[index >> 6] |= 1ULL << (index & 63);
	}
}

/* A flow, as CREATE tells of it. */
struct fold_create {
	u32 init_cwnd; /* bytes */
	u32 mss;       /* bytes */
	u32 src_ip;
	u32 src_port;
	u32 dst_ip;
	u32 dst_port;
};

FOLD_INLINE void fold_write_header(u8 *out, u32 type, u32 length, u32 sid)
{
	fold_put16(out, type);
	fold_put16(out + 2, length);
	fold_put32(out + 4, sid);
}

/* Writes CREATE: FOLD_CREATE_BYTES. `algorithm` ends in NUL; empty, it leaves the choice to the agent. */
static inline void fold_write_create(u8 *out, u32 sid, const struct fold_create *create,
				     const char *algorithm)
{
	const u32 words[] = {create->init_cwnd, create->mss,	create->src_ip,
			     create->src_port,	create->dst_ip, create->dst_port};
	u8 *name = out + FOLD_CREATE_BYTES - FOLD_ALGORITHM_BYTES;
	u32 n;

	fold_write_header(out, FOLD_CREATE, FOLD_CREATE_BYTES, sid);
	for (n = 0; n < 6; n++)
		fold_put32(out + FOLD_HEADER_BYTES + 4 * n, words[n]);
	for (n = 0; n < FOLD_ALGORITHM_BYTES; n++)
		name[n] = 0;
	for (n = 0; n < FOLD_ALGORITHM_BYTES - 1 && algorithm[n]; n++)
		name[n] = algorithm[n];
}

/* Writes MEASURE with the first `n` report registers, at most FOLD_MAX_MEASURE_BYTES; returns its bytes. */
static inline u32 fold_write_measure(u8 *out, u32 sid, u32 uid, const struct fold_state *state, u32 n)
{
	u32 length, i;

	n = n < FOLD_MAX_REPORTS ? n : FOLD_MAX_REPORTS;
	length = FOLD_HEADER_BYTES + 8 + 8 * n;
	fold_write_header(out, FOLD_MEASURE, length, sid);
	fold_put32(out + 8, uid);
	fold_put32(out + 12, n);
	for (i = 0; i < n; i++)
		fold_put64(out + 16 + 8 * i, state->reg[FOLD_REPORT + i]);
	return length;
}

/* Writes READY: FOLD_READY_BYTES. */
static inline void fold_write_ready(u8 *out, u32 id)
{
	fold_write_header(out, FOLD_READY, FOLD_READY_BYTES, 0);
	fold_put32(out + 8, id);
}

#endif
