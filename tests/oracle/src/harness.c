/*
 * C libccp behind a pipe: the oracle of the differential test and the other side of the benchmark.
 *
 * pipe.h describes the commands. The clock is virtual: it stands at now_us. The transport is one that keeps
 * what it is told within the bounds of the runtime under test, working on the raw registers, because libccp
 * cuts both values to 32 bits on the way out.
 */
#include "pipe.h"
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
static void each_register(void (*f)(uint64_t)) {
    struct register_file *r = &((struct ccp_priv_state *) connections[0].state)->registers;
    for (int i = 0; i < MAX_REPORT_REG; i++) f(r->report_registers[i]);
    for (int i = 0; i < MAX_CONTROL_REG; i++) f(r->control_registers[i]);
    for (int i = 0; i < MAX_TMP_REG; i++) f(r->tmp_registers[i]);
    for (int i = 0; i < MAX_LOCAL_REG; i++) f(r->local_registers[i]);
    for (int i = 0; i < MAX_IMPLICIT_REG; i++) f(r->impl_registers[i]);
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
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (u32 i = 0; i < n; i++) {
        clock_us = first + i * step;
        load(&connections[0], &fresh);
        ccp_invoke(&connections[0]);
        sent.used = 0;
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    u64 nanos = (to.tv_sec - from.tv_sec) * 1000000000ll + (to.tv_nsec - from.tv_nsec);
    put(&answer, &nanos, 8);
}

static void command(char name, const char **at, const char *end) {
    switch (name) {
        case 'S': start(at, end); break;
        case 'M': message(at, end); break;
        case 'A': ack(at, end); break;
        case 'D': each_register(add_to_answer); break;
        case 'B': bench(at, end); break;
        default: unknown_command(name);
    }
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

    return serve(command);
}
