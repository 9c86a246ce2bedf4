/* SPDX-License-Identifier: GPL-2.0-only */
/* What an ACK tells, in the terms of the language's primitives. */
#ifndef SAMPLE_BPF_H
#define SAMPLE_BPF_H

#include "flow.bpf.h"
#include "fallback.bpf.h"

static __always_inline void measure(struct tcp_sock *tp, const struct rate_sample *rs, struct flow *f,
				    struct fold_sample *sample)
{
	u32 mss = tp->mss_cache, sacked = tp->sacked_out, newly = sacked - f->sacked;
	s64 bytes = tp->bytes_acked - f->bytes_acked + (s64)(s32)newly * mss;
	u32 lost = tp->lost, marked = tp->delivered_ce;

	/* Cumulatively or selectively, each byte counts once; selective ones are whole packets. */
	sample->bytes_acked = bytes > 0 ? bytes : 0;
	sample->packets_acked = rs->acked_sacked;
	if ((s32)newly > 0) {
		sample->packets_misordered = newly;
		sample->bytes_misordered = newly * mss;
	}
	sample->ecn_packets = marked - f->delivered_ce;
	sample->ecn_bytes = sample->ecn_packets * mss;
	/* Not the sample's own count, which leaves out what a timeout found lost. */
	sample->lost_packets = lost - f->lost;
	sample->was_timeout = f->was_timeout;
	sample->rtt_us = rs->rtt_us > 0 ? rs->rtt_us : 0;
	/* A sample that is not valid leaves the rates as they were. */
	if (rs->delivered > 0 && rs->interval_us > 0) {
		u64 delivered = (u64)rs->delivered * mss * 1000000;

		if (rs->snd_interval_us)
			f->rate_outgoing = delivered / rs->snd_interval_us;
		if (rs->rcv_interval_us)
			f->rate_incoming = delivered / rs->rcv_interval_us;
	}
	sample->rate_outgoing = f->rate_outgoing;
	sample->rate_incoming = f->rate_incoming;
	sample->packets_in_flight = in_flight(tp);
	sample->bytes_in_flight = sample->packets_in_flight * mss;
	sample->bytes_pending = fold_pending(tp->write_seq - tp->snd_nxt, tp->lost_out, tp->retrans_out, mss);
	f->lost = lost;
	f->sacked = sacked;
	f->delivered_ce = marked;
	f->bytes_acked = tp->bytes_acked;
	f->was_timeout = 0;
	f->acked = rs->acked_sacked;
	f->app_limited = rs->is_app_limited || tp->app_limited;
}

#endif
