// SPDX-License-Identifier: GPL-2.0-only
/*
 * The window of the netlink module's fallback (ccp-kernel/module/cubic.c) behind a pipe, in user space, with
 * what TCP does around it: kernel-headers/. Commands of pipe.h:
 *
 *   S u32 cwnd, u32 clamp                      congestion avoidance from this window on, flat
 *   A u64 now_us, u32 srtt_us, u32 acked       packets were acknowledged
 *   L                                          a loss; the window is at its threshold afterwards
 *   T                                          a retransmission timeout
 *   I u64 now_us, u32 idle_ms                  nothing was sent for so long
 *
 * The answer to each is u32 cwnd, u32 ssthresh, in packets.
 */
#include "../../../ccp-kernel/module/cubic.c"
#include "pipe.h"

static struct sock sk;
u32 tcp_jiffies32;

static void command(char name, const char **at, const char *end) {
    switch (name) {
        case 'S':
            memset(&sk, 0, sizeof sk);
            sk.snd_cwnd = sk.snd_ssthresh = take_u32(at, end);
            sk.snd_cwnd_clamp = take_u32(at, end);
            ccp_cubic_reset(&sk);
            break;
        case 'A':
            sk.tcp_mstamp = take_u64(at, end);
            sk.srtt_us = take_u32(at, end) << 3;
            ccp_cubic_ack(&sk, take_u32(at, end));
            break;
        case 'L': sk.snd_cwnd = sk.snd_ssthresh = ccp_cubic_ssthresh(&sk); break;
        case 'T':
            /* As tcp_enter_loss(): a timeout before the window grew again leaves the threshold. */
            if (sk.snd_cwnd > 1) sk.snd_ssthresh = ccp_cubic_ssthresh(&sk);
            sk.snd_cwnd = 1;
            ccp_cubic_timeout(&sk);
            break;
        case 'I':
            sk.tcp_mstamp = take_u64(at, end);
            tcp_jiffies32 = sk.lsndtime + take_u32(at, end);
            ccp_cubic_skip_idle(&sk);
            sk.lsndtime = tcp_jiffies32;
            break;
        default: unknown_command(name);
    }
    put(&answer, &sk.snd_cwnd, 4);
    put(&answer, &sk.snd_ssthresh, 4);
}

int main(void) { return serve(command); }
