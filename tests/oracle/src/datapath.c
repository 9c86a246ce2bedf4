/*
 * A datapath as C programs have had it so far: libccp over Unix sockets, where portus's convention puts them. The agent
 * listens on FOLDER/portus, and this datapath binds FOLDER/ID, to which it is answered.
 *
 *   libccp-datapath FOLDER ID SECONDS PROGRAMS [ALGORITHM]
 *
 * One flow over a simulated link of 12 Mbit/s, 20 ms and a buffer of one bandwidth-delay product, in real time. At the
 * end a line says what happened: windows and rates that libccp set, the last of each, messages sent and taken, refused
 * messages, and bytes acknowledged.
 */
#include "ccp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MSS = 1448, PACKETS = 4096, SERVICE_US = 1000, PROPAGATION_US = 20000, QUEUE_US = 20000 };

struct packet { u64 sent, known; int dropped; };

static struct ccp_datapath datapath;
static struct ccp_connection connections[1];
static int agent;
static u32 cwnd = 10 * MSS, rate;
static unsigned long windows, rates, sent_messages, taken, refused;
static unsigned long long delivered;

static void set_cwnd(struct ccp_connection *connection, u32 bytes) {
    (void) connection;
    cwnd = bytes, windows++;
}

static void set_rate(struct ccp_connection *connection, u32 bytes_per_s) {
    (void) connection;
    rate = bytes_per_s, rates++;
}

static int send_message(struct ccp_datapath *dp, char *message, int bytes) {
    (void) dp;
    if (send(agent, message, bytes, MSG_DONTWAIT) != bytes) return -1;
    sent_messages++;
    return 0;
}

static u64 now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (u64) time.tv_sec * 1000000 + time.tv_nsec / 1000;
}
static u64 since_usecs(u64 then) { return now() - then; }
static u64 after_usecs(u64 usecs) { return now() + usecs; }

static void must(int condition, const char *what) {
    if (condition) return;
    perror(what);
    exit(1);
}

static void open_socket(const char *folder, const char *id) {
    struct sockaddr_un own = { .sun_family = AF_UNIX }, other = { .sun_family = AF_UNIX };
    snprintf(own.sun_path, sizeof own.sun_path, "%s/%s", folder, id);
    snprintf(other.sun_path, sizeof other.sun_path, "%s/portus", folder);
    agent = socket(AF_UNIX, SOCK_DGRAM, 0);
    must(bind(agent, (struct sockaddr *) &own, sizeof own) == 0, "cannot bind");
    must(connect(agent, (struct sockaddr *) &other, sizeof other) == 0, "no agent");
}

static void listen_to_agent(void) {
    static char message[65536];
    ssize_t bytes;
    while ((bytes = recv(agent, message, sizeof message, MSG_DONTWAIT)) > 0) {
        taken++;
        if (ccp_read_msg(&datapath, message, bytes) < 0) refused++;
    }
}

int main(int count, char **arguments) {
    static struct packet packets[PACKETS];
    unsigned first = 0, in_flight = 0;
    u64 link_free_at = 0, may_send_at = 0;
    must(count >= 5, "usage: libccp-datapath FOLDER ID SECONDS PROGRAMS [ALGORITHM]");
    open_socket(arguments[1], arguments[2]);

    datapath.set_cwnd = set_cwnd, datapath.set_rate_abs = set_rate, datapath.send_msg = send_message;
    datapath.now = now, datapath.since_usecs = since_usecs, datapath.after_usecs = after_usecs;
    datapath.max_connections = 1, datapath.ccp_active_connections = connections;
    datapath.max_programs = atoi(arguments[4]), datapath.fto_us = 1000000;
    must(ccp_init(&datapath, atoi(arguments[2])) == 0, "ccp_init");
    struct ccp_datapath_info info = { .init_cwnd = cwnd, .mss = MSS, .src_port = 1, .dst_port = 2 };
    if (count > 5) strncpy(info.congAlg, arguments[5], sizeof info.congAlg - 1);
    struct ccp_connection *connection = ccp_connection_start(&datapath, NULL, &info);
    must(connection != NULL, "ccp_connection_start");

    u64 end = now() + (u64) (atof(arguments[3]) * 1e6);
    for (u64 at = now(); at < end; usleep(500), at = now()) {
        listen_to_agent();
        while (in_flight > 0 && packets[first].known <= at) {
            struct packet *packet = &packets[first];
            first = (first + 1) % PACKETS, in_flight--;
            struct ccp_primitives *ack = &connection->prims;
            u64 rtt = packet->known - packet->sent;
            ack->bytes_acked = packet->dropped ? 0 : MSS, ack->packets_acked = !packet->dropped;
            ack->lost_pkts_sample = packet->dropped;
            ack->rtt_sample_us = packet->dropped ? 0 : rtt;
            ack->rate_outgoing = ack->rate_incoming = (u64) (in_flight + 1) * MSS * 1000000 / rtt;
            ack->packets_in_flight = in_flight, ack->bytes_in_flight = in_flight * MSS;
            ack->snd_cwnd = cwnd, ack->snd_rate = rate;
            delivered += ack->bytes_acked;
            ccp_invoke(connection);
        }
        while (in_flight < PACKETS && (in_flight + 1) * MSS <= cwnd) {
            if (rate > 0 && may_send_at > at) break;
            if (may_send_at + 2000 < at) may_send_at = at;
            if (rate > 0) may_send_at += (u64) MSS * 1000000 / rate;
            if (link_free_at < at) link_free_at = at;
            struct packet *packet = &packets[(first + in_flight++) % PACKETS];
            packet->dropped = link_free_at - at > QUEUE_US;
            if (!packet->dropped) link_free_at += SERVICE_US;
            packet->sent = at, packet->known = link_free_at + PROPAGATION_US;
        }
    }
    printf("windows %lu rates %lu cwnd %u rate %u sent %lu taken %lu refused %lu delivered %llu\n", windows, rates,
           cwnd, rate, sent_messages, taken, refused, delivered);
    ccp_connection_free(&datapath, connection->index);
    ccp_free(&datapath);
    return 0;
}
