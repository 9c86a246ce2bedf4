// SPDX-License-Identifier: GPL-2.0-only
/*
 * The congestion control plane's datapath for Linux TCP as a kernel module.
 *
 * At every ACK either the flow's fold program runs, if the agent governs it, or the fallback does. The agent
 * governs a flow from its first CHANGE_PROG until it is lost: nothing could be handed to it for longer than
 * max(500 ms, 4 RTT), or, of one that answers every report, a message has waited for an answer for that long;
 * any other is lost after 32 times as long. A flow that is not governed announces itself (CREATE) every 250
 * ms while somebody listens.
 *
 * A program's window and rate are bounded (vm/machine.h), and what TCP knows better comes on top: after a
 * timeout, and after idle where no rate is set, the window starts small and grows by what is delivered until
 * it reaches the program's.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/ipv6.h>
#include <linux/module.h>
#include <net/ipv6.h>
#include "ccp.h"
#include "machine.h"

/* The same figures as in the other datapaths. */
#define AGENT_TIMEOUT_US   (500 * USEC_PER_MSEC)
#define LOST_AFTER_RTTS	   4
#define CREATE_INTERVAL_US (250 * USEC_PER_MSEC)
#define MAX_LENIENCY	   8
/* How many times the usual time an agent may be silent that has not shown that it answers every report. */
#define SILENCE_FACTOR 32

static void wait_for_answer(struct ccp_flow *flow, u64 now_us)
{
	if (!flow->waiting_since)
		flow->waiting_since = now_us;
}

static u64 patience(const struct tcp_sock *tp)
{
	return max_t(u64, AGENT_TIMEOUT_US, (u64)(tp->srtt_us >> 3) * LOST_AFTER_RTTS);
}

/* Whether the agent was handed a report. An application that pauses says nothing about the agent: a single
 * gap counts for half of the patience at most. */
static void handed(struct ccp_flow *flow, const struct tcp_sock *tp, bool heard, u64 now_us)
{
	struct ccp_silence *silence = &flow->silence;
	u64 gap = silence->latest ? min_t(u64, now_us - silence->latest, patience(tp) / 2) : 0;

	silence->unanswered += gap;
	silence->unheard = silence->refused && !heard ? silence->unheard + gap : 0;
	silence->refused = !heard;
	silence->latest = now_us;
	wait_for_answer(flow, now_us);
}

/* Over an IPv6 socket, too. */
static bool is_ipv4(const struct sock *sk)
{
	const struct in6_addr *own = inet6_rcv_saddr(sk);

	return !own || ipv6_addr_v4mapped(own);
}

static void announce(struct sock *sk, struct ccp_flow *flow, u64 now_us)
{
	const struct inet_sock *inet = inet_sk(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	struct fold_create create = {
		.init_cwnd = fold_window(tcp_snd_cwnd(tp), tp->mss_cache),
		.mss = tp->mss_cache,
		.src_port = ntohs(inet->inet_sport),
		.dst_port = ntohs(inet->inet_dport),
	};
	const char *name;

	if (!ccp_agent_listens())
		return;
	if (is_ipv4(sk)) {
		create.src_ip = (__force u32)inet->inet_saddr;
		create.dst_ip = (__force u32)inet->inet_daddr;
	}
	name = inet_csk(sk)->icsk_ca_ops->name;
	ccp_send_create(flow->sid, &create, strcmp(name, CCP_NAME) ? name + strlen(CCP_PREFIX) : "");
	wait_for_answer(flow, now_us);
}

/* Gives the connection a flow, if it can have one. */
static void open_flow(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct ccp_flow *flow = ccp_flow_open(sk);
	/* TCP's is of the latest packet, which may be long ago when the connection chooses. */
	u64 now_us = ktime_to_us(ktime_get());

	ccp_ca(sk)->flow = flow;
	ccp_ca(sk)->next_open = now_us + CREATE_INTERVAL_US;
	if (!flow)
		return;
	flow->leniency = 1;
	flow->lost = tp->lost;
	flow->sacked = tp->sacked_out;
	flow->delivered_ce = tp->delivered_ce;
	flow->bytes_acked = tp->bytes_acked;
	announce(sk, flow, now_us);
	/* An agent that is merely slow must not see the flow twice. */
	flow->next_create = now_us + AGENT_TIMEOUT_US;
}

/* The connection may have been open for long, in a reduction, with a threshold of its own. */
static void ccp_init(struct sock *sk)
{
	*ccp_ca(sk) = (struct ccp_ca){};
	ccp_fallback_join(sk);
	open_flow(sk);
}

static void ccp_release(struct sock *sk)
{
	struct ccp_ca *ca = ccp_ca(sk);
	struct ccp_flow *flow = ca->flow;

	if (!flow)
		return;
	ca->flow = NULL;
	ccp_send_measure(flow->sid, 0, &flow->state, 0);
	ccp_flow_close(flow);
}

/* What this ACK tells, in the language's terms. The kernel's counters rather than the sample's, which leave
 * out what a timeout found lost. */
static void measure(const struct tcp_sock *tp, const struct rate_sample *rs, struct ccp_flow *flow,
		    struct fold_sample *sample)
{
	u32 mss = tp->mss_cache;
	s32 newly_sacked = tp->sacked_out - flow->sacked;
	s64 bytes = (s64)(tp->bytes_acked - flow->bytes_acked) + (s64)newly_sacked * mss;

	/* Cumulatively or selectively, each byte counts once; selective ones are whole packets. */
	sample->bytes_acked = clamp_t(s64, bytes, 0, U32_MAX);
	sample->packets_acked = rs->acked_sacked;
	if (newly_sacked > 0) {
		sample->packets_misordered = newly_sacked;
		sample->bytes_misordered = newly_sacked * mss;
	}
	sample->ecn_packets = tp->delivered_ce - flow->delivered_ce;
	sample->ecn_bytes = sample->ecn_packets * mss;
	sample->lost_packets = tp->lost - flow->lost;
	sample->was_timeout = flow->was_timeout;
	sample->rtt_us = rs->rtt_us > 0 ? rs->rtt_us : 0;
	/* A sample that is not valid leaves the rates as they were. */
	if (rs->delivered > 0 && rs->interval_us > 0) {
		u64 delivered = (u64)rs->delivered * mss * USEC_PER_SEC;

		if (rs->snd_interval_us)
			flow->rate_outgoing = div_u64(delivered, rs->snd_interval_us);
		if (rs->rcv_interval_us)
			flow->rate_incoming = div_u64(delivered, rs->rcv_interval_us);
	}
	sample->rate_outgoing = flow->rate_outgoing;
	sample->rate_incoming = flow->rate_incoming;
	sample->packets_in_flight = tcp_packets_in_flight(tp);
	sample->bytes_in_flight = sample->packets_in_flight * mss;
	sample->bytes_pending =
		fold_pending(READ_ONCE(tp->write_seq) - tp->snd_nxt, tp->lost_out, tp->retrans_out, mss);
	flow->lost = tp->lost;
	flow->sacked = tp->sacked_out;
	flow->delivered_ce = tp->delivered_ce;
	flow->bytes_acked = tp->bytes_acked;
	flow->was_timeout = false;
}

/* The agent has answered; one that answers the first CREATE after it was given up was not lost. */
static void answered(struct ccp_flow *flow, u64 now_us)
{
	flow->waiting_since = 0;
	flow->silence = (struct ccp_silence){};
	if (!flow->lost_at)
		return;
	if (now_us - flow->lost_at < CREATE_INTERVAL_US)
		flow->leniency = min_t(u32, 2 * flow->leniency, MAX_LENIENCY);
	else
		flow->leniency = 1;
	flow->lost_at = 0;
}

/* One that answers when it changes something may be silent for long: what tells of its death is that nothing
 * can be handed to it. */
static bool is_lost(const struct ccp_flow *flow, const struct tcp_sock *tp, u64 now_us)
{
	u64 most = patience(tp);

	if (flow->answers_all)
		return flow->waiting_since && now_us - flow->waiting_since > most * flow->leniency;
	return flow->silence.unheard > most || flow->silence.unanswered > most * SILENCE_FACTOR;
}

/* The program's window, packets. */
static u32 asked(const struct tcp_sock *tp, const struct ccp_flow *flow)
{
	return flow->control.cwnd / max_t(u32, tp->mss_cache, 1);
}

/* Hands the flow's window and rate to TCP. */
static void obey(struct sock *sk, struct ccp_flow *flow, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 rate = min_t(u64, flow->control.rate, READ_ONCE(sk->sk_max_pacing_rate));
	u32 least = fold_burst(rate, tcp_min_rtt(tp)) / max_t(u32, tp->mss_cache, 1);
	u32 cwnd = fold_limited(&flow->limit, ccp_packets_allowed(tp, max(asked(tp, flow), least)), acked);

	if (flow->waiting_since && inet_csk(sk)->icsk_ca_state == TCP_CA_Recovery)
		cwnd = fold_conserved(cwnd, tcp_packets_in_flight(tp), acked, !tp->prr_out);
	if (cwnd != tcp_snd_cwnd(tp)) {
		tcp_snd_cwnd_set(tp, cwnd);
		tp->snd_ssthresh = max_t(u32, cwnd, 2);
	}
	if (rate) {
		/* TCP paces by itself, unless the fq queue discipline does. */
		cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
		WRITE_ONCE(sk->sk_pacing_rate, rate);
	} else {
		ccp_pace(sk);
	}
}

static void run_program(struct sock *sk, struct ccp_flow *flow, const struct fold_sample *sample, bool start,
			u64 now_us)
{
	const struct fold_program *program = &flow->program->fold;
	struct tcp_sock *tp = tcp_sk(sk);
	bool heard;
	u32 abort;

	if (!flow->governed) {
		flow->governed = true;
		flow->control.cwnd = fold_window(tcp_snd_cwnd(tp), tp->mss_cache);
		flow->control.rate = 0;
	}
	switch (fold_ack(&flow->state, program, start, &flow->staged, now_us, sample, tp->mss_cache,
			 &flow->control, &abort)) {
	case FOLD_REPORTS:
		heard = ccp_send_measure(flow->sid, program->uid, &flow->state, program->n_reports);
		/* What could not be sent is in the next report. */
		if (heard)
			fold_reset(&flow->state, program);
		handed(flow, tp, heard, now_us);
		break;
	case FOLD_ABORTED:
		/* A program that always aborts sends nothing, and must not hold the flow. */
		handed(flow, tp, false, now_us);
		break;
	}
	obey(sk, flow, sample->packets_acked);
}

/* The fallback governs from now on. */
static void lose_agent(struct sock *sk, struct ccp_flow *flow, const struct fold_sample *sample,
		       bool app_limited, u64 now_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 delivered = div_u64(flow->rate_incoming * (tp->srtt_us >> 3), USEC_PER_SEC);
	struct fold_lost lost = {
		.cwnd = tcp_snd_cwnd(tp),
		.asked = asked(tp, flow),
		.app_limited = app_limited,
	};
	struct fold_resumed to;

	delivered = div_u64(delivered, max_t(u32, tp->mss_cache, 1));
	lost.used = max_t(u64, delivered, sample->packets_in_flight + sample->packets_acked);
	to = fold_resume(&flow->limit, &lost);
	flow->governed = false;
	flow->answers_all = false;
	flow->limit = (struct fold_limit){};
	flow->lost_at = now_us;
	flow->next_create = now_us;
	ccp_fallback_resume(sk, to.cwnd, to.ssthresh);
	pr_info_ratelimited("flow %u: the agent has not answered, CUBIC takes over\n", flow->sid);
}

static void on_ack(struct sock *sk, const struct rate_sample *rs)
{
	struct ccp_flow *flow = ccp_ca(sk)->flow;
	struct tcp_sock *tp = tcp_sk(sk);
	struct fold_sample sample = {};
	u64 now_us = tp->tcp_mstamp;
	bool start, came;

	if (!flow) {
		ccp_fallback_ack(sk, rs);
		/* The ACK of a SYN comes before .init, which clears what is in the socket. */
		if (inet_csk(sk)->icsk_ca_initialized && now_us >= ccp_ca(sk)->next_open)
			open_flow(sk);
		return;
	}
	measure(tp, rs, flow, &sample);
	came = ccp_take_mail(flow, &start);
	if (came) {
		answered(flow, now_us);
		/* What was sent before the program told of a timeout is no answer to it. */
		if (!sample.was_timeout && fold_commands(&flow->staged))
			fold_limit_answered(&flow->limit);
	}
	/* One that was lost comes back with a message alone. */
	if (flow->program && (came || (flow->governed && !is_lost(flow, tp, now_us)))) {
		run_program(sk, flow, &sample, start, now_us);
		return;
	}
	if (flow->governed)
		lose_agent(sk, flow, &sample, rs->is_app_limited || tp->app_limited, now_us);
	ccp_fallback_ack(sk, rs);
	if (now_us >= flow->next_create) {
		announce(sk, flow, now_us);
		flow->next_create = now_us + CREATE_INTERVAL_US;
	}
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
static void ccp_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	on_ack(sk, rs);
}
#else
static void ccp_cong_control(struct sock *sk, const struct rate_sample *rs)
{
	on_ack(sk, rs);
}
#endif

static bool is_governed(const struct sock *sk)
{
	const struct ccp_flow *flow = ccp_ca(sk)->flow;

	return flow && flow->governed;
}

/* A reduction begins, whoever governs it; a program answers losses by itself. */
static u32 ccp_ssthresh(struct sock *sk)
{
	ccp_ca(sk)->prr_delivered = 0;
	return is_governed(sk) ? max_t(u32, tcp_snd_cwnd(tcp_sk(sk)), 2) : ccp_cubic_ssthresh(sk);
}

static u32 ccp_undo_cwnd(struct sock *sk)
{
	if (!is_governed(sk))
		return tcp_reno_undo_cwnd(sk);
	/* The next ACK sets the program's window again. */
	ccp_ca(sk)->flow->limit = (struct fold_limit){};
	return tcp_snd_cwnd(tcp_sk(sk));
}

static void ccp_set_state(struct sock *sk, u8 next)
{
	struct ccp_flow *flow = ccp_ca(sk)->flow;
	struct tcp_sock *tp = tcp_sk(sk);

	if (next == TCP_CA_Loss && flow) {
		if (ccp_is_timeout(tp)) {
			flow->was_timeout = true;
			if (flow->governed)
				fold_limit_timeout(&flow->limit, tcp_snd_cwnd(tp),
						   tp->packets_out - tp->sacked_out);
		} else {
			/* Packets that have become too large are no sign of congestion. */
			flow->lost = tp->lost;
		}
	}
	if (!is_governed(sk))
		ccp_fallback_state(sk, next);
}

/* After idle. A pacing rate keeps a burst from leaving; without one the window has to. */
static void restart_after_idle(struct sock *sk)
{
	struct ccp_flow *flow = ccp_ca(sk)->flow;
	u32 restart;

	if (!is_governed(sk)) {
		ccp_fallback_restart(sk);
		return;
	}
	restart = ccp_window_after_idle(sk);
	if (!flow->control.rate && restart < tcp_snd_cwnd(tcp_sk(sk))) {
		fold_limit_idle(&flow->limit, restart);
		tcp_snd_cwnd_set(tcp_sk(sk), ccp_packets_allowed(tcp_sk(sk), restart));
	}
}

#ifndef CCP_TX_START
static void ccp_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		restart_after_idle(sk);
}
#endif

const struct tcp_congestion_ops ccp_template = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.owner = THIS_MODULE,
	.init = ccp_init,
	.release = ccp_release,
	.cong_control = ccp_cong_control,
	.ssthresh = ccp_ssthresh,
	.undo_cwnd = ccp_undo_cwnd,
	.set_state = ccp_set_state,
#ifndef CCP_TX_START
	.cwnd_event = ccp_cwnd_event,
#else
	.cwnd_event_tx_start = restart_after_idle,
#endif
};
