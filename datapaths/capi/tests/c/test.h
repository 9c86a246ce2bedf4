/* What the tests have in common: a transport that writes down what it is told, under a clock that stands
 * still. */
#ifndef TEST_H
#define TEST_H

#include <anole_datapath.h>
#include <messages.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                  \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)
#define CHECK_STATUS(expected, call)                                                                         \
    do {                                                                                                     \
        int status_ = (call);                                                                                \
        if (status_ != (expected)) {                                                                         \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, anole_status_text(status_));       \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)
#define OK(call) CHECK_STATUS(ANOLE_STATUS_OK, call)
#define MSS 1448u

/* Message types on the wire. */
enum { CREATE = 0, MEASURE = 1, READY = 5 };

struct transport {
    uint64_t now_us;
    int refuses; /* no agent: send_msg takes nothing */
    uint32_t sent[6];
    uint32_t logged, events;
};

struct flow {
    uint32_t id, cwnd, rate, cwnd_calls;
    enum anole_governor governor;
};

static void set_cwnd(void *context, void *impl, uint32_t cwnd_bytes) {
    (void) context;
    struct flow *flow = impl;
    flow->cwnd = cwnd_bytes;
    flow->cwnd_calls++;
}

static void set_rate(void *context, void *impl, uint32_t bytes_per_s) {
    (void) context;
    ((struct flow *) impl)->rate = bytes_per_s;
}

static uint64_t now(void *context) { return ((struct transport *) context)->now_us; }

static int send_msg(void *context, const uint8_t *message, size_t bytes) {
    struct transport *transport = context;
    if (transport->refuses) return -1;
    /* The header: u16 type, u16 length of the whole. */
    CHECK(bytes >= 8 && message[0] < 6 && message[2] + 256u * message[3] == bytes);
    transport->sent[message[0]]++;
    return 0;
}

static void governor(void *context, void *impl, enum anole_governor governor) {
    ((struct transport *) context)->events++;
    ((struct flow *) impl)->governor = governor;
}

static void write_log(void *context, enum anole_log_level level, const char *line) {
    CHECK(level <= ANOLE_LOG_LEVEL_ERROR && strlen(line) > 0);
    ((struct transport *) context)->logged++;
}

static inline struct anole_config config_of(struct transport *transport) {
    struct anole_config config = anole_config_of_header();
    config.context = transport;
    config.set_cwnd = set_cwnd;
    config.set_rate = set_rate;
    config.now = now;
    config.send_msg = send_msg;
    config.governor = governor;
    config.log = write_log;
    return config;
}

static inline struct anole_flow_info flow_info(void) {
    struct anole_flow_info info;
    memset(&info, 0, sizeof info);
    info.init_cwnd = 10 * MSS;
    info.mss = MSS;
    strcpy(info.alg, "reno");
    return info;
}

static inline void start(struct anole_datapath *datapath, struct flow *flow) {
    struct anole_flow_info info = flow_info();
    memset(flow, 0, sizeof *flow);
    OK(anole_connection_start(datapath, flow, &info, &flow->id));
    CHECK(flow->id != 0 && flow->cwnd == 10 * MSS && flow->cwnd_calls == 1);
}

/* One packet is acknowledged after 50 ms. */
static inline struct anole_primitives one_ack(void) {
    struct anole_primitives ack;
    memset(&ack, 0, sizeof ack);
    ack.bytes_acked = MSS;
    ack.packets_acked = 1;
    ack.rtt_sample_us = 50000;
    ack.bytes_in_flight = 9 * MSS;
    return ack;
}

#endif
