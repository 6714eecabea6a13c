/* SPDX-License-Identifier: MIT */
/*
 * pair_line.h - lines between the two ends of `peerdma doctor --pair --probe`, version 1.
 *
 * The served end begins with a greeting.  Then the asking end sends a command, and gets one answer: "ok" and
 * values, or "error" and why.  Words have one blank between them.
 *
 *	open DEVICE GPU GID	RDMA device; PCI address of a GPU, or "-"; index of a GID, or "-"	ok
 *	use MEMORY		registers "host", "dma-buf" or "peer-memory"				ok ADDRESS RKEY
 *	offer			a new queue pair							ok QP LID MTU GID
 *	meet QP LID MTU GID ADDRESS RKEY	connects it, to memory of the asking end		ok
 *	fill SALT		fills the memory with a pattern						ok
 *	check SALT		compares the memory with it						ok WRONG FIRST
 *	carry write|read	from the served end's memory to the other's; or back into it		ok
 *	close			ends what open began, if anything					ok
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rdma.h"

#define PAIR_GREETING	"peerdma-pair 1"
#define LINE_BYTES	400		/* the longest, with its end */
#define WORDS		8

struct line_end {
	int in, out;
	size_t used;
	char buf[LINE_BYTES];	/* read, and not handed out */
};

/*
 * The next line, without its end, within so many seconds; `slow' is called after two.  0, -ENODATA: there are
 * no more, -ETIMEDOUT, -EMSGSIZE: too long, -EBADMSG: cut off, or not text; or another -errno.
 */
int line_get(struct line_end *l, unsigned int seconds, void (*slow)(void), char out[LINE_BYTES]);
int line_put(struct line_end *l, const char *text, ...) __attribute__((format(printf, 2, 3)));
const char *line_error(int error);

/* In words, at single blanks; the line is changed.  0: more than WORDS, or one is empty. */
size_t line_words(char *line, char *words[WORDS]);
bool line_number(const char *word, uint64_t max, uint64_t *out);

#define LINE_GID	33
const char *line_gid(const uint8_t gid[16], char out[LINE_GID]);
/* QP LID MTU GID */
bool line_queue(char *const words[4], struct rdma_end *out);
