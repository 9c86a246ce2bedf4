/* A datapath for each of several threads, with many connections; then one that two threads use without
 * asking. */
#include "test.h"
#include <pthread.h>

enum { THREADS = 4, CONNECTIONS = 500, ROUNDS = 20, CALLS = 20000 };

static void *own(void *unused) {
    (void) unused;
    struct transport transport = { .now_us = 1 };
    struct anole_config config = config_of(&transport);
    struct anole_datapath *datapath;
    struct flow *flows = calloc(CONNECTIONS, sizeof *flows);
    struct anole_primitives ack = one_ack();
    /* A window that is not filled would not grow. */
    ack.bytes_in_flight = ANOLE_UNKNOWN;
    OK(anole_init(&config, &datapath));
    OK(anole_read_msg(datapath, install, sizeof install));
    for (int i = 0; i < CONNECTIONS; i++) start(datapath, &flows[i]);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CONNECTIONS; i++) OK(anole_invoke(datapath, flows[i].id, &ack));
    }
    for (int i = 0; i < CONNECTIONS; i++) CHECK(flows[i].cwnd == (10 + ROUNDS) * MSS);
    for (int i = 0; i < CONNECTIONS; i += 2) OK(anole_connection_free(datapath, flows[i].id));
    for (int i = 0; i < CONNECTIONS; i++) {
        CHECK_STATUS(i % 2 ? ANOLE_STATUS_OK : ANOLE_STATUS_UNKNOWN_CONNECTION,
                     anole_invoke(datapath, flows[i].id, &ack));
    }
    OK(anole_free(datapath));
    free(flows);
    return NULL;
}

static struct flow shared_flow;

static void *shared(void *datapath) {
    struct anole_primitives ack = one_ack();
    uintptr_t done = 0;
    for (int i = 0; i < CALLS; i++) {
        int status = anole_invoke(datapath, shared_flow.id, &ack);
        CHECK(status == ANOLE_STATUS_OK || status == ANOLE_STATUS_BUSY);
        done += status == ANOLE_STATUS_OK;
    }
    return (void *) done;
}

static void *run(void *(*body)(void *), void *argument) {
    pthread_t threads[THREADS];
    uintptr_t sum = 0;
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, body, argument) == 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        CHECK(pthread_join(threads[i], &result) == 0);
        sum += (uintptr_t) result;
    }
    return (void *) sum;
}

int main(void) {
    struct transport transport = { .now_us = 1 };
    struct anole_config config = config_of(&transport);
    struct anole_datapath *datapath;
    struct anole_connection_info info;
    run(own, NULL);

    OK(anole_init(&config, &datapath));
    start(datapath, &shared_flow);
    uintptr_t done = (uintptr_t) run(shared, datapath);
    OK(anole_connection_info(datapath, shared_flow.id, &info));
    CHECK(done > 0 && info.invocations == done);
    OK(anole_free(datapath));
    puts("passed");
    return 0;
}
