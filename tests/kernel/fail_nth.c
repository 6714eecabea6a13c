// SPDX-License-Identifier: MIT
#include "fail_nth.h"
#include "sgraw.h"

#define MOST_FAULTS	2000	/* no operation of ours allocates that often */

static const char *const injectors[] = { "failslab", "fail_page_alloc", "fail_usercopy" };
static int control = -1;
static pid_t controlled;	/* the process that it was opened in, and is about */

/* False if there is no such setting. */
static bool set(const char *injector, const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s/%s", injector, name);
	return !write_text(path, value);
}

bool fail_nth_ready(void)
{
	for (unsigned int i = 0; i < sizeof(injectors) / sizeof(injectors[0]); i++) {
		if (!set(injectors[i], "verbose", getenv("FAIL_NTH_VERBOSE") ?: "0"))
			return false;
	}
	/* By default, only what may not sleep fails. */
	MUST(set("failslab", "ignore-gfp-wait", "N"));
	MUST(set("fail_page_alloc", "ignore-gfp-wait", "N"));
	MUST(set("fail_page_alloc", "ignore-gfp-highmem", "N"));
	MUST(set("fail_page_alloc", "min-order", "0"));
	return !access("/proc/thread-self/fail-nth", W_OK);
}

static void arm(int n)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%d", n);

	if (controlled != getpid()) {
		controlled = getpid();
		control = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	}
	/* A fault that is still to come may hit this very call. */
	MUST(pwrite(control, text, length, 0) == length || pwrite(control, text, length, 0) == length);
}

/* Whether a fault was injected since arm(). */
static bool disarm(void)
{
	char text[16];
	/* If the fault is still to come, this call's own copy may be what fails. */
	bool injected = pread(control, text, sizeof(text), 0) > 0 && atoi(text) == 0;

	arm(0);
	return injected;
}

static bool is_clean(const struct stage *s, int err)
{
	return err == ENOMEM || err == EFAULT || (err == ENOSPC && s->flags & FN_NO_SPACE);
}

/* All of them, or the end of the process. */
static void need(const char *name, const fn_step steps[FN_STEPS])
{
	int err = 0, i;

	for (i = 0; i < FN_STEPS && steps[i] && !err; i++)
		err = steps[i]();
	if (!CHECK(!err, "%s: step %d around it: %s", name, i, strerror(err)))
		exit(1);
}

static void sweep(const struct stage *s, bool (*idle)(void))
{
	int n, refused = 0, err;
	bool injected = true;

	for (n = 1; injected && n < MOST_FAULTS; n++) {
		need(s->name, s->before);
		arm(n);
		err = s->op();
		injected = disarm();
		refused += !!err;
		if (!injected)
			CHECK(!err, "%s: fails with %s, and no fault was injected", s->name, strerror(err));
		else if (s->flags & FN_CANNOT_FAIL)
			CHECK(!err, "%s, fault %d: %s", s->name, n, strerror(err));
		else
			CHECK(!err || is_clean(s, err), "%s, fault %d: %s", s->name, n, strerror(err));
		if (!err)
			need(s->name, s->undo);
		need(s->name, s->after);
		CHECK(idle(), "%s, fault %d (%s): something is left", s->name, n,
		      err ? strerror(err) : "survived");
	}
	CHECK(!injected, "%s: it never ends", s->name);
	CHECK(n > 2 || s->flags & FN_MAY_BE_CLEAN, "%s: not one fault was injected", s->name);
	printf("%-44s %3d faults, %3d refused\n", s->name, n - 2, refused);
	fflush(stdout);
}

void fail_nth_sweep(const struct stage *stages, int n, bool (*idle)(void))
{
	for (int i = 0; i < n; i++)
		sweep(&stages[i], idle);
}

void fail_nth_exits(const char *name, void (*fn)(void), int most, bool (*idle)(void))
{
	for (int n = 1; n <= most; n++) {
		int status;
		pid_t pid;

		fflush(stdout);
		pid = fork();
		MUST(pid >= 0);
		if (!pid) {
			check_counts.failures = 0;
			fn();
			arm(n);
			_exit(check_counts.failures);
		}
		MUST(waitpid(pid, &status, 0) == pid);
		CHECK(status == 0, "%s, fault %d: the child could not begin", name, n);
		CHECK(idle(), "%s, fault %d: something is left", name, n);
	}
	printf("%-44s %3d faults at most\n", name, most);
	fflush(stdout);
}
