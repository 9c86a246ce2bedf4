// SPDX-License-Identifier: GPL-2.0-only
/*
 * attack nobody | root | lent | agent: sends spoofed and malformed CCP messages to the kernel module and to
 * the agent. Ends by itself after about two seconds. Fails if nothing could be sent.
 *
 *   nobody  gives up every privilege, also as root of a user namespace of its own where that is allowed:
 *           well-formed messages that would stall every flow, and all below
 *   root    what a privileged sender may get wrong: short, long, inconsistent messages, registers and
 *           programs that do not exist
 *   lent    as root over sockets that were opened without privileges: the well-formed messages
 *   agent   as root, the well-formed messages: what would happen if they were heard
 *
 * attack maps-nobody | maps-root FILE...: opens the maps pinned there, and those of the first ids there are.
 *
 *   maps-nobody  without privileges, as above; also tries to remove the pins. Fails if anything succeeds
 *   maps-root    fails unless each pin and some id opens: it would mean nothing for nobody then
 *
 * attack plant-folder | plant-link PINS VICTIM: as nobody, before an agent, in its place for the pins. Fails
 * if it cannot.
 *
 *   plant-folder  a folder of nobody's, with a link to a folder in VICTIM
 *   plant-link    a link to VICTIM
 *
 * attack silent SECONDS: as root, an agent that sets every flow's window once, hears all reports and answers
 * none, until it ends.
 *
 * attack flood: as nobody, messages to the module as fast as they go, for three seconds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/bpf.h>
#include <linux/netlink.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define GROUP	    22
#define AGENT_PORT  0x41434350
#define NOBODY	    65534
#define ROUNDS	    40
#define ROUND_US    50000
#define SPOOFED_SID 40
#define MAP_IDS	    20000
#define FLOOD_S	    3
#define WINDOW	    30000

static int fd, sent;

static void put16(uint8_t *at, unsigned value)
{
	at[0] = value;
	at[1] = value >> 8;
}

static void put32(uint8_t *at, uint32_t value)
{
	put16(at, value);
	put16(at + 2, value >> 16);
}

/* Sends `bytes` behind a netlink header that says `length`. */
static void send_to(uint32_t port, uint32_t groups, const void *bytes, size_t n, uint32_t length)
{
	uint8_t datagram[65536] = {0};
	struct sockaddr_nl to = {.nl_family = AF_NETLINK, .nl_pid = port, .nl_groups = groups};

	put32(datagram, length);
	memcpy(datagram + NLMSG_HDRLEN, bytes, n);
	if (sendto(fd, datagram, NLMSG_HDRLEN + n, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to)) >= 0)
		sent++;
}

static void to_kernel(const void *bytes, size_t n)
{
	send_to(0, 0, bytes, n, NLMSG_HDRLEN + n);
}

/* UPDATE with one register. */
static size_t update(uint8_t *out, uint32_t sid, uint8_t kind, uint32_t index, uint32_t value)
{
	memset(out, 0, 25);
	put16(out, 3);
	put16(out + 2, 25);
	put32(out + 4, sid);
	put32(out + 8, 1);
	out[12] = kind;
	put32(out + 13, index);
	put32(out + 17, value);
	return 25;
}

/* Every flow's window and rate become the least that there is. Each message comes behind one to a flow that
 * does not exist, in one datagram. */
static void spoof(void)
{
	uint8_t bytes[64];
	size_t n = update(bytes, 0, 2, 4, 1);
	uint32_t sid;

	for (sid = 1; sid <= SPOOFED_SID; sid++) {
		to_kernel(bytes, n + update(bytes + n, sid, 2, 4, 1));
		to_kernel(bytes, n + update(bytes + n, sid, 2, 5, 1));
	}
}

static void malformed(void)
{
	static const uint32_t indices[] = {110, 255, 0x7fffffff, 0xffffffff};
	uint8_t bytes[9000];
	size_t n;

	for (n = 0; n < 4; n++) {
		to_kernel(bytes, update(bytes, 1, 0, indices[n], 1));
		to_kernel(bytes, update(bytes, 1, 8, indices[n], 1));
		to_kernel(bytes, update(bytes, 1, n + 3, 0, 1));
	}
	/* Shorter and longer than they say, in both headers. */
	for (n = 0; n < 25; n++) {
		update(bytes, 1, 0, 0, 1);
		to_kernel(bytes, n);
		send_to(0, 0, bytes, 25, n);
	}
	send_to(0, 0, bytes, 25, 0xffffffff);
	send_to(0, 0, bytes, 0, NLMSG_HDRLEN);
	put32(bytes + 8, 0xffffffff);
	to_kernel(bytes, 25);
	/* INSTALL: counts without bytes, then 255 instructions of nonsense and the bytes of all kinds. */
	memset(bytes, 0xff, sizeof(bytes));
	put16(bytes, 2);
	put16(bytes + 2, 20);
	to_kernel(bytes, 20);
	put16(bytes + 2, 20 + 16 * 255);
	put32(bytes + 8, 7);
	put32(bytes + 12, 0);
	put32(bytes + 16, 255);
	to_kernel(bytes, 20 + 16 * 255);
	for (n = 20; n < sizeof(bytes); n++)
		bytes[n] = rand();
	to_kernel(bytes, 20 + 16 * 255);
	to_kernel(bytes, sizeof(bytes));
	/* CHANGE_PROG to a program that does not exist; messages that go to agents. */
	memset(bytes, 0, 32);
	put16(bytes, 4);
	put16(bytes + 2, 16);
	put32(bytes + 4, 1);
	put32(bytes + 8, 0xdeadbeef);
	to_kernel(bytes, 16);
	for (n = 0; n < 8; n++) {
		put16(bytes, n);
		to_kernel(bytes, 16);
	}
}

/* To the agent, as if from the kernel: CREATE cut short, MEASURE with a partial value, INSTALL, nothing. */
static void to_agent(void)
{
	uint8_t bytes[1200] = {0};
	int type, n;

	for (type = 0; type < 7; type++) {
		for (n = 0; n <= 40; n += 8) {
			put16(bytes, type);
			put16(bytes + 2, n);
			put32(bytes + 4, 1);
			send_to(0, 1 << (GROUP - 1), bytes, n, NLMSG_HDRLEN + n);
			send_to(AGENT_PORT, 0, bytes, n, NLMSG_HDRLEN + n);
		}
	}
	send_to(AGENT_PORT, 0, bytes, sizeof(bytes), NLMSG_HDRLEN + sizeof(bytes));
}

static int bpf(enum bpf_cmd command, union bpf_attr *request)
{
	int map = syscall(SYS_bpf, command, request, sizeof(*request));

	if (map >= 0)
		close(map);
	return map >= 0;
}

/* How many times a pin opens, of three times each. */
static int open_pins(int pins, char **pin)
{
	static const uint32_t access[] = {0, BPF_F_RDONLY, BPF_F_WRONLY};
	int opened = 0, n;

	for (n = 0; n < 3 * pins; n++) {
		union bpf_attr request = {.pathname = (uintptr_t)pin[n / 3], .file_flags = access[n % 3]};

		opened += bpf(BPF_OBJ_GET, &request);
	}
	return opened;
}

static int open_ids(void)
{
	int opened = 0, n;

	for (n = 1; n <= MAP_IDS; n++) {
		union bpf_attr request = {.map_id = n};

		opened += bpf(BPF_MAP_GET_FD_BY_ID, &request);
	}
	return opened;
}

static int attack_maps(int as_nobody, int pins, char **pin)
{
	int by_pin = open_pins(pins, pin), by_id = open_ids(), removed = 0, n;

	if (as_nobody) {
		for (n = 0; n < pins; n++)
			removed += !unlink(pin[n]);
		if (unshare(CLONE_NEWUSER))
			fprintf(stderr, "attack: no user namespace (%s)\n", strerror(errno));
		by_pin += open_pins(pins, pin);
		by_id += open_ids();
	}
	printf("attack: %d pins: opened %d times; maps opened by id: %d; pins removed: %d\n", pins, by_pin,
	       by_id, removed);
	return as_nobody ? by_pin || by_id || removed : by_pin < pins || !by_id;
}

static int plant(int folder, const char *pins, const char *victim)
{
	char link[256], to[256];

	snprintf(link, sizeof(link), folder ? "%s/link" : "%s", pins);
	snprintf(to, sizeof(to), folder ? "%s/folder" : "%s", victim);
	if ((folder && mkdir(pins, 0777)) || symlink(to, link)) {
		perror("attack: planting");
		return 1;
	}
	printf("attack: %s is nobody's\n", pins);
	return 0;
}

/* The module may come and go meanwhile. */
static int flood(void)
{
	uint8_t bytes[64];
	size_t n = update(bytes, 1, 2, 4, 1);
	time_t end = time(NULL) + FLOOD_S;

	fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK);
	while (time(NULL) < end)
		to_kernel(bytes, n);
	printf("attack: flood of %d messages\n", sent);
	return sent == 0;
}

static int silent(int seconds)
{
	struct sockaddr_nl own = {.nl_family = AF_NETLINK, .nl_groups = 1 << (GROUP - 1)};
	struct timeval wait = {.tv_usec = ROUND_US};
	time_t end = time(NULL) + seconds;
	uint8_t bytes[4096];
	uint32_t sid;

	fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&own, sizeof(own)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait))) {
		perror("attack: a netlink socket");
		return 1;
	}
	for (sid = 1; sid <= SPOOFED_SID; sid++)
		to_kernel(bytes, update(bytes, sid, 2, 4, WINDOW));
	while (time(NULL) < end)
		if (recv(fd, bytes, sizeof(bytes), 0) > 0)
			sent++;
	printf("attack: silent, %d messages sent and heard\n", sent);
	return 0;
}

int main(int arguments, char **argument)
{
	const char *as = arguments >= 2 ? argument[1] : "";
	int maps = !strcmp(as, "maps-nobody") || !strcmp(as, "maps-root"), round;
	int folder = !strcmp(as, "plant-folder"), plants = folder || !strcmp(as, "plant-link");
	int floods = !strcmp(as, "flood"), root = !strcmp(as, "root");
	int lent = !strcmp(as, "lent");
	int nobody = !strcmp(as, "nobody") || !strcmp(as, "maps-nobody") || plants || floods;

	if (arguments == 3 && !strcmp(as, "silent"))
		return silent(atoi(argument[2]));
	if ((!nobody && !root && !lent && !maps && strcmp(as, "agent")) ||
	    maps != (arguments > 2 && !plants) || (plants && arguments != 4)) {
		fprintf(stderr,
			"usage: attack nobody|root|lent|agent|flood, attack maps-nobody|maps-root FILE..., "
			"attack plant-folder|plant-link PINS VICTIM, attack silent SECONDS\n");
		return 2;
	}
	if (nobody && (setgid(NOBODY) || setuid(NOBODY))) {
		perror("attack: giving up privileges");
		return 1;
	}
	if (maps)
		return attack_maps(nobody, arguments - 2, argument + 2);
	if (plants)
		return plant(folder, argument[2], argument[3]);
	if (floods)
		return flood();
	for (round = 0; round < ROUNDS; round++) {
		/* For the second half as root of an own user namespace. */
		if (nobody && round == ROUNDS / 2 && unshare(CLONE_NEWUSER))
			fprintf(stderr, "attack: no user namespace (%s)\n", strerror(errno));
		if (lent && seteuid(NOBODY)) {
			perror("attack: lending privileges");
			return 1;
		}
		fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK);
		if (fd < 0 || (lent && seteuid(0))) {
			perror("attack: a netlink socket");
			return 1;
		}
		if (!root)
			spoof();
		if (nobody)
			to_agent();
		if (nobody || root)
			malformed();
		close(fd);
		usleep(ROUND_US);
	}
	printf("attack: %d messages sent as %s\n", sent, as);
	return sent > 0 ? 0 : 1;
}
