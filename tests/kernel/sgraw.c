// SPDX-License-Identifier: MIT
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>
#include "sgraw.h"

int checks, failures;

bool check_at(int line, bool ok, const char *what, const char *fmt, ...)
{
	va_list ap;

	__atomic_add_fetch(&checks, 1, __ATOMIC_RELAXED);
	if (ok)
		return true;
	__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
	printf("not ok: line %d: %s: ", line, what);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	return false;
}

int test_end(const char *name)
{
	printf("%s: %d checks, %d failures\n", name, checks, failures);
	return failures ? 1 : 0;
}

int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), err;

	if (fd < 0)
		return errno;
	err = write(fd, text, strlen(text)) < 0 ? errno : 0;
	close(fd);
	return err;
}

bool in_child(void (*fn)(void *arg), void *arg)
{
	int status, result[2];
	int counts[2] = { 0, 1 };
	pid_t pid;

	fflush(stdout);
	NEED(!pipe(result));
	pid = fork();
	NEED(pid >= 0);
	if (!pid) {
		checks = 0;
		failures = 0;
		fn(arg);
		fflush(stdout);
		counts[0] = checks;
		counts[1] = failures;
		_exit(write(result[1], counts, sizeof(counts)) != sizeof(counts));
	}
	close(result[1]);
	/* It may end without a word: then `counts` stays one failure. */
	if (read(result[0], counts, sizeof(counts)) != sizeof(counts))
		counts[1] = 0;
	close(result[0]);
	NEED(waitpid(pid, &status, 0) == pid);
	checks += counts[0];
	failures += counts[1];
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

struct idle idle_now(int fd)
{
	struct softgpu_info info;

	NEED(!sg_info(fd, &info));
	return (struct idle){ .vram_free = info.vram_free, .bar1_used = info.bar1_used };
}

void check_idle(int fd, const struct idle *idle, const char *after)
{
	const struct timespec nap = { .tv_nsec = 20000000 };
	struct softgpu_info info;
	int tries;

	/* The last of a killed process may be cleared away by another thread. */
	for (tries = 0; tries < 3000; tries++) {
		NEED(!sg_info(fd, &info));
		if (!info.pins && info.vram_free == idle->vram_free &&
		    info.bar1_used == idle->bar1_used)
			break;
		nanosleep(&nap, NULL);
	}
	check_at(__LINE__, !info.pins, after, "%u pins are left", info.pins);
	check_at(__LINE__, info.vram_free == idle->vram_free, after, "%lld bytes of VRAM are lost",
		 (long long)(idle->vram_free - info.vram_free));
	check_at(__LINE__, info.bar1_used == idle->bar1_used, after, "%lld bytes of BAR1 are lost",
		 (long long)(info.bar1_used - idle->bar1_used));
}
