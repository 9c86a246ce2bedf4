/* Without an agent: algorithms by name, in the process. */
#include "test.h"

static struct anole_config config_for(struct transport *transport, const char *algorithm) {
    struct anole_config config = config_of(transport);
    config.send_msg = NULL;
    config.algorithm = algorithm;
    return config;
}

/* 20 ACKs a round trip of 50 ms, 10 s long, of a transport that tells what is in flight or does not. */
static void governs(const char *algorithm, int tells) {
    struct transport transport = { .now_us = 1 };
    struct anole_config config = config_for(&transport, algorithm);
    struct anole_connection_info info;
    struct anole_datapath *datapath;
    struct flow flow, other;
    OK(anole_init(&config, &datapath));
    start(datapath, &flow);
    start(datapath, &other);
    CHECK(flow.id != other.id);
    for (int i = 0; i < 4000; i++) {
        struct anole_primitives ack = one_ack();
        ack.bytes_in_flight = tells ? flow.cwnd - MSS : ANOLE_UNKNOWN;
        ack.rate_incoming = ack.rate_outgoing = 20 * MSS * 20;
        transport.now_us += 2500;
        OK(anole_invoke(datapath, flow.id, &ack));
        CHECK(flow.cwnd >= 2 * MSS);
    }
    OK(anole_connection_info(datapath, flow.id, &info));
    CHECK(info.governor == ANOLE_GOVERNOR_AGENT && flow.governor == ANOLE_GOVERNOR_AGENT);
    CHECK(info.fallbacks == 0 && info.reports > 50 && info.updates >= info.reports && info.cwnd == flow.cwnd);
    CHECK(transport.events == 1);
    CHECK(flow.cwnd > 10 * MSS);

    CHECK_STATUS(ANOLE_STATUS_NO_AGENT, anole_ready(datapath));
    CHECK_STATUS(ANOLE_STATUS_NO_AGENT, anole_read_msg(datapath, update, sizeof update));
    OK(anole_set_mss(datapath, other.id, 60000));
    CHECK(other.cwnd == 120000);
    OK(anole_connection_free(datapath, flow.id));
    CHECK_STATUS(ANOLE_STATUS_UNKNOWN_CONNECTION, anole_connection_free(datapath, flow.id));
    OK(anole_free(datapath));
}

int main(void) {
    struct transport transport = { .now_us = 1 };
    struct anole_config config = config_for(&transport, "no-such-algorithm");
    struct anole_datapath *none = NULL;
    CHECK_STATUS(ANOLE_STATUS_ALGORITHM, anole_init(&config, &none));
    config = config_for(&transport, "\xff");
    CHECK_STATUS(ANOLE_STATUS_ALGORITHM, anole_init(&config, &none));
    config = config_for(&transport, NULL);
    CHECK_STATUS(ANOLE_STATUS_ARGUMENT, anole_init(&config, &none));
    CHECK(none == NULL);
    for (int tells = 0; tells < 2; tells++) {
        governs("anole", tells);
        governs("cubic", tells);
        governs("bbr", tells);
        governs("libra-rl", tells);
    }
    puts("passed");
    return 0;
}
