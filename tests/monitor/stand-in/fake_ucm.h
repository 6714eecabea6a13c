/* SPDX-License-Identifier: MIT */
/*
 * fake_ucm.h - a stand-in for UCX's libucm.so.0. It sets handlers, or refuses to. The test chooses which of munmap(), mremap()
 * and madvise() it reports.
 */
#pragma once

enum { FAKE_MUNMAP = 1, FAKE_MREMAP = 2, FAKE_MADVISE = 4 };

struct fake_ucm {
	int refuse;			/* this call of ucm_set_event_handler(), from 1, fails with `error` */
	int error;
	int reports;			/* FAKE_* */
	void (*meanwhile)(void);	/* called once, while a handler is set */
	int calls, handlers;		/* counted: calls of ucm_set_event_handler(), handlers that are set */
};

extern struct fake_ucm fake_ucm;
