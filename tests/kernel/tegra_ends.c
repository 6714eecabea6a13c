// SPDX-License-Identifier: MIT
/*
 * tegra_ends.c - a pin lasts as long as the process has its memory mapped, whatever becomes of the GPU: it is no longer
 * registered, or its GPU is removed.
 *
 *	tegra_ends PCI-ADDRESS-OF-GPU-0
 */
#include "sgraw.h"
#include "tegra/tegra_test.h"

#define LENGTH PAGE64

/* Host memory in the window, not registered yet. */
static struct softgpu_host_register registrable(const struct gpu *g)
{
	struct softgpu_va_reserve r = { .length = LENGTH };
	struct softgpu_host_register h = { .ctx = g->ctx, .length = LENGTH, .kind = SOFTGPU_KIND_HOST };

	MUST(!SG_CALL(g->fd, SOFTGPU_VA_RESERVE, &r));
	MUST(mmap((void *)(uintptr_t)r.va, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
	     MAP_FAILED);
	h.va = r.va;
	return h;
}

/* The device's pointer to it. */
static uint64_t pointer(const struct gpu *g, uint64_t va)
{
	struct softgpu_query q;

	MUST(!sg_query(g->fd, va, &q));
	return q.device_va ? q.device_va : va;
}

static int pin(int client, uint64_t va)
{
	struct tegra_get get = { .vaddr = va, .size = LENGTH };

	return ioctl(client, TEGRA_GET, &get) ? errno : 0;
}

static uint32_t callbacks(int client)
{
	struct tegra_state s = { 0 };

	MUST(!ioctl(client, TEGRA_STATE, &s));
	return s.callbacks;
}

static int open_client(void)
{
	int client = open("/dev/tegra_test", O_RDWR | O_CLOEXEC);

	MUST(client >= 0);
	return client;
}

/* ---- a GPU that is removed ---- */

static void removed(const char *address)
{
	struct gpu g = gpu_up(0);
	struct softgpu_host_register h = registrable(&g);
	int client = open_client();
	uint64_t va;

	MUST(!SG_CALL(g.fd, SOFTGPU_HOST_REGISTER, &h));
	va = pointer(&g, h.va);
	EXPECT(pin(client, va), 0);
	EXPECT(write_text("/sys/bus/pci/drivers/softgpu/unbind", address), 0);
	CHECK(callbacks(client) == 0, "the GPU is removed, and a pin of memory that is still there ends");
	MUST(!munmap((void *)(uintptr_t)h.va, LENGTH));
	CHECK(callbacks(client) == 1, "the memory is unmapped, and its pin lives on");
	close(client);
	close(g.fd);
	EXPECT(write_text("/sys/bus/pci/drivers/softgpu/bind", address), 0);
}

/* ---- a registration that is undone ---- */

static void unregistered(void)
{
	struct gpu g = gpu_up(0);
	struct softgpu_host_register h = registrable(&g);
	struct softgpu_va va = { .va = h.va };
	int client = open_client();

	MUST(!SG_CALL(g.fd, SOFTGPU_HOST_REGISTER, &h));
	EXPECT(pin(client, pointer(&g, h.va)), 0);
	MUST(!SG_CALL(g.fd, SOFTGPU_HOST_UNREGISTER, &va));
	CHECK(callbacks(client) == 0, "memory is no longer registered, and a pin of it ends");
	MUST(!munmap((void *)(uintptr_t)h.va, LENGTH));
	CHECK(callbacks(client) == 1, "the memory is unmapped, and its pin lives on");
	close(client);
	close(g.fd);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 2)
		return fprintf(stderr, "usage: tegra_ends PCI-ADDRESS-OF-GPU-0\n"), 2;
	unregistered();
	removed(argv[1]);
	return check_end("tegra_ends");
}
