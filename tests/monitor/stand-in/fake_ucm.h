/* SPDX-License-Identifier: MIT */
/*
 * fake_ucm.h - a stand-in for UCX's libucm.so.0: it sets handlers or refuses to, and reports the calls of munmap(), mremap() and
 * madvise() that it is told to report.
 */
#ifndef FAKE_UCM_H
#define FAKE_UCM_H

enum { FAKE_MUNMAP = 1, FAKE_MREMAP = 2, FAKE_MADVISE = 4 };

struct fake_ucm {
	int refuse;			/* this call of ucm_set_event_handler(), from 1, fails with `error` */
	int error;
	int reports;			/* FAKE_* */
	int calls, handlers;		/* counted: calls of ucm_set_event_handler(), handlers that are set */
};

extern struct fake_ucm fake_ucm;

#endif
