// SPDX-License-Identifier: MIT
/* subscribers.c - see subscribers.h. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "subscribers.h"

static bool take_place(struct subscribers *block, peerdma_hook_fn fn, void *arg)
{
	for (int i = 0; i < SUBSCRIBERS_PER_BLOCK; i++) {
		struct subscriber *s = &block->places[i];
		bool is = false;

		if (!atomic_compare_exchange_strong(&s->taken, &is, true))
			continue;
		atomic_store(&s->arg, arg);
		s->process = getpid();
		atomic_store(&s->fn, fn);
		return true;
	}
	return false;
}

/* Returns the next block, and allocates it if necessary. NULL: out of memory. */
static struct subscribers *next_block(struct subscribers *block)
{
	struct subscribers *next = atomic_load(&block->next), *fresh;

	if (next)
		return next;
	fresh = calloc(1, sizeof(*fresh));
	if (!fresh)
		return NULL;
	if (atomic_compare_exchange_strong(&block->next, &next, fresh))
		return fresh;
	free(fresh);
	return next;
}

int subscribers_add(struct subscribers *list, peerdma_hook_fn fn, void *arg)
{
	for (; list; list = next_block(list)) {
		if (take_place(list, fn, arg))
			return 0;
	}
	return -ENOMEM;
}

static struct subscriber *find(struct subscribers *list, peerdma_hook_fn fn, const void *arg)
{
	for (; list; list = atomic_load(&list->next)) {
		for (int i = 0; i < SUBSCRIBERS_PER_BLOCK; i++) {
			struct subscriber *s = &list->places[i];

			if (atomic_load(&s->fn) == fn && atomic_load(&s->arg) == arg)
				return s;
		}
	}
	return NULL;
}

/* Whether a child of vfork() is in the function. A child that was killed there does not count. */
static bool child_inside(struct subscriber *s)
{
	pid_t child = atomic_load(&s->child);
	siginfo_t info = { 0 };

	if (!child)
		return false;
	if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) ?
		    errno != ECHILD :
		    !info.si_pid)
		return true;
	atomic_compare_exchange_strong(&s->child, &child, 0);
	return false;
}

void subscribers_remove(struct subscribers *list, peerdma_hook_fn fn, void *arg)
{
	struct subscriber *s = find(list, fn, arg);

	if (!s)
		return;
	atomic_store(&s->fn, NULL);
	/*
	 * `inside` is not reset: a thread that read fn earlier may still increment it, and then
	 * decrements it.
	 */
	while ((atomic_load(&s->inside) || child_inside(s)) && s->process == getpid())
		sched_yield();
	/*
	 * A forked child has none of the threads that were in the function, so the count is
	 * meaningless there.
	 */
	if (s->process != getpid())
		atomic_store(&s->inside, 0);
	atomic_store(&s->taken, false);
}

/*
 * Calls the function in a child of vfork(). False: another child is inside; this one is then
 * counted in `inside`, and if it is killed there, subscribers_remove() waits forever.
 */
static bool call_in_child(struct subscriber *s, const struct peerdma_hook_event *event)
{
	peerdma_hook_fn fn;
	pid_t none = 0;

	if (!atomic_compare_exchange_strong(&s->child, &none, getpid()))
		return false;
	fn = atomic_load(&s->fn);
	if (fn)
		fn(atomic_load(&s->arg), event);
	atomic_store(&s->child, 0);
	return true;
}

static void call(struct subscriber *s, const struct peerdma_hook_event *event)
{
	peerdma_hook_fn fn;

	if (!atomic_load(&s->fn) || (s->process != getpid() && call_in_child(s, event)))
		return;
	/*
	 * Count before reading fn again. Either the unsubscribing thread sees the count, or this
	 * thread sees that fn is NULL.
	 */
	atomic_fetch_add(&s->inside, 1);
	fn = atomic_load(&s->fn);
	if (fn)
		fn(atomic_load(&s->arg), event);
	atomic_fetch_sub(&s->inside, 1);
}

void subscribers_call(struct subscribers *list, const struct peerdma_hook_event *event)
{
	for (; list; list = atomic_load(&list->next)) {
		for (int i = 0; i < SUBSCRIBERS_PER_BLOCK; i++)
			call(&list->places[i], event);
	}
}
