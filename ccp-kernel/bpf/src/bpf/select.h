/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/* What select.bpf.c shares with user space, which fills its map. */
#ifndef SELECT_H
#define SELECT_H

#define MAX_PREFIXES 1024

/* Of remote addresses; those of IPv4 as ::ffff:a.b.c.d. */
struct prefix {
	__u32 bits;
	__u32 address[4]; /* network byte order */
};

/* A congestion control's name, with its NUL. */
struct algorithm {
	char name[16];
};

#endif
