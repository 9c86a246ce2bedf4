/*
 * A sender whose window and pacing rate the agent sets, over a simulated link of 20 Mbit/s, 40 ms and a
 * buffer of one bandwidth-delay product: the smallest transport that uses every part of libanole_datapath.
 *
 *   cc sender.c -o sender $(pkg-config --cflags --libs anole-datapath)
 *   ./sender AGENT_SOCKET [SECONDS]     a line a second: who governs, window, rate, throughput, RTT, losses
 *
 * The agent may be started and stopped at any time. Real transports do what `deliver` does at an ACK.
 */
#define _GNU_SOURCE
#include <anole_datapath.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MSS = 1448, MAX_IN_FLIGHT = 4096, RTT_US = 40000, BUFFER_US = RTT_US, LINK_BYTES_PER_S = 2500000 };

struct packet {
    uint64_t sent_at, known_at; /* known: acknowledged or missed */
    int dropped;
};

static struct sender {
    uint32_t cwnd, rate; /* what the library asks for */
    enum anole_governor governor;
    struct packet packets[MAX_IN_FLIGHT]; /* in flight, oldest first */
    uint32_t first, in_flight;
    uint64_t link_free_at, may_send_at, delivered, lost, rtt_us;
} sender;

/* The way to the agent: a socket of our own beside the agent's, to which it answers. */
static int agent, connected;
static struct sockaddr_un agent_address = { .sun_family = AF_UNIX }, own = { .sun_family = AF_UNIX };

static void must(int condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "sender: %s\n", what);
    exit(1);
}

/* Callbacks: `impl` is what the connection was started with; `context` has no use here. */
static void set_cwnd(void *context, void *impl, uint32_t bytes) {
    (void) context, ((struct sender *) impl)->cwnd = bytes;
}
static void set_rate(void *context, void *impl, uint32_t bytes_per_s) {
    (void) context, ((struct sender *) impl)->rate = bytes_per_s;
}
static void set_governor(void *context, void *impl, enum anole_governor governor) {
    (void) context, ((struct sender *) impl)->governor = governor;
}
static uint64_t now_us(void *context) {
    struct timespec time;
    (void) context, clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t) time.tv_sec * 1000000u + (uint64_t) time.tv_nsec / 1000u;
}
static int send_msg(void *context, const uint8_t *message, size_t bytes) {
    (void) context;
    if (connected && send(agent, message, bytes, MSG_DONTWAIT) >= 0) return 0;
    /* A full queue passes; an agent that has gone leaves its socket to the next one. */
    if (errno != EAGAIN) connected = 0;
    return -1;
}

/* Takes what the agent sent; looks for a new agent where there is none. */
static void serve_agent(struct anole_datapath *datapath) {
    uint8_t message[32768];
    ssize_t bytes;
    if (!connected && connect(agent, (struct sockaddr *) &agent_address, sizeof agent_address) == 0) {
        connected = 1;
        anole_ready(datapath);
    }
    while ((bytes = recv(agent, message, sizeof message, MSG_DONTWAIT)) > 0) {
        anole_read_msg(datapath, message, (size_t) bytes); /* it may refuse it: nothing to do */
    }
}

/* Sends what window and rate allow. A packet that finds the buffer full is dropped, and missed by its ACK. */
static void fill(uint64_t now) {
    while (sender.in_flight < MAX_IN_FLIGHT && (sender.in_flight + 1) * MSS <= sender.cwnd) {
        if (sender.rate > 0) {
            if (now < sender.may_send_at) return;
            /* The loop turns once a millisecond: what that was late is made up for, and no more. */
            if (sender.may_send_at + 2000 < now) sender.may_send_at = now;
            sender.may_send_at += (uint64_t) MSS * 1000000 / sender.rate;
        }
        struct packet *packet = &sender.packets[(sender.first + sender.in_flight++) % MAX_IN_FLIGHT];
        if (sender.link_free_at < now) sender.link_free_at = now;
        packet->dropped = sender.link_free_at - now > BUFFER_US;
        if (!packet->dropped) sender.link_free_at += (uint64_t) MSS * 1000000 / LINK_BYTES_PER_S;
        packet->sent_at = now, packet->known_at = sender.link_free_at + RTT_US;
    }
}

/* Tells the library of the ACKs that have come and the losses that they show. */
static void deliver(struct anole_datapath *datapath, uint32_t connection, uint64_t now) {
    struct anole_primitives ack = { .bytes_pending = MSS }; /* there is always more to send */
    while (sender.in_flight > 0 && sender.packets[sender.first].known_at <= now) {
        struct packet *packet = &sender.packets[sender.first];
        sender.first = (sender.first + 1) % MAX_IN_FLIGHT, sender.in_flight--;
        ack.lost_pkts_sample += packet->dropped != 0, ack.packets_acked += packet->dropped == 0;
        if (!packet->dropped) sender.rtt_us = ack.rtt_sample_us = now - packet->sent_at;
    }
    if (ack.packets_acked + ack.lost_pkts_sample == 0) return;
    ack.bytes_acked = ack.packets_acked * MSS;
    ack.packets_in_flight = sender.in_flight, ack.bytes_in_flight = sender.in_flight * MSS;
    sender.delivered += ack.bytes_acked, sender.lost += ack.lost_pkts_sample;
    must(anole_invoke(datapath, connection, &ack) == ANOLE_STATUS_OK, "the library refused an ACK");
}

int main(int count, char **arguments) {
    must(count >= 2 && count <= 3, "usage: sender AGENT_SOCKET [SECONDS]");
    int length = snprintf(own.sun_path, sizeof own.sun_path, "%s.dp.%d.c", arguments[1], (int) getpid());
    must(length < (int) sizeof own.sun_path, "the agent's socket has too long a path");
    memcpy(agent_address.sun_path, arguments[1], strlen(arguments[1]) + 1);
    agent = socket(AF_UNIX, SOCK_DGRAM, 0);
    must(bind(agent, (struct sockaddr *) &own, sizeof own) == 0, "cannot bind a socket beside the agent's");

    struct anole_config config = anole_config_of_header();
    config.set_cwnd = set_cwnd, config.set_rate = set_rate, config.now = now_us, config.send_msg = send_msg;
    config.governor = set_governor, config.id = (uint32_t) getpid();
    struct anole_datapath *datapath;
    int status = anole_init(&config, &datapath);
    must(status == ANOLE_STATUS_OK, anole_status_text(status));
    struct anole_flow_info info = { .init_cwnd = 10 * MSS, .mss = MSS };
    uint32_t connection;
    status = anole_connection_start(datapath, &sender, &info, &connection);
    must(status == ANOLE_STATUS_OK, anole_status_text(status));

    int seconds = count > 2 ? atoi(arguments[2]) : 10;
    for (uint64_t next_line = now_us(NULL) + 1000000, before = 0; seconds > 0; usleep(1000)) {
        uint64_t now = now_us(NULL);
        serve_agent(datapath), deliver(datapath, connection, now), fill(now);
        if (now < next_line) continue;
        printf("%-8s cwnd %7u  rate %8u  %5.1f Mbit/s  rtt %5.1f ms  lost %llu\n",
               sender.governor == ANOLE_GOVERNOR_AGENT ? "agent" : "fallback", sender.cwnd, sender.rate,
               (double) (sender.delivered - before) * 8e-6, (double) sender.rtt_us / 1e3,
               (unsigned long long) sender.lost);
        fflush(stdout);
        before = sender.delivered, next_line += 1000000, seconds--;
    }
    anole_free(datapath);
    unlink(own.sun_path);
    return 0;
}
