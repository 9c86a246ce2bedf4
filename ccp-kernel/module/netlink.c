// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages from and to the agent: NETLINK_USERSOCK, multicast group 22, one CCP datagram in each netlink
 * message, as in the CCP project's kernel module.
 *
 * Any process may send to this protocol. Heard is only who has CAP_NET_ADMIN over the machine, in the process
 * and when the socket was opened: netlink_capable() leaves out the latter for a message with an address.
 * Listening to the group needs CAP_NET_ADMIN by itself.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/netlink.h>
#include <net/netlink.h>
#include <net/sock.h>
#include "ccp.h"

#define GROUP  22
#define GROUPS 32

/* Listeners of other network namespaces hear nothing, and make it look as if somebody listened: when a
 * message reached nobody, flows are not announced for as long as each waits between two announcements. The
 * difference of two times is right however old the first is, but for this long once in ULONG_MAX jiffies. */
#define DEAF_JIFFIES (HZ / 4)

static struct sock *agent;
static unsigned long deaf_since;

static bool may_speak(const struct sk_buff *skb)
{
	return NETLINK_CB(skb).portid && netlink_capable(skb, CAP_NET_ADMIN) &&
	       file_ns_capable(NETLINK_CB(skb).sk->sk_socket->file, &init_user_ns, CAP_NET_ADMIN);
}

static void receive(struct sk_buff *skb)
{
	const struct nlmsghdr *header = nlmsg_hdr(skb);

	if (!may_speak(skb)) {
		pr_warn_ratelimited("a message from port %u without CAP_NET_ADMIN is not heard\n",
				    NETLINK_CB(skb).portid);
		return;
	}
	if (skb_is_nonlinear(skb) || !nlmsg_ok(header, skb->len))
		return;
	if (ccp_receive(nlmsg_data(header), nlmsg_len(header)))
		pr_debug_ratelimited("a message from port %u is refused\n", NETLINK_CB(skb).portid);
}

bool ccp_agent_listens(void)
{
	return netlink_has_listeners(agent, GROUP) && jiffies - READ_ONCE(deaf_since) >= DEAF_JIFFIES;
}

/* Room for a message of `length` bytes; send_out() sends it. NULL if there is none. */
static struct sk_buff *message(u32 length, u8 **at)
{
	struct sk_buff *skb = nlmsg_new(length, GFP_ATOMIC | __GFP_NOWARN);
	struct nlmsghdr *header;

	if (!skb)
		return NULL;
	header = nlmsg_put(skb, 0, 0, NLMSG_DONE, length, 0);
	if (!header) {
		nlmsg_free(skb);
		return NULL;
	}
	*at = nlmsg_data(header);
	return skb;
}

/* Returns whether an agent got it; one whose queue is full does not. */
static bool send_out(struct sk_buff *skb)
{
	return !nlmsg_multicast(agent, skb, 0, GROUP, GFP_ATOMIC);
}

void ccp_send_create(u32 sid, const struct fold_create *create, const char *algorithm)
{
	struct sk_buff *skb;
	u8 *at;

	skb = message(FOLD_CREATE_BYTES, &at);
	if (!skb)
		return;
	fold_write_create(at, sid, create, algorithm);
	if (!send_out(skb))
		WRITE_ONCE(deaf_since, jiffies);
}

/* Returns whether it was sent. */
bool ccp_send_measure(u32 sid, u32 uid, const struct fold_state *state, u32 values)
{
	struct sk_buff *skb;
	u8 *at;

	values = min_t(u32, values, FOLD_MAX_REPORTS);
	if (!netlink_has_listeners(agent, GROUP))
		return false;
	skb = message(FOLD_HEADER_BYTES + 8 + 8 * values, &at);
	if (!skb)
		return false;
	fold_write_measure(at, sid, uid, state, values);
	return send_out(skb);
}

static void send_ready(void)
{
	struct sk_buff *skb;
	u8 *at;

	skb = message(FOLD_READY_BYTES, &at);
	if (!skb)
		return;
	fold_write_ready(at, 0);
	send_out(skb);
}

int ccp_netlink_init(void)
{
	struct netlink_kernel_cfg config = {.groups = GROUPS, .input = receive};

	agent = netlink_kernel_create(&init_net, NETLINK_USERSOCK, &config);
	if (!agent)
		return -ENOMEM;
	deaf_since = jiffies - DEAF_JIFFIES;
	send_ready();
	return 0;
}

/* A sender that has found the socket may still be in receive(): it holds a reference until it is out. */
void ccp_netlink_exit(void)
{
	sock_hold(agent);
	netlink_kernel_release(agent);
	while (refcount_read(&agent->sk_refcnt) > 1)
		msleep(1);
	sock_put(agent);
}
