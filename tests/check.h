/* SPDX-License-Identifier: MIT */
/*
 * check.h - how the C programs of the tests check, report and end.
 *
 * Every failure is a line on stdout that begins with "not ok - ", with file, line, the source of the
 * condition, and errno if it is set.  A check that holds prints nothing.  The text is optional, as for printf().
 *
 *   MUST(cond);   MUST(cond, "text %d", n);
 *	The test cannot go on without it: abort().
 *   CHECK(cond);  CHECK(cond, "text %d", n);
 *	Counts a failure and goes on; its value is whether the condition holds.
 *   CHECK_AT(line, cond, "text");
 *	The same in a helper, with the line of its caller.
 *   EXPECT(call, want);
 *	An integer. On failure both are printed, -EINVAL and its like by name: EXPECT(peerdma_query(p), -EINVAL).
 *   FAILS(EINVAL, ioctl(...));   WORKS(ioctl(...));
 *	A call that returns a negative number and sets errno: with this errno, or not at all.
 *
 *   static const struct check_test tests[] = { TEST(first), TEST(second) };
 *   int main(int argc, char **argv) { return check_run(tests, CHECK_COUNT(tests), argc - 1, argv + 1); }
 *	Runs all, or those that the arguments name; prints each name before it runs.
 *   check_before = fresh;   check_after = finish;
 *	Functions that such a table's tests run between.
 *   return check_end("what this program tests");
 *	The end of a program without a table: a last line with the counts, and the exit code: 1 if a check has
 *	failed, or if there was none. NULL: the program's name.
 *   check_skip("no GPU");
 *	Exit code 77, unless a check has failed. Prints the reason.
 *   check_in_child(fn, arg)
 *	Runs fn in a forked child: its exit code, or -signal. Checks and failures there count here, too.
 *   check_wait(pid, seconds)
 *	The exit code or -signal of a child that the caller forked. One that has not ended by then has failed, and is
 *	killed: -SIGKILL.
 *
 *   check_in_thread(fn, arg)
 *	Runs fn in a thread of its own: what it returns.
 *
 *   uint64_t seed = check_seed(argc, argv, 1);   rnd(&seed)   below(&seed, n)
 *	Random numbers that repeat: the seed is printed; argument 1, or always the same.
 *   check_says = say_where;
 *	A function that prints more with each failure: the step of a random run, a library's last error.
 *   check_word = "ended";
 *	In place of "not ok", in a child that may fail.
 *
 * This header is all: its state is weak, so the files of a program share it, and no build file names a library.
 * It includes the standard headers that most tests need. It needs -D_GNU_SOURCE. Threads may check at the same time.
 * Programs that use cmocka (cases.h) use cmocka's assertions, and this in the children that they fork.
 */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK_SKIPPED	77
#define CHECK_COUNT(array)	(sizeof(array) / sizeof((array)[0]))

struct check_count {
	unsigned long checks, failures;
};
__attribute__((weak)) struct check_count check_own_counts;
__attribute__((weak)) struct check_count *check_counted = &check_own_counts;	/* a child has others */
#define check_counts (*check_counted)
__attribute__((weak)) void (*check_says)(void);
__attribute__((weak)) const char *check_word = "not ok";

/* ---- checks ---- */

#define CHECK(cond, ...)		CHECK_SOURCE(__LINE__, cond, #cond, __VA_ARGS__)
#define CHECK_AT(line, cond, ...)	CHECK_SOURCE(line, cond, #cond, __VA_ARGS__)
#define CHECK_SOURCE(line, cond, source, ...) ({					\
	bool holds_ = (cond);								\
	if (holds_)									\
		check_held();								\
	else										\
		check_failed(__FILE__, line, source, " " __VA_ARGS__);			\
	holds_;										\
})

#define MUST(cond, ...)									\
	do {										\
		if (!(cond)) {								\
			check_failed(__FILE__, __LINE__, #cond, " " __VA_ARGS__);	\
			abort();							\
		}									\
	} while (0)

#define EXPECT(call, want) ({								\
	long long got_ = (call);							\
	check_number(__FILE__, __LINE__, #call, got_, want);				\
})

#define FAILS(error, call) ({								\
	int got_;									\
	errno = 0;									\
	got_ = (call) < 0 ? -errno : 0;							\
	errno = 0;									\
	check_number(__FILE__, __LINE__, #call, got_, -(error));			\
})
#define WORKS(call)	FAILS(0, call)

static inline bool check_held(void)
{
	__atomic_add_fetch(&check_counts.checks, 1, __ATOMIC_RELAXED);
	return true;
}

/* Prints the failure, and counts it. The text begins with a space. */
__attribute__((format(printf, 4, 5)))
static inline bool check_failed(const char *file, int line, const char *cond, const char *text, ...)
{
	int error = errno;
	va_list args;

	check_held();
	__atomic_add_fetch(&check_counts.failures, 1, __ATOMIC_RELAXED);
	flockfile(stdout);
	printf("%s - %s:%d: %s", check_word, file, line, cond);
	if (text[1]) {
		printf(":");
		va_start(args, text);
		vprintf(text, args);
		va_end(args);
	}
	if (error)
		printf(" (errno %d, %s)", error, strerror(error));
	printf("\n");
	if (check_says)
		check_says();
	fflush(stdout);
	funlockfile(stdout);
	errno = error;
	return false;
}

/* An errno by its name, as functions return it; all other numbers as they are. */
static inline const char *check_number_text(long long value, char text[32])
{
	const char *name = value < 0 && value > -4096 ? strerrorname_np((int)-value) : NULL;

	if (name)
		snprintf(text, 32, "-%s", name);
	else
		snprintf(text, 32, "%lld", value);
	return text;
}

static inline bool check_number(const char *file, int line, const char *call, long long got, long long want)
{
	char texts[2][32];

	if (got == want)
		return check_held();
	return check_failed(file, line, call, " gives %s, not %s", check_number_text(got, texts[0]),
			    check_number_text(want, texts[1]));
}

/* ---- ends ---- */

/* The last line, and the exit code. */
static inline int check_end(const char *name)
{
	printf("%s: %lu checks, %lu failures\n", name ?: program_invocation_short_name, check_counts.checks, check_counts.failures);
	fflush(stdout);
	return check_counts.failures || !check_counts.checks;
}

__attribute__((noreturn, format(printf, 1, 2)))
static inline void check_skip(const char *why, ...)
{
	va_list args;

	printf("skipped: ");
	va_start(args, why);
	vprintf(why, args);
	va_end(args);
	printf("\n");
	exit(check_counts.failures ? 1 : CHECK_SKIPPED);
}

/* ---- tables ---- */

struct check_test {
	const char *name;
	void (*run)(void);
};
#define TEST(name)	{ #name, name }
__attribute__((weak)) void (*check_before)(void), (*check_after)(void);

static inline bool check_named(const char *name, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return !argc;
}

static inline int check_run(const struct check_test *tests, size_t count, int argc, char **argv)
{
	int found = 0;

	for (size_t i = 0; i < count; i++) {
		if (!check_named(tests[i].name, argc, argv))
			continue;
		found++;
		printf("%s\n", tests[i].name);
		fflush(stdout);
		if (check_before)
			check_before();
		tests[i].run();
		if (check_after)
			check_after();
	}
	CHECK(argc ? found == argc : found > 0, "%d tests have the names that were given", found);
	return check_end(NULL);
}

/* ---- children ---- */

static inline int check_status(int status)
{
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static inline int check_wait(pid_t pid, double seconds)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	struct timespec begin, now;
	bool late = false;
	int status;
	pid_t got;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	while (!(got = waitpid(pid, &status, WNOHANG))) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if ((double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) / 1e9 > seconds) {
			/* The caller may have killed it before: it waits for that. */
			if (!late)
				late = !CHECK(false, "the child has not ended after %g s", seconds);
			kill(pid, SIGKILL);
		}
		nanosleep(&nap, NULL);
	}
	MUST(got == pid);
	return check_status(status);
}

static inline int check_in_child(int (*fn)(void *arg), void *arg)
{
	/* Shared: the counts of a child that a signal or an exec ends count, too. */
	struct check_count *counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t pid;

	MUST(counts != MAP_FAILED);
	fflush(NULL);
	pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		check_counted = counts;
		status = fn(arg);
		fflush(NULL);
		_exit(status);
	}
	while (waitpid(pid, &status, 0) < 0)
		MUST(errno == EINTR);
	__atomic_add_fetch(&check_counted->checks, counts->checks, __ATOMIC_RELAXED);
	__atomic_add_fetch(&check_counted->failures, counts->failures, __ATOMIC_RELAXED);
	munmap(counts, sizeof(*counts));
	return check_status(status);
}

/* ---- threads ---- */

static inline void *check_in_thread(void *(*fn)(void *arg), void *arg)
{
	pthread_t thread;
	void *ret;

	MUST(!pthread_create(&thread, NULL, fn, arg));
	MUST(!pthread_join(thread, &ret));
	return ret;
}

/* ---- random numbers: splitmix64 ---- */

static inline uint64_t rnd(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static inline uint64_t below(uint64_t *state, uint64_t n)
{
	return rnd(state) % n;
}

static inline uint64_t check_seed(int argc, char **argv, int n)
{
	uint64_t seed = argc > n ? strtoull(argv[n], NULL, 0) : 1;

	printf("seed %llu\n", (unsigned long long)seed);
	return seed;
}
