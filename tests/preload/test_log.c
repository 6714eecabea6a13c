// SPDX-License-Identifier: MIT
/*
 * test_log.c - libpeerdma-verbs: what it prints, by PEERDMA_VERBS_LOG; and what each call returns where the process has no
 * libibverbs.
 *
 * usage: test_log LIBIBVERBS LIBCUDA	stand-ins; "" for none
 */
#include <dlfcn.h>
#include <sys/mman.h>

#include "cuda_calls.h"
#include "fake_verbs.h"
#include "peerdma.h"
#include "checks.h"
#include "verbs_calls.h"

#define LENGTH (1UL << 20)

static struct cuda_calls cu;
static struct fake_verbs *verbs;
static void *domain[1] = { "a context" };
static char text[4096];
static int real_stderr, caught;

static void catch_begin(void)
{
	fflush(stderr);
	real_stderr = dup(2);
	caught = memfd_create("stderr", MFD_CLOEXEC);
	dup2(caught, 2);
}

static const char *catch_end(void)
{
	ssize_t n;

	fflush(stderr);
	n = pread(caught, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = 0;
	dup2(real_stderr, 2);
	close(real_stderr);
	close(caught);
	return text;
}

static void without(void)
{
	struct ibv_mr none = { 0 };
	char memory[16];

#define ABSENT(call, failed) do {							\
	errno = 0;									\
	CHECK((call) == (failed) && errno == EOPNOTSUPP, #call);			\
} while (0)
	ABSENT(ibv_reg_mr(domain, memory, 16, 0), NULL);
	ABSENT(ibv_reg_mr_iova(domain, memory, 16, (uintptr_t)memory, 0), NULL);
	ABSENT(ibv_reg_mr_iova2(domain, memory, 16, (uintptr_t)memory, 0), NULL);
	ABSENT(ibv_reg_dmabuf_mr(domain, 0, 16, 0, 0, 0), NULL);
	ABSENT(ibv_reg_mr_ex(domain, &(struct ibv_mr_init_attr){ .comp_mask = MASK_ADDR, .addr = memory, .length = 16 }), NULL);
	ABSENT(ibv_reg_mr_ex(domain, &(struct ibv_mr_init_attr){ .comp_mask = MASK_FD | MASK_FD_OFFSET | MASK_IOVA }), NULL);
	ABSENT(ibv_reg_mr_ex(domain, &(struct ibv_mr_init_attr){ .comp_mask = MASK_DMAH }), NULL);
	ABSENT(ibv_rereg_mr(&none, 0, domain, memory, 16, 0), -1);
	CHECK(ibv_dereg_mr(&none) == EOPNOTSUPP, "ibv_dereg_mr");
	CHECK(ibv_dealloc_pd(domain) == EOPNOTSUPP, "ibv_dealloc_pd");
}

static int is_gpu(const void *addr)
{
	int kind = 0;

	return !cu.cuPointerGetAttribute(&kind, 2, (gpu_ptr)(uintptr_t)addr) && kind == 2;
}

/* One that works, or not: what was printed.  The entry must not matter, and errno is the call's own. */
static const char *printed(const char *level, int entry, void *p, int error)
{
	struct ibv_mr_init_attr attr = { .comp_mask = MASK_ADDR, .addr = p, .length = 4096, .access = 1 };
	struct ibv_mr *mr;

	if (level)
		setenv("PEERDMA_VERBS_LOG", level, 1);
	else
		unsetenv("PEERDMA_VERBS_LOG");
	verbs->error = verbs->dmabuf_error = error;
	catch_begin();
	errno = 0;
	mr = entry == 0 ? ibv_reg_mr(domain, p, 4096, 1) : entry == 1 ? ibv_reg_mr_iova(domain, p, 4096, (uintptr_t)p, 1) :
	     entry == 2 ? ibv_reg_mr_iova2(domain, p, 4096, (uintptr_t)p, 1) : ibv_reg_mr_ex(domain, &attr);
	error = errno;
	catch_end();
	if (!CHECK(!mr == !!verbs->error, "level %s: registered or not", level ? level : "none"))
		return text;
	if (!mr)
		CHECK(error == verbs->error, "level %s: errno %d", level ? level : "none", error);
	verbs->error = verbs->dmabuf_error = 0;
	if (mr)
		CHECK(!ibv_dereg_mr(mr), "and its end");
	return text;
}

static bool has(const char *entry, const char *what)
{
	char begins[64];

	snprintf(begins, sizeof(begins), "peerdma-verbs: %s: [", entry);
	return !strncmp(text, begins, strlen(begins)) && strstr(text, what) && strchr(text, '\n') == text + strlen(text) - 1;
}

static void levels(void)
{
	static const char *const entries[] = { "ibv_reg_mr", "ibv_reg_mr_iova", "ibv_reg_mr_iova2", "ibv_reg_mr_ex" };
	static char host[4096];
	struct ibv_mr *mr;
	gpu_ptr p = 0;

	CHECK(!cu.cuMemAlloc_v2(&p, LENGTH), "GPU memory");
#define AT ((void *)(uintptr_t)p)
	for (int i = 0; i < 4; i++) {
		CHECK(!*printed(NULL, i, AT, 0) && !*printed("", i, AT, 0) && !*printed("0", i, AT, 0),
		      "what works is not printed");
		printed("1", i, AT, 0);
		CHECK(has(entries[i], "+4096): a GPU's memory, lkey 0x"), "unless that is asked for: %s", text);
		CHECK(!*printed("1", i, host, 0), "and nothing of host memory");
	}
	CHECK(!*printed("0", 0, AT, ENOMEM), "level 0: not the first failure");
	printed("2", 0, AT, ENOMEM);
	CHECK(has("ibv_reg_mr", "is a GPU's memory and was not registered: peerdma_verbs_mr: "), "each failure: %s", text);
	printed(NULL, 1, AT, ENOMEM);
	CHECK(has("ibv_reg_mr_iova", "is a GPU's memory and was not registered: "), "none said: the first: %s", text);
	CHECK(!*printed(NULL, 2, AT, ENOMEM) && !*printed("", 0, AT, ENOMEM), "and no more");
	printed("1", 2, AT, ENOMEM);
	CHECK(has("ibv_reg_mr_iova2", "was not registered: "), "each: %s", text);

	setenv("PEERDMA_VERBS_LOG", "1", 1);
	verbs->dmabuf_error = EOPNOTSUPP;
	verbs->kernel_has_dmabuf = 1;
	catch_begin();
	mr = ibv_reg_dmabuf_mr(domain, 8192, 4096, 0, 0, 1);
	catch_end();
	CHECK(mr && !ibv_dereg_mr(mr), "a dma-buf");
	CHECK(has("ibv_reg_dmabuf_mr", "[0x2000, +4096): by the kernel, not the provider library, lkey 0x4d"),
	      "by the kernel: %s", text);
	verbs->dmabuf_error = verbs->kernel_has_dmabuf = 0;

	CHECK(!ibv_dealloc_pd(domain) && verbs->domains_ended == 1, "the domain ends");
	cu.cuMemFree_v2(p);
}

int main(int argc, char **argv)
{
	struct fake_verbs *(*stand_in)(void) = NULL;
	void *library, *context = NULL;

	if (argc < 3)
		return 2;
	if (!*argv[1]) {
		without();
		return check_end(NULL);
	}
	library = dlopen(argv[1], RTLD_NOW);
	stand_in = library ? (struct fake_verbs *(*)(void))dlsym(library, "fake_verbs") : NULL;
	if (!stand_in || !dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL) || !cuda_calls_load(&cu)) {
		fprintf(stderr, "test_log: %s\n", dlerror());
		return 1;
	}
	verbs = stand_in();
	verbs->not_host = is_gpu;
	CHECK(!cu.cuInit(0) && !cu.cuDevicePrimaryCtxRetain(&context, 0) && !cu.cuCtxSetCurrent(context), "a GPU");
	levels();
	return check_end(NULL);
}
