/*
 * C libccp behind a pipe: the oracle of the differential test and the other side of the benchmark.
 *
 * stdin carries batches, each a u32 length and that many bytes of commands; every batch is answered by
 * a u32 length and that many bytes. Numbers are little-endian. Commands and their answers:
 *
 *   S u64 now_us, u32 init_cwnd, u32 mss   closes the flow and starts another       messages
 *   M u32 n, n bytes                       a datagram of the agent                  i32 result
 *   A u64 now_us, primitives               one ACK                                  outcome
 *   D                                      every register                           242 x u64
 *   B u64 now_us, u64 step_us, u32 n, primitives   n ACKs, timed                    u64 nanoseconds
 *
 *   messages:   u32 bytes, then what libccp sent
 *   outcome:    i32 result, u32 cwnd, u64 rate, u64 digest of every register, messages
 *   primitives: the fields of struct ccp_primitives in the order of read_primitives below
 *
 * The clock is virtual: it stands at now_us. The transport is one that keeps what it is told within the
 * bounds of the runtime under test, working on the raw registers, because libccp cuts both values to 32
 * bits on the way out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "ccp.h"
#include "ccp_priv.h"

#define MAX_CWND_BYTES (1ull << 30)
#define MIN_CWND_PACKETS 2ull
#define MIN_RATE_BYTES_PER_S 1500ull
#define MAX_RATE_BYTES_PER_S 4000000000ull
/* libccp can use one program less than its table holds. */
#define PROGRAMS 6

static u64 clock_us;
static u32 mss_bytes;
static struct ccp_connection connections[1];
static struct ccp_datapath datapath;

struct buffer { char *bytes; size_t used, room; };
static struct buffer sent, answer;

static void put(struct buffer *b, const void *bytes, size_t n) {
    if (b->used + n > b->room) {
        b->room = (b->used + n) * 2;
        b->bytes = realloc(b->bytes, b->room);
        if (b->bytes == NULL) exit(3);
    }
    memcpy(b->bytes + b->used, bytes, n);
    b->used += n;
}

static u64 clamp(u64 value, u64 low, u64 high) {
    return value < low ? low : value > high ? high : value;
}

static void set_cwnd(struct ccp_connection *conn, u32 cwnd) {
    (void) cwnd;
    struct ccp_priv_state *state = conn->state;
    conn->prims.snd_cwnd =
        clamp(state->registers.impl_registers[CWND_REG], MIN_CWND_PACKETS * mss_bytes, MAX_CWND_BYTES);
}

static void set_rate(struct ccp_connection *conn, u32 rate) {
    (void) rate;
    struct ccp_priv_state *state = conn->state;
    conn->prims.snd_rate =
        clamp(state->registers.impl_registers[RATE_REG], MIN_RATE_BYTES_PER_S, MAX_RATE_BYTES_PER_S);
}

static int send_message(struct ccp_datapath *dp, char *message, int size) {
    (void) dp;
    if (size > 0) put(&sent, message, size);
    return 0;
}

static u64 now(void) { return clock_us; }
static u64 since_usecs(u64 then) { return clock_us - then; }
static u64 after_usecs(u64 usecs) { return clock_us + usecs; }

static const char *take(const char **at, const char *end, size_t n) {
    const char *here = *at;
    if ((size_t) (end - here) < n) {
        fprintf(stderr, "libccp-oracle: a command is cut off\n");
        exit(2);
    }
    *at += n;
    return here;
}

static u32 take_u32(const char **at, const char *end) {
    u32 value;
    memcpy(&value, take(at, end, 4), 4);
    return value;
}

static u64 take_u64(const char **at, const char *end) {
    u64 value;
    memcpy(&value, take(at, end, 8), 8);
    return value;
}

static struct ccp_primitives read_primitives(const char **at, const char *end) {
    struct ccp_primitives p;
    memset(&p, 0, sizeof p);
    p.bytes_acked = take_u32(at, end);
    p.packets_acked = take_u32(at, end);
    p.bytes_misordered = take_u32(at, end);
    p.packets_misordered = take_u32(at, end);
    p.ecn_bytes = take_u32(at, end);
    p.ecn_packets = take_u32(at, end);
    p.lost_pkts_sample = take_u32(at, end);
    p.was_timeout = take_u32(at, end) != 0;
    p.rtt_sample_us = take_u64(at, end);
    p.rate_outgoing = take_u64(at, end);
    p.rate_incoming = take_u64(at, end);
    p.bytes_in_flight = take_u32(at, end);
    p.packets_in_flight = take_u32(at, end);
    p.bytes_pending = take_u32(at, end);
    return p;
}

/* What a transport does at every ACK: the new measurements, the window and rate in force. */
static void load(struct ccp_connection *conn, const struct ccp_primitives *fresh) {
    u32 cwnd = conn->prims.snd_cwnd;
    u64 rate = conn->prims.snd_rate;
    conn->prims = *fresh;
    conn->prims.snd_cwnd = cwnd;
    conn->prims.snd_rate = rate;
}

/* Calls `f` on every register, in the order in which both sides list them. */
static void each_register(void (*f)(u64)) {
    struct register_file *r = &((struct ccp_priv_state *) connections[0].state)->registers;
    for (int i = 0; i < MAX_REPORT_REG; i++) f(r->report_registers[i]);
    for (int i = 0; i < MAX_CONTROL_REG; i++) f(r->control_registers[i]);
    for (int i = 0; i < MAX_TMP_REG; i++) f(r->tmp_registers[i]);
    for (int i = 0; i < MAX_LOCAL_REG; i++) f(r->local_registers[i]);
    for (int i = 0; i < MAX_IMPLICIT_REG; i++) f(r->impl_registers[i]);
}

static u64 digest;
static void add_to_digest(u64 value) {
    digest = (digest ^ value) * 0x9e3779b97f4a7c15ull;
    digest ^= digest >> 29;
}
static void add_to_answer(u64 value) { put(&answer, &value, 8); }

static void put_messages(void) {
    u32 bytes = sent.used;
    put(&answer, &bytes, 4);
    put(&answer, sent.bytes, sent.used);
    sent.used = 0;
}

static void start(const char **at, const char *end) {
    clock_us = take_u64(at, end);
    struct ccp_datapath_info info;
    memset(&info, 0, sizeof info);
    info.init_cwnd = take_u32(at, end);
    info.mss = mss_bytes = take_u32(at, end);
    if (connections[0].index != 0) ccp_connection_free(&datapath, 1);
    memset(connections, 0, sizeof connections);
    sent.used = 0;
    if (ccp_connection_start(&datapath, NULL, &info) == NULL) exit(3);
    connections[0].prims.snd_cwnd = clamp(info.init_cwnd, MIN_CWND_PACKETS * mss_bytes, MAX_CWND_BYTES);
    put_messages();
}

static void message(const char **at, const char *end) {
    u32 n = take_u32(at, end);
    const char *bytes = take(at, end, n);
    int result = ccp_read_msg(&datapath, (char *) bytes, n);
    put(&answer, &result, 4);
}

static void ack(const char **at, const char *end) {
    clock_us = take_u64(at, end);
    struct ccp_primitives fresh = read_primitives(at, end);
    load(&connections[0], &fresh);
    int result = ccp_invoke(&connections[0]);
    put(&answer, &result, 4);
    put(&answer, &connections[0].prims.snd_cwnd, 4);
    put(&answer, &connections[0].prims.snd_rate, 8);
    digest = 0;
    each_register(add_to_digest);
    put(&answer, &digest, 8);
    put_messages();
}

static void bench(const char **at, const char *end) {
    u64 first = take_u64(at, end), step = take_u64(at, end);
    u32 n = take_u32(at, end);
    struct ccp_primitives fresh = read_primitives(at, end);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (u32 i = 0; i < n; i++) {
        clock_us = first + i * step;
        load(&connections[0], &fresh);
        ccp_invoke(&connections[0]);
        sent.used = 0;
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    u64 nanos = (to.tv_sec - from.tv_sec) * 1000000000ll + (to.tv_nsec - from.tv_nsec);
    put(&answer, &nanos, 8);
}

int main(void) {
    datapath.set_cwnd = set_cwnd;
    datapath.set_rate_abs = set_rate;
    datapath.send_msg = send_message;
    datapath.now = now;
    datapath.since_usecs = since_usecs;
    datapath.after_usecs = after_usecs;
    datapath.max_connections = 1;
    datapath.ccp_active_connections = connections;
    datapath.max_programs = PROGRAMS;
    datapath.fto_us = 1000000;
    if (ccp_init(&datapath, 0) < 0) return 3;

    struct buffer batch = { 0 };
    u32 length;
    while (fread(&length, 4, 1, stdin) == 1) {
        if (length > batch.room) {
            batch.room = length;
            batch.bytes = realloc(batch.bytes, length);
            if (batch.bytes == NULL) return 3;
        }
        if (length > 0 && fread(batch.bytes, length, 1, stdin) != 1) return 2;
        const char *at = batch.bytes, *end = batch.bytes + length;
        answer.used = 0;
        while (at < end) {
            switch (*take(&at, end, 1)) {
                case 'S': start(&at, end); break;
                case 'M': message(&at, end); break;
                case 'A': ack(&at, end); break;
                case 'D': each_register(add_to_answer); break;
                case 'B': bench(&at, end); break;
                default: fprintf(stderr, "libccp-oracle: unknown command\n"); return 2;
            }
        }
        u32 size = answer.used;
        fwrite(&size, 4, 1, stdout);
        if (size > 0) fwrite(answer.bytes, size, 1, stdout);
        fflush(stdout);
    }
    return 0;
}
