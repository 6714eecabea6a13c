// SPDX-License-Identifier: MIT
/* board.c - see board.h */
#include "board.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child.h"

#define ROWS_MAX	512

/* Shared with the processes that the rules run in. */
static struct board {
	unsigned int count;
	char about[ABOUT];
	struct row rows[ROWS_MAX];
} *board;

const char *const verdicts[] = { "ok", "FAIL", "n.a." };

char *board_up(void)
{
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return board == MAP_FAILED ? NULL : board->about;
}

void row(enum verdict verdict, const char *rule, const char *what, const char *expected, const char *seen, ...)
{
	unsigned int at = __atomic_fetch_add(&board->count, 1, __ATOMIC_SEQ_CST);
	struct row *r = &board->rows[at];
	va_list args;

	if (at >= ROWS_MAX)
		return;
	r->verdict = verdict;
	snprintf(r->rule, sizeof(r->rule), "%s", rule);
	snprintf(r->what, sizeof(r->what), "%s", what);
	snprintf(r->expected, sizeof(r->expected), "%s", expected);
	va_start(args, seen);
	vsnprintf(r->seen, sizeof(r->seen), seen, args);
	va_end(args);
}

const char *errname(int ret)
{
	static char texts[4][24];
	static unsigned int next;
	char *text = texts[next++ % 4];
	/* The last is the kernel's own: not supported. */
	const char *name = ret >= 0 ? NULL : ret == -524 ? "ENOTSUPP" : strerrorname_np(-ret);

	if (name)
		snprintf(text, sizeof(texts[0]), "-%s", name);
	else
		snprintf(text, sizeof(texts[0]), "%d", ret);
	return text;
}

void returns(const char *rule, const char *what, int want, int ret)
{
	judge(ret == want, rule, what, errname(want), "%s", errname(ret));
}

unsigned int rows(const struct row **all)
{
	*all = board->rows;
	return board->count < ROWS_MAX ? board->count : ROWS_MAX;
}

unsigned int count(enum verdict verdict)
{
	const struct row *all;
	unsigned int n = 0, most = rows(&all);

	for (unsigned int i = 0; i < most; i++)
		n += all[i].verdict == verdict;
	return n;
}

void print_table(int rule_width)
{
	const struct row *r;
	unsigned int n = rows(&r);

	printf("%-*s %-64s %-36s %-44s %s\n", rule_width, "rule", "what was done", "expected", "seen", "");
	for (; n--; r++)
		printf("%-*s %-64s %-36s %-44s %s\n", rule_width, r->rule, r->what, r->expected, r->seen, verdicts[r->verdict]);
	printf("\n%u ok, %u FAIL, %u n.a.\n", count(OK), count(FAIL), count(NA));
}

/* Waits for it for so long; -1: it does not end, even when killed. */
static int end_of(pid_t pid, unsigned int seconds)
{
	const time_t until = time(NULL) + seconds;
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (time(NULL) >= until + 5)
			return -1;
		if (time(NULL) >= until)
			kill(pid, SIGKILL);
		nap_ms(5);
	}
	return status;
}

void run_alone(void (*run)(void), const char *rule, const char *name, unsigned int seconds)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		run();
		exit(0);
	}
	status = end_of(pid, seconds);
	if (status == -1)
		row(FAIL, rule, name, "an end", "none in %u s, and it cannot be killed", seconds);
	else if (WIFSIGNALED(status))
		row(FAIL, rule, name, "an end", "signal %d%s", WTERMSIG(status),
		    WTERMSIG(status) == SIGKILL ? ": it took too long" : "");
	else if (WEXITSTATUS(status))
		row(FAIL, rule, name, "that it can be tried", "it broke off: see standard error");
}

bool pci_address(const char *text, uint32_t *to)
{
	unsigned int domain, bus, device, function;

	if (sscanf(text, "%x:%x:%x.%u", &domain, &bus, &device, &function) != 4 || domain > 0xffff || bus > 0xff ||
	    device > 31 || function > 7)
		return false;
	*to = domain << 16 | bus << 8 | device << 3 | function;
	return true;
}
