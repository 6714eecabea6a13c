// SPDX-License-Identifier: MIT
/*
 * device_process.c - the device of a GPU inside this process.  It reaches VRAM
 * by the address that a pin gives, and knows nothing of the GPU's engines.
 */
#include "device_int.h"

#include <stdio.h>
#include <string.h>

#include "inprocess.h"
#include "sg.h"

static const char *process_open(void)
{
	return softgpu_inprocess_core() ? NULL : "libcuda is not softgpu's";
}

static void nothing(struct sg_pin *pin)
{
}

static const struct sg_pin_ops pin_ops = { .callback = nothing, .unmap = nothing, .free = nothing };

/* Word by word and in order, as a bus carries them. */
static void carry(uint32_t *to, const uint32_t *from, size_t words)
{
	for (size_t i = 0; i < words; i++)
		__atomic_store_n(&to[i], __atomic_load_n(&from[i], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* Moves words between memory of the device and of the GPU. */
static void access_gpu(uint64_t gpu, void *own, size_t length, bool to_gpu)
{
	struct sg_pin_who who = { .proc_key = softgpu_inprocess_key(), .managed = true };
	uint64_t first = gpu & ~(SG_PAGE_SIZE - 1), end = (gpu + length + SG_PAGE_SIZE - 1) & ~(SG_PAGE_SIZE - 1);
	struct sg *core = softgpu_inprocess_core();
	struct sg_pin pin;

	memset(&pin, 0, sizeof(pin));
	if (sg_pin_get(core, &pin, &pin_ops, &who, first, end - first, false))
		device_broken("it cannot pin the memory");
	for (size_t done = 0; done < length;) {
		uint64_t offset = gpu + done - first;
		size_t run = SG_PAGE_SIZE - offset % SG_PAGE_SIZE;
		char *page = (char *)(uintptr_t)sg_pin_page(&pin, offset / SG_PAGE_SIZE);
		void *at = page + offset % SG_PAGE_SIZE, *mine = (char *)own + done;

		if (run > length - done)
			run = length - done;
		if (to_gpu)
			carry(at, mine, run / 4);
		else
			carry(mine, at, run / 4);
		done += run;
	}
	sg_pin_put(core, &pin, false);
}

static void process_read(uint64_t gpu, void *to, size_t length)
{
	access_gpu(gpu, to, length, false);
}

static void process_write(uint64_t gpu, const void *from, size_t length)
{
	access_gpu(gpu, (void *)(uintptr_t)from, length, true);
}

static int process_rules(struct rule rules[RULES_MAX])
{
	struct sg *core = softgpu_inprocess_core();

	for (int i = 0; i < SG_RULES; i++) {
		snprintf(rules[i].text, sizeof(rules[i].text), "%s", sg_rule_text(i));
		rules[i].broken = sg_rule_broken(core, i);
	}
	return SG_RULES;
}

const struct device device_process = {
	.patience_ms = 2000,
	.open = process_open,
	.read = process_read,
	.write = process_write,
	.rules = process_rules,
};
