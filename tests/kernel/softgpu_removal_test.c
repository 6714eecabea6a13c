// SPDX-License-Identifier: MIT
/*
 * softgpu_removal_test - a GPU is taken away (its PCI device is unbound from the
 * driver, or removed) while files are open, copies run and pins live, and comes
 * back.
 *
 *   softgpu_removal_test unbind|remove PCI-ADDRESS-OF-GPU-0
 */
#include <pthread.h>
#include <time.h>
#include "nvp2p_test.h"
#include "sgraw.h"

static int test_fd;

static struct nvp2p_test_call t_call(struct nvp2p_test_call c)
{
	NEED(!ioctl(test_fd, NVP2P_TEST_CALL, &c));
	return c;
}
#define T(...)	t_call((struct nvp2p_test_call){ __VA_ARGS__ })

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0) {
		printf("not ok: %s: %s\n", path, strerror(errno));
		exit(1);
	}
	close(fd);
}

static void take_away(const char *how, const char *address)
{
	char path[128];

	if (!strcmp(how, "unbind")) {
		write_file("/sys/bus/pci/drivers/softgpu/unbind", address);
	} else {
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/remove", address);
		write_file(path, "1");
	}
}

static void bring_back(const char *how, const char *address)
{
	if (!strcmp(how, "unbind"))
		write_file("/sys/bus/pci/drivers/softgpu/bind", address);
	else
		write_file("/sys/bus/pci/rescan", "1");
}

/* Copies until the GPU is no more. */
static void *copier(void *arg)
{
	const struct gpu *g = arg;
	static char host[1 << 20];
	uint64_t va;
	int err = sg_alloc(g->fd, g->ctx, sizeof(host), &va);

	while (!err)
		err = sg_copy(g->fd, g->ctx, va, PTR(host), sizeof(host), SOFTGPU_OP_SYNC);
	CHECK(err == ENODEV || err == EIO || err == ENOENT || err == EFAULT, "%d", err);
	return NULL;
}

/* Exports until the GPU is no more, as AMD's driver does: memory that could be moved. */
static void *exporter(void *arg)
{
	const struct gpu *g = arg;
	struct softgpu_ctx_create c = { .flags = SOFTGPU_CTX_VISIBLE };
	struct softgpu_dmabuf d = { .length = PAGE64 };
	uint64_t va;
	int err = SG_CALL(g->fd, SOFTGPU_CTX_CREATE, &c);

	if (!err)
		err = sg_alloc(g->fd, c.ctx, PAGE64, &va);
	while (!err) {
		d.va = va;
		err = SG_CALL(g->fd, SOFTGPU_DMABUF, &d);
		if (!err)
			close(d.fd);
	}
	CHECK(err == ENODEV || err == EINVAL, "%d", err);
	return NULL;
}

static void all_fails(int fd)
{
	struct softgpu_info info;
	uint64_t va;

	EXPECT(sg_info(fd, &info), ENODEV);
	EXPECT(sg_alloc(fd, 1, PAGE64, &va), ENODEV);
	EXPECT(sg_free(fd, PAGE64), ENODEV);
}

static bool comes(const char *path)
{
	int tries;

	for (tries = 0; tries < 6000 && access(path, F_OK); tries++)
		usleep(10000);
	return !access(path, F_OK);
}

/* One life of GPU 0; its file is still open when it has gone. */
static struct gpu one_life(const char *how, const char *address, uint32_t bdf)
{
	struct gpu g = gpu_up(0), other = { .fd = sg_open(1) };
	pthread_t threads[3];
	struct softgpu_info info;
	uint64_t va, elsewhere;
	int i;

	NEED(other.fd >= 0);
	other.ctx = sg_ctx(other.fd);
	NEED(other.ctx && !sg_alloc(other.fd, other.ctx, PAGE64, &elsewhere));
	NEED(!sg_alloc(g.fd, g.ctx, 8 * PAGE64, &va));
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
		NEED(!pthread_create(&threads[i], NULL, copier, &g));
	NEED(!pthread_create(&threads[2], NULL, exporter, &g));
	usleep(50000);

	take_away(how, address);

	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
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
		CHECK(comes("/dev/softgpu2"), "it did not come back");
		all_fails(stale.fd);
		NEED(!munmap((void *)(uintptr_t)stale.window, WINDOW_LEN));
		close(stale.fd);
		take_away(argv[1], argv[2]);
		bring_back(argv[1], argv[2]);
		CHECK(comes("/dev/softgpu0"), "it did not come back with the old index");
	}
}

int main(int argc, char **argv)
{
	struct softgpu_info before;
	int info_fd;

	if (argc < 3)
		return 2;
	test_fd = open("/dev/" NVP2P_TEST_DEVICE, O_RDWR | O_CLOEXEC);
	if (test_fd < 0 || access("/dev/softgpu1", F_OK)) {
		printf("skip: two GPUs and nvp2p_test.ko are needed\n");
		return EXIT_SKIP;
	}
	info_fd = sg_open(0);
	NEED(info_fd >= 0 && !sg_info(info_fd, &before) && !before.pins);
	close(info_fd);
	CHECK(in_child(lives, argv), "the child did not end well");
	info_fd = sg_open(0);
	if (CHECK(info_fd >= 0, "no GPU 0 any more")) {
		struct softgpu_info info;

		NEED(!sg_info(info_fd, &info));
		CHECK(info.vram_free == info.vram_total && !info.pins && info.bar1_used == before.bar1_used,
		      "not empty");
	}
	return test_end("softgpu_removal_test");
}
