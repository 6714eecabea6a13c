// SPDX-License-Identifier: MIT
/* fake_ucm.c - see fake_ucm.h.  Names, numbers and types are those of <ucm/api/ucm.h>. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake_ucm.h"

#define UCM_MUNMAP	(1 << 1)
#define UCM_VM_UNMAPPED	(1 << 17)
#define MOST		8

union event {
	struct {
		int result;
		void *address;
		size_t size;
	} munmap;
	struct {
		void *address;
		size_t size;
	} unmapped;
};

typedef void (*callback)(int type, union event *event, void *arg);

struct fake_ucm fake_ucm;

static struct handler {
	int events, priority;
	callback fn;
	void *arg;
} handlers[MOST];

int ucm_set_event_handler(int events, int priority, callback fn, void *arg);
int ucm_set_event_handler(int events, int priority, callback fn, void *arg)
{
	void (*meanwhile)(void) = fake_ucm.meanwhile;

	fake_ucm.meanwhile = NULL;
	if (meanwhile)
		meanwhile();
	if (++fake_ucm.calls == fake_ucm.refuse || fake_ucm.handlers == MOST)
		return fake_ucm.error;
	handlers[fake_ucm.handlers++] = (struct handler){ events, priority, fn, arg };
	return 0;
}

void ucm_unset_event_handler(int events, callback fn, void *arg);
void ucm_unset_event_handler(int events, callback fn, void *arg)
{
	int left = 0;

	/* All of them, whichever library set them. */
	for (int i = 0; i < fake_ucm.handlers; i++) {
		if (handlers[i].events != events || handlers[i].fn != fn || handlers[i].arg != arg)
			handlers[left++] = handlers[i];
	}
	fake_ucm.handlers = left;
}

/* The call itself has priority 0. */
static void report(int type, bool before, union event event)
{
	for (int i = 0; i < fake_ucm.handlers; i++) {
		if (handlers[i].events & type && before == (handlers[i].priority < 0))
			handlers[i].fn(type, &event, handlers[i].arg);
	}
}

static void goes(int call, void *p, size_t length)
{
	if (fake_ucm.reports & call)
		report(UCM_VM_UNMAPPED, true, (union event){ .unmapped = { p, length } });
}

int munmap(void *p, size_t length)
{
	union event event = { .munmap = { -1, p, length } };

	if (!(fake_ucm.reports & FAKE_MUNMAP))
		return (int)syscall(SYS_munmap, p, length);
	goes(FAKE_MUNMAP, p, length);
	report(UCM_MUNMAP, true, event);
	event.munmap.result = (int)syscall(SYS_munmap, p, length);
	report(UCM_MUNMAP, false, event);
	return event.munmap.result;
}

void *mremap(void *p, size_t length, size_t longer, int flags, ...)
{
	va_list args;
	void *to;

	va_start(args, flags);
	to = flags & MREMAP_FIXED ? va_arg(args, void *) : NULL;
	va_end(args);
	goes(FAKE_MREMAP, p, length);
	return (void *)syscall(SYS_mremap, p, length, longer, flags, to);
}

int madvise(void *p, size_t length, int advice)
{
	if (advice == MADV_DONTNEED)
		goes(FAKE_MADVISE, p, length);
	return (int)syscall(SYS_madvise, p, length, advice);
}
