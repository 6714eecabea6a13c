// SPDX-License-Identifier: MIT
/*
 * softgpu_removal_test - a GPU is taken away (its PCI device is unbound from the
 * driver, or removed) while files are open, copies run and pins live, and comes
 * back.
 *
 *   softgpu_removal_test unbind|remove PCI-ADDRESS-OF-GPU-0
 */
#include "nvp2p_client.h"
#include "sgraw.h"

static void take_away(const char *how, const char *address)
{
	if (!strcmp(how, "unbind"))
		must_write(address, "/sys/bus/pci/drivers/softgpu/unbind");
	else
		must_write("1", "/sys/bus/pci/devices/%s/remove", address);
}

static void bring_back(const char *how, const char *address)
{
	if (!strcmp(how, "unbind"))
		must_write(address, "/sys/bus/pci/drivers/softgpu/bind");
	else
		must_write("1", "/sys/bus/pci/rescan");
}

/* Copies until the GPU is no more. */
static void copier(void *arg)
{
	const struct gpu *g = arg;
	static char host[1 << 20];
	uint64_t va;
	int err = sg_alloc(g->fd, g->ctx, sizeof(host), &va);

	while (!err)
		err = sg_copy(g->fd, g->ctx, va, PTR(host), sizeof(host), SOFTGPU_OP_SYNC);
	CHECK(err == ENODEV || err == EIO || err == ENOENT || err == EFAULT, "%d", err);
}

/* Exports until the GPU is no more, as AMD's driver does: memory that could be moved. */
static void exporter(void *arg)
{
	const struct gpu *g = arg;
	struct softgpu_ctx_create c = { .flags = SOFTGPU_CTX_VISIBLE };
	uint64_t va;
	int fd, err = SG_CALL(g->fd, SOFTGPU_CTX_CREATE, &c) ?: sg_alloc(g->fd, c.ctx, PAGE64, &va);

	while (!err) {
		err = sg_dmabuf(g->fd, va, PAGE64, &fd);
		if (!err)
			close(fd);
	}
	CHECK(err == ENODEV || err == EINVAL, "%d", err);
}

static void all_fails(int fd)
{
	struct softgpu_info info;
	uint64_t va;

	EXPECT(sg_info(fd, &info), ENODEV);
	EXPECT(sg_alloc(fd, 1, PAGE64, &va), ENODEV);
	EXPECT(sg_free(fd, PAGE64), ENODEV);
}

/* One life of GPU 0; its file is still open when it has gone. */
static struct gpu one_life(const char *how, const char *address, uint32_t bdf)
{
	struct gpu g = gpu_up(0), other = { .fd = sg_open(1) };
	struct task tasks[3];
	struct softgpu_info info;
	uint64_t va, elsewhere;
	int i;

	MUST(other.fd >= 0);
	other.ctx = sg_ctx(other.fd);
	MUST(other.ctx && !sg_alloc(other.fd, other.ctx, PAGE64, &elsewhere));
	MUST(!sg_alloc(g.fd, g.ctx, 8 * PAGE64, &va));
	for (i = 0; i < 4; i++) {
		EXPECT(T(.op = T_GET, .slot = i, .va = va, .length = (i + 1) * PAGE64).ret, 0);
		if (bdf)
			EXPECT(T(.op = T_DMA_MAP, .slot = i, .bdf = bdf).ret, 0);
	}
	EXPECT(T(.op = T_GET_PERSISTENT, .slot = 5, .va = va, .length = PAGE64).ret, 0);
	if (bdf)
		EXPECT(T(.op = T_DMA_MAP, .slot = 5, .bdf = bdf).ret, 0);
	EXPECT(T(.op = T_GET, .slot = 6, .va = elsewhere, .length = PAGE64).ret, 0);
	for (i = 0; i < 2; i++)
		task_begin(&tasks[i], copier, &g);
	task_begin(&tasks[2], exporter, &g);
	usleep(50000);

	take_away(how, address);

	for (i = 0; i < 3; i++)
		task_end(&tasks[i]);
	for (i = 0; i < 4; i++)
		EXPECT(T(.op = T_STATE, .slot = i).callbacks_done, 1);
	all_fails(g.fd);
	CHECK(access("/dev/softgpu0", F_OK), "the file is still there");
	EXPECT(T(.op = T_GET, .slot = 0, .va = va, .length = PAGE64).ret, -EINVAL);
	/* The persistent pin has no mappings any more, and is still the client's to put. */
	EXPECT(T(.op = T_DMA_MAP, .slot = 5, .mapping = 1, .bdf = bdf ? bdf : 8).ret, -EINVAL);
	EXPECT(T(.op = T_PUT_PERSISTENT, .slot = 5).ret, 0);
	/* The other GPU has noticed nothing. */
	EXPECT(sg_info(other.fd, &info), 0);
	EXPECT(T(.op = T_STATE, .slot = 6).callbacks, 0);
	EXPECT(T(.op = T_PUT, .slot = 6).ret, 0);
	EXPECT(sg_free(other.fd, elsewhere), 0);
	close(other.fd);
	T(.op = T_RESET);
	return g;
}

static void lives(void *arg)
{
	char **argv = arg;
	uint32_t bdf = argv[3] ? strtoul(argv[3], NULL, 0) : 0;
	int i;

	for (i = 0; i < 3; i++) {
		struct gpu stale = one_life(argv[1], argv[2], bdf);

		/* The old index is taken while the old file is open: it is another GPU. */
		bring_back(argv[1], argv[2]);
		CHECK(UNTIL(!access("/dev/softgpu2", F_OK)), "it did not come back");
		all_fails(stale.fd);
		MUST(!munmap((void *)(uintptr_t)stale.window, WINDOW_LEN));
		close(stale.fd);
		take_away(argv[1], argv[2]);
		bring_back(argv[1], argv[2]);
		CHECK(UNTIL(!access("/dev/softgpu0", F_OK)), "it did not come back with the old index");
	}
}

int main(int argc, char **argv)
{
	struct softgpu_info before;
	int info_fd;

	if (argc < 3)
		return 2;
	if (!t_open() || access("/dev/softgpu1", F_OK))
		check_skip("two GPUs and nvp2p_test.ko are needed");
	info_fd = sg_open(0);
	MUST(info_fd >= 0 && !sg_info(info_fd, &before) && !before.pins);
	close(info_fd);
	CHECK(in_child(lives, argv), "the child did not end well");
	info_fd = sg_open(0);
	if (CHECK(info_fd >= 0, "no GPU 0 any more")) {
		struct softgpu_info info = sg_need_info(info_fd);

		CHECK(info.vram_free == info.vram_total && !info.pins && info.bar1_used == before.bar1_used,
		      "not empty");
	}
	return check_end("softgpu_removal_test");
}
