// SPDX-License-Identifier: MIT
/*
 * bench-pin - what a pin and its unpin cost in the kernel, in instructions,
 * split into the provider's part and the bridge's; and the same of gdrcopy's
 * driver where it is loaded.
 *
 * Runs in the virtual machine under --icount; bench/README.md says more.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "comparison.h"
#include "gpu_need.h"
#include "kernel/pinbench.h"
#include "peerdma_ioctl.h"

/* Who pins, and through which door. */
enum path { PROVIDER, BRIDGE, BRIDGE_IOCTL, GDRDRV_IOCTL, PATHS };

static const char *const path_names[PATHS] = {
	"provider", "bridge", "bridge_ioctl", "gdrdrv_ioctl",
};

static const struct scenario {
	uint64_t length;
	uint32_t count;
} scenarios[] = {
	{ 64 << 10, 1 }, { 1 << 20, 1 }, { 64 << 20, 1 }, { 64 << 10, 256 },
};
#define SCENARIOS	((int)(sizeof(scenarios) / sizeof(scenarios[0])))
#define MEMORY		(64ULL << 20)

static const char *const scenario_names[SCENARIOS] = { "64 KiB", "1 MiB", "64 MiB", "256 x 64 KiB" };

static int pinbench, peerdma, gdrdrv;
static uint64_t va;
static double door;	/* instructions of an ioctl that does nothing */

static void fail(const char *what)
{
	fprintf(stderr, "bench-pin: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- gdrcopy's driver: two of its calls, as its users see them ---- */

struct gdrdrv_pin {
	uint64_t addr, length, p2p_token;
	uint32_t va_space_token, reserved;
	uint64_t handle;
};
_Static_assert(sizeof(struct gdrdrv_pin) == 40, "as its header has it");

#define GDRDRV_PIN	_IOWR(0xda, 1, struct gdrdrv_pin)
#define GDRDRV_UNPIN	_IOWR(0xda, 2, void *)

/* ---- one run ---- */

static double run_kernel(enum path path, const struct scenario *s)
{
	struct pinbench_run r = {
		.va = va, .length = s->length, .count = s->count,
		.path = path == PROVIDER ? PINBENCH_PROVIDER : PINBENCH_BRIDGE,
	};

	if (ioctl(pinbench, PINBENCH_RUN, &r))
		fail("/dev/pinbench");
	return r.pin_ticks + r.unpin_ticks;
}

static double run_bridge(const struct scenario *s)
{
	static struct peerdma_handle_args handles[PINBENCH_MAX_PINS];
	uint64_t begin = ticks();
	uint32_t i;

	for (i = 0; i < s->count; i++) {
		struct peerdma_pin_args p = {
			.size = sizeof(p), .flags = PEERDMA_PIN_DEVICE,
			.addr = va + i * s->length, .length = s->length,
		};

		if (ioctl(peerdma, PEERDMA_PIN, &p))
			fail("PEERDMA_PIN");
		handles[i].size = sizeof(handles[i]);
		handles[i].handle = p.handle;
	}
	for (i = 0; i < s->count; i++)
		if (ioctl(peerdma, PEERDMA_UNPIN, &handles[i]))
			fail("PEERDMA_UNPIN");
	return ticks() - begin;
}

static double run_gdrdrv(const struct scenario *s)
{
	static uint64_t handles[PINBENCH_MAX_PINS];
	uint64_t begin = ticks();
	uint32_t i;

	for (i = 0; i < s->count; i++) {
		struct gdrdrv_pin p = { .addr = va + i * s->length, .length = s->length };

		if (ioctl(gdrdrv, GDRDRV_PIN, &p))
			fail("gdrdrv's PIN_BUFFER");
		handles[i] = p.handle;
	}
	for (i = 0; i < s->count; i++)
		if (ioctl(gdrdrv, GDRDRV_UNPIN, &handles[i]))
			fail("gdrdrv's UNPIN_BUFFER");
	return ticks() - begin;
}

static double measure(int scenario, int path)
{
	const struct scenario *s = &scenarios[scenario];

	switch (path) {
	case BRIDGE_IOCTL:
		return run_bridge(s);
	case GDRDRV_IOCTL:
		return gdrdrv < 0 ? NAN : run_gdrdrv(s);
	default:
		return run_kernel((enum path)path, s);
	}
}

static struct comparison c = {
	.program = "bench-pin", .rounds = 21, .rows = scenario_names, .row_count = SCENARIOS, .subjects = path_names,
	.subject_count = PATHS, .measure = measure,
	.what = "pin and unpin, instructions; provider: softgpu, a software GPU, so not what hardware costs",
};

/* Entering the kernel and leaving it, by a call that ends before any driver. */
static double measure_door(int fd)
{
	double d[21];

	for (int i = 0; i < 21; i++) {
		uint64_t begin = ticks();

		ioctl(fd, FIOCLEX);
		d[i] = ticks() - begin;
	}
	return spread_of(d, 21).median;
}

/* Does the counter count instructions?  A loop of 2 million says so. */
static double ticks_per_instruction(void)
{
	double d[5];
	int i;

	for (i = 0; i < 5; i++) {
		uint64_t begin = ticks();
		long n = 1000000;

		__asm__ volatile("1: dec %0; jnz 1b" : "+r"(n));
		d[i] = (ticks() - begin) / 2e6;
	}
	return spread_of(d, 5).median;
}

/* ---- what comes of it ---- */

static double cost(int s, enum path path)
{
	return value_of(&c, s, path);
}

/* What is left when the provider's part and the doors are taken away. */
static double own(int s, enum path path)
{
	/* Two for each pin; the kernel's own callers have none. */
	double doors = path == BRIDGE ? 0 : 2 * door * scenarios[s].count;

	return cost(s, path) - cost(s, PROVIDER) - doors;
}

static double slope(double at_64m, double at_1m)
{
	return (at_64m - at_1m) / (1024 - 16);
}

static bool have(enum path path)
{
	return path != GDRDRV_IOCTL || gdrdrv >= 0;
}

static void print_parts(void)
{
	printf("%-14s %10s %16s %14s %14s\n", "of these", "peerdma's", "peerdma's part", "gdrdrv's part", "ratio");
	printf("%-14s %10s %16s %14s %14s\n", "", "part", "with its ioctl", "with its ioctl", "budget: 0.50");
	for (int s = 0; s < SCENARIOS; s++) {
		printf("%-14s %10.0f %16.0f", scenario_names[s], own(s, BRIDGE), own(s, BRIDGE_IOCTL));
		if (have(GDRDRV_IOCTL))
			printf(" %14.0f %6.2f, %5.2f\n", own(s, GDRDRV_IOCTL), own(s, BRIDGE) / own(s, GDRDRV_IOCTL),
			       own(s, BRIDGE_IOCTL) / own(s, GDRDRV_IOCTL));
		else
			printf(" %14s %14s\n", "not given", "-");
	}
	printf("%-14s %10.1f %16.1f", "further 64 KiB", slope(own(2, BRIDGE), own(1, BRIDGE)),
	       slope(own(2, BRIDGE_IOCTL), own(1, BRIDGE_IOCTL)));
	if (have(GDRDRV_IOCTL))
		printf(" %14.1f\n", slope(own(2, GDRDRV_IOCTL), own(1, GDRDRV_IOCTL)));
	else
		printf(" %14s\n", "-");
	printf("\nratio: peerdma's part to gdrdrv's with its ioctl: of the call inside the kernel, and with peerdma's ioctl.\n"
	       "An ioctl that does nothing, %.0f, is taken off wherever there is one.\n", door);
	if (!have(GDRDRV_IOCTL))
		printf("gdrdrv not given: GDRCOPY=folder-of-gdrcopy's-source make bench\n");
}

/* 1 if the budget is missed. */
static int judge(void)
{
	int s, missed = 0;

	for (s = 0; s < SCENARIOS && have(GDRDRV_IOCTL); s++)
		missed |= own(s, BRIDGE_IOCTL) > own(s, GDRDRV_IOCTL) / 2 ||
			  own(s, BRIDGE) > own(s, GDRDRV_IOCTL) / 2;
	if (missed)
		fprintf(stderr, "bench-pin: over budget: peerdma's part is more than half of gdrdrv's\n");
	return missed;
}

int main(int argc, char **argv)
{
	double per_instruction;

	comparison_options(&c, argc, argv);
	pinbench = open("/dev/pinbench", O_RDWR);
	if (pinbench < 0)
		fail("/dev/pinbench: is pinbench.ko loaded?");
	peerdma = open("/dev/peerdma", O_RDWR);
	if (peerdma < 0)
		fail("/dev/peerdma: is peerdma.ko loaded?");
	gdrdrv = open("/dev/gdrdrv", O_RDWR);
	per_instruction = ticks_per_instruction();
	if (per_instruction < 0.99 || per_instruction > 1.01) {
		fprintf(stderr, "bench-pin: the time stamp counter makes %.2f steps per instruction, so nothing here would count instructions: run it under vm/run --icount\n",
			per_instruction);
		return 77;
	}
	gpu_need(false, 1);
	va = gpu_need_memory(MEMORY);
	door = measure_door(peerdma);

	comparison_run(&c);
	comparison_print(&c);
	if (!c.json)
		print_parts();
	return judge();
}
