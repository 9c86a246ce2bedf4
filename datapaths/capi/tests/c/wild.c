/* Any bytes of an agent and any measurements of a transport: every window and rate keeps to the bounds. */
#include "test.h"

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint64_t draw(void) {
    /* xorshift64* (Vigna 2016) */
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 0x2545f4914f6cdd1du;
}

/* Small, of any size, or at the end of what the type holds. */
static uint64_t number(void) {
    switch (draw() % 4) {
    case 0:
        return draw() % 10;
    case 1:
        return draw() % 100000;
    case 2:
        return UINT64_MAX - draw() % 2;
    default:
        return draw();
    }
}

static size_t datagram(uint8_t *bytes) {
    static const struct {
        const uint8_t *bytes;
        size_t length;
    } sound[] = { { install, sizeof install },
                  { change_program, sizeof change_program },
                  { update, sizeof update },
                  { change_unknown, sizeof change_unknown } };
    size_t which = draw() % 5, length = draw() % 64;
    if (which < 4) {
        length = sound[which].length;
        memcpy(bytes, sound[which].bytes, length);
    } else {
        for (size_t i = 0; i < length; i++) bytes[i] = (uint8_t) draw();
    }
    for (uint64_t damages = draw() % 3; damages > 0 && length > 0; damages--)
        bytes[draw() % length] = (uint8_t) number();
    return draw() % 8 == 0 ? draw() % (length + 1) : length;
}

int main(void) {
    struct transport transport = { .now_us = 1 };
    struct anole_config config = config_of(&transport);
    struct anole_datapath *datapath;
    struct flow flow;
    OK(anole_init(&config, &datapath));
    start(datapath, &flow);
    uint32_t mss = MSS;
    for (int i = 0; i < 200000; i++) {
        /* On the heap and of the exact size, so that the sanitizer sees a byte too many. */
        uint8_t bytes[1024];
        size_t length = datagram(bytes);
        uint8_t *exact = malloc(length > 0 ? length : 1);
        memcpy(exact, bytes, length);
        int status = anole_read_msg(datapath, exact, length);
        CHECK(status != ANOLE_STATUS_INTERNAL && status != ANOLE_STATUS_BUSY);
        free(exact);

        struct anole_primitives ack = {
            .bytes_acked = (uint32_t) number(),
            .packets_acked = (uint32_t) number(),
            .bytes_misordered = (uint32_t) number(),
            .packets_misordered = (uint32_t) number(),
            .ecn_bytes = (uint32_t) number(),
            .ecn_packets = (uint32_t) number(),
            .lost_pkts_sample = draw() % 4 ? 0 : (uint32_t) number(),
            .bytes_in_flight = (uint32_t) number(),
            .packets_in_flight = (uint32_t) number(),
            .bytes_pending = (uint32_t) number(),
            .rtt_sample_us = number(),
            .rate_outgoing = number(),
            .rate_incoming = number(),
            .was_timeout = draw() % 16 ? 0 : (uint8_t) number(),
            .app_limited = (uint8_t) number(),
        };
        transport.now_us = draw() % 64 ? transport.now_us + draw() % 10000 : number();
        if (draw() % 256 == 0) {
            mss = (uint32_t) number() % ANOLE_MAX_MSS + 1;
            OK(anole_set_mss(datapath, flow.id, mss));
        }
        OK(anole_invoke(datapath, flow.id, &ack));
        CHECK(flow.cwnd >= mss && flow.cwnd <= 1u << 30);
        CHECK(flow.rate == 0 || (flow.rate >= 1500 && flow.rate <= 4000000000u));
    }
    OK(anole_free(datapath));
    puts("passed");
    return 0;
}
