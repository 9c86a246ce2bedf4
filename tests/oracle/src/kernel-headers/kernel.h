/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What ccp-kernel/module/cubic.c uses of Linux, for user space: types and functions of the kernel's by name
 * and meaning. `struct sock` is the TCP socket itself, and the window is always in use.
 */
#ifndef KERNEL_H
#define KERNEL_H

#include <stdbool.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;
typedef int refcount_t;
typedef int spinlock_t;

#define KERNEL_VERSION(a, b, c) ((a) << 16 | (b) << 8 | (c))
#define LINUX_VERSION_CODE      KERNEL_VERSION(6, 12, 0)
#define USEC_PER_MSEC           1000
#define U32_MAX                 UINT32_MAX
#define ICSK_CA_PRIV_SIZE       104
#define BUILD_BUG_ON(condition) _Static_assert(!(condition), #condition)

#define min_t(type, a, b) ((type) (a) < (type) (b) ? (type) (a) : (type) (b))
#define max_t(type, a, b) ((type) (a) > (type) (b) ? (type) (a) : (type) (b))
#define min(a, b)         min_t(__typeof__(a), a, b)
#define max(a, b)         max_t(__typeof__(a), a, b)

static inline u64 div_u64(u64 a, u32 b) { return a / b; }
static inline u64 div64_u64(u64 a, u64 b) { return a / b; }

struct rcu_head { int unused; };
struct tcp_congestion_ops { int unused; };
struct rate_sample { int unused; };

struct sock {
    u32 snd_cwnd, snd_cwnd_cnt, snd_cwnd_clamp, snd_ssthresh;
    u32 srtt_us; /* times 8 */
    u64 tcp_mstamp;
    u32 lsndtime;
    u64 ca[ICSK_CA_PRIV_SIZE / 8];
};
#define tcp_sock sock

extern u32 tcp_jiffies32; /* a clock of 1000 Hz */

static inline struct sock *tcp_sk(const struct sock *sk) { return (struct sock *) sk; }
static inline void *inet_csk_ca(const struct sock *sk) { return (void *) sk->ca; }
static inline u32 tcp_snd_cwnd(const struct sock *sk) { return sk->snd_cwnd; }
static inline void tcp_snd_cwnd_set(struct sock *sk, u32 cwnd) { sk->snd_cwnd = cwnd; }
static inline bool tcp_is_cwnd_limited(const struct sock *sk) { return sk->snd_cwnd > 0; }
static inline u32 jiffies_to_msecs(u32 jiffies) { return jiffies; }

/* One packet more for each packet acknowledged, up to the threshold; returns the packets beyond it. */
static inline u32 tcp_slow_start(struct sock *sk, u32 acked) {
    u32 growth = min_t(u32, acked, sk->snd_ssthresh - sk->snd_cwnd);
    sk->snd_cwnd = min_t(u32, sk->snd_cwnd + growth, sk->snd_cwnd_clamp);
    return acked - growth;
}

/* One packet more for every `w` packets acknowledged. */
static inline void tcp_cong_avoid_ai(struct sock *sk, u32 w, u32 acked) {
    if (sk->snd_cwnd_cnt >= w) {
        sk->snd_cwnd_cnt = 0;
        sk->snd_cwnd++;
    }
    sk->snd_cwnd_cnt += acked;
    if (sk->snd_cwnd_cnt >= w) {
        u32 growth = sk->snd_cwnd_cnt / w;
        sk->snd_cwnd_cnt -= growth * w;
        sk->snd_cwnd += growth;
    }
    sk->snd_cwnd = min_t(u32, sk->snd_cwnd, sk->snd_cwnd_clamp);
}

#endif
