/* Every error has its number, and leaves the datapath as it was. */
#include "test.h"

static struct anole_datapath *datapath;
static struct flow flow;
static int busy;

static void calls_back(void *context, void *impl, uint32_t cwnd_bytes) {
    struct anole_primitives ack = one_ack();
    struct anole_connection_info info;
    set_cwnd(context, impl, cwnd_bytes);
    if (datapath == NULL) return;
    busy += anole_invoke(datapath, 1, &ack) == ANOLE_STATUS_BUSY;
    busy += anole_connection_info(datapath, 1, &info) == ANOLE_STATUS_BUSY;
    busy += anole_read_msg(datapath, install, sizeof install) == ANOLE_STATUS_BUSY;
    busy += anole_free(datapath) == ANOLE_STATUS_BUSY;
}

static void configurations(struct transport *transport) {
    struct anole_config good = config_of(transport), bad;
    struct anole_datapath *none = NULL;
    CHECK_STATUS(ANOLE_STATUS_ARGUMENT, anole_init(NULL, &none));
    CHECK_STATUS(ANOLE_STATUS_ARGUMENT, anole_init(&good, NULL));
#define REFUSED(expected, change)                                                                            \
    bad = good;                                                                                              \
    change;                                                                                                  \
    CHECK_STATUS(expected, anole_init(&bad, &none))
    REFUSED(ANOLE_STATUS_VERSION, bad.abi_version++);
    REFUSED(ANOLE_STATUS_VERSION, bad.config_size--);
    REFUSED(ANOLE_STATUS_VERSION, bad.flow_info_size++);
    REFUSED(ANOLE_STATUS_VERSION, bad.primitives_size++);
    REFUSED(ANOLE_STATUS_VERSION, bad.connection_info_size--);
    REFUSED(ANOLE_STATUS_ARGUMENT, bad.set_cwnd = NULL);
    REFUSED(ANOLE_STATUS_ARGUMENT, bad.now = NULL);
    REFUSED(ANOLE_STATUS_ARGUMENT, bad.send_msg = NULL);
    REFUSED(ANOLE_STATUS_ARGUMENT, (bad.min_rate_bytes_per_s = 2, bad.max_rate_bytes_per_s = 1));
    CHECK(none == NULL);

    /* A header of another version may have a shorter structure: not a byte behind the two numbers is read. */
    uint32_t *old = malloc(2 * sizeof *old);
    old[0] = ANOLE_ABI_VERSION + 1, old[1] = 2 * sizeof *old;
    CHECK_STATUS(ANOLE_STATUS_VERSION, anole_init((struct anole_config *) old, &none));
    free(old);

    bad = good, bad.set_rate = NULL, bad.governor = NULL, bad.log = NULL, bad.max_cwnd_bytes = 1;
    OK(anole_init(&bad, &none));
    OK(anole_free(none));
    OK(anole_free(NULL));
}

static void connections(void) {
    struct anole_flow_info info = flow_info();
    struct anole_connection_info state;
    struct anole_primitives ack = one_ack();
    uint32_t id = 0;
    CHECK_STATUS(ANOLE_STATUS_ARGUMENT, anole_connection_start(NULL, NULL, &info, &id));
    CHECK_STATUS(ANOLE_STATUS_ARGUMENT, anole_connection_start(datapath, NULL, NULL, &id));
    CHECK_STATUS(ANOLE_STATUS_ARGUMENT, anole_connection_start(datapath, NULL, &info, NULL));
    const uint32_t no_segments[] = { 0, ANOLE_MAX_MSS + 1, (1u << 29) + 1, UINT32_MAX };
    for (size_t i = 0; i < sizeof no_segments / sizeof no_segments[0]; i++) {
        info.mss = no_segments[i];
        CHECK_STATUS(ANOLE_STATUS_ARGUMENT, anole_connection_start(datapath, NULL, &info, &id));
        CHECK_STATUS(ANOLE_STATUS_ARGUMENT, anole_set_mss(datapath, 1, info.mss));
    }
    info = flow_info();
    memset(info.alg, 'a', sizeof info.alg);
    CHECK_STATUS(ANOLE_STATUS_ARGUMENT, anole_connection_start(datapath, NULL, &info, &id));
    info.alg[2] = (char) 0xff, info.alg[3] = 0;
    CHECK_STATUS(ANOLE_STATUS_ARGUMENT, anole_connection_start(datapath, NULL, &info, &id));
    CHECK(id == 0);

    CHECK_STATUS(ANOLE_STATUS_ARGUMENT, anole_ready(NULL));
    CHECK_STATUS(ANOLE_STATUS_ARGUMENT, anole_invoke(NULL, 1, &ack));
    CHECK_STATUS(ANOLE_STATUS_ARGUMENT, anole_invoke(datapath, 1, NULL));
    CHECK_STATUS(ANOLE_STATUS_ARGUMENT, anole_connection_info(datapath, 1, NULL));
    CHECK_STATUS(ANOLE_STATUS_ARGUMENT, anole_read_msg(datapath, NULL, 0));
    CHECK_STATUS(ANOLE_STATUS_ARGUMENT, anole_read_msg(datapath, install, SIZE_MAX));

    const uint32_t strangers[] = { 0, 2, UINT32_MAX };
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
        CHECK_STATUS(ANOLE_STATUS_UNKNOWN_CONNECTION, anole_invoke(datapath, strangers[i], &ack));
        CHECK_STATUS(ANOLE_STATUS_UNKNOWN_CONNECTION, anole_set_mss(datapath, strangers[i], MSS));
        CHECK_STATUS(ANOLE_STATUS_UNKNOWN_CONNECTION, anole_connection_info(datapath, strangers[i], &state));
        CHECK_STATUS(ANOLE_STATUS_UNKNOWN_CONNECTION, anole_connection_free(datapath, strangers[i]));
    }
}

static void messages(struct transport *transport) {
    uint8_t damaged[sizeof install];
    CHECK_STATUS(ANOLE_STATUS_MESSAGE, anole_read_msg(datapath, install, 0));
    CHECK_STATUS(ANOLE_STATUS_MESSAGE, anole_read_msg(datapath, install, sizeof install - 1));
    CHECK_STATUS(ANOLE_STATUS_MESSAGE, anole_read_msg(datapath, ready, sizeof ready));
    CHECK_STATUS(ANOLE_STATUS_UNKNOWN_CONNECTION, anole_read_msg(datapath, for_nobody, sizeof for_nobody));
    /* The last instruction, of 16 bytes, begins with its operation. */
    memcpy(damaged, install, sizeof install);
    damaged[sizeof install - 16] = 0x7f;
    CHECK_STATUS(ANOLE_STATUS_PROGRAM, anole_read_msg(datapath, damaged, sizeof damaged));
    CHECK(transport->logged == 5);

    /* A program that is not here is asked for: READY. */
    uint32_t asked = transport->sent[READY];
    CHECK_STATUS(ANOLE_STATUS_UNKNOWN_PROGRAM,
                 anole_read_msg(datapath, change_unknown, sizeof change_unknown));
    CHECK(transport->sent[READY] == asked + 1);

    /* Programs up to the table's end; the uid lies behind the header of 8 bytes. */
    memcpy(damaged, install, sizeof install);
    for (uint32_t uid = 1; uid <= 256; uid++) {
        memcpy(damaged + 8, &uid, sizeof uid);
        OK(anole_read_msg(datapath, damaged, sizeof damaged));
    }
    damaged[8] = 1, damaged[9] = 1;
    CHECK_STATUS(ANOLE_STATUS_PROGRAMS_FULL, anole_read_msg(datapath, damaged, sizeof damaged));
}

int main(void) {
    struct transport transport = { .now_us = 1 };
    configurations(&transport);

    struct anole_config config = config_of(&transport);
    config.set_cwnd = calls_back;
    OK(anole_init(&config, &datapath));
    start(datapath, &flow);
    CHECK(flow.id == 1 && busy == 4);
    connections();
    messages(&transport);

    transport.refuses = 1;
    CHECK_STATUS(ANOLE_STATUS_SEND, anole_ready(datapath));
    transport.refuses = 0;
    OK(anole_ready(datapath));

    OK(anole_connection_free(datapath, 1));
    CHECK_STATUS(ANOLE_STATUS_UNKNOWN_CONNECTION, anole_connection_free(datapath, 1));
    OK(anole_free(datapath));
    for (int status = 1; status >= -12; status--) CHECK(strlen(anole_status_text(status)) > 3);
    puts("passed");
    return 0;
}
