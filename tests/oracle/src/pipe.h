/*
 * Commands in, answers out: what the two programs of this package that contain a machine have in common.
 *
 * stdin carries batches, each a u32 length and that many bytes of commands; every batch is answered by
 * a u32 length and that many bytes. Numbers are little-endian. Commands and their answers:
 *
 *   S u64 now_us, u32 init_cwnd, u32 mss   closes the flow and starts another       messages
 *   M u32 n, n bytes                       a datagram of the agent                  i32 result
 *   A u64 now_us, primitives               one ACK                                  outcome
 *   D                                      every register                           242 x u64
 *   B u64 now_us, u64 step_us, u32 n, primitives   n ACKs, timed                    u64 nanoseconds
 *
 *   messages:   u32 bytes, then what the machine sent
 *   outcome:    i32 result, u32 cwnd, u64 rate, u64 digest of every register, messages
 *   primitives: the fields of anole_datapath::AckSample in their order
 */
#ifndef PIPE_H
#define PIPE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct buffer { char *bytes; size_t used, room; };
static struct buffer sent, answer;

static void put(struct buffer *b, const void *bytes, size_t n) {
    if (n == 0) return;
    if (b->used + n > b->room) {
        b->room = (b->used + n) * 2;
        b->bytes = realloc(b->bytes, b->room);
        if (b->bytes == NULL) exit(3);
    }
    memcpy(b->bytes + b->used, bytes, n);
    b->used += n;
}

static const char *take(const char **at, const char *end, size_t n) {
    const char *here = *at;
    if ((size_t) (end - here) < n) {
        fprintf(stderr, "a command is cut off\n");
        exit(2);
    }
    *at += n;
    return here;
}

static uint32_t take_u32(const char **at, const char *end) {
    uint32_t value;
    memcpy(&value, take(at, end, 4), 4);
    return value;
}

static uint64_t take_u64(const char **at, const char *end) {
    uint64_t value;
    memcpy(&value, take(at, end, 8), 8);
    return value;
}

static uint64_t digest;
static void add_to_digest(uint64_t value) {
    digest = (digest ^ value) * 0x9e3779b97f4a7c15ull;
    digest ^= digest >> 29;
}
static void add_to_answer(uint64_t value) { put(&answer, &value, 8); }

static void put_messages(void) {
    uint32_t bytes = sent.used;
    put(&answer, &bytes, 4);
    put(&answer, sent.bytes, sent.used);
    sent.used = 0;
}

/* Answers batches until stdin ends; `command` runs one command. */
static int serve(void (*command)(char, const char **at, const char *end)) {
    struct buffer batch = { 0 };
    uint32_t length;
    while (fread(&length, 4, 1, stdin) == 1) {
        if (length > batch.room) {
            batch.room = length;
            batch.bytes = realloc(batch.bytes, length);
            if (batch.bytes == NULL) return 3;
        }
        if (length > 0 && fread(batch.bytes, length, 1, stdin) != 1) return 2;
        const char *at = batch.bytes, *end = batch.bytes + length;
        answer.used = 0;
        while (at < end) command(*take(&at, end, 1), &at, end);
        uint32_t size = answer.used;
        fwrite(&size, 4, 1, stdout);
        if (size > 0) fwrite(answer.bytes, size, 1, stdout);
        fflush(stdout);
    }
    free(batch.bytes);
    free(answer.bytes);
    free(sent.bytes);
    return 0;
}

static void unknown_command(char name) {
    fprintf(stderr, "unknown command %d\n", name);
    exit(2);
}

#endif
