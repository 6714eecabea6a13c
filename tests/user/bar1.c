// SPDX-License-Identifier: MIT
/*
 * bar1.c - the aperture of a GPU inside this process, as the environment asks for
 * it: a part reserved, and space taken anew by every pin.  Nothing but the core
 * pins there.
 */
#include "inprocess.h"
#include "sg.h"
#include "test.h"

#define PINS	8

static struct sg_pin pins[PINS];

static void nothing(struct sg_pin *pin)
{
}

static const struct sg_pin_ops ops = { .callback = nothing, .unmap = nothing, .free = nothing };

static u64 used(void)
{
	struct sg_gpu_stats stats;

	assert_int_equal(sg_gpu_stats(softgpu_inprocess_core(), 0, &stats), 0);
	assert_int_equal(stats.bar1_total, 4 * MIB);
	assert_int_equal(stats.bar1_reserved, MIB);
	return stats.bar1_used;
}

/* Of 4 MiB one is reserved: the same MiB fits three times. */
CASE(taken_anew)
{
	struct sg_pin_who who = { .proc_key = softgpu_inprocess_key() };
	struct sg *sg = softgpu_inprocess_core();
	CUdeviceptr ptr;
	int i;

	OK(cuMemAlloc(&ptr, MIB));
	assert_int_equal(used(), MIB);
	for (i = 0; i < 3; i++) {
		assert_int_equal(sg_pin_get(sg, &pins[i], &ops, &who, ptr, MIB, false), 0);
		assert_int_equal(used(), (2 + i) * MIB);
	}
	assert_int_equal(sg_pin_get(sg, &pins[i], &ops, &who, ptr, 64 * KIB, false), -ENOSPC);
	assert_int_equal(sg_pin_put(sg, &pins[1], false), 0);
	assert_int_equal(used(), 3 * MIB);
	assert_int_equal(sg_pin_get(sg, &pins[1], &ops, &who, ptr, 64 * KIB, false), 0);
	assert_int_equal(used(), 3 * MIB + 64 * KIB);
	OK(cuMemFree(ptr));
	assert_int_equal(used(), MIB);
}

int main(void)
{
	setenv("SOFTGPU_INPROCESS", "1", 1);
	setenv("SOFTGPU_VRAM_MIB", "16", 1);
	setenv("SOFTGPU_BAR1_MIB", "4", 1);
	setenv("SOFTGPU_BAR1_RESERVED", "1024", 1);
	setenv("SOFTGPU_BAR1_PER_PIN", "1", 1);
	return cases_run(gpu_setup, gpu_teardown);
}
