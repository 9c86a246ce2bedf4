// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a connection under the congestion control NAME does where TCP and its congestion control have to
 * agree. Says what it saw; fails if that is wrong, or if it could not be seen within 60 s.
 *
 * probe chosen NAME
 *
 * Chosen in mid-connection, NAME leaves the threshold that a loss has left; over the loopback, without an
 * agent.
 *
 * probe spurious NAME WINDOW PID
 *
 * A timeout at which only ACKs were lost is undone: the window is WINDOW packets again, which the agent had
 * commanded. The agent, process PID, is stopped meanwhile and commands nothing; over the loopback.
 *
 * probe pause NAME
 *
 * After a pause NAME is chosen, and a little is sent for less long than an agent has for its answer; over the
 * loopback.
 *
 * probe reduction NAME HOST
 *
 * Chosen in the middle of a recovery, NAME goes on with it: what was sent and delivered before counts, and
 * packets go on leaving; over a path with a queue to the sink at HOST, without an agent.
 *
 * probe crowd NAME NUMBER USER
 *
 * The user has that many connections over the loopback until the process is ended, or for 600 s; a little
 * goes over each.
 *
 * probe listens
 *
 * Listens to the agent's multicast group for 60 s and reads nothing.
 *
 * probe sink
 *
 * Reads what comes to port 5300.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT	   5300
#define PATIENCE_S 60
#define STEP_US	   1000
/* tcpi_ca_state while losses are repaired, and after a timeout. */
#define OPEN	 0
#define RECOVERY 3
#define LOSS	 4

static _Noreturn void fail(const char *what)
{
	printf("probe: %s (%s)\n", what, strerror(errno));
	exit(1);
}

/* Ends the program after PATIENCE_S. */
static void step(const char *waits_for)
{
	static time_t end;

	if (!end)
		end = time(NULL) + PATIENCE_S;
	if (time(NULL) > end) {
		printf("probe: still waits: %s\n", waits_for);
		exit(1);
	}
	usleep(STEP_US);
}

static void choose(int fd, const char *name)
{
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, strlen(name)))
		fail(name);
}

static struct tcp_info look(int fd)
{
	struct tcp_info info = {0};
	socklen_t length = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length))
		fail("TCP_INFO");
	return info;
}

static struct sockaddr_in address(const char *host, int port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};

	if (!inet_pton(AF_INET, host, &at.sin_addr))
		fail(host);
	return at;
}

static int listener(const char *host, int port)
{
	struct sockaddr_in at = address(host, port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 1))
		fail("listening");
	return fd;
}

static int connected(struct sockaddr_in to, const char *name)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (fd < 0)
		fail("a socket");
	/* Before it is connected, so that NAME sees the ACK of the SYN. */
	choose(fd, name);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		fail("connecting");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

static void read_all(int fd)
{
	static char buffer[1 << 16];

	while (read(fd, buffer, sizeof(buffer)) > 0)
		;
}

/* A connection over the loopback under NAME, with the other end in `other`, where a process of its own reads.
 */
static int pair(const char *name, int *other)
{
	struct sockaddr_in at;
	socklen_t length = sizeof(at);
	int waits = listener("127.0.0.1", 0), fd;

	getsockname(waits, (struct sockaddr *)&at, &length);
	fd = connected(at, name);
	*other = accept(waits, NULL, NULL);
	if (*other < 0)
		fail("accepting");
	if (!fork()) {
		close(fd);
		read_all(*other);
		_exit(0);
	}
	return fd;
}

/* What the socket drops of what arrives: all of it, or one in four packets. */
enum drops { DROP_NOTHING, DROP_ALL, DROP_SOME };

static void drop(int fd, enum drops what)
{
	/* ret 0; ld rand, jge 3/4 of its range, ret all, ret 0 */
	static struct sock_filter all[] = {{0x06, 0, 0, 0}};
	static struct sock_filter some[] = {{0x20, 0, 0, 0xfffff038},
					    {0x35, 1, 0, 0xc0000000},
					    {0x06, 0, 0, 0xffffffff},
					    {0x06, 0, 0, 0}};
	struct sock_fprog filter = {what == DROP_ALL ? 1 : 4, what == DROP_ALL ? all : some};
	int option = what == DROP_NOTHING ? SO_DETACH_FILTER : SO_ATTACH_FILTER;

	if (setsockopt(fd, SOL_SOCKET, option, &filter, sizeof(filter)))
		fail("filter of a socket");
}

static void send_bytes(int fd, size_t bytes)
{
	static char data[1 << 18];

	if (write(fd, data, bytes < sizeof(data) ? bytes : sizeof(data)) < 0 && errno != EAGAIN)
		fail("sending");
}

static int chosen(const char *name)
{
	int other, fd = pair("reno", &other);
	struct tcp_info before, after;

	do {
		drop(other, DROP_SOME);
		while (before = look(fd), before.tcpi_snd_ssthresh > 1 << 30) {
			send_bytes(fd, 1 << 14);
			step("a loss ends slow start");
		}
		drop(other, DROP_NOTHING);
		while (before = look(fd), before.tcpi_unacked)
			step("what was lost is sent again");
		/* A timeout that lost nothing is undone by an ACK behind it, and the threshold with it. */
		send_bytes(fd, 100);
		while (before = look(fd), before.tcpi_unacked || before.tcpi_ca_state != OPEN)
			step("nothing is left to undo");
	} while (before.tcpi_snd_ssthresh > 1 << 30);
	choose(fd, name);
	send_bytes(fd, 100);
	do
		step("a packet is acknowledged");
	while (after = look(fd), after.tcpi_unacked);
	printf("probe: threshold %u before and %u after\n", before.tcpi_snd_ssthresh,
	       after.tcpi_snd_ssthresh);
	return before.tcpi_snd_ssthresh != after.tcpi_snd_ssthresh;
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* An agent that has not answered for half a second has lost its flow to the fallback, which undoes nothing.
 */
#define IN_TIME_MS 450

static int spurious(const char *name, unsigned int window, pid_t agent)
{
	int other, fd = pair(name, &other), quiet;
	struct tcp_info info;
	long stopped, took;

	do {
		while (info = look(fd), info.tcpi_snd_cwnd != window) {
			send_bytes(fd, 100);
			step("the agent commands the window");
		}
		/* Every report has its answer. */
		for (quiet = 0; quiet < 300; quiet++)
			step("nothing");
		stopped = now_ms();
		kill(agent, SIGSTOP);
		drop(fd, DROP_ALL);
		send_bytes(fd, 20 * info.tcpi_snd_mss);
		while (info = look(fd), info.tcpi_ca_state != LOSS)
			step("a timeout takes the window");
		drop(fd, DROP_NOTHING);
		while (info = look(fd), info.tcpi_unacked)
			step("the data are acknowledged, in time");
		took = now_ms() - stopped;
		kill(agent, SIGCONT);
		/* This machine was late: another time. */
	} while (took > IN_TIME_MS);
	printf("probe: window %u, %ld ms after the agent stopped, after a timeout that lost nothing\n",
	       info.tcpi_snd_cwnd, took);
	return info.tcpi_snd_cwnd != window;
}

#define PAUSE_S	       2
#define SENDS_MS       300
#define SENDS_EVERY_US 20000

static int pause_before(const char *name)
{
	int other, fd = pair("reno", &other);
	long chosen;

	sleep(PAUSE_S);
	choose(fd, name);
	for (chosen = now_ms(); now_ms() - chosen < SENDS_MS; usleep(SENDS_EVERY_US))
		send_bytes(fd, 100);
	printf("probe: data for %ld ms after a pause\n", now_ms() - chosen);
	return now_ms() - chosen > IN_TIME_MS;
}

static unsigned int in_flight(const struct tcp_info *info)
{
	return info->tcpi_unacked - info->tcpi_sacked - info->tcpi_lost + info->tcpi_retrans;
}

/*
 * With a threshold of about half of the window before, a packet leaves for every two that are delivered. One
 * that forgot what was delivered and not what was sent waits for twice what was sent.
 */
#define SENT_BEFORE   8
#define AT_LEAST      10
#define AT_MOST	      15
#define SENT_AT_LEAST 2

static int reduction(const char *name, const char *host)
{
	int fd = connected(address(host, PORT), "reno");
	struct tcp_info info, from;
	unsigned int begun = 0, delivered, sent;

	for (;;) {
		send_bytes(fd, 1 << 18);
		step("a recovery with much in flight");
		info = look(fd);
		if (info.tcpi_ca_state != RECOVERY) {
			begun = 0;
			continue;
		}
		if (!begun)
			begun = info.tcpi_data_segs_out;
		if (info.tcpi_data_segs_out - begun < SENT_BEFORE ||
		    in_flight(&info) < info.tcpi_snd_ssthresh + AT_MOST)
			continue;
		choose(fd, name);
		from = look(fd);
		do {
			usleep(STEP_US);
			info = look(fd);
			delivered = info.tcpi_delivered - from.tcpi_delivered;
			sent = info.tcpi_data_segs_out - from.tcpi_data_segs_out;
		} while (delivered < AT_LEAST && info.tcpi_ca_state == RECOVERY);
		if (info.tcpi_ca_state == RECOVERY && delivered <= AT_MOST)
			break;
		/* The recovery ended, or this process was late: another time. */
		choose(fd, "reno");
	}
	printf("probe: in a recovery, %u packets left while %u were delivered\n", sent, delivered);
	return sent < SENT_AT_LEAST;
}

#define CROWD	      64
#define CROWD_S	      600
#define CROWD_STEP_US 50000

static int crowd(const char *name, int number, uid_t user)
{
	int fds[CROWD], other, n, steps;

	if (number > CROWD)
		fail("a crowd is too large");
	/* Sockets are theirs; the right to choose any congestion control stays. */
	setfsuid(user);
	for (n = 0; n < number; n++)
		fds[n] = pair(name, &other);
	printf("probe: user %u has %d connections\n", user, number);
	for (steps = 0; steps < CROWD_S * (1000000 / CROWD_STEP_US); steps++) {
		for (n = 0; n < number; n++)
			send_bytes(fds[n], 100);
		usleep(CROWD_STEP_US);
	}
	return 0;
}

/* The agent's multicast group. */
#define GROUP 22

static void listens(void)
{
	struct sockaddr_nl at = {.nl_family = AF_NETLINK, .nl_groups = 1u << (GROUP - 1)};
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)))
		fail("listening to the agent's group");
	sleep(PATIENCE_S);
}

static void sink(void)
{
	int waits = listener("0.0.0.0", PORT);

	for (;;) {
		int fd = accept(waits, NULL, NULL);

		if (fd < 0)
			fail("accepting");
		read_all(fd);
		close(fd);
	}
}

int main(int arguments, char **argument)
{
	const char *what = arguments > 1 ? argument[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGCHLD, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (!strcmp(what, "chosen") && arguments == 3)
		return chosen(argument[2]);
	if (!strcmp(what, "spurious") && arguments == 5)
		return spurious(argument[2], atoi(argument[3]), atoi(argument[4]));
	if (!strcmp(what, "pause") && arguments == 3)
		return pause_before(argument[2]);
	if (!strcmp(what, "reduction") && arguments == 4)
		return reduction(argument[2], argument[3]);
	if (!strcmp(what, "crowd") && arguments == 5)
		return crowd(argument[2], atoi(argument[3]), atoi(argument[4]));
	if (!strcmp(what, "listens") && arguments == 2)
		return listens(), 0;
	if (!strcmp(what, "sink") && arguments == 2)
		sink();
	fprintf(stderr,
		"usage: probe chosen NAME | spurious NAME WINDOW PID | pause NAME | reduction NAME HOST | "
		"crowd NAME NUMBER USER | listens | sink\n");
	return 2;
}
