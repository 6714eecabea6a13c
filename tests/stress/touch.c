// SPDX-License-Identifier: MIT
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "touch.h"

static __thread sigjmp_buf *volatile way_out;

static void on_fault(int sig)
{
	if (way_out)
		siglongjmp(*way_out, sig);
	/* Not ours: the access is tried again, and ends the process. */
	signal(sig, SIG_DFL);
}

void touch_init(void)
{
	/* The mask is left alone, so that siglongjmp() need not restore it. */
	struct sigaction act = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };

	sigaction(SIGBUS, &act, NULL);
	sigaction(SIGSEGV, &act, NULL);
}

static int touch(volatile uint64_t *p, uint64_t *value, bool write)
{
	sigjmp_buf here;
	int sig;

	sig = sigsetjmp(here, 0);
	if (!sig) {
		way_out = &here;
		if (write)
			*p = *value;
		else
			*value = *p;
	}
	way_out = NULL;
	return sig;
}

int touch_read(const volatile uint64_t *p, uint64_t *value)
{
	return touch((volatile uint64_t *)p, value, false);
}

int touch_write(volatile uint64_t *p, uint64_t value)
{
	return touch(p, &value, true);
}
