// SPDX-License-Identifier: MIT
/*
 * hsa_ends.c - HSA's signals: the creator closes one or ends while another process opens it, HSA is out of resources, and
 * Unix signals arrive during a wait. Runs on a stand-in for HSA, which controls when these happen.
 *
 * usage: hsa_ends TEST
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "fake_hsa.h"
#include "other.h"
#include "util.h"

enum { INVALID_ARGUMENT = 0x1001, OUT_OF_RESOURCES = 0x1008 };

static struct other o;
static struct other_answer there;
static struct shared {
	_Atomic int destroying, go_on;
} *shared;

static void begin(void)
{
	fake_hsa_share();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	o = other_make(getuid());
	there = ASK(&o, OTHER_SIGNAL, .value = 5, .flags = PEERDMA_IPC_HSA);
	CHECK(!there.ret, "a signal there");
}

static int open_there(struct peerdma_ipc_signal **s)
{
	return peerdma_ipc_signal_open(&there.handle, sizeof(there.handle), s);
}

/* ---- it ends while it is opened ---- */

static int nothing(void)
{
	return INVALID_ARGUMENT;
}

static int its_creator_closes(void)
{
	ASK(&o, OTHER_CLOSE);
	return INVALID_ARGUMENT;
}

static int its_creator_closes_late(void)
{
	ASK(&o, OTHER_CLOSE);
	return 0;
}

static int its_creator_is_killed(void)
{
	other_end(&o, SIGKILL);
	return INVALID_ARGUMENT;
}

/* As a process that is being killed: it answers no more, and is not marked as ended yet. */
static int its_creator_answers_no_more(void)
{
	ASK(&o, OTHER_SILENT);
	return INVALID_ARGUMENT;
}

static void open_while(int (*event)(void), int expected, const char *what)
{
	struct peerdma_ipc_signal *s = NULL;
	int ret;

	begin();
	fake_hsa.attaching = event;
	ret = open_there(&s);
	fake_hsa.attaching = NULL;
	CHECK(ret == expected, "%s: %d, not %d", what, ret, expected);
	CHECK(!fake_hsa.attached, "nothing is left attached");
	other_end(&o, SIGKILL);
}

static void ends(void)
{
	struct peerdma_ipc_signal *s = NULL;

	open_while(its_creator_closes, -ESTALE, "its creator closes it, and HSA has it no more");
	open_while(its_creator_closes_late, -ESTALE, "its creator closes it, and HSA had it yet");
	open_while(its_creator_is_killed, -EOWNERDEAD, "its creator is killed");
	open_while(its_creator_answers_no_more, -EOWNERDEAD, "its creator is about to end");
	open_while(nothing, -EIO, "it is there, and HSA fails");
	/* Nor does what was asked meanwhile count as another open, whose process ends. */
	begin();
	fake_hsa.attaching = nothing;
	CHECK(open_there(&s) == -EIO && strstr(peerdma_last_error(), "hsa_amd_ipc_signal_attach failed with HSA status 0x1001"), "why");
	fake_hsa.attaching = NULL;
	CHECK(!open_there(&s) && peerdma_ipc_signal_get(s) == 5 && !peerdma_ipc_signal_close(s), "later it works");
	CHECK(ASK(&o, OTHER_WAIT, .value = 5).ret == 0 && ASK(&o, OTHER_GET).value == 5, "and is the creator's");
	other_end(&o, SIGKILL);
}

/* ---- its creator is in the middle of the close ---- */

static void destroy(void)
{
	atomic_store(&shared->destroying, 1);
	while (!atomic_load(&shared->go_on))
		usleep(100);
}

static int gone(void)
{
	return atomic_load(&shared->destroying) ? INVALID_ARGUMENT : 0;
}

static void *ask_close(void *unused)
{
	ASK(&o, OTHER_CLOSE);
	return NULL;
}

static void closing(void)
{
	struct peerdma_ipc_signal *s = NULL;
	pthread_t thread;
	int ret;

	fake_hsa.destroying = destroy;		/* there: it is forked now */
	begin();
	fake_hsa.destroying = NULL;
	fake_hsa.attaching = gone;
	pthread_create(&thread, NULL, ask_close, NULL);
	while (!atomic_load(&shared->destroying))
		usleep(100);
	ret = open_there(&s);
	CHECK(ret == -ESTALE, "HSA's signal goes first: opening it gives %d", ret);
	atomic_store(&shared->go_on, 1);
	pthread_join(thread, NULL);
	other_end(&o, SIGKILL);
}

/* ---- no resources ---- */

static int no_resources(void)
{
	return OUT_OF_RESOURCES;
}

static void resources(void)
{
	struct peerdma_ipc_signal *s = NULL, *mine = NULL;
	struct rlimit was, now;
	int ret, created;

	begin();
	CHECK(!open_there(&s) && !peerdma_ipc_signal_create(1, PEERDMA_IPC_HSA, &mine), "with enough");
	fake_hsa.attaching = fake_hsa.creating = no_resources;
	getrlimit(RLIMIT_NOFILE, &was);
	now = was;
	now.rlim_cur = (rlim_t)dup(0);
	close((int)now.rlim_cur);
	now.rlim_cur++;		/* for what comes with the answer */
	setrlimit(RLIMIT_NOFILE, &now);
	ret = open_there(&s);
	CHECK(ret == -EMFILE && strstr(peerdma_last_error(), "RLIMIT_NOFILE"), "open without descriptors: %d", ret);
	fake_hsa.attaching = nothing;
	ret = open_there(&s);
	CHECK(ret == -EIO && strstr(peerdma_last_error(), "0x1001"), "another failure, whose cause cannot be queried: %d", ret);
	fake_hsa.attaching = no_resources;
	now.rlim_cur--;
	setrlimit(RLIMIT_NOFILE, &now);
	created = peerdma_ipc_signal_create(1, PEERDMA_IPC_HSA, &mine);
	CHECK(created == -EMFILE && strstr(peerdma_last_error(), "RLIMIT_NOFILE"), "create: %d", created);
	setrlimit(RLIMIT_NOFILE, &was);
	ret = open_there(&s);
	CHECK(ret == -ENOMEM && strstr(peerdma_last_error(), "0x1008: out of memory"), "with descriptors: %d", ret);
	CHECK(!peerdma_ipc_signal_close(s) && !peerdma_ipc_signal_close(mine), "closed");
	other_end(&o, SIGKILL);
}

/* ---- Unix signals ---- */

static _Atomic unsigned int naps, handled;

/* The library sleeps by it between looks: it is the first of its name that the loader finds. */
int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	struct timespec t = timeout ? *timeout : (struct timespec){ 0 };

	atomic_fetch_add(&naps, 1);
	return (int)syscall(SYS_ppoll, fds, n, timeout ? &t : NULL, mask, 8);
}

/* In the middle of a look, which is not a sleep: once. */
static void raise_in_a_look(void)
{
	static atomic_bool raised;

	if (atomic_load(&naps) >= 2 && !atomic_exchange(&raised, true))
		raise(SIGUSR1);
}

static void handler(int sig)
{
	atomic_fetch_add(&handled, 1);
}

static void *wait_for_ever(void *s)
{
	peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 1, UINT64_MAX, NULL);
	return NULL;
}

static void handlers(void)
{
	struct sigaction action = { .sa_handler = handler };
	struct peerdma_ipc_signal *s = NULL;
	sigset_t before, after;
	int other_mask = 0;
	uint64_t seen = 0;
	pthread_t thread;
	void *result = NULL;
	int ret;

	fake_hsa_share();
	sigaction(SIGUSR1, &action, NULL);
	CHECK(!peerdma_ipc_signal_create(5, PEERDMA_IPC_HSA, &s), "created");
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	fake_hsa.looking = raise_in_a_look;
	ret = peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 1, 1000000000, &seen);
	fake_hsa.looking = NULL;
	CHECK(ret == -EINTR && handled == 1 && seen == 5, "a handler ran in a look: %d", ret);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (int sig = 1; sig < SIGRTMAX; sig++)
		other_mask += sigismember(&before, sig) != sigismember(&after, sig);
	CHECK(!other_mask, "signals are unblocked again");
	CHECK(peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 1, 1000000, NULL) == -EAGAIN, "none: a timeout");
	naps = 0;
	pthread_create(&thread, NULL, wait_for_ever, s);
	while (!atomic_load(&naps))
		usleep(100);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	CHECK(result == PTHREAD_CANCELED, "a cancellation point");
	CHECK(!peerdma_ipc_signal_set(s, 1) && !peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 1, 0, NULL) && !peerdma_ipc_signal_close(s), "it works on");
}

int main(int argc, char **argv)
{
	static const struct named_test tests[] = {
		{ "ends", ends }, { "closing", closing }, { "resources", resources }, { "handlers", handlers },
	};

	return run_named(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
