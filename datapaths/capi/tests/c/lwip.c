/*
 * Debian's lwIP, unmodified, as a transport under CCP: it sends BYTES to a socket of the kernel over a TUN
 * device.
 *
 *   lwip AGENT_SOCKET BYTES DROP_EVERY      exit code 77: no TUN device can be had here
 *
 * lwIP has no interface for congestion control, and needs none:
 *
 *   window    what is written and not acknowledged is at most the window; lwIP's own is set to the same,
 * since it makes it smaller at a loss and larger at every ACK pacing    a budget of bytes to write, which
 * grows at the rate asked for ACKs      lwIP's callback `sent`; round trips and losses from the segments that
 * pass the device: a segment that is sent again was lost timeouts  lwIP's count of its retransmissions by
 * timer rises
 *
 * The device loses every DROP_EVERYth new segment (0: none), and holds ACKs for 20 ms, so that there is a
 * round trip. At the end it prints one line of figures; the seconds are those in which BYTES were written.
 */
#define _GNU_SOURCE
#include "agent.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <lwip/ip4.h>
#include <lwip/priv/tcp_priv.h>
#include <lwip/tcpip.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>

enum { PORT = 5001, DELAY_US = 20000, SEGMENTS = 1024, MTU = 1500, SKIPPED = 77 };
/* The kernel's end of the device, and lwIP's. */
#define PEER "10.9.0.1"
#define OWN "10.9.0.2"

struct segment {
    uint32_t end; /* sequence number behind it */
    uint64_t sent_at;
    int again; /* sent twice: its round trip is not known (Karn) */
};

struct flow {
    uint32_t id, cwnd, rate;
};

static struct {
    int tun;
    uint32_t drop_every, drops, new_segments;
    struct segment segments[SEGMENTS];
    uint32_t oldest, count, next_seq;
    /* ACKs on their way. */
    struct pbuf *held[SEGMENTS];
    uint64_t due_at[SEGMENTS];
    uint32_t held_first, held_count;

    struct tcp_pcb *pcb;
    struct anole_datapath *datapath;
    struct flow flow;
    uint32_t lost, losses_told, timeouts, timeouts_told, nrtx;
    uint64_t to_write, written, acked, budget, budget_at;
    uint32_t beyond; /* segments that were sent while the window did not allow it */
    int connected;
} stack;

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "lwip.c:%d: %s\n", __LINE__, #condition);                                        \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static void flow_cwnd(void *context, void *impl, uint32_t cwnd_bytes) {
    (void) context;
    ((struct flow *) impl)->cwnd = cwnd_bytes;
}

static void flow_rate(void *context, void *impl, uint32_t bytes_per_s) {
    (void) context;
    ((struct flow *) impl)->rate = bytes_per_s;
}

static uint32_t read_u32(const uint8_t *bytes) {
    return (uint32_t) bytes[0] << 24 | (uint32_t) bytes[1] << 16 | (uint32_t) bytes[2] << 8 | bytes[3];
}

/* Notes a data segment that leaves; returns 1 if the device loses it. */
static int note_segment(uint32_t seq, uint32_t length) {
    if ((int32_t) (seq - stack.next_seq) < 0) {
        for (uint32_t i = 0; i < stack.count; i++) {
            struct segment *segment = &stack.segments[(stack.oldest + i) % SEGMENTS];
            if ((int32_t) (segment->end - seq) > 0) {
                segment->again = 1;
                break;
            }
        }
        stack.lost++;
        return 0;
    }
    CHECK(stack.count < SEGMENTS);
    stack.beyond += seq + length - stack.pcb->lastack > stack.flow.cwnd;
    stack.segments[(stack.oldest + stack.count++) % SEGMENTS] =
        (struct segment){ seq + length, wall_us(NULL), 0 };
    stack.next_seq = seq + length;
    int drop = stack.drop_every > 0 && ++stack.new_segments % stack.drop_every == 0;
    stack.drops += (uint32_t) drop;
    return drop;
}

static err_t device_output(struct netif *netif, struct pbuf *packet, const ip4_addr_t *address) {
    (void) netif, (void) address;
    uint8_t bytes[MTU];
    u16_t length = pbuf_copy_partial(packet, bytes, sizeof bytes, 0);
    uint32_t headers = (bytes[0] & 15u) * 4u;
    const uint8_t *tcp = bytes + headers;
    headers += (uint32_t) (tcp[12] >> 4) * 4u;
    if (bytes[9] == IPPROTO_TCP && length > headers && note_segment(read_u32(tcp + 4), length - headers))
        return ERR_OK;
    return write(stack.tun, bytes, length) == length ? ERR_OK : ERR_BUF;
}

static err_t device_init(struct netif *netif) {
    netif->name[0] = 't', netif->name[1] = 'n';
    netif->output = device_output;
    netif->mtu = MTU;
    return ERR_OK;
}

/* What the kernel sends waits for its time. */
static void device_input(struct netif *netif) {
    uint8_t bytes[MTU];
    ssize_t length;
    while (stack.held_count < SEGMENTS && (length = read(stack.tun, bytes, sizeof bytes)) > 0) {
        uint32_t place = (stack.held_first + stack.held_count++) % SEGMENTS;
        stack.held[place] = pbuf_alloc(PBUF_RAW, (u16_t) length, PBUF_RAM);
        CHECK(stack.held[place] != NULL && pbuf_take(stack.held[place], bytes, (u16_t) length) == ERR_OK);
        stack.due_at[place] = wall_us(NULL) + DELAY_US;
    }
    while (stack.held_count > 0 && stack.due_at[stack.held_first] <= wall_us(NULL)) {
        struct pbuf *packet = stack.held[stack.held_first];
        stack.held_first = (stack.held_first + 1) % SEGMENTS, stack.held_count--;
        int version = *(const uint8_t *) packet->payload >> 4;
        if (version != 4 || ip4_input(packet, netif) != ERR_OK) pbuf_free(packet);
    }
}

/* Tells the library what is new. */
static void tell(struct anole_primitives *sample) {
    uint32_t in_flight = (uint32_t) (stack.written - stack.acked);
    sample->lost_pkts_sample = stack.lost - stack.losses_told;
    sample->was_timeout = stack.timeouts > stack.timeouts_told;
    sample->bytes_in_flight = in_flight, sample->packets_in_flight = stack.count;
    sample->bytes_pending = (uint32_t) (stack.to_write - stack.written);
    sample->app_limited = stack.written == stack.to_write;
    stack.losses_told = stack.lost, stack.timeouts_told = stack.timeouts;
    CHECK(ANOLE_STATUS_OK == anole_invoke(stack.datapath, stack.flow.id, sample));
    stack.pcb->cwnd = stack.flow.cwnd;
}

static err_t on_sent(void *unused, struct tcp_pcb *pcb, u16_t length) {
    (void) unused;
    struct anole_primitives ack = { .bytes_acked = length };
    stack.acked += length;
    while (stack.count > 0 && (int32_t) (pcb->lastack - stack.segments[stack.oldest].end) >= 0) {
        struct segment *segment = &stack.segments[stack.oldest];
        stack.oldest = (stack.oldest + 1) % SEGMENTS, stack.count--;
        ack.packets_acked++;
        if (!segment->again) ack.rtt_sample_us = wall_us(NULL) - segment->sent_at;
    }
    tell(&ack);
    return ERR_OK;
}

static err_t on_connected(void *unused, struct tcp_pcb *pcb, err_t error) {
    (void) unused;
    stack.connected = error == ERR_OK;
    stack.next_seq = pcb->lastack;
    return ERR_OK;
}

static void on_error(void *unused, err_t error) {
    (void) unused;
    fprintf(stderr, "lwip: the connection ended: %d\n", error);
    exit(1);
}

/* Retransmissions of timers, which nothing else tells. */
static void look_for_timeouts(void) {
    /* It counts fast retransmissions as well. */
    if (stack.pcb->nrtx > stack.nrtx && (stack.pcb->flags & TF_RTO)) {
        struct anole_primitives none = { .bytes_acked = 0 };
        stack.timeouts++;
        tell(&none);
    }
    stack.nrtx = stack.pcb->nrtx;
}

/* Writes what window and rate allow. */
static void fill(void) {
    static const uint8_t zeros[1460];
    uint64_t now = wall_us(NULL), in_flight = stack.written - stack.acked;
    stack.pcb->cwnd = stack.flow.cwnd;
    if (stack.flow.rate > 0) {
        /* At most 20 ms at once, however late this loop is. */
        uint64_t most = stack.flow.rate / 50 + sizeof zeros;
        stack.budget += (now - stack.budget_at) * stack.flow.rate / 1000000;
        if (stack.budget > most) stack.budget = most;
    }
    stack.budget_at = now;
    while (stack.written < stack.to_write && tcp_sndbuf(stack.pcb) >= sizeof zeros) {
        uint64_t left = stack.to_write - stack.written;
        uint16_t piece = left < sizeof zeros ? (uint16_t) left : (uint16_t) sizeof zeros;
        if (in_flight + piece > stack.flow.cwnd || (stack.flow.rate > 0 && stack.budget < piece)) break;
        if (tcp_write(stack.pcb, zeros, piece, 0) != ERR_OK) break;
        stack.written += piece, in_flight += piece;
        if (stack.flow.rate > 0) stack.budget -= piece;
    }
    tcp_output(stack.pcb);
}

/* A namespace of our own with the device in it; the kernel's end has an address. */
static int open_device(void) {
    struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
    struct sockaddr_in *address = (struct sockaddr_in *) &request.ifr_addr;
    strcpy(request.ifr_name, "lwip");
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return -1;
    int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), control = socket(AF_INET, SOCK_DGRAM, 0);
    if (tun < 0 || ioctl(tun, TUNSETIFF, &request) != 0) return -1;
    address->sin_family = AF_INET;
    inet_pton(AF_INET, PEER, &address->sin_addr);
    CHECK(ioctl(control, SIOCSIFADDR, &request) == 0);
    inet_pton(AF_INET, "255.255.255.0", &address->sin_addr);
    CHECK(ioctl(control, SIOCSIFNETMASK, &request) == 0);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    CHECK(ioctl(control, SIOCSIFFLAGS, &request) == 0);
    close(control);
    return tun;
}

/* The kernel's TCP: takes one connection to its end. */
static void *receive_all(void *listener) {
    static uint8_t bytes[65536];
    uintptr_t sum = 0;
    ssize_t length;
    int connection = accept(*(int *) listener, NULL, NULL);
    while ((length = read(connection, bytes, sizeof bytes)) > 0) sum += (uintptr_t) length;
    close(connection);
    return (void *) sum;
}

static void tcpip_started(void *flag) { __atomic_store_n((int *) flag, 1, __ATOMIC_RELEASE); }

static void open_stack(struct netif *netif) {
    ip4_addr_t own, mask, peer;
    int started = 0;
    tcpip_init(tcpip_started, &started);
    while (!__atomic_load_n(&started, __ATOMIC_ACQUIRE)) usleep(1000);
    ip4addr_aton(OWN, &own), ip4addr_aton("255.255.255.0", &mask), ip4addr_aton(PEER, &peer);
    LOCK_TCPIP_CORE();
    CHECK(netif_add(netif, &own, &mask, &peer, NULL, device_init, ip4_input) != NULL);
    netif_set_default(netif), netif_set_link_up(netif), netif_set_up(netif);
    stack.pcb = tcp_new();
    tcp_nagle_disable(stack.pcb);
    tcp_sent(stack.pcb, on_sent), tcp_err(stack.pcb, on_error);
    ip_addr_t to = IPADDR4_INIT(peer.addr);
    CHECK(tcp_connect(stack.pcb, &to, PORT, on_connected) == ERR_OK);
    UNLOCK_TCPIP_CORE();
}

int main(int count, char **arguments) {
    CHECK(count == 4);
    stack.to_write = strtoull(arguments[2], NULL, 10);
    stack.drop_every = (uint32_t) atoi(arguments[3]);
    if ((stack.tun = open_device()) < 0) return SKIPPED;

    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(PORT) };
    CHECK(bind(listener, (struct sockaddr *) &address, sizeof address) == 0 && listen(listener, 1) == 0);
    pthread_t receiver;
    CHECK(pthread_create(&receiver, NULL, receive_all, &listener) == 0);

    struct agent agent;
    struct anole_config config = anole_config_of_header();
    static struct netif netif;
    agent_open(&agent, arguments[1]);
    config.context = &agent, config.now = wall_us, config.send_msg = agent_send;
    config.set_cwnd = flow_cwnd, config.set_rate = flow_rate;
    CHECK(ANOLE_STATUS_OK == anole_init(&config, &stack.datapath));
    agent_serve(&agent, stack.datapath);
    open_stack(&netif);

    uint64_t began = 0, all_written = 0;
    struct pollfd readable = { .fd = stack.tun, .events = POLLIN };
    while (stack.acked < stack.to_write) {
        poll(&readable, 1, 1);
        LOCK_TCPIP_CORE();
        device_input(&netif);
        agent_serve(&agent, stack.datapath);
        if (stack.connected && stack.flow.id == 0) {
            struct anole_flow_info info = { .init_cwnd = 10 * 1460, .mss = tcp_mss(stack.pcb) };
            CHECK(ANOLE_STATUS_OK ==
                  anole_connection_start(stack.datapath, &stack.flow, &info, &stack.flow.id));
            began = stack.budget_at = wall_us(NULL);
        }
        if (stack.flow.id != 0) {
            look_for_timeouts();
            fill();
            if (all_written == 0 && stack.written == stack.to_write) all_written = wall_us(NULL);
        }
        UNLOCK_TCPIP_CORE();
    }
    double seconds = (double) (all_written - began) * 1e-6;
    struct anole_connection_info info;
    CHECK(ANOLE_STATUS_OK == anole_connection_info(stack.datapath, stack.flow.id, &info));
    LOCK_TCPIP_CORE();
    CHECK(ANOLE_STATUS_OK == anole_free(stack.datapath));
    CHECK(tcp_close(stack.pcb) == ERR_OK);
    UNLOCK_TCPIP_CORE();
    for (int i = 0; i < 100; i++) {
        LOCK_TCPIP_CORE();
        device_input(&netif);
        UNLOCK_TCPIP_CORE();
        usleep(1000);
    }
    void *received;
    CHECK(pthread_join(receiver, &received) == 0);
    agent_close(&agent);
    printf("received %llu seconds %.3f cwnd %u rate %u governor %d fallbacks %llu dropped %u lost %u "
           "timeouts %u beyond %u\n",
           (unsigned long long) (uintptr_t) received, seconds, info.cwnd, info.rate, info.governor,
           (unsigned long long) info.fallbacks, stack.drops, stack.lost, stack.timeouts, stack.beyond);
    /* lwIP's thread cannot be ended: no tidying up under its feet. */
    fflush(stdout);
    _exit(0);
}
