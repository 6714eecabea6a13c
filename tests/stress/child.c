// SPDX-License-Identifier: MIT
/* child.c - a child's life from birth to end. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "child.h"
#include "peerdma_ioctl.h"
#include "state.h"
#include "touch.h"

char child_name[64];

void child_fail(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* One write: children share the output. */
	dprintf(1, "%s: %s\n", child_name, text);
	_exit(1);
}

int child_allow(struct child *c, const char *what, int err, int fine)
{
	static const int churn[] = { ENOENT, ENXIO, ENODEV };
	static const int race[] = {
		ESTALE, ENOENT, EBADF, ENOTTY, ENXIO, EINVAL, ECANCELED, EIO, EFAULT, ENODEV,
		EAGAIN, EACCES, EOPNOTSUPP,
	};
	bool ok = !err || err == fine;
	size_t i;

	for (i = 0; c->churn && i < sizeof(churn) / sizeof(churn[0]); i++)
		ok |= err == churn[i];
	for (i = 0; c->race && i < sizeof(race) / sizeof(race[0]); i++)
		ok |= err == race[i];
	if (!ok)
		child_fail("%s: %s", what, strerror(err));
	return err;
}

static void open_peerdma(struct child *c)
{
	void *p;

	c->pd = open("/dev/peerdma", O_RDWR | O_NONBLOCK);
	if (c->pd < 0) {
		child_expect(c, "/dev/peerdma", errno);
		_exit(0);
	}
	p = mmap(NULL, (size_t)getpagesize(), PROT_READ, MAP_SHARED, c->pd, PEERDMA_MMAP_GENERATIONS);
	if (p == MAP_FAILED)
		child_fail("generations: %s", strerror(errno));
	c->generations = p;
}

static int count_cards(void)
{
	char path[32];
	int n;

	for (n = 0; n < MAX_CARDS; n++) {
		snprintf(path, sizeof(path), "/dev/fpga%d", n);
		if (access(path, F_OK))
			break;
	}
	return n;
}

static int count_gpus(void)
{
	char path[32];
	int n;

	for (n = 0; n < MAX_GPUS; n++) {
		snprintf(path, sizeof(path), "/dev/softgpu%d", n);
		if (access(path, F_OK))
			break;
	}
	return n;
}

bool child_hold(struct child *c, const struct gpu_ops *gpu, struct area *a)
{
	c->rnd = rnd_of(1, 0);
	c->gpu.ops = gpu;
	open_peerdma(c);
	a->device = true;
	a->len = 1 << 16;
	if (gpu->open(&c->gpu, 0) || gpu->alloc(&c->gpu, a->len, &a->va) || child_pin(c, a, &c->pins[0]))
		return false;
	c->gpu.ops = &gpu_raw_amd;
	a[1] = *a;
	return !gpu_raw_amd.open(&c->gpu, 0) && !gpu_raw_amd.alloc(&c->gpu, a[1].len, &a[1].va) &&
	       !child_pin(c, &a[1], &c->pins[1]) && !child_make_buffer(c, &c->buffers[0], true) &&
	       !child_pin_buffer(c, &c->buffers[0], &c->pins[2]);
}

int child_main(uint64_t seed, const struct gpu_ops *gpu, bool churn, uint32_t fpga_percent)
{
	static struct child c;
	int i, steps, gpus = count_gpus();

	c.rnd = rnd_of(seed, 0);
	c.churn = churn;
	c.fpga_percent = fpga_percent;
	c.cards = count_cards();
	c.gpu.ops = gpu;
	for (i = 0; i < PINS; i++)
		c.pins[i].dmabuf = -1;
	touch_init();

	/* In either order. */
	if (rnd_chance(&c.rnd, 50))
		open_peerdma(&c);
	if (child_expect(&c, "the GPU", gpu->open(&c.gpu, gpus ? rnd_below(&c.rnd, gpus) : 0)))
		return 0;
	c.gpu_open = true;
	if (!c.generations)
		open_peerdma(&c);

	steps = 4 + rnd_below(&c.rnd, 40);
	for (i = 0; i < steps; i++)
		child_step(&c);
	if (rnd_chance(&c.rnd, fpga_percent))
		child_fpga_copy(&c);
	if (rnd_chance(&c.rnd, 40))
		child_race(&c);
	return child_end(&c);
}
