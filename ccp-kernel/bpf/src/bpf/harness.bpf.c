// SPDX-License-Identifier: GPL-2.0-only
/*
 * The virtual machine of anole.bpf.c without TCP, for tests: one flow, in an array, whose ACKs come through
 * BPF_PROG_TEST_RUN.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "datapath.h"
#include "machine.bpf.h"

char LICENSE[] SEC("license") = "GPL";

struct __sk_buff;

struct test_case {
	struct fold_sample sample;
	u32 outcome; /* enum fold_outcome of the ACK */
	u32 pad;
	u8 report[FOLD_MAX_MEASURE_BYTES]; /* if it reported */
	struct mailbox mail;
	struct machine machine;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct test_case);
} cases SEC(".maps");

static __always_inline struct test_case *the_case(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&cases, &zero);
}

SEC("tc")
int ack(struct __sk_buff *ctx)
{
	struct test_case *c = the_case();
	int took = 0;

	if (!c)
		return 1;
	if (c->mail.state == MAIL_FULL) {
		machine_take(&c->machine, &c->mail);
		c->mail.state = MAIL_EMPTY;
		took = 1;
	}
	if (!c->machine.program)
		return 2;
	machine_begin(&c->machine, &c->sample, took);
	bpf_tail_call(ctx, &jumps, c->machine.program - 1);
	bpf_tail_call(ctx, &jumps, JUMP_INTERPRET);
	return 3;
}

static __always_inline void end_run(struct test_case *c)
{
	struct fold_program *program = machine_program(&c->machine);

	if (!program)
		return;
	c->outcome = machine_end(&c->machine, program);
	if (c->outcome == FOLD_REPORTS) {
		__builtin_memcpy(c->report, &c->machine.head, sizeof(c->report));
		machine_reset(&c->machine, program);
	}
}

SEC("tc")
int finish(struct __sk_buff *ctx)
{
	struct test_case *c = the_case();

	if (c)
		end_run(c);
	return 0;
}

SEC("tc")
int interpret(struct __sk_buff *ctx)
{
	struct test_case *c = the_case();

	if (!c)
		return 1;
	machine_interpret(&c->machine);
	end_run(c);
	return 0;
}
