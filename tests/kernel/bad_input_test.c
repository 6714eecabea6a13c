// SPDX-License-Identifier: MIT
/*
 * bad_input_test.c - what the bridge must refuse where two makes' memory is in one
 * process: addresses of no GPU, of two, of a process that died, across from one
 * make's memory or the host's into another's; and providers that answer wrongly.
 * After each refusal nothing is left, and right ones work.  Needs softgpu.ko with both
 * personalities, and both providers.
 */
#include "peerdma_test.h"
#include "sgraw.h"

#define LENGTH	(2 * GPU_PAGE)
#define BLOCKS	64

static struct gpu_side { uint64_t va[BLOCKS]; uint32_t n; } cuda, hsa;
static int fd;

/* A process with a context of CUDA's and one of HSA's. */
struct side {
	struct gpu gpu;
	uint32_t hsa;
};

static struct side side_up(void)
{
	struct side s = { .gpu = gpu_up(0) };

	s.hsa = sg_ctx_visible(s.gpu.fd);
	return s;
}

static void set(const char *name, const char *value)
{
	CHECK(module_set("amdgpu", name, value));
}

static int try(uint64_t va, size_t length, uint32_t flags)
{
	struct peerdma_pin_args a;
	int err = pin_va(fd, va, length, flags, &a) ? errno : 0;

	if (!err)
		WORKS(unpin(fd, a.handle));
	CHECK(live_pins(fd) == 0);
	return err;
}

static void refused(int expected, uint64_t va, size_t length)
{
	int device = try(va, length, PEERDMA_PIN_DEVICE), any = try(va, length, 0);

	CHECK(device == expected && (any == expected || any == EFAULT), "%#llx, %zu bytes: %d and %d, not %d",
	      (unsigned long long)va, length, device, any, expected);
}

static void both_work(void)
{
	CHECK(!try(cuda.va[0], LENGTH, 0));
	CHECK(!try(hsa.va[0], LENGTH, 0));
}

static void of_no_gpu(void)
{
	char *memory = host_memory(PAGE);

	refused(ENXIO, 1UL << 46, PAGE);
	refused(ENXIO, PAGE, PAGE);
	refused(ENXIO, 0xffff888000000000, PAGE);
	munmap(memory, PAGE);
	refused(ENXIO, (uintptr_t)memory, PAGE);
	both_work();
}

/* Where one make's allocation is followed by the other's. */
static void across(void)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < BLOCKS; i++) {
		for (uint32_t k = 0; k < BLOCKS; k++) {
			bool first = cuda.va[i] + LENGTH == hsa.va[k];

			if (!first && hsa.va[k] + LENGTH != cuda.va[i])
				continue;
			found++;
			refused(ENXIO, first ? cuda.va[i] : hsa.va[k], 2 * LENGTH);
			refused(ENXIO, (first ? hsa.va[k] : cuda.va[i]) - GPU_PAGE, 2 * GPU_PAGE);
		}
	}
	CHECK(found);
	both_work();
}

/* From the host's into HIP's, which the CPU may look at as well. */
static void across_from_host(void)
{
	uint64_t va = hsa.va[0];

	refused(ENXIO, va - GPU_PAGE, LENGTH);
	both_work();
}

static void of_the_dead(void)
{
	uint64_t va[2] = { 0 };
	int ends[2];
	pid_t child;

	CHECK(!pipe(ends));
	child = fork();
	if (!child) {
		struct side side = side_up();
		struct peerdma_pin_args a;

		va[0] = need_alloc(&side.gpu, LENGTH);
		va[1] = sg_need_alloc(side.gpu.fd, side.hsa, LENGTH);
		/* There they are good. */
		if (pin_va(fd, va[0], LENGTH, 0, &a) || unpin(fd, a.handle) || pin_va(fd, va[1], LENGTH, 0, &a) ||
		    unpin(fd, a.handle))
			va[0] = 0;
		_exit(write(ends[1], va, sizeof(va)) != sizeof(va));
	}
	close(ends[1]);
	CHECK(read(ends[0], va, sizeof(va)) == sizeof(va) && va[0]);
	CHECK(waitpid(child, NULL, 0) == child);
	close(ends[0]);
	/* In its parent, if that has nothing of its own there. */
	for (int i = 0; i < 2; i++) {
		bool own = false;

		for (uint32_t k = 0; k < BLOCKS; k++)
			own |= cuda.va[k] - va[i] < LENGTH || hsa.va[k] - va[i] < LENGTH ||
				va[i] - cuda.va[k] < LENGTH || va[i] - hsa.va[k] < LENGTH;
		if (!own)
			refused(ENXIO, va[i], LENGTH);
	}
	both_work();
}

/* An address that two drivers take for theirs is neither's, whichever is asked first. */
static void of_two(void)
{
	set("any_memory", "1");
	refused(EOPNOTSUPP, cuda.va[0], LENGTH);
	/* Only one says so of this. */
	CHECK(!try(hsa.va[0], LENGTH, 0));
	set("any_memory", "0");
	both_work();
}

static void wrong_answers(void)
{
	char pages[24];

	snprintf(pages, sizeof(pages), "%lu", 16 * PAGE);
	set("page_size", pages);
	refused(EOPNOTSUPP, hsa.va[0], LENGTH);
	set("page_size", "2048");
	refused(EOPNOTSUPP, hsa.va[0], LENGTH);
	snprintf(pages, sizeof(pages), "%lu", PAGE);
	set("page_size", pages);
	both_work();
	set("short_table", "1");
	refused(EOPNOTSUPP, hsa.va[0], LENGTH);
	CHECK(!try(cuda.va[0], LENGTH, 0));
	set("short_table", "0");
	both_work();
}

int main(void)
{
	struct side side;

	setvbuf(stdout, NULL, _IOLBF, 0);
	fd = dev_open();
	side = side_up();
	for (cuda.n = hsa.n = 0; cuda.n < BLOCKS; cuda.n++, hsa.n++) {
		cuda.va[cuda.n] = need_alloc(&side.gpu, LENGTH);
		hsa.va[hsa.n] = sg_need_alloc(side.gpu.fd, side.hsa, LENGTH);
	}
	both_work();
	run("addresses of no GPU", of_no_gpu);
	run("ranges from one make's memory into the other's", across);
	run("a range from the host's memory into a GPU's", across_from_host);
	run("addresses of a process that died", of_the_dead);
	run("addresses of two", of_two);
	run("answers that make no sense", wrong_answers);
	return check_end("input that makes no sense");
}
