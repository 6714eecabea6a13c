/* SPDX-License-Identifier: MIT */
/*
 * other.h - another process that does what it is asked: exports, frees, ends.  It is a forked
 * child, and has to be made before this process uses the library itself.
 */
#pragma once

#include <sys/prctl.h>
#include <sys/socket.h>

#include "../lib/checks.h"
#include "peerdma_ipc.h"

enum other_op {
	OTHER_ALLOC,		/* value bytes, filled with `fill`, exported from `offset` with flags */
	OTHER_FREE,
	OTHER_UNEXPORT,
	OTHER_FILL,
	OTHER_SIGNAL,		/* a signal of that value, with flags */
	OTHER_SET,
	OTHER_WAIT,		/* until the signal is `value`, or a second */
	OTHER_CLOSE,
	OTHER_OPEN,		/* the handle's memory: answers its first byte */
	OTHER_OPEN_SIGNAL,
	OTHER_GET,
	OTHER_FORK,		/* leaves a child behind that sleeps; answers its pid */
	OTHER_EXIT,
	OTHER_EXEC,
	OTHER_STOP,
	OTHER_SILENT,		/* closes all descriptors but the one that it is asked by */
};

struct other_ask {
	int op;				/* enum other_op */
	uint32_t flags;
	uint64_t value, offset;
	uint8_t fill;
	struct peerdma_ipc_handle handle;
};

struct other_answer {
	int ret;
	uint64_t value;
	struct peerdma_ipc_handle handle;
};

struct other {
	pid_t pid;
	int sock;
};

static struct {
	char *memory;
	uint64_t length;
	struct peerdma_ipc_handle handle;
	struct peerdma_ipc_signal *signal;
	struct peerdma_ipc_memory *opened;
	int sock;
} own;

static inline void other_do(const struct other_ask *ask, struct other_answer *answer)
{
	void *p;
	pid_t pid;

	switch ((enum other_op)ask->op) {
	case OTHER_ALLOC:
		answer->ret = peerdma_ipc_alloc(ask->value, 0, &p);
		if (answer->ret)
			break;
		own.memory = p;
		own.length = ask->value;
		memset(own.memory, ask->fill, own.length);
		answer->ret = peerdma_ipc_export(own.memory + ask->offset, own.length - ask->offset, ask->flags, &own.handle);
		answer->handle = own.handle;
		answer->value = (uintptr_t)own.memory;
		break;
	case OTHER_FREE:
		answer->ret = peerdma_ipc_free(own.memory);
		break;
	case OTHER_UNEXPORT:
		answer->ret = peerdma_ipc_unexport(&own.handle);
		break;
	case OTHER_FILL:
		memset(own.memory, ask->fill, own.length);
		break;
	case OTHER_SIGNAL:
		answer->ret = peerdma_ipc_signal_create(ask->value, ask->flags, &own.signal);
		if (!answer->ret)
			answer->ret = peerdma_ipc_signal_export(own.signal, &answer->handle);
		break;
	case OTHER_SET:
		answer->ret = peerdma_ipc_signal_set(own.signal, ask->value);
		break;
	case OTHER_WAIT:
		answer->ret = peerdma_ipc_signal_wait(own.signal, PEERDMA_IPC_EQ, ask->value, 1000000000, &answer->value);
		break;
	case OTHER_CLOSE:
		answer->ret = peerdma_ipc_signal_close(own.signal);
		break;
	case OTHER_OPEN:
		answer->ret = peerdma_ipc_open(&ask->handle, sizeof(ask->handle), 0, &own.opened);
		if (!answer->ret)
			answer->value = *(uint8_t *)own.opened->ptr;
		break;
	case OTHER_OPEN_SIGNAL:
		answer->ret = peerdma_ipc_signal_open(&ask->handle, sizeof(ask->handle), &own.signal);
		break;
	case OTHER_GET:
		answer->value = peerdma_ipc_signal_get(own.signal);
		break;
	case OTHER_FORK:
		pid = fork();
		if (!pid) {
			close(own.sock);
			prctl(PR_SET_PDEATHSIG, 0);
			for (;;)
				pause();
		}
		answer->value = (uint64_t)pid;
		break;
	case OTHER_EXIT:
		exit(0);
	case OTHER_EXEC:
		execl("/bin/sleep", "sleep", "100", NULL);
		break;
	case OTHER_STOP:
		raise(SIGSTOP);
		break;
	case OTHER_SILENT:
		for (int fd = 3; fd < 100; fd++) {
			if (fd != own.sock)
				close(fd);
		}
		break;
	}
}

static inline struct other other_make(uid_t uid)
{
	struct other o;
	int pair[2];

	MUST(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	o.pid = fork();
	if (!o.pid) {
		struct other_ask ask;
		struct other_answer answer;

		if (uid != getuid() && setresuid(uid, uid, uid))
			_exit(9);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		own.sock = pair[1];
		while (read(pair[1], &ask, sizeof(ask)) == sizeof(ask)) {
			memset(&answer, 0, sizeof(answer));
			other_do(&ask, &answer);
			if (write(pair[1], &answer, sizeof(answer)) != sizeof(answer))
				break;
		}
		_exit(0);
	}
	close(pair[1]);
	o.sock = pair[0];
	return o;
}

/* Without an answer: ret is -EPIPE. */
static inline struct other_answer other_ask(struct other *o, struct other_ask ask)
{
	struct other_answer answer = { .ret = -EPIPE };

	if (write(o->sock, &ask, sizeof(ask)) != sizeof(ask) || read(o->sock, &answer, sizeof(answer)) != sizeof(answer))
		answer.ret = -EPIPE;
	return answer;
}

static inline void other_end(struct other *o, int sig)
{
	if (sig)
		kill(o->pid, sig);
	close(o->sock);
	waitpid(o->pid, NULL, 0);
}

#define ASK(other, ...) other_ask(other, (struct other_ask) { .op = __VA_ARGS__ })
