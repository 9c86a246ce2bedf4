// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flows by their id, and the programs that the agent installed.
 *
 * Messages are read in the sender's context, under one mutex. They find a flow under RCU and leave their
 * content in its mail, which the flow's next ACK takes: an ACK that finds none reads one word.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/xarray.h>
#include "ccp.h"
#include "program.h"

/* Ids of libccp's flows have 16 bits; an id is used again only when all others have been. */
#define MAX_SID	     0xffff
#define MAX_PROGRAMS 256
/* The id that a new agent gives its first program. */
#define FIRST_UID 1

/* Some stay for others. */
static unsigned int flows_per_user = MAX_SID / 4 * 3;
module_param(flows_per_user, uint, 0444);
MODULE_PARM_DESC(flows_per_user, "connections that one user, and one network namespace, may have (49149)");

static DEFINE_XARRAY_FLAGS(flows, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_BH);
static u32 next_sid;

/* How many flows each user and each network namespace has, as values. */
static DEFINE_XARRAY_FLAGS(users, XA_FLAGS_LOCK_BH);
static DEFINE_XARRAY_FLAGS(nets, XA_FLAGS_LOCK_BH);

static DEFINE_MUTEX(programs_lock);
static struct ccp_program *programs[MAX_PROGRAMS];
static u32 agents;

static void put_program(struct ccp_program *program)
{
	if (program && refcount_dec_and_test(&program->references))
		kfree(program);
}

/* Adds to how many flows a holder has, and returns whether it may. */
static bool add_held(struct xarray *holders, u32 id, int more)
{
	void *value;
	long held;

	xa_lock_bh(holders);
	value = xa_load(holders, id);
	held = (value ? xa_to_value(value) : 0) + more;
	if (held > 0 && held <= flows_per_user)
		value = __xa_store(holders, id, xa_mk_value(held), GFP_ATOMIC | __GFP_NOWARN);
	else if (held <= 0)
		value = __xa_erase(holders, id);
	xa_unlock_bh(holders);
	return held <= flows_per_user && !xa_is_err(value);
}

static void give_back_share(u32 user, u32 net)
{
	add_held(&users, user, -1);
	add_held(&nets, net, -1);
}

/* A flow more of the user and of the namespace; returns whether neither has too many. */
static bool take_share(u32 user, u32 net)
{
	if (!add_held(&users, user, 1))
		return false;
	if (add_held(&nets, net, 1))
		return true;
	add_held(&users, user, -1);
	return false;
}

struct ccp_flow *ccp_flow_open(const struct sock *sk)
{
	u32 user = __kuid_val(sk->sk_uid), net = sock_net(sk)->ns.inum;
	struct ccp_flow *flow;

	if (!take_share(user, net))
		return NULL;
	flow = kzalloc(sizeof(*flow), GFP_ATOMIC | __GFP_NOWARN);
	if (flow) {
		spin_lock_init(&flow->lock);
		flow->user = user;
		flow->net = net;
		if (xa_alloc_cyclic_bh(&flows, &flow->sid, flow, XA_LIMIT(1, MAX_SID), &next_sid,
				       GFP_ATOMIC | __GFP_NOWARN) >= 0)
			return flow;
		kfree(flow);
	}
	give_back_share(user, net);
	return NULL;
}

static void free_flow(struct rcu_head *rcu)
{
	struct ccp_flow *flow = container_of(rcu, struct ccp_flow, rcu);

	put_program(flow->mail_program);
	put_program(flow->program);
	kfree(flow);
}

void ccp_flow_close(struct ccp_flow *flow)
{
	xa_erase_bh(&flows, flow->sid);
	give_back_share(flow->user, flow->net);
	call_rcu(&flow->rcu, free_flow);
}

/* Takes what the agent sent, if anything; `start`: a program is among it. Returns whether there was. */
bool ccp_take_mail(struct ccp_flow *flow, bool *start)
{
	u32 n;

	*start = false;
	if (!READ_ONCE(flow->has_mail))
		return false;
	spin_lock_bh(&flow->lock);
	if (flow->mail_program) {
		/* That another agent lost the flow says nothing about this one. */
		if (flow->program && flow->program->agent != flow->mail_program->agent) {
			flow->lost_at = 0;
			flow->leniency = 1;
		}
		put_program(flow->program);
		flow->program = flow->mail_program;
		flow->mail_program = NULL;
		flow->staged.present[0] = flow->staged.present[1] = 0;
		*start = true;
	}
	for (n = 0; n < FOLD_FIELDS; n++)
		if (flow->mail.present[n >> 6] >> (n & 63) & 1)
			flow->staged.value[n] = flow->mail.value[n];
	for (n = 0; n < 2; n++) {
		flow->staged.present[n] |= flow->mail.present[n];
		flow->mail.present[n] = 0;
	}
	flow->answers_all |= flow->mail_empty;
	flow->mail_empty = false;
	WRITE_ONCE(flow->has_mail, false);
	spin_unlock_bh(&flow->lock);
	return true;
}

static struct ccp_program **find_program(u32 uid)
{
	u32 n;

	for (n = 0; n < MAX_PROGRAMS; n++)
		if (programs[n] && programs[n]->fold.uid == uid)
			return &programs[n];
	return NULL;
}

static void clear_programs(void)
{
	u32 n;

	for (n = 0; n < MAX_PROGRAMS; n++) {
		put_program(programs[n]);
		programs[n] = NULL;
	}
}

/* A program with id 1 is the first of a new agent and clears the table; one whose id is taken replaces the
 * older one. Flows keep what they run. */
static int install(const struct fold_message *message)
{
	struct ccp_program *program, **place;
	int refusal;
	u32 n;

	program = kmalloc(sizeof(*program), GFP_KERNEL);
	if (!program)
		return -ENOMEM;
	refcount_set(&program->references, 1);
	refusal = fold_install(message, &program->fold);
	if (refusal) {
		kfree(program);
		pr_warn_ratelimited("program %u refused: %s\n", message->uid, fold_refusal_text(refusal));
		return -EINVAL;
	}
	if (message->uid == FIRST_UID) {
		clear_programs();
		agents++;
	}
	program->agent = agents;
	place = find_program(message->uid);
	for (n = 0; !place && n < MAX_PROGRAMS; n++)
		if (!programs[n])
			place = &programs[n];
	if (!place) {
		kfree(program);
		return -ENOSPC;
	}
	put_program(*place);
	*place = program;
	return 0;
}

/* Leaves an UPDATE or CHANGE_PROG in the flow's mail. */
static int deliver(const struct fold_message *message)
{
	struct ccp_program **place = NULL;
	struct ccp_flow *flow;

	if (message->type == FOLD_CHANGE_PROG) {
		place = find_program(message->uid);
		if (!place)
			return -ENOENT;
	}
	rcu_read_lock();
	flow = xa_load(&flows, message->sid);
	if (!flow) {
		rcu_read_unlock();
		return -ENOENT;
	}
	spin_lock_bh(&flow->lock);
	if (place) {
		put_program(flow->mail_program);
		flow->mail_program = *place;
		refcount_inc(&flow->mail_program->references);
	}
	fold_stage(message, &flow->mail);
	flow->mail_empty |= message->type == FOLD_UPDATE && !message->n_fields;
	WRITE_ONCE(flow->has_mail, true);
	spin_unlock_bh(&flow->lock);
	rcu_read_unlock();
	return 0;
}

/* Takes one datagram, which may hold several messages; one that is refused does not keep the ones behind it
 * from being taken. Returns the first error. May sleep. */
int ccp_receive(const u8 *bytes, u32 length)
{
	struct fold_message message;
	int first = 0, error;

	mutex_lock(&programs_lock);
	do {
		int refusal = fold_read(bytes, length, &message);

		if (refusal)
			error = -EINVAL;
		else if (message.type == FOLD_INSTALL)
			error = install(&message);
		else
			error = deliver(&message);
		if (!first)
			first = error;
		bytes += message.length;
		length -= message.length;
	} while (message.length && length);
	mutex_unlock(&programs_lock);
	return first;
}

/* When no socket uses the module any more and no message can come. */
void ccp_flows_exit(void)
{
	rcu_barrier();
	clear_programs();
	xa_destroy(&flows);
	xa_destroy(&users);
	xa_destroy(&nets);
}
