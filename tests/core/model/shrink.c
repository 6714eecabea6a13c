// SPDX-License-Identifier: MIT
/* shrink.c - from a long program that fails to a short one. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "model.h"

#define HANG_S	10	/* a program takes milliseconds; who hangs that long has failed */
#define PATIENCE_S	60	/* for all of the shrinking */

static void in_child(const struct program *p, bool show, u32 *step)
{
	const struct rlimit none = { 0, 0 };
	int null = open("/dev/null", O_WRONLY);

	if (!show) {
		dup2(null, 1);
		dup2(null, 2);
	}
	setrlimit(RLIMIT_CORE, &none);
	alarm(HANG_S);
	program_run(p, step);
	_exit(0);
}

bool fails(const struct program *p, bool show, u32 *step)
{
	u32 *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status = -1;
	pid_t child;

	fflush(stdout);
	fflush(stderr);
	child = shared == MAP_FAILED ? -1 : fork();
	if (child < 0) {
		perror("model: no child process");
		exit(2);
	}
	if (!child)
		in_child(p, show, shared);
	waitpid(child, &status, 0);
	if (step)
		*step = *shared;
	munmap(shared, sizeof(*shared));
	return status != 0;
}

static struct program try;
static u64 give_up;

/* Without `count` operations from `first` on: kept if it still fails. */
static bool without(struct program *p, u32 first, u32 count)
{
	try = *p;
	memmove(&try.ops[first], &try.ops[first + count], (p->count - first - count) * sizeof(try.ops[0]));
	try.count = p->count - count;
	if (sg_now_ns() > give_up || !fails(&try, false, NULL))
		return false;
	*p = try;
	return true;
}

static bool drop_some(struct program *p, u32 size)
{
	bool any = false;
	u32 at = p->count;

	/* From the end: what comes last is rarely needed, the failure itself apart. */
	while (at) {
		u32 first = at > size ? at - size : 0;

		any |= without(p, first, at - first);
		at = first;
	}
	return any;
}

/* Small numbers are easier to read, and what they pick does not depend on so much. */
static bool smaller_numbers(struct program *p)
{
	bool any = false;
	u32 i, k, n;

	for (i = 0; i < p->count; i++) {
		for (k = 0; k < 4; k++) {
			u32 was = p->ops[i].arg[k];
			const u32 lower[] = { 0, 1, was % 64, was % 1024 };

			for (n = 0; n < COUNT(lower) && sg_now_ns() < give_up; n++) {
				if (lower[n] >= was)
					continue;
				try = *p;
				try.ops[i].arg[k] = lower[n];
				if (fails(&try, false, NULL)) {
					*p = try;
					any = true;
					break;
				}
			}
		}
	}
	return any;
}

void shrink(struct program *p)
{
	u32 step, size;
	bool any;

	give_up = sg_now_ns() + PATIENCE_S * 1000000000ULL;
	if (!fails(p, false, &step))
		return;		/* not alone: what came before it matters, or chance */
	if (step + 1 < p->count) {
		try = *p;
		try.count = step + 1;
		if (fails(&try, false, NULL))
			*p = try;
	}
	do {
		any = false;
		for (size = p->count / 2; size; size /= 2)
			any |= drop_some(p, size);
		any |= smaller_numbers(p);
	} while (any);
}
