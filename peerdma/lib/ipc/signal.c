// SPDX-License-Identifier: MIT
/*
 * signal.c - values that processes wait for.
 *
 * A waiter sets a bit in the word that counts the changes, then checks the value, and sleeps only
 * while the word is unchanged. A setter changes the value. Then, in one step, it counts the change
 * and clears the bit. If the bit was set, it wakes the waiters. So either the waiter sees the new
 * value, or the setter sees the bit.
 *
 * A signal's creator detects an importer's end by the importer's connection (server.c). An importer
 * detects the creator's end by the creator's `alive` word, and waits for that word and the value
 * together. The kernel wakes only one waiter of `alive`; that waiter wakes the others.
 *
 * GPUs and HSA do not wake waiters, so a waiter then polls the value. HSA's own wait cannot be
 * used, because it does not return after the handler of a Unix signal has run. Unix signals are
 * blocked except during the sleeps between polls, so every handler ends the wait.
 */
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../base/memory.h"
#include "signal.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

#define SPIN_NS		20000ULL
#define POLL_NS		50000ULL	/* interval of polls, if a GPU or HSA changes the value */
/* limit of a sleep, in case a process was killed before it woke the waiters */
#define SLICE_NS	1000000000ULL
#define OLD_SLICE_NS	20000000ULL	/* kernels before 5.16 cannot wait for two words */

struct waitv {			/* struct futex_waitv of newer kernel headers */
	uint64_t value, addr;
	uint32_t flags, reserved;
};

/* ---- creating ---- */

/* Caller holds ipc->lock. Allocates a slot of the arena. IPC_ARENA_SIGNALS: all are in use. */
static uint32_t arena_alloc(struct ipc *ipc)
{
	for (uint32_t i = 0; i < IPC_ARENA_SIGNALS / 64; i++) {
		uint64_t free = ~ipc->arena_taken[i];

		if (free) {
			uint32_t bit = (uint32_t)__builtin_ctzll(free);

			ipc->arena_taken[i] |= 1ULL << bit;
			return i * 64 + bit;
		}
	}
	return IPC_ARENA_SIGNALS;
}

/* Caller holds ipc->lock. Allocates the memory of the value. */
static int alloc_value(struct ipc *ipc, struct ipc_record *r, bool own_page)
{
	void *p;
	int fd, ret;

	if (own_page) {
		ret = ipc_file_make("peerdma-ipc-signal", memory_rounded(sizeof(*r->shared)), false,
				    &r->offer.fd, &p);
		r->arena_number = IPC_ARENA_SIGNALS;
		r->shared = ret ? NULL : p;
		r->file = own_fd(r->offer.fd);
		return ret;
	}
	if (!ipc->arena) {
		ret = ipc_file_make("peerdma-ipc-signals", IPC_ARENA_SIGNALS * sizeof(*ipc->arena),
				    false, &fd, &p);
		if (ret)
			return ret;
		ipc->arena_file = own_fd(fd);
		ipc->arena = p;
	}
	r->arena_number = arena_alloc(ipc);
	if (r->arena_number == IPC_ARENA_SIGNALS)
		return fail(-ENOSPC,
			    "this process has %d signals, the most that it can have; close some",
			    IPC_ARENA_SIGNALS);
	r->shared = &ipc->arena[r->arena_number];
	memset(r->shared, 0, sizeof(*r->shared));
	return 0;
}

static int create(uint64_t value, unsigned int flags, struct peerdma_ipc_signal *s)
{
	struct ipc *ipc = s->ipc;
	struct ipc_record *r;
	uint8_t blob[64] = { 0 };
	int ret = flags & PEERDMA_IPC_HSA ? ipc_hsa_signal_make(value, &s->hsa, blob) : 0;

	if (ret)
		return ret;
	pthread_mutex_lock(&ipc->lock);
	ret = ipc_page_open(ipc);
	if (!ret)
		ret = ipc_record_get(ipc, &s->slot);
	if (ret)
		goto out;
	r = &ipc->records[s->slot];
	r->what = IPC_SIGNAL;
	r->flags = flags;
	r->arena_number = IPC_ARENA_SIGNALS;
	if (flags & PEERDMA_IPC_HSA) {
		r->offer.provider = IPC_HSA;
		memcpy(r->offer.blob, blob, sizeof(blob));
	} else {
		r->offer.provider = IPC_HOST;
		ret = alloc_value(ipc, r, flags & PEERDMA_IPC_ANY_USER);
	}
	if (ret) {
		/* The record was never live, so it can be freed like an ended one. */
		ipc_reap_one(ipc, s->slot);
		goto out;
	}
	s->shared = r->shared;
	s->own_page = r->shared && r->arena_number == IPC_ARENA_SIGNALS;
	if (s->shared)
		__atomic_store_n(&s->shared->value, value, __ATOMIC_RELAXED);
	ipc_record_publish(ipc, s->slot);
	s->generation = r->generation;
	r->openers = 1;		/* this process */
	memcpy(s->key, r->key, IPC_KEY);
out:
	pthread_mutex_unlock(&ipc->lock);
	if (ret && s->hsa)
		ipc_hsa_signal_end(s->hsa);
	return ret;
}

static struct peerdma_ipc_signal *signal_alloc(void)
{
	struct ipc *ipc = ipc_get();
	struct peerdma_ipc_signal *s = ipc ? calloc(1, sizeof(*s)) : NULL;

	if (s) {
		s->ipc = ipc;
		s->refs = 1;
	} else {
		fail(-ENOMEM, "%s", error_words(-ENOMEM));
	}
	return s;
}

EXPORT int peerdma_ipc_signal_create(uint64_t value, unsigned int flags,
				     struct peerdma_ipc_signal **signal)
{
	struct peerdma_ipc_signal *s;
	int was, ret = check_given("peerdma_ipc_signal_create", "signal", signal, NULL);

	if (ret)
		return ret;
	if (flags & ~(PEERDMA_IPC_ANY_USER | PEERDMA_IPC_HSA))
		return fail(-EINVAL, "peerdma_ipc_signal_create: unknown flags; set those of peerdma_ipc.h only");
	was = cancel_off();
	s = signal_alloc();
	ret = s ? create(value, flags, s) : -ENOMEM;
	if (ret)
		free(s);
	else
		*signal = s;
	cancel_back(was);
	return ret ? fail(ret, "peerdma_ipc_signal_create: %s", peerdma_last_error()) : 0;
}

EXPORT int peerdma_ipc_signal_export(struct peerdma_ipc_signal *signal,
				     struct peerdma_ipc_handle *handle)
{
	struct ipc_name name;
	struct ipc_id boot;
	int ret = check_given("peerdma_ipc_signal_export", "signal", signal, "handle", handle,
			      NULL),
	    was;

	if (ret)
		return ret;
	if (!ipc_mine(signal->ipc))
		return ipc_not_mine("peerdma_ipc_signal_export");
	if (signal->exporter)
		return fail(-EINVAL, "peerdma_ipc_signal_export: this is another process's signal; pass on the handle that opened it");
	was = cancel_off();
	ret = ipc_boot(signal->ipc, &boot);
	if (!ret) {
		pthread_mutex_lock(&signal->ipc->lock);
		ipc_record_name(signal->ipc, signal->slot, &name);
		pthread_mutex_unlock(&signal->ipc->lock);
		name.boot = boot;
		ipc_handle_make(&name, handle);
	}
	cancel_back(was);
	return ret ? fail(ret, "peerdma_ipc_signal_export: %s", peerdma_last_error()) : 0;
}

/* ---- opening ---- */

/* Caller holds ipc->lock. */
static int map_value(struct peerdma_ipc_signal *s, const struct ipc_reply *reply, int fd)
{
	struct ipc_exporter *exporter = s->exporter;
	void *p;
	int ret;

	if (reply->arena_number < IPC_ARENA_SIGNALS) {
		if (!exporter->arena) {
			ret = ipc_file_map(fd, IPC_ARENA_SIGNALS * sizeof(*exporter->arena), true,
					   &p);
			if (ret)
				return ret;
			exporter->arena = p;
		}
		s->shared = &exporter->arena[reply->arena_number];
		return 0;
	}
	ret = ipc_file_map(fd, memory_rounded(sizeof(*s->shared)), true, &p);
	if (!ret)
		s->shared = p;
	s->own_page = !ret;
	return ret;
}

/*
 * Caller holds ipc->lock; released meanwhile. Sends the request on an existing link, or on a new
 * one. The exporter may have closed a link that was idle; then another link is used.
 */
static int ask(struct peerdma_ipc_signal *s, const struct ipc_name *name, struct ipc_reply *reply,
	       int fds[IPC_FDS])
{
	struct ipc *ipc = s->ipc;
	bool used;
	int ret;

	do {
		s->link = ipc_link_get(s->exporter, name->uid, &s->number);
		if (!s->link)
			return -ENOMEM;
		used = s->number;
		pthread_mutex_unlock(&ipc->lock);
		ret = ipc_request(name, IPC_OP_SIGNAL, s->number, reply, fds, &s->link->conn);
		pthread_mutex_lock(&ipc->lock);
		if (ret)
			ipc_link_drop(ipc, s->link, s->exporter, s->number, reply->error != ret);
	} while (ret == -EOWNERDEAD && used);
	return ret;
}

/*
 * Caller holds ipc->lock; released meanwhile. Finds out whether HSA failed because the signal's
 * creator is ending; see why_failed() in open.c.
 */
static int why_failed(struct ipc *ipc, struct ipc_exporter *exporter, const struct ipc_name *name,
		      int error)
{
	struct peerdma_ipc_signal again = { .ipc = ipc, .exporter = exporter };
	int fds[IPC_FDS] = { -1, -1 }, ret;
	uint32_t was = attempt_begin();
	struct ipc_reply reply;

	ret = ask(&again, name, &reply, fds);
	if (!ret) {
		ipc_link_keep(exporter, again.link);
		ipc_link_drop(ipc, again.link, exporter, again.number, false);
	}
	pthread_mutex_unlock(&ipc->lock);
	ipc_close_fds(name, fds);
	pthread_mutex_lock(&ipc->lock);
	return ipc_ended(was, ret, error);
}

/*
 * Caller holds ipc->lock; released meanwhile. Opens HSA's signal. Its creator may close it or end
 * meanwhile.
 */
static int open_hsa(struct peerdma_ipc_signal *s, const struct ipc_name *name,
		    const struct ipc_reply *reply)
{
	int ret, live;

	pthread_mutex_unlock(&s->ipc->lock);
	ret = ipc_hsa_signal_open(reply->blob, &s->hsa);
	live = ipc_exporter_live(s->exporter, s->slot, s->generation);
	if (live && !ret)
		ipc_hsa_signal_end(s->hsa);
	pthread_mutex_lock(&s->ipc->lock);
	if (live)
		return ipc_fail_live(s->exporter, live);
	return ret == -EIO ? why_failed(s->ipc, s->exporter, name, ret) : ret;
}

/* Caller holds ipc->lock; released meanwhile. Opens the signal that the answer describes. */
static int open_reply(struct peerdma_ipc_signal *s, const struct ipc_name *name,
		      const struct ipc_reply *reply, const int fds[IPC_FDS])
{
	struct ipc *ipc = s->ipc;
	int ret = s->exporter ? 0 : ipc_exporter_get(ipc, name, fds[0], &s->exporter);

	if (ret) {
		ipc_link_drop(ipc, s->link, NULL, s->number, true);
		return ret;
	}
	ipc_link_keep(s->exporter, s->link);
	if (reply->provider == IPC_HOST)
		ret = map_value(s, reply, fds[1]);
	else if (reply->provider == IPC_HSA)
		ret = open_hsa(s, name, reply);
	else
		ret = fail(-EPROTO,
			   "the signal is of a provider that this release does not know (%u)",
			   reply->provider);
	if (ret)
		ipc_link_drop(ipc, s->link, s->exporter, s->number, false);
	return ret;
}

static int open_signal(struct peerdma_ipc_signal *s, const struct ipc_name *name)
{
	struct ipc *ipc = s->ipc;
	int fds[IPC_FDS] = { -1, -1 }, ret;
	struct ipc_reply reply;

	s->slot = name->slot;
	s->generation = name->generation;
	memcpy(s->key, name->key, IPC_KEY);
	ret = ipc_name_check(ipc, name);
	if (ret)
		return ret;
	pthread_mutex_lock(&ipc->lock);
	s->exporter = ipc_exporter_find(ipc, &name->process);
	if (s->exporter && s->exporter->uid != name->uid)
		ret = fail(-EACCES, "the exporter runs as user %u, but the handle is of user %u",
			   s->exporter->uid, name->uid);
	if (!ret)
		ret = ask(s, name, &reply, fds);
	if (!ret)
		ret = open_reply(s, name, &reply, fds);
	if (ret && s->exporter)
		ipc_exporter_put(ipc, s->exporter, false);
	pthread_mutex_unlock(&ipc->lock);
	ipc_close_fds(name, fds);
	return ret;
}

EXPORT int peerdma_ipc_signal_open(const void *handle, size_t size,
				   struct peerdma_ipc_signal **signal)
{
	struct peerdma_ipc_signal *s = NULL;
	struct ipc_name name;
	int ret = check_given("peerdma_ipc_signal_open", "handle", handle, "signal", signal, NULL),
	    was;
	uint32_t texts;

	if (ret)
		return ret;
	was = cancel_off();
	texts = attempt_begin();
	ret = ipc_handle_parse(handle, size, IPC_SIGNAL, &name);
	if (!ret) {
		s = signal_alloc();
		ret = s ? open_signal(s, &name) : -ENOMEM;
	}
	if (ret)
		free(s);
	else
		*signal = s;
	attempt_end(texts, ret);
	cancel_back(was);
	return ret ? fail(ret, "peerdma_ipc_signal_open: %s", peerdma_last_error()) : 0;
}

void ipc_signal_hold(struct peerdma_ipc_signal *s)
{
	__atomic_fetch_add(&s->refs, 1, __ATOMIC_RELAXED);
}

void ipc_signal_put(struct peerdma_ipc_signal *s, bool callback)
{
	struct ipc *ipc = s->ipc;

	if (__atomic_fetch_sub(&s->refs, 1, __ATOMIC_ACQ_REL) > 1)
		return;
	if (s->hsa)
		ipc_hsa_signal_end(s->hsa);
	pthread_mutex_lock(&ipc->lock);
	if (s->exporter) {
		ipc_link_drop(ipc, s->link, s->exporter, s->number, false);
		if (s->own_page)
			munmap(s->shared, memory_rounded(sizeof(*s->shared)));
		ipc_exporter_put(ipc, s->exporter, callback);
	} else {
		ipc_record_left(ipc, s->slot);
	}
	pthread_mutex_unlock(&ipc->lock);
	free(s);
}

EXPORT int peerdma_ipc_signal_close(struct peerdma_ipc_signal *signal)
{
	struct ipc *ipc;
	uint32_t texts;
	int was;

	if (!signal || !ipc_mine(signal->ipc))
		return 0;
	was = cancel_off();
	texts = attempt_begin();
	ipc = signal->ipc;
	if (signal->registered)
		ipc_cuda_unregister(signal->shared);
	if (!signal->exporter) {
		/*
		 * End the record before HSA's signal is destroyed. A process that then fails to
		 * open HSA's signal sees that the record has ended.
		 */
		pthread_mutex_lock(&ipc->lock);
		ipc_record_end(ipc, signal->slot, signal->generation);
		/* Wake the waiters before another signal can reuse the memory. */
		if (signal->shared)
			ipc_signal_changed(signal->shared);
		pthread_mutex_unlock(&ipc->lock);
	}
	ipc_signal_put(signal, false);
	attempt_end(texts, 0);
	cancel_back(was);
	return 0;
}

/* ---- the value ---- */

static inline uint64_t value_of(const struct peerdma_ipc_signal *s)
{
	return s->shared ? __atomic_load_n(&s->shared->value, __ATOMIC_ACQUIRE) :
			   ipc_hsa_signal_get(s->hsa);
}

EXPORT uint64_t peerdma_ipc_signal_get(const struct peerdma_ipc_signal *signal)
{
	return __builtin_expect(!signal, 0) ? 0 : value_of(signal);
}

/* The creator's state: 0, -ESTALE or -EOWNERDEAD. */
static int state_of(const struct peerdma_ipc_signal *s)
{
	return s->exporter ? ipc_exporter_live(s->exporter, s->slot, s->generation) : 0;
}

static int fail_state(const struct peerdma_ipc_signal *s, const char *call, int error)
{
	if (error == -EOWNERDEAD && s->exporter)
		return fail(error, "%s: the process that created the signal (pid %u) has ended",
			    call, s->exporter->pid);
	if (error == -EOWNERDEAD)
		return fail(error,
			    "%s: a process that had the signal open has ended without closing it",
			    call);
	return fail(error, "%s: the process that created the signal (pid %u) has closed it", call,
		    s->exporter->pid);
}

int ipc_signal_usable(const struct peerdma_ipc_signal *s, const char *call)
{
	int ret;

	if (__builtin_expect(!s, 0))
		return check_given(call, "signal", s, NULL);
	if (!ipc_mine(s->ipc))
		return ipc_not_mine(call);
	ret = state_of(s);
	return ret ? fail_state(s, call, ret) : 0;
}

void ipc_signal_store(struct peerdma_ipc_signal *s, uint64_t value)
{
	if (!s->shared) {
		ipc_hsa_signal_set(s->hsa, value);
		return;
	}
	__atomic_store_n(&s->shared->value, value, __ATOMIC_RELEASE);
	ipc_signal_changed(s->shared);
}

EXPORT int peerdma_ipc_signal_set(struct peerdma_ipc_signal *signal, uint64_t value)
{
	int ret = ipc_signal_usable(signal, "peerdma_ipc_signal_set");

	if (ret)
		return ret;
	ipc_signal_hold(signal);
	ipc_signal_store(signal, value);
	ipc_signal_put(signal, false);
	return 0;
}

EXPORT int peerdma_ipc_signal_add(struct peerdma_ipc_signal *signal, uint64_t value)
{
	int ret = ipc_signal_usable(signal, "peerdma_ipc_signal_add");

	if (ret)
		return ret;
	ipc_signal_hold(signal);
	if (signal->shared) {
		__atomic_fetch_add(&signal->shared->value, value, __ATOMIC_RELEASE);
		ipc_signal_changed(signal->shared);
	} else {
		ipc_hsa_signal_add(signal->hsa, value);
	}
	ipc_signal_put(signal, false);
	return 0;
}

/* ---- waiting ---- */

static bool meets(uint64_t is, enum peerdma_ipc_condition condition, uint64_t value)
{
	switch (condition) {
	case PEERDMA_IPC_EQ:
		return is == value;
	case PEERDMA_IPC_NE:
		return is != value;
	case PEERDMA_IPC_LT:
		return (int64_t)is < (int64_t)value;
	case PEERDMA_IPC_GE:
		return (int64_t)is >= (int64_t)value;
	}
	return false;
}

/* Takes one unreported end of a process that had the signal open. False: there is none. */
static bool death_taken(const struct peerdma_ipc_signal *s)
{
	uint32_t *deaths, n;

	if (s->exporter)
		return false;
	deaths = &s->ipc->records[s->slot].deaths;
	n = __atomic_load_n(deaths, __ATOMIC_ACQUIRE);
	while (n && !__atomic_compare_exchange_n(deaths, &n, n - 1, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_ACQUIRE))
		;
	return n;
}

static struct timespec at_ns(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000),
				  .tv_nsec = (long)(ns % 1000000000) };
}

static void wake_alive(const struct ipc_page *page)
{
	syscall(SYS_futex, &page->alive, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/*
 * Sleeps until `changes` differs from `count`, the creator ends, or the time is `until`. 0 or
 * -EINTR.
 */
static int sleep_on(struct peerdma_ipc_signal *s, uint32_t count, uint64_t until)
{
	static int no_waitv;	/* atomic */
	const struct ipc_page *page = s->exporter ? s->exporter->page : NULL;
	struct waitv both[2] = {
		{ .value = count,
		  .addr = (uintptr_t)&s->shared->changes,
		  .flags = 2 /* FUTEX_32 */ },
		{ .flags = 2 },
	};
	struct timespec t;
	uint32_t alive;
	long ret;

	if (page) {
		alive = __atomic_load_n(&page->alive, __ATOMIC_ACQUIRE);
		if (alive & FUTEX_OWNER_DIED)
			return 0;
		both[1].value = alive;
		both[1].addr = (uintptr_t)&page->alive;
	}
	if (page && !__atomic_load_n(&no_waitv, __ATOMIC_RELAXED)) {
		t = at_ns(until);
		ret = syscall(SYS_futex_waitv, both, 2, 0, &t, CLOCK_MONOTONIC);
		if (ret == 1)
			wake_alive(page);	/* the kernel wakes only one waiter */
		/* A seccomp filter may return EPERM for a system call that it does not know. */
		if (ret < 0 && (errno == ENOSYS || errno == EPERM))
			__atomic_store_n(&no_waitv, 1, __ATOMIC_RELAXED);
		return ret < 0 && errno == EINTR ? -EINTR : 0;
	}
	if (page && until > now_ns() + OLD_SLICE_NS)
		until = now_ns() + OLD_SLICE_NS;
	t = at_ns(until);
	ret = syscall(SYS_futex, &s->shared->changes, FUTEX_WAIT_BITSET, count, &t, NULL,
		      FUTEX_BITSET_MATCH_ANY);
	return ret < 0 && errno == EINTR ? -EINTR : 0;
}

/* The signal mask of a polling thread, which blocks signals between the sleeps. */
struct unblocked {
	bool blocked;
	sigset_t was;
};

/*
 * Blocks every signal whose handler may be meant to end the wait, but not those raised by the
 * thread's own faults.
 */
static void signals_block(struct unblocked *u)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
	sigset_t all;

	if (u->blocked)
		return;
	sigfillset(&all);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&all, own[i]);
	pthread_sigmask(SIG_BLOCK, &all, &u->was);
	u->blocked = true;
}

static void signals_back(void *arg)
{
	struct unblocked *u = arg;

	if (u->blocked)
		pthread_sigmask(SIG_SETMASK, &u->was, NULL);
}

/*
 * Sleeps until the next poll: -EAGAIN, or -EINTR. A handler that became pending since the last poll
 * runs now.
 */
static int nap(uint64_t ns, const struct unblocked *u)
{
	struct timespec t = at_ns(ns < POLL_NS ? ns : POLL_NS);

	return ppoll(NULL, 0, &t, &u->was) < 0 && errno == EINTR ? -EINTR : -EAGAIN;
}

/*
 * One check, and a sleep if the condition is not met. 0: met. -EAGAIN: call again. Other errors:
 * the wait's result.
 */
static int wait_once(struct peerdma_ipc_signal *s, enum peerdma_ipc_condition condition,
		     uint64_t value, uint64_t until, struct unblocked *unblocked, uint64_t *seen)
{
	bool looks = !s->shared || __atomic_load_n(&s->shared->polled, __ATOMIC_RELAXED);
	uint64_t now, end;
	uint32_t count = 0;
	int ret;

	if (looks && until)
		signals_block(unblocked);
	else if (!looks)
		count = __atomic_or_fetch(&s->shared->changes, IPC_SLEEPS, __ATOMIC_SEQ_CST);
	/* Read the state before the value: values set before the other side's end count. */
	ret = state_of(s);
	*seen = value_of(s);
	if (meets(*seen, condition, value))
		return 0;
	if (ret)
		return ret;
	if (death_taken(s))
		return -EOWNERDEAD;
	now = now_ns();
	if (now >= until)
		return -ETIMEDOUT;
	if (looks)
		return nap(until - now, unblocked);
	end = until - now < SLICE_NS ? until : now + SLICE_NS;
	ret = sleep_on(s, count, end);
	return ret ? ret : -EAGAIN;
}

/*
 * Polls for about as long as a sleep and a wake would take, if another processor can run the
 * setter.
 */
static bool spin(struct peerdma_ipc_signal *s, enum peerdma_ipc_condition condition, uint64_t value,
		 uint64_t until, uint64_t *seen)
{
	static int processors;	/* atomic */
	uint64_t end = 0, now;

	if (!__atomic_load_n(&processors, __ATOMIC_RELAXED))
		__atomic_store_n(&processors, (int)sysconf(_SC_NPROCESSORS_ONLN), __ATOMIC_RELAXED);
	if (__atomic_load_n(&processors, __ATOMIC_RELAXED) < 2)
		return false;
	do {
		for (int i = 0; i < 64; i++) {
			*seen = value_of(s);
			if (meets(*seen, condition, value))
				return true;
			ipc_relax();
		}
		now = now_ns();
		if (!end)
			end = now + SPIN_NS < until ? now + SPIN_NS : until;
	} while (now < end);
	return false;
}

/* Repeats wait_once() until there is a result. May be cancelled before each. */
static __attribute__((noinline)) int wait_until(struct peerdma_ipc_signal *s,
						enum peerdma_ipc_condition condition,
						uint64_t value, uint64_t until, uint64_t *seen)
{
	struct unblocked unblocked = { .blocked = false };
	int ret;

	pthread_cleanup_push(signals_back, &unblocked);
	do {
		pthread_testcancel();
		ret = wait_once(s, condition, value, until, &unblocked, seen);
	} while (ret == -EAGAIN);
	pthread_cleanup_pop(1);
	return ret;
}

EXPORT int peerdma_ipc_signal_wait(struct peerdma_ipc_signal *signal,
				   enum peerdma_ipc_condition condition, uint64_t value,
				   uint64_t timeout_ns, uint64_t *seen)
{
	uint64_t until, unseen;
	int ret;

	if (__builtin_expect(!signal, 0))
		return check_given("peerdma_ipc_signal_wait", "signal", signal, NULL);
	if (!ipc_mine(signal->ipc))
		return ipc_not_mine("peerdma_ipc_signal_wait");
	if ((unsigned int)condition > PEERDMA_IPC_GE)
		return fail(-EINVAL, "peerdma_ipc_signal_wait: condition %d; use those of enum peerdma_ipc_condition", (int)condition);
	if (!seen)
		seen = &unseen;
	*seen = value_of(signal);
	if (meets(*seen, condition, value))
		return 0;
	until = timeout_ns ? now_ns() : 0;
	until = timeout_ns > UINT64_MAX - until ? UINT64_MAX : until + timeout_ns;
	if (timeout_ns && spin(signal, condition, value, until, seen))
		return 0;
	ret = wait_until(signal, condition, value, until, seen);
	switch (ret) {
	case 0:
		return 0;
	case -ETIMEDOUT:
		return fail(-EAGAIN, "peerdma_ipc_signal_wait: timed out: the value, %llu, does not meet the condition",
			    (unsigned long long)*seen);
	case -EINTR:
		return fail(ret, "peerdma_ipc_signal_wait: %s", error_words(ret));
	default:
		return fail_state(signal, "peerdma_ipc_signal_wait", ret);
	}
}

EXPORT uint64_t peerdma_ipc_signal_hsa(const struct peerdma_ipc_signal *signal)
{
	return signal ? signal->hsa : 0;
}
