/* SPDX-License-Identifier: MIT */
/*
 * fake_rdma.h - a stand-in for libibverbs with one device, "fake0", whose queue pairs, connected to
 * themselves or to each other, carry bytes from one registered region of this process to another, and do
 * what they are told to do wrong.
 *
 * Transfers count from 1 since fake_rdma() was last zeroed.
 */
#pragma once

#include <stdbool.h>

struct fake_rdma {
	int lose;		/* this transfer reports success and moves nothing */
	int flip;		/* this one moves one byte wrong */
	int fail;		/* this one reports an error, which ends the queue pair */
	bool late;		/* what is written is there only when a read comes after it */
	int port_down;		/* so many ports are down */
	int bad_gids;		/* over so many of the last addresses nothing comes back */
	int reg_error;		/* of memory that is `not_host` */
	char *not_host;		/* one such region, and its length */
	unsigned long not_host_length;
	int dmabuf_error;
	int kernel_error;	/* of dma-bufs that are registered past the provider; 0: EOPNOTSUPP, -1: none */
	int create_error;	/* of queue pairs */
	int open_error, pd_error, cq_error, post_error;
	int slow;		/* so many looks at the queue see nothing yet */
	int poll_error;		/* what a look returns then, if not 0 */
	bool lid;		/* an InfiniBand port's */
	int transfers, live, dmabufs, past;	/* counted; past: dma-bufs that no provider registered; live: objects that were not given back */
};

struct fake_rdma *fake_rdma(void);
