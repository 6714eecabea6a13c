// SPDX-License-Identifier: MIT
/*
 * test_query_child.c - a process that has libcuda loaded but never used it
 * forks; the child does use it.  PEERDMA_CUDA, which is read once a process.  And
 * a container that forbids process_vm_readv().
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "peerdma.h"

static char *window;

static uint32_t kind(void)
{
	struct peerdma_memory m = { .size = sizeof(m) };

	return peerdma_query(NULL, window, &m) ? 99 : m.kind;
}

static struct fake_cuda *loaded(int flags)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | flags);
	struct fake_cuda *(*get)(void) = NULL;

	if (library)
		*(void **)&get = dlsym(library, "fake_cuda");
	return get ? get() : NULL;
}

static void put_memory(struct fake_cuda *cuda)
{
	cuda->state = 0;
	cuda->memory[0] = (struct fake_memory){ .base = (uintptr_t)window, .size = 4096, .type = 2, .context = cuda, .id = 1 };
}

static int check(const char *what, int ok)
{
	printf("%s %s\n", ok ? "ok" : "not ok", what);
	return !ok;
}

static int child_uses_cuda(void)
{
	struct fake_cuda *cuda = loaded(0);
	int status = 1, failed = check("before cuInit() nothing is a GPU's", kind() == PEERDMA_KIND_UNKNOWN);
	pid_t pid = fork();

	if (!pid) {
		put_memory(cuda);
		_exit(kind() != PEERDMA_KIND_DEVICE);
	}
	waitpid(pid, &status, 0);
	return failed + check("the child's own CUDA is asked", status == 0);
}

static int notice(void)
{
	int failed = check("without CUDA", kind() == PEERDMA_KIND_UNKNOWN);

	failed += check("libcuda is not loaded by a query", !loaded(RTLD_NOLOAD));
	put_memory(loaded(0));
	return failed + check("libcuda is noticed once it is loaded", kind() == PEERDMA_KIND_DEVICE);
}

static int load(void)
{
	int failed = check("no memory yet", kind() == PEERDMA_KIND_UNKNOWN);
	struct fake_cuda *cuda = loaded(RTLD_NOLOAD);

	failed += check("PEERDMA_CUDA=load loads it", !!cuda);
	if (cuda) {
		put_memory(cuda);
		failed += check("and asks it", kind() == PEERDMA_KIND_DEVICE);
	}
	return failed;
}

static int open_loads(void)
{
	struct peerdma *ctx = NULL;
	int failed = check("a context with CUDA", !peerdma_open(&ctx, PEERDMA_OPEN_CUDA) && ctx);

	peerdma_close(ctx);
	return failed + check("has loaded libcuda", !!loaded(RTLD_NOLOAD));
}

static int off(void)
{
	put_memory(loaded(0));
	return check("PEERDMA_CUDA=off never asks it", kind() == PEERDMA_KIND_UNKNOWN);
}

/* As a container's filter does: this call fails with EPERM. */
static int forbid(int call)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* With one means of looking less each time; the last time the one that is left tells as much. */
static int look(void)
{
	struct peerdma_memory m = { .size = sizeof(m) };
	char *big = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int failed = check("unreadable", kind() == PEERDMA_KIND_UNKNOWN);

	failed += check("readable", !peerdma_query(NULL, big + 4095, &m) && m.kind == PEERDMA_KIND_HOST);
	mprotect(big + 4096, 4096, PROT_NONE);
	failed += check("readable, before what is not", !peerdma_query(NULL, big + 4095, &m) && m.kind == PEERDMA_KIND_HOST);
	munmap(big, 1 << 20);
	failed += check("gone", !peerdma_query(NULL, big + 4095, &m) && m.kind == PEERDMA_KIND_UNKNOWN);
	return failed;
}

static int confined(void)
{
	const long calls[] = { SYS_madvise, SYS_process_vm_readv };
	int failed = look();

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (forbid(calls[i])) {
			printf("seccomp is not available\n");
			return 77;
		}
		failed += look();
	}
	return failed;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	window = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	setvbuf(stdout, NULL, _IONBF, 0);
	if (!strcmp(mode, "child"))
		return child_uses_cuda();
	if (!strcmp(mode, "notice"))
		return notice();
	if (!strcmp(mode, "load"))
		return load();
	if (!strcmp(mode, "open"))
		return open_loads();
	if (!strcmp(mode, "off"))
		return off();
	if (!strcmp(mode, "confined"))
		return confined();
	fprintf(stderr, "Usage: test_query_child child|notice|load|open|off|confined\n");
	return 1;
}
