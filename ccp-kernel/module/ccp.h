/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The netlink datapath: what its files share.
 *
 *   main.c      the module's names, its beginning and end
 *   netlink.c   messages from and to the agent
 *   flow.c      the table of flows and of programs; mail from the agent
 *   tcp.c       the tcp_congestion_ops: who governs, what an ACK tells, what TCP obeys
 *   fallback.c  what governs while no agent answers, by the window of cubic.c
 */
#ifndef CCP_H
#define CCP_H

#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/version.h>
#include <net/tcp.h>
#include "message.h"
#include "window.h"

/* A connection under anole_ccp leaves the choice to the agent; one under anole_x asks it for x. */
#define CCP_PREFIX "anole_"
#define CCP_NAME   CCP_PREFIX "ccp"

#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 19, 0)
static inline u32 tcp_snd_cwnd(const struct tcp_sock *tp)
{
	return tp->snd_cwnd;
}

static inline void tcp_snd_cwnd_set(struct tcp_sock *tp, u32 cwnd)
{
	tp->snd_cwnd = cwnd;
}
#endif

/* An installed program: the table, the flows that run it and their mail hold references. */
struct ccp_program {
	refcount_t references;
	u32 agent; /* counts agents: which one installed it */
	struct fold_program fold;
};

/* For how long reports have gone in vain, us, from one to the next. */
struct ccp_silence {
	u64 latest;	/* when the latest went; 0: none has */
	u64 unanswered; /* nothing has come from the agent */
	u64 unheard;	/* nothing could be handed to it */
	bool refused;	/* the latest could not */
};

/* One connection. All but the mail belongs to who holds the socket. */
struct ccp_flow {
	u32 sid;
	u32 user, net; /* whose share of the ids it takes */

	/* Mail: what the agent sent since the latest ACK. */
	spinlock_t lock;
	bool has_mail; /* read without the lock */
	struct ccp_program *mail_program;
	struct fold_staged mail;
	bool mail_empty; /* an UPDATE without commands is among it */

	struct ccp_program *program;
	struct fold_staged staged;
	struct fold_state state;
	struct fold_control control;

	bool governed;	  /* by the agent */
	bool was_timeout; /* since the latest ACK */
	struct fold_limit limit;
	u32 leniency;	   /* how many times the usual time this agent may take */
	u64 waiting_since; /* us; 0: nothing waits for an answer */
	struct ccp_silence silence;
	bool answers_all; /* this agent answers every report: it has sent an UPDATE without commands */
	u64 lost_at;	  /* us; 0: not lost */
	u64 next_create;  /* us */

	/* The kernel's counters at the latest ACK, and the rates of the latest valid sample, bytes/s. */
	u32 lost;
	u32 sacked;
	u32 delivered_ce;
	u64 bytes_acked;
	u64 rate_incoming;
	u64 rate_outgoing;

	struct rcu_head rcu;
};

/* CUBIC's window: see cubic.c. */
struct ccp_cubic {
	u64 epoch_us; /* when congestion avoidance began; 0: it begins at the next ACK */
	u64 estimate; /* Reno's window, packets / 2^16 */
	u32 k_ms;     /* from the epoch to the plateau */
	u32 plateau;  /* packets */
	u32 max;      /* window before the latest loss, packets; 0: none, or a timeout since */
	u32 prior;    /* the same without fast convergence */
};

/* What lies in the socket. */
struct ccp_ca {
	struct ccp_flow *flow; /* NULL: there was no memory or no id for it; it is tried again */
	u64 next_open;	       /* us */
	u32 prr_delivered;     /* packets since the reduction began */
	struct ccp_cubic cubic;
};

static inline struct ccp_ca *ccp_ca(const struct sock *sk)
{
	BUILD_BUG_ON(sizeof(struct ccp_ca) > ICSK_CA_PRIV_SIZE);
	return inet_csk_ca(sk);
}

/* A window within TCP's own limits, packets; never 0. */
static inline u32 ccp_packets_allowed(const struct tcp_sock *tp, u32 cwnd)
{
	return max_t(u32, min_t(u32, cwnd, tp->snd_cwnd_clamp), 1);
}

/* tcp.c: all but the name */
extern const struct tcp_congestion_ops ccp_template;

/* flow.c */
struct ccp_flow *ccp_flow_open(const struct sock *sk);
void ccp_flow_close(struct ccp_flow *flow);
bool ccp_take_mail(struct ccp_flow *flow, bool *start);
int ccp_receive(const u8 *bytes, u32 length);
void ccp_flows_exit(void);

/* netlink.c */
bool ccp_agent_listens(void);
void ccp_send_create(u32 sid, const struct fold_create *create, const char *algorithm);
bool ccp_send_measure(u32 sid, u32 uid, const struct fold_state *state, u32 values);
int ccp_netlink_init(void);
void ccp_netlink_exit(void);

/* cubic.c */
void ccp_cubic_ack(struct sock *sk, u32 acked);
void ccp_cubic_reset(struct sock *sk);
void ccp_cubic_timeout(struct sock *sk);
void ccp_cubic_skip_idle(struct sock *sk);
u32 ccp_cubic_ssthresh(struct sock *sk);

/* fallback.c: for a socket's whole life, whoever governs, so that it can take over at any time */
u32 ccp_window_after_idle(const struct sock *sk);
void ccp_pace(struct sock *sk);
bool ccp_is_timeout(const struct tcp_sock *tp);
void ccp_fallback_join(struct sock *sk);
void ccp_fallback_resume(struct sock *sk, u32 cwnd, u32 ssthresh);
void ccp_fallback_ack(struct sock *sk, const struct rate_sample *rs);
void ccp_fallback_state(struct sock *sk, u8 next);
void ccp_fallback_restart(struct sock *sk);

#endif
