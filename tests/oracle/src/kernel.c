/*
 * The machine of the kernel datapaths (ccp-kernel/vm) behind a pipe, in user space: pipe.h describes the
 * commands. It holds one flow (id 1) and the programs that the agent installed.
 *
 * Without a program an ACK leaves the window as it is: the fallback is not part of the machine.
 */
#include "machine.h"
#include "pipe.h"
#include "program.h"

#define PROGRAMS 256
/* libccp's errors by enum fold_abort. */
static const int32_t ABORTS[] = { 0, -91, -92, -93, -94 };

static struct fold_program *programs[PROGRAMS];
static struct fold_program running, staged_program;
static struct {
    struct fold_state state;
    struct fold_staged staged;
    struct fold_control control;
    u32 mss;
    int has_program, is_staged;
} flow;

static struct fold_program **find(u32 uid) {
    for (int n = 0; n < PROGRAMS; n++)
        if (programs[n] && programs[n]->uid == uid) return &programs[n];
    return NULL;
}

/* A program with id 1 is the first of a new agent and clears the table. */
static int32_t install(const struct fold_message *message) {
    struct fold_program *program = malloc(sizeof *program);
    if (program == NULL) exit(3);
    int refusal = fold_install(message, program);
    if (!refusal && message->uid == 1)
        for (int n = 0; n < PROGRAMS; n++) {
            free(programs[n]);
            programs[n] = NULL;
        }
    struct fold_program **place = refusal ? NULL : find(message->uid);
    for (int n = 0; n < PROGRAMS && !refusal && !place; n++)
        if (!programs[n]) place = &programs[n];
    if (!place) {
        free(program);
        return refusal ? -refusal : -1;
    }
    free(*place);
    *place = program;
    return 0;
}

static int32_t take_message(const struct fold_message *message) {
    if (message->type == FOLD_INSTALL) return install(message);
    struct fold_program **program = NULL;
    if (message->type == FOLD_CHANGE_PROG && !(program = find(message->uid))) return -1;
    if (message->sid != 1) return -1;
    if (program) {
        staged_program = **program;
        flow.is_staged = 1;
    }
    fold_stage(message, &flow.staged);
    return 0;
}

static void datagram(const char **at, const char *end) {
    u32 left = take_u32(at, end);
    int32_t result = 0;
    /* A copy of its exact size, so that a sanitizer sees a read behind it. */
    u8 *copy = malloc(left ? left : 1), *bytes = copy;
    memcpy(copy, take(at, end, left), left);
    do {
        struct fold_message message;
        int32_t refusal = -fold_read(bytes, left, &message);
        if (!refusal) refusal = take_message(&message);
        if (!result) result = refusal;
        if (message.length == 0) break;
        bytes += message.length;
        left -= message.length;
    } while (left);
    free(copy);
    put(&answer, &result, 4);
}

static void start(const char **at, const char *end) {
    take_u64(at, end);
    memset(&flow, 0, sizeof flow);
    u32 cwnd = take_u32(at, end);
    flow.mss = take_u32(at, end);
    flow.state.reg[FOLD_CWND] = cwnd;
    fold_obey(&flow.state, flow.mss, &flow.control);
    flow.state.reg[FOLD_CWND] = 0;
    struct fold_create create = { .init_cwnd = cwnd, .mss = flow.mss };
    u8 bytes[FOLD_CREATE_BYTES];
    fold_write_create(bytes, 1, &create, "");
    put(&sent, bytes, sizeof bytes);
    put_messages();
}

static void each_register(void (*f)(uint64_t)) {
    for (u32 n = 0; n < FOLD_PRIMITIVE; n++) f(flow.state.reg[n]);
}

static void ack(const char **at, const char *end) {
    u64 now_us = take_u64(at, end);
    struct fold_sample sample = { 0 };
    for (u32 *word = &sample.bytes_acked; word <= &sample.was_timeout; word++) *word = take_u32(at, end);
    for (u64 *word = &sample.rtt_us; word <= &sample.rate_incoming; word++) *word = take_u64(at, end);
    for (u32 *word = &sample.bytes_in_flight; word <= &sample.bytes_pending; word++) *word = take_u32(at, end);
    u32 abort = 0;
    if (flow.is_staged) running = staged_program;
    if (flow.is_staged || flow.has_program) {
        flow.has_program = 1;
        int outcome = fold_ack(&flow.state, &running, flow.is_staged, &flow.staged, now_us, &sample, flow.mss,
                               &flow.control, &abort);
        if (outcome == FOLD_REPORTS) {
            u8 bytes[FOLD_MAX_MEASURE_BYTES];
            put(&sent, bytes, fold_write_measure(bytes, 1, running.uid, &flow.state, running.n_reports));
            fold_reset(&flow.state, &running);
        }
        flow.is_staged = 0;
    }
    put(&answer, &ABORTS[abort], 4);
    put(&answer, &flow.control.cwnd, 4);
    u64 rate = flow.control.rate;
    put(&answer, &rate, 8);
    digest = 0;
    each_register(add_to_digest);
    put(&answer, &digest, 8);
    put_messages();
}

static void command(char name, const char **at, const char *end) {
    switch (name) {
        case 'S': start(at, end); break;
        case 'M': datagram(at, end); break;
        case 'A': ack(at, end); break;
        case 'D': each_register(add_to_answer); break;
        default: unknown_command(name);
    }
}

int main(void) {
    int status = serve(command);
    for (int n = 0; n < PROGRAMS; n++) free(programs[n]);
    return status;
}
