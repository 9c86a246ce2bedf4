/* The way to an agent over a Unix socket, and the real clock. */
#ifndef AGENT_H
#define AGENT_H

#include <anole_datapath.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

struct agent {
    int socket, connected;
    struct sockaddr_un own, address;
};

static inline uint64_t wall_us(void *context) {
    struct timespec time;
    (void) context;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t) time.tv_sec * 1000000u + (uint64_t) time.tv_nsec / 1000u;
}

static inline void agent_open(struct agent *agent, const char *path) {
    memset(agent, 0, sizeof *agent);
    agent->own.sun_family = agent->address.sun_family = AF_UNIX;
    snprintf(agent->address.sun_path, sizeof agent->address.sun_path, "%s", path);
    int length =
        snprintf(agent->own.sun_path, sizeof agent->own.sun_path, "%s.dp.%d.c", path, (int) getpid());
    agent->socket = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (length >= (int) sizeof agent->own.sun_path ||
        bind(agent->socket, (struct sockaddr *) &agent->own, sizeof agent->own) != 0) {
        fprintf(stderr, "cannot bind a socket beside %s\n", path);
        exit(1);
    }
}

static inline int agent_send(void *context, const uint8_t *message, size_t bytes) {
    struct agent *agent = context;
    return agent->connected && send(agent->socket, message, bytes, MSG_DONTWAIT) >= 0 ? 0 : -1;
}

/* Takes what the agent sent, and announces the datapath to one that has come. */
static inline void agent_serve(struct agent *agent, struct anole_datapath *datapath) {
    uint8_t message[32768];
    ssize_t bytes;
    if (!agent->connected) {
        agent->connected =
            connect(agent->socket, (struct sockaddr *) &agent->address, sizeof agent->address) == 0;
        if (agent->connected) anole_ready(datapath);
    }
    while ((bytes = recv(agent->socket, message, sizeof message, MSG_DONTWAIT)) > 0) {
        anole_read_msg(datapath, message, (size_t) bytes);
    }
}

static inline void agent_close(struct agent *agent) {
    close(agent->socket);
    unlink(agent->own.sun_path);
}

#endif
