/*
 * A transport in C under the C interface, driven as harness.c drives libccp: the measurements are copied in at every
 * ACK, reports are counted and dropped, the clock is virtual.
 */
#include <anole_datapath.h>
#include <time.h>

struct transport {
    struct anole_datapath *datapath;
    uint32_t connection, cwnd, rate;
    uint64_t clock_us, reports;
};

static void set_cwnd(void *context, void *impl, uint32_t cwnd_bytes) {
    (void) impl;
    ((struct transport *) context)->cwnd = cwnd_bytes;
}

static void set_rate(void *context, void *impl, uint32_t bytes_per_s) {
    (void) impl;
    ((struct transport *) context)->rate = bytes_per_s;
}

static uint64_t now(void *context) { return ((struct transport *) context)->clock_us; }

static int send_msg(void *context, const uint8_t *message, size_t bytes) {
    (void) message;
    ((struct transport *) context)->reports += bytes > 0;
    return 0;
}

/* Nanoseconds of a processor that the calling thread has had: what else the host does counts as little as it can. */
uint64_t thread_nanos(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t) time.tv_sec * 1000000000u + (uint64_t) time.tv_nsec;
}

/* Starts a connection under the program of `install`; `change` is the agent's first message to it. Returns 0. */
int transport_start(struct transport *transport, uint32_t init_cwnd, uint32_t mss, const uint8_t *install,
                    size_t install_bytes, const uint8_t *change, size_t change_bytes) {
    struct anole_config config = anole_config_of_header();
    struct anole_flow_info info = { .init_cwnd = init_cwnd, .mss = mss };
    memset(transport, 0, sizeof *transport);
    config.context = transport;
    config.set_cwnd = set_cwnd, config.set_rate = set_rate, config.now = now, config.send_msg = send_msg;
    /* An agent that never answers is never given up here; the check itself is part of what is timed. */
    config.agent_timeout_us = UINT64_MAX;
    return anole_init(&config, &transport->datapath) ||
           anole_connection_start(transport->datapath, NULL, &info, &transport->connection) ||
           anole_read_msg(transport->datapath, install, install_bytes) ||
           anole_read_msg(transport->datapath, change, change_bytes);
}

/* Runs `n` equal ACKs, `step_us` apart; returns the nanoseconds that they took, or 0 if one was refused. */
uint64_t transport_round(struct transport *transport, uint64_t step_us, uint32_t n, const struct anole_primitives *fresh) {
    int refused = 0;
    uint64_t from = thread_nanos();
    for (uint32_t i = 0; i < n; i++) {
        struct anole_primitives ack = *fresh;
        transport->clock_us += step_us;
        refused |= anole_invoke(transport->datapath, transport->connection, &ack);
    }
    return refused ? 0 : thread_nanos() - from;
}

void transport_end(struct transport *transport) { anole_free(transport->datapath); }
