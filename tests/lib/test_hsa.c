// SPDX-License-Identifier: MIT
/*
 * test_hsa.c - peerdma_query() of AMD's memory, on a stand-in for HSA's runtime (stand-ins/fake_hsa.h).  On softgpu's, with
 * pins and a cache: live_hip.c.
 */
#include <dlfcn.h>
#include <sys/mman.h>

#include "checks.h"
#include "fake_hsa.h"
#include "peerdma.h"

#define LENGTH 65536UL

enum { UNKNOWN, HSA, LOCKED, GRAPHICS, IPC };	/* hsa_amd_pointer_type_t */
enum { CPU, GPU };				/* hsa_device_type_t */

static char *memory;

static struct peerdma_memory query(const char *p)
{
	struct peerdma_memory m = { .size = sizeof(m) };

	memset((char *)&m + sizeof(m.size), 0xff, sizeof(m) - sizeof(m.size));
	if (!CHECK(!peerdma_query(NULL, p, &m), "a question"))
		memset(&m, 0, sizeof(m));
	return m;
}

static struct fake_hsa *loaded(int flags)
{
	void *library = dlopen("libhsa-runtime64.so.1", RTLD_NOW | flags);
	struct fake_hsa *(*get)(void) = NULL;

	if (library)
		*(void **)&get = dlsym(library, "fake_hsa");
	return get ? get() : NULL;
}

static int is_gpus(const struct peerdma_memory *m)
{
	return m->kind == PEERDMA_KIND_DEVICE && m->flags == (PEERDMA_MEMORY_HSA | PEERDMA_MEMORY_PINNABLE) &&
	       m->base == (uintptr_t)memory && m->length == LENGTH && !m->buffer_id && m->device == -1;
}

/* The owner, the manner of the memory, and whether it is a GPU's. */
static void kinds(struct fake_hsa *hsa)
{
	static const struct {
		int type;
		uint32_t device;
		int gpus;
	} all[] = {
		{ HSA, GPU, 1 }, { IPC, GPU, 1 }, { HSA, CPU, 0 }, { IPC, CPU, 0 }, { LOCKED, GPU, 0 }, { GRAPHICS, GPU, 0 },
		{ UNKNOWN, GPU, 0 },
	};
	struct peerdma_memory m;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		hsa->type = all[i].type;
		hsa->device = all[i].device;
		m = query(memory);
		CHECK(all[i].gpus ? is_gpus(&m) : m.kind == PEERDMA_KIND_UNKNOWN && !m.flags, "type %d of device %u: kind %u, flags %#x",
		      all[i].type, all[i].device, m.kind, m.flags);
	}
	hsa->type = HSA;
	hsa->device = GPU;
}

int main(void)
{
	struct peerdma_memory m;
	struct fake_hsa *hsa;
	int status = 1;
	pid_t pid;

	memory = mmap(NULL, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(query(memory).kind == PEERDMA_KIND_UNKNOWN && !loaded(RTLD_NOLOAD), "a question loads no runtime");
	hsa = loaded(0);
	if (!CHECK(!!hsa, "the stand-in is loaded"))
		return 1;
	*hsa = (struct fake_hsa){ .base = memory, .length = LENGTH, .type = HSA, .device = GPU, .bdf = 0xc3 << 8 | 0x1d << 3 | 2, .domain = 0x1f };
	m = query(memory + LENGTH - 1);
	CHECK(is_gpus(&m), "the first question after that knows its memory: kind %u, flags %#x", m.kind, m.flags);
	CHECK(!strcmp(m.pci, "001f:c3:1d.2"), "of this GPU: %s", m.pci);
	m = query(memory);
	CHECK(is_gpus(&m) && hsa->calls == 2, "so does the second");
	kinds(hsa);
	hsa->error = 0x1001;
	CHECK(query(memory).kind == PEERDMA_KIND_UNKNOWN, "what the runtime knows nothing of");
	hsa->error = 0;
	m = query((char *)&m);
	CHECK(m.kind == PEERDMA_KIND_HOST && !(m.flags & PEERDMA_MEMORY_HSA), "the host's memory stays the host's");
	pid = fork();
	if (!pid)
		_exit(query(memory).kind != PEERDMA_KIND_UNKNOWN);
	CHECK(waitpid(pid, &status, 0) == pid && !status, "a child has none of it");
	m = query(memory);
	CHECK(is_gpus(&m), "the parent has it still");
	munmap(memory, LENGTH);
	return check_end(NULL);
}
