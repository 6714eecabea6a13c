// SPDX-License-Identifier: MIT
/*
 * test_preload.c - libpeerdma-verbs, on the software GPU in this process.  libibverbs is a
 * stand-in that knows no addresses of a GPU's, as a kernel without a peer-memory client.  The
 * arguments: its path, that of softgpu's libcuda, and "cached" with PEERDMA_VERBS_CACHE=1.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "cuda_calls.h"
#include "fake_verbs.h"
#include "peerdma.h"
#include "checks.h"
#include "verbs_calls.h"

#define LENGTH	(1UL << 20)
#define THREADS	4
#define ROUNDS	500
#define OUR_OWN	0x7		/* local write, remote write, remote read */

static struct cuda_calls cu;
static struct fake_verbs *verbs;
static int has_ex;	/* the stand-in has ibv_reg_mr_ex() */
static void *domain[2] = { "a context", "another" };

static int is_gpu(const void *addr)
{
	int kind = 0;

	return !cu.cuPointerGetAttribute(&kind, 2, (gpu_ptr)(uintptr_t)addr) && kind == 2;
}

static int live(void)
{
	int n = 0;

	for (int i = 0; i < FAKE_MRS; i++)
		n += verbs->mrs[i].live > 0;
	return n;
}

static int twice(void)
{
	int n = 0;

	for (int i = 0; i < FAKE_MRS; i++)
		n += verbs->mrs[i].live < 0;
	return n;
}

static int real(const struct ibv_mr *mr)
{
	return (void *)mr >= (void *)verbs->mrs && (void *)mr < (void *)(verbs->mrs + FAKE_MRS);
}

static void *gpu_alloc(void)
{
	gpu_ptr p = 0;

	CHECK(!cu.cuMemAlloc_v2(&p, LENGTH), "GPU memory");
	return (void *)(uintptr_t)p;
}

static void gpu_free(void *p)
{
	cu.cuMemFree_v2((gpu_ptr)(uintptr_t)p);
}

static void others_stay_as_they_are(void)
{
	static char memory[8192];
	struct ibv_mr *mr = ibv_reg_mr(domain, memory, sizeof(memory), OUR_OWN);

	CHECK(mr && real(mr), "host memory: libibverbs' own MR");
	CHECK(!ibv_rereg_mr(mr, 0, domain, memory, 1, 1) && verbs->reregistered == 1, "which is registered anew by libibverbs");
	CHECK(!ibv_dereg_mr(mr) && !live(), "and deregistered by it");
	verbs->not_memory = memory;
	errno = 0;
	CHECK(!ibv_reg_mr(domain, memory, 1, 0) && errno == EFAULT, "host memory that is refused stays refused, for its reason");
	CHECK(!ibv_reg_mr_iova(domain, memory, 1, 0, 0) && errno == EFAULT, "also elsewhere");
	verbs->not_memory = NULL;
	verbs->error = EINVAL;
	CHECK(!ibv_reg_mr(domain, memory, 1, 0) && errno == EINVAL, "whatever that is");
	verbs->error = 0;
}

static void gpu_memory(void)
{
	char *buffer = gpu_alloc();
	struct ibv_mr *mr = ibv_reg_mr(domain, buffer + 100, 5000, OUR_OWN), *other;

	CHECK(mr && !real(mr) && mr->addr == buffer + 100 && mr->length == 5000, "a GPU's memory is registered");
	if (!mr)
		return;
	CHECK(live() == 1 && mr->pd == domain && mr->lkey && mr->rkey, "with the device's keys");
	other = ibv_reg_mr_iova2(domain, buffer, LENGTH, (uintptr_t)buffer, OUR_OWN | 1U << 20);
	CHECK(other && other->lkey != mr->lkey && live() == 2, "another MR of it");
	CHECK(ibv_rereg_mr(mr, 1, domain + 1, NULL, 0, 0) == -1 && errno == EOPNOTSUPP, "it cannot be registered anew, and says so");
	CHECK(!ibv_dereg_mr(mr) && live() == 1, "the first ends, the other does not");
	verbs->dereg_error = EBUSY;
	CHECK(ibv_dereg_mr(other) == EBUSY && live() == 1, "a memory window is bound to it: it stays");
	verbs->dereg_error = 0;
	CHECK(!ibv_dereg_mr(other) && !live(), "until it is not");
	mr = ibv_reg_mr_iova(domain, buffer, 4096, (uintptr_t)buffer, 1 << 2);
	CHECK(mr && live() == 1, "one that devices only read");
	CHECK(!ibv_dereg_mr(mr) && !live(), "ends");
	CHECK(!ibv_reg_mr_iova(domain, buffer, 4096, 0, 1) && errno == EFAULT, "one at another address is not tried");
	gpu_free(buffer);
	verbs->not_memory = buffer;
	CHECK(!ibv_reg_mr(domain, buffer, 4096, 1) && errno == EFAULT, "what was freed is no memory");
	verbs->not_memory = NULL;
}

/* Kernels that would register pages of zeros in place of memory that is only read. */
static void not_by_force(void)
{
	char *buffer = gpu_alloc();
	static char memory[4096];
	struct ibv_mr *mr;
	int before;

	verbs->forces = 1;
	for (int access = 0; access <= 1 << 2; access += 1 << 2) {
		mr = ibv_reg_mr(domain, buffer, LENGTH, access);
		CHECK(mr && !real(mr) && live() == 1, "access %d: the GPU's memory", access);
		CHECK(mr && !ibv_dereg_mr(mr) && !live(), "ends, and so has the trial");
	}
	errno = 0;
	CHECK(!ibv_reg_mr_iova(domain, buffer, 4096, 0, 0) && errno == EFAULT, "at another address: refused, as newer kernels do");
	errno = 0;
	CHECK(!ibv_reg_mr(domain, buffer - 4096, 8192, 0) && errno == EFAULT, "host memory, and the GPU's behind it: refused, too");
	before = verbs->registered;
	mr = ibv_reg_mr(domain, memory, sizeof(memory), 0);
	CHECK(mr && real(mr) && verbs->registered == before + 1 && !ibv_dereg_mr(mr), "host memory: by libibverbs, with no trial");
	before = verbs->registered;
	mr = ibv_reg_mr(domain, buffer, LENGTH, OUR_OWN);
	CHECK(mr && !real(mr) && verbs->registered == before + 1 && !ibv_dereg_mr(mr), "none of memory that is written either");
	verbs->forces = 0;
	verbs->peer = is_gpu;
	mr = ibv_reg_mr(domain, buffer, LENGTH, 0);
	CHECK(mr && real(mr) && !ibv_dereg_mr(mr), "newer kernels with a peer-memory client: by libibverbs");
	verbs->peer = NULL;
	gpu_free(buffer);
}

static char *gpus;

/* Between the trial and the GPU's memory another thread's MR ends, and makes room. */
static int room_comes(const void *addr)
{
	verbs->error = (const char *)addr - gpus < (ptrdiff_t)LENGTH && (const char *)addr >= gpus ? 0 : ENOMEM;
	return 1;
}

/* Nor where a trial shows nothing. */
static void no_room_for_a_trial(void)
{
	struct ibv_mr *mr;

	gpus = gpu_alloc();
	verbs->forces = 1;
	verbs->not_host = room_comes;
	mr = ibv_reg_mr(domain, gpus, LENGTH, 0);
	CHECK(!mr || !real(mr), "no room for the trial, and there is for the MR: no pages of zeros");
	if (mr)
		ibv_dereg_mr(mr);
	verbs->not_host = is_gpu;
	verbs->forces = verbs->error = 0;
	mr = ibv_reg_mr(domain, gpus, LENGTH, 0);
	CHECK(mr && !ibv_dereg_mr(mr) && !live(), "nothing is left of it");
	gpu_free(gpus);
}

static void *cancelled(void *memory)
{
	struct ibv_mr **mr = memory;

	pthread_cancel(pthread_self());
	*mr = ibv_reg_mr(domain, gpus, 4096, 1);
	pthread_testcancel();
	return NULL;
}

static void *another(void *memory)
{
	struct ibv_mr **mr = memory;

	*mr = ibv_reg_mr(domain, gpus, 4096, 1);
	return NULL;
}

/* The first registration of all, which opens what the others need.  Without the cache the stand-in for libibverbs ends the thread before. */
static void cancelled_first(void)
{
	struct ibv_mr *first = NULL, *mr = NULL;
	struct timespec until;
	pthread_t t;

#ifdef __SANITIZE_ADDRESS__
	printf("skipped: AddressSanitizer takes the stack of a thread that was cancelled for one in use\n");
	return;
#endif
	gpus = gpu_alloc();
	setenv("PEERDMA_PROVIDER", "kernel,soft", 1);
	pthread_create(&t, NULL, cancelled, &first);
	pthread_join(t, NULL);
	setenv("PEERDMA_PROVIDER", "soft", 1);
	pthread_create(&t, NULL, another, &mr);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 20;
	if (pthread_timedjoin_np(t, NULL, &until)) {
		CHECK(0, "a thread was cancelled in the first registration: the next one waits for ever");
		exit(1);
	}
	CHECK(!!mr, "a thread is cancelled in the first registration, and the next one works");
	CHECK((!first || !ibv_dereg_mr(first)) && mr && !ibv_dereg_mr(mr), "both end");
	ibv_dealloc_pd(domain);
	verbs->domains_ended = 0;
	CHECK(!live(), "all of it");
	gpu_free(gpus);
}

static void freed_while_registered(void)
{
	static char memory[4096];
	void *buffer = gpu_alloc();
	struct ibv_mr *mr = ibv_reg_mr(domain, buffer, 4096, OUR_OWN), *next;

	CHECK(mr && live() == 1, "registered");
	gpu_free(buffer);
	CHECK(!live(), "the memory is freed: the device has no MR of it");
	next = ibv_reg_mr(domain, memory, sizeof(memory), OUR_OWN);
	CHECK(next && next != mr && live() == 1, "the next MR may take its place at the device");
	CHECK(!ibv_dereg_mr(mr) && live() == 1 && !twice(), "the program deregisters what is gone: no other MR goes");
	CHECK(!ibv_dereg_mr(next) && !live(), "the next goes when it is asked to");
}

static void dmabufs(void)
{
	int fd = open("/dev/zero", O_RDWR);
	struct ibv_mr *mr;

	verbs->dmabuf_error = EINVAL;
	CHECK(!ibv_reg_dmabuf_mr(domain, 0, 4096, 0, fd, 1) && errno == EINVAL, "a dma-buf that is refused stays refused");
	verbs->dmabuf_error = EOPNOTSUPP;
	CHECK(!ibv_reg_dmabuf_mr(domain, 0, 4096, 0, fd, 1) && errno == EOPNOTSUPP, "neither provider library nor kernel");
	verbs->kernel_has_dmabuf = 1;
	mr = ibv_reg_dmabuf_mr(domain, 8192, 4096, 0, fd, 1);
	CHECK(mr && mr->lkey == 77 && mr->pd == domain && mr->context == domain[0] && verbs->by_kernel == 1, "the kernel alone");
	verbs->dereg_error = EBUSY;
	CHECK(ibv_dereg_mr(mr) == EBUSY && verbs->by_kernel == 1, "busy");
	verbs->dereg_error = 0;
	CHECK(!ibv_dereg_mr(mr) && !verbs->by_kernel, "and its end");
	verbs->dmabuf_error = verbs->kernel_has_dmabuf = 0;
	close(fd);
}

static struct ibv_mr *reg_ex(uint64_t mask, void *addr, size_t length, uint64_t iova, void *dmah)
{
	return ibv_reg_mr_ex(domain, &(struct ibv_mr_init_attr){ .comp_mask = mask, .addr = addr, .length = length, .iova = iova,
								 .dmah = dmah, .access = OUR_OWN, .fd = -1 });
}

/* ibv_reg_mr_ex() of an address: as the calls before it, whether libibverbs has it or not. */
static void by_attributes(void)
{
	static char memory[8192];
	char *buffer = gpu_alloc();
	int before = verbs->by_ex;
	struct ibv_mr *mr = reg_ex(MASK_ADDR, memory, sizeof(memory), 1, NULL);

	CHECK(mr && real(mr) && verbs->by_ex == before + has_ex, "by attributes, host memory: by libibverbs' call of that name");
	CHECK(mr && ((struct fake_mr *)mr)->iova == (uintptr_t)memory && !ibv_dereg_mr(mr), "at its own address");
	mr = reg_ex(MASK_ADDR | MASK_IOVA, memory, sizeof(memory), 4096, NULL);
	CHECK(mr && real(mr) && ((struct fake_mr *)mr)->iova == 4096 && !ibv_dereg_mr(mr), "at another");
	verbs->not_memory = memory;
	errno = 0;
	CHECK(!reg_ex(MASK_ADDR, memory, 1, 0, NULL) && errno == EFAULT, "what is refused stays refused");
	verbs->not_memory = NULL;

	mr = reg_ex(MASK_ADDR, buffer + 100, 5000, 1, NULL);
	CHECK(mr && !real(mr) && mr->addr == buffer + 100 && mr->length == 5000 && live() == 1, "a GPU's memory is registered");
	CHECK(mr && !ibv_dereg_mr(mr) && !live(), "and ends");
	mr = reg_ex(MASK_ADDR | MASK_IOVA, buffer, 4096, (uintptr_t)buffer, NULL);
	CHECK(mr && !real(mr) && !ibv_dereg_mr(mr) && !live(), "also with its own address named");
	errno = 0;
	CHECK(!reg_ex(MASK_ADDR | MASK_IOVA, buffer, 4096, 0, NULL) && errno == EFAULT, "one at another address is not tried");
	verbs->forces = 1;
	mr = ibv_reg_mr_ex(domain, &(struct ibv_mr_init_attr){ .comp_mask = MASK_ADDR, .addr = buffer, .length = LENGTH });
	CHECK(mr && !real(mr) && !ibv_dereg_mr(mr) && !live(), "one that devices only read: no pages of zeros");
	verbs->forces = 0;

	/* What only libibverbs can do. */
	errno = 0;
	CHECK(!reg_ex(MASK_ADDR | MASK_DMAH, buffer, 4096, 0, memory) && errno == (has_ex ? EFAULT : EOPNOTSUPP),
	      "a GPU's memory with a DMA handle: not by this library, which would drop the handle");
	errno = 0;
	mr = reg_ex(MASK_ADDR | MASK_DMAH, memory, 4096, 0, memory);
	CHECK(has_ex ? mr && verbs->dmah == memory && !ibv_dereg_mr(mr) : !mr && errno == EOPNOTSUPP, "host memory with one: by libibverbs");
	errno = 0;
	CHECK(!reg_ex(MASK_ADDR | 1 << 30, memory, 4096, 0, NULL) && errno == (has_ex ? EINVAL : EOPNOTSUPP),
	      "a field that is not known: libibverbs decides");
	errno = 0;
	CHECK(!reg_ex(MASK_IOVA, memory, 4096, 0, NULL) && errno == (has_ex ? EINVAL : EOPNOTSUPP), "no address: libibverbs decides");
	gpu_free(buffer);
}

static struct ibv_mr *reg_dmabuf_ex(uint64_t mask, int fd)
{
	return ibv_reg_mr_ex(domain, &(struct ibv_mr_init_attr){ .comp_mask = mask | MASK_FD | MASK_FD_OFFSET, .fd = fd,
								 .fd_offset = 8192, .length = 4096, .access = 1 });
}

/* And of a dma-buf. */
static void dmabufs_by_attributes(void)
{
	int fd = memfd_create("a dma-buf", MFD_CLOEXEC), before = verbs->by_dmabuf;
	struct ibv_mr *mr;

	CHECK(fd >= 0 && !ftruncate(fd, 65536), "a file");
	mr = reg_dmabuf_ex(MASK_IOVA, fd);
	CHECK(mr && real(mr) && verbs->by_dmabuf == before + 1 && !ibv_dereg_mr(mr), "a dma-buf: by libibverbs");
	verbs->dmabuf_error = EOPNOTSUPP;
	errno = 0;
	CHECK(!reg_dmabuf_ex(MASK_IOVA, fd) && errno == EOPNOTSUPP, "neither provider library nor kernel");
	verbs->kernel_has_dmabuf = 1;
	mr = reg_dmabuf_ex(MASK_IOVA, fd);
	CHECK(mr && mr->lkey == 77 && mr->pd == domain && verbs->by_kernel == 1, "the kernel alone");
	CHECK(mr && !ibv_dereg_mr(mr) && !verbs->by_kernel, "and its end");
	errno = 0;
	CHECK(!reg_dmabuf_ex(MASK_IOVA | MASK_DMAH, fd) && errno == EOPNOTSUPP && !verbs->by_kernel,
	      "with a DMA handle: not by the kernel's older call, which has none");
	CHECK(!reg_dmabuf_ex(0, fd) && !verbs->by_kernel, "without an address for work requests: libibverbs decides");
	verbs->dmabuf_error = EINVAL;
	errno = 0;
	CHECK(!reg_dmabuf_ex(MASK_IOVA, fd) && errno == EINVAL && !verbs->by_kernel, "one that is refused stays refused");
	verbs->dmabuf_error = verbs->kernel_has_dmabuf = 0;
	close(fd);
}

static int at_work;

static void *registers_dmabufs(void *unused)
{
	struct ibv_mr *mr;

	while (__atomic_load_n(&at_work, __ATOMIC_RELAXED)) {
		mr = ibv_reg_dmabuf_mr(domain, 8192, 4096, 0, 0, 1);
		if (!mr || ibv_dereg_mr(mr))
			return registers_dmabufs;
	}
	return unused;
}

/* A child is forked while threads register: it has their locks as they are just then. */
static void children_of_threads(void)
{
	struct ibv_mr *kept;
	pthread_t t[THREADS];
	int hung = 0, status;
	void *failed;

#ifdef __SANITIZE_THREAD__
	printf("skipped: ThreadSanitizer has locks of its own, which a child of several threads inherits\n");
	return;
#endif
	verbs->dmabuf_error = EOPNOTSUPP;
	verbs->kernel_has_dmabuf = at_work = 1;
	kept = ibv_reg_dmabuf_mr(domain, 8192, 4096, 0, 0, 1);
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&t[i], NULL, registers_dmabufs, NULL), "a thread");
	for (int i = 0; i < 300 && !hung; i++) {
		pid_t child = fork();

		if (!child) {
			alarm(10);
			_exit(!!ibv_dereg_mr(kept));
		}
		hung = child < 0 || waitpid(child, &status, 0) != child || status;
	}
	CHECK(!hung, "children deregister their copies while threads of their parent's registered (status 0x%x)", status);
	__atomic_store_n(&at_work, 0, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], &failed);
		CHECK(!failed, "each of its own");
	}
	CHECK(!ibv_dereg_mr(kept), "and the parent");
	verbs->dmabuf_error = verbs->kernel_has_dmabuf = 0;
}

static void in_a_child(void)
{
	void *buffer = gpu_alloc();
	struct ibv_mr *mr = ibv_reg_mr(domain, buffer, 4096, 1);
	static char memory[4096];
	int status = -1;
	pid_t child = fork();

	if (!child) {
		/* Its own MRs work; of its parent's only its copies go. */
		struct ibv_mr *own = ibv_reg_mr(domain, memory, sizeof(memory), 1);

		_exit(!own || ibv_dereg_mr(own) || ibv_dereg_mr(mr));
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child, "a forked child");
	CHECK(!status, "registers (status 0x%x)", status);
	CHECK(live() == 1 && !ibv_dereg_mr(mr) && !live(), "leaves the parent's MR alone");
	gpu_free(buffer);
}

static void *registers(void *arg)
{
	char *buffer = arg;

	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_mr *mr = ibv_reg_mr(domain, buffer + i % 64 * 4096, 4096, 1);

		if (!mr || mr->addr != buffer + i % 64 * 4096 || ibv_dereg_mr(mr))
			return registers;
	}
	return NULL;
}

static void from_threads(void)
{
	pthread_t t[THREADS];
	void *buffer = gpu_alloc(), *failed;
	int wrong = 0;

	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&t[i], NULL, registers, buffer), "a thread");
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], &failed);
		wrong += !!failed;
	}
	CHECK(!wrong && !twice(), "%d threads register and deregister", THREADS);
	gpu_free(buffer);
}

static void from_the_cache(void)
{
	char *buffer = gpu_alloc();
	struct ibv_mr *mr = ibv_reg_mr(domain, buffer, 65536, OUR_OWN), *again, *other;
	uint32_t key;

	CHECK(mr && live() == 1, "registered");
	key = mr ? mr->lkey : 0;
	CHECK(mr && !ibv_dereg_mr(mr) && live() == 1, "deregistered by the program, and kept");
	mr = ibv_reg_mr(domain, buffer + 4096, 100, OUR_OWN);
	again = ibv_reg_mr_iova2(domain, buffer, 65536, (uintptr_t)buffer, OUR_OWN);
	CHECK(mr && again && mr != again && mr->lkey == key && again->lkey == key && live() == 1, "found again, twice");
	CHECK(mr && mr->addr == buffer + 4096 && mr->length == 100, "each as it was asked for");
	other = reg_ex(MASK_ADDR, buffer + 8192, 100, 0, NULL);
	CHECK(other && other->lkey == key && live() == 1 && !ibv_dereg_mr(other), "also by attributes");
	errno = 0;
	CHECK(!reg_ex(MASK_ADDR | MASK_DMAH, buffer, 100, 0, domain) && errno, "but with a DMA handle");
	CHECK(mr && !ibv_dereg_mr(mr) && live() == 1, "one ends");
	gpu_free(buffer);
	CHECK(!live(), "the memory goes, and the MR with it");
	CHECK(again && !ibv_dereg_mr(again) && !twice(), "the program hears nothing of that");
	buffer = gpu_alloc();
	mr = ibv_reg_mr(domain, buffer, 65536, 1);
	CHECK(mr && mr->lkey != key && live() == 1, "what comes there next has another");
	CHECK(mr && !ibv_dereg_mr(mr) && live() == 1, "kept");
	CHECK(!ibv_dealloc_pd(domain) && verbs->domains_ended == 1 && !live(), "until its domain goes");
	gpu_free(buffer);
}

int main(int argc, char **argv)
{
	struct fake_verbs *(*stand_in)(void);
	void *library, *context = NULL;
	int cached = argc > 3 && !strcmp(argv[3], "cached");

	library = argc > 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	stand_in = library ? (struct fake_verbs *(*)(void))dlsym(library, "fake_verbs") : NULL;
	if (!stand_in || !dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL) || !cuda_calls_load(&cu)) {
		fprintf(stderr, "test_preload: %s\n", dlerror());
		return 1;
	}
	verbs = stand_in();
	has_ex = !!dlsym(library, "ibv_reg_mr_ex");
	verbs->not_host = is_gpu;
	CHECK(!cu.cuInit(0) && !cu.cuDevicePrimaryCtxRetain(&context, 0) && !cu.cuCtxSetCurrent(context), "a GPU");
	if (cached) {
		cancelled_first();
		from_the_cache();
	} else {
		others_stay_as_they_are();
		gpu_memory();
		not_by_force();
		no_room_for_a_trial();
		freed_while_registered();
		dmabufs();
		by_attributes();
		dmabufs_by_attributes();
		children_of_threads();
		in_a_child();
	}
	from_threads();
	return check_end(NULL);
}
