/* A connection's life: CUBIC, an agent's program, an agent that falls silent and comes back, the end. */
#include "test.h"

int main(void) {
    struct transport transport = { .now_us = 1000000 };
    struct anole_config config = config_of(&transport);
    struct anole_datapath *datapath;
    struct flow flow;
    struct anole_connection_info info;
    struct anole_primitives ack = one_ack();

    CHECK(anole_abi_version() == ANOLE_ABI_VERSION);
    OK(anole_init(&config, &datapath));
    OK(anole_ready(datapath));
    CHECK(transport.sent[READY] == 1);
    start(datapath, &flow);
    CHECK(transport.sent[CREATE] == 1);

    /* No agent has answered: slow start, a packet more per packet acknowledged. */
    OK(anole_invoke(datapath, flow.id, &ack));
    CHECK(flow.cwnd == 11 * MSS && flow.rate == 0 && transport.events == 0);

    /* In force at the next ACK, which the program reports. */
    OK(anole_read_msg(datapath, install, sizeof install));
    OK(anole_read_msg(datapath, change_program, sizeof change_program));
    /* From an agent that answers every report: see datapaths/core/src/flow.rs. */
    OK(anole_read_msg(datapath, empty, sizeof empty));
    CHECK(flow.cwnd == 11 * MSS);
    transport.now_us += 1000;
    OK(anole_invoke(datapath, flow.id, &ack));
    CHECK(flow.governor == ANOLE_GOVERNOR_AGENT && flow.cwnd == 50000 && flow.rate == 125000);
    CHECK(transport.sent[MEASURE] == 1 && transport.events == 1);

    /* What has not changed is not told again. */
    uint32_t calls = flow.cwnd_calls;
    OK(anole_invoke(datapath, flow.id, &ack));
    CHECK(flow.cwnd_calls == calls);
    OK(anole_read_msg(datapath, update, sizeof update));
    OK(anole_invoke(datapath, flow.id, &ack));
    CHECK(flow.cwnd == 70000 && transport.events == 1);

    /* A timeout: the loss window at once, whatever the agent asks for. */
    struct anole_primitives timeout = { .was_timeout = 1, .lost_pkts_sample = 9, .bytes_in_flight = 0 };
    OK(anole_invoke(datapath, flow.id, &timeout));
    CHECK(flow.cwnd == 2 * MSS);

    /* Reports that nobody answers for 500 ms: CUBIC again, without pacing. */
    transport.now_us += 501000;
    OK(anole_invoke(datapath, flow.id, &ack));
    CHECK(flow.governor == ANOLE_GOVERNOR_FALLBACK && flow.rate == 0 && transport.events == 2);
    OK(anole_connection_info(datapath, flow.id, &info));
    CHECK(info.cwnd == flow.cwnd && info.governor == ANOLE_GOVERNOR_FALLBACK && info.fallbacks == 1);
    CHECK(info.updates == 3 && info.reports == 4 && info.invocations == 6);

    OK(anole_read_msg(datapath, change_program, sizeof change_program));
    OK(anole_invoke(datapath, flow.id, &ack));
    CHECK(flow.governor == ANOLE_GOVERNOR_AGENT && flow.cwnd == 50000);

    /* Larger packets: the smallest window is two of them. */
    OK(anole_set_mss(datapath, flow.id, 30000));
    CHECK(flow.cwnd == 60000);

    uint32_t reports = transport.sent[MEASURE];
    OK(anole_connection_free(datapath, flow.id));
    CHECK(transport.sent[MEASURE] == reports + 1);
    start(datapath, &flow);
    CHECK(flow.id == 2);
    OK(anole_free(datapath));
    CHECK(transport.sent[MEASURE] == reports + 2 && transport.logged == 0);
    puts("passed");
    return 0;
}
