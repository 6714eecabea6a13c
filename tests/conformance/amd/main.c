// SPDX-License-Identifier: MIT
/* amd_conform - does this provider of amd_rdma_interface keep the rules?  docs/amd.md */
#include "conform.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROWS_MAX	128

/* Shared with the processes that the rules run in. */
static struct board {
	unsigned int count;
	struct row {
		enum verdict verdict;
		char group[24], what[72], expected[48], seen[64];
	} rows[ROWS_MAX];
} *board;

int api;
bool callbacks = true;
uint32_t peer;
static unsigned int seconds = 120;
static const char *only, *group_name;
static int client = -1;

static struct {
	int (*hipMalloc)(void **p, size_t size);
	int (*hipFree)(void *p);
	int (*hipMemcpy)(void *dst, const void *src, size_t size, int kind);
	int (*hipHostMalloc)(void **p, size_t size, unsigned int flags);	/* NULL: an older HIP */
	int (*hipHostFree)(void *p);
} hip;

static const char usage[] =
	"usage: amd_conform [--no-callbacks] [--only GROUP] [--peer ADDRESS] [--timeout SECONDS]\n"
	"\n"
	"Whether the provider of amd_rdma_interface that is loaded keeps the interface's rules.\n"
	"Needs amd_rdma_test.ko (version 2.0) or amd_rdma_test_1.ko (1.0), libamdhip64, and root.\n"
	"\n"
	"  --no-callbacks  the driver is one that never calls back: memory stays until put_pages\n"
	"  --only G        only this group of rules\n"
	"  --peer A        a PCI device to map for, such as 0000:02:00.0: no DMA is done\n"
	"  --timeout       seconds that a group of rules may take (120)\n"
	"\n"
	"Exit code: 0 all rules are kept, 1 some are not, 2 it could not be tried.\n";

void row(enum verdict verdict, const char *what, const char *expected, const char *seen, ...)
{
	unsigned int at = __atomic_fetch_add(&board->count, 1, __ATOMIC_SEQ_CST);
	struct row *r = &board->rows[at];
	va_list args;

	if (at >= ROWS_MAX)
		return;
	r->verdict = verdict;
	snprintf(r->group, sizeof(r->group), "%s", group_name);
	snprintf(r->what, sizeof(r->what), "%s", what);
	snprintf(r->expected, sizeof(r->expected), "%s", expected);
	va_start(args, seen);
	vsnprintf(r->seen, sizeof(r->seen), seen, args);
	va_end(args);
}

static void errname(int ret, char *to, size_t size)
{
	if (ret < 0)
		snprintf(to, size, "-%s", strerrorname_np(-ret) ? strerrorname_np(-ret) : "?");
	else
		snprintf(to, size, "%d", ret);
}

void returns(const char *what, int want, int ret)
{
	char expected[32], seen[32];

	errname(want, expected, sizeof(expected));
	errname(ret, seen, sizeof(seen));
	judge(ret == want, what, expected, "%s", seen);
}

struct amd_rdma_test_call t_do(struct amd_rdma_test_call c)
{
	if (ioctl(client, AMD_RDMA_TEST_CALL, &c)) {
		fprintf(stderr, "operation %u on slot %u: %s\n", c.op, c.slot, strerror(errno));
		exit(2);
	}
	return c;
}

/* ---- HIP ---- */

bool hip_up(void)
{
	void *lib = dlopen("libamdhip64.so.6", RTLD_NOW);

	if (!lib)
		lib = dlopen("libamdhip64.so", RTLD_NOW);
	if (!lib)
		return false;
	hip.hipMalloc = (int (*)(void **, size_t))dlsym(lib, "hipMalloc");
	hip.hipFree = (int (*)(void *))dlsym(lib, "hipFree");
	hip.hipMemcpy = (int (*)(void *, const void *, size_t, int))dlsym(lib, "hipMemcpy");
	hip.hipHostMalloc = (int (*)(void **, size_t, unsigned int))dlsym(lib, "hipHostMalloc");
	hip.hipHostFree = (int (*)(void *))dlsym(lib, "hipHostFree");
	return hip.hipMalloc && hip.hipFree && hip.hipMemcpy;
}

static void hip_must(int error, const char *call)
{
	if (!error)
		return;
	fprintf(stderr, "%s: error %d\n", call, error);
	exit(2);
}

char *gpu_alloc(size_t size)
{
	void *p = NULL;

	hip_must(hip.hipMalloc(&p, size), "hipMalloc");
	return p;
}

void gpu_free(void *p)
{
	hip_must(hip.hipFree(p), "hipFree");
}

char *host_alloc(size_t size)
{
	void *p = NULL;

	if (hip.hipHostMalloc && hip.hipHostFree)
		hip_must(hip.hipHostMalloc(&p, size, 0), "hipHostMalloc");
	return p;
}

void host_free(void *p)
{
	hip_must(hip.hipHostFree(p), "hipHostFree");
}

void gpu_copy(void *dst, const void *src, size_t size)
{
	hip_must(hip.hipMemcpy(dst, src, size, 4), "hipMemcpy");
}

/* ---- running ---- */

static void run_group(const struct group *g)
{
	const time_t until = time(NULL) + seconds;
	int status;
	pid_t pid;

	if (only && strcmp(only, g->name))
		return;
	group_name = g->name;
	fflush(NULL);
	pid = fork();
	if (!pid) {
		if (!hip_up()) {
			fprintf(stderr, "there is no libamdhip64.so.6\n");
			exit(2);
		}
		g->run();
		exit(0);
	}
	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (time(NULL) >= until + 5) {
			row(FAIL, "an end", "an end", "none in %u s, and it cannot be killed", seconds);
			return;
		}
		if (time(NULL) >= until)
			kill(pid, SIGKILL);
		nap_ms(5);
	}
	if (WIFSIGNALED(status))
		row(FAIL, "an end", "an end", "signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		row(FAIL, "that it can be tried", "an end", "it broke off: see standard error");
	T(.op = A_RESET);
}

static unsigned int count(enum verdict verdict)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < board->count && i < ROWS_MAX; i++)
		n += board->rows[i].verdict == verdict;
	return n;
}

static void table(void)
{
	static const char *const verdicts[] = { "ok", "FAIL", "n.a." };

	printf("amd_rdma_interface %d.0\n\n%-14s %-64s %-34s %-34s\n", api, "rule", "what was done", "expected", "seen");
	for (unsigned int i = 0; i < board->count && i < ROWS_MAX; i++) {
		const struct row *r = &board->rows[i];

		printf("%-14s %-64s %-34s %-34s %s\n", r->group, r->what, r->expected, r->seen, verdicts[r->verdict]);
	}
	printf("\n%u ok, %u FAIL, %u n.a.\n", count(OK), count(FAIL), count(NA));
}

static int cannot(const char *why)
{
	fprintf(stderr, "amd_conform: %s\n", why);
	return 2;
}

static bool parse(int argc, char **argv)
{
	static const struct option list[] = {
		{ "no-callbacks", no_argument, NULL, 'n' }, { "only", required_argument, NULL, 'o' },
		{ "peer", required_argument, NULL, 'p' }, { "timeout", required_argument, NULL, 't' },
		{ "help", no_argument, NULL, 'h' }, { 0 },
	};
	unsigned int domain, bus, device, function;
	int c;

	while ((c = getopt_long(argc, argv, "", list, NULL)) != -1) {
		switch (c) {
		case 'n':
			callbacks = false;
			break;
		case 'o':
			only = optarg;
			break;
		case 'p':
			if (sscanf(optarg, "%x:%x:%x.%u", &domain, &bus, &device, &function) != 4)
				return false;
			peer = domain << 16 | bus << 8 | device << 3 | function;
			break;
		case 't':
			seconds = (unsigned int)atoi(optarg);
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			return false;
		}
	}
	return optind == argc && seconds;
}

int main(int argc, char **argv)
{
	if (!parse(argc, argv)) {
		fputs(usage, stderr);
		return 2;
	}
	client = open("/dev/" AMD_RDMA_TEST_DEVICE, O_RDWR | O_CLOEXEC);
	if (client < 0)
		return cannot("/dev/" AMD_RDMA_TEST_DEVICE ": load amd_rdma_test.ko or amd_rdma_test_1.ko, and be root");
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		return cannot("no memory");
	api = (int)T(.op = A_VERSION).value;
	for (const struct group *g = groups; g->run; g++)
		run_group(g);
	table();
	if (!count(OK))
		return cannot("nothing was tried");
	return count(FAIL) ? 1 : 0;
}
