/* SPDX-License-Identifier: MIT */
/*
 * cards.h - the FPGA cards: finding them, and copying with several at once.
 */
#ifndef FPGA_CARDS_H
#define FPGA_CARDS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "fpga_ioctl.h"
#include "util.h"

#define CARDS_MAX	32

struct card {
	int fd;
	char node[16];		/* "/dev/fpga0" */
	char pci[20];
	struct fpga_info info;	/* as of cards_open() */
};

/*
 * list: "all", or indices as in "0,2". On failure returns false and sets why, as do all
 * calls here with `why'.
 */
bool cards_open(const char *list, struct card cards[CARDS_MAX], int *count, struct why *why);
void cards_close(struct card cards[], int count);

/* Memory as it is passed to a card. */
struct place {
	uint64_t addr;		/* address in this process, or offset in the dma-buf */
	int dmabuf;		/* 0: none */
};

/* Sums of the cards' counters now. */
struct card_totals {
	uint64_t busy;		/* transfers under way */
	uint64_t transfers;	/* begun so far */
	uint64_t interrupts;
	uint64_t bytes_read;
	uint64_t bytes_written;
	uint64_t revocations;
	uint64_t pins;
	uint64_t mappings;
};
bool cards_totals(const struct card cards[], int count, struct card_totals *totals,
		  struct why *why);

/* One card's part of a job. */
struct part {
	struct card *card;
	pthread_t thread;
	bool started;
	atomic_bool ended;
	uint64_t transfers_before;	/* the card's count when the part was started */
	struct fpga_copy copy;
	int error;		/* 0 or errno */
};

/*
 * A copy of one range, divided into a part per card (fewer if it is short), each in a
 * thread of its own. job_start() returns at once, job_wait() when all parts have ended;
 * between them the memory may be freed, to see what happens.
 */
struct job {
	struct part parts[CARDS_MAX];
	int count;
	uint64_t length;
	uint64_t begun_ns;
	/* Set by job_wait(): sums over the parts. */
	uint64_t done;
	uint64_t transfers;
	uint64_t interrupts;
	uint64_t time_ns;	/* elapsed time */
	int error;		/* of the first part that failed */
	struct card *failed;
};
bool job_start(struct job *job, struct card cards[], int count, struct place dst, struct place src,
	       uint64_t length, struct why *why);
bool job_running(const struct job *job);
/* Returns when each part has begun that many transfers, or has ended. */
void job_wait_begun(const struct job *job, uint64_t transfers);
void job_wait(struct job *job);
/* The same; if it takes over two seconds, shows the progress on that terminal. */
void job_wait_shown(struct job *job, FILE *terminal);
/* The same in one call: false and why when a part failed. */
bool job_run(struct job *job, struct card cards[], int count, struct place dst, struct place src,
	     uint64_t length, struct why *why);
/* Describes the failure: which card, what happened, what to do. */
void job_why(const struct job *job, struct why *why);

#endif
