// SPDX-License-Identifier: MIT
/* environment.c - each variable of the GPU inside the process: what it is without it, its limits, and what is not taken. */
#include <fcntl.h>
#include <sys/mman.h>

#include "inprocess.h"
#include "clients/clients.h"
#include "softgpu_inprocess.h"
#include "test.h"

static int file;	/* in place of stderr */

/* In a child. */
#define MUST(what)									\
	do {										\
		if (!(what)) {								\
			printf("%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what);	\
			fflush(stdout);							\
			_exit(1);							\
		}									\
	} while (0)

static void catch_stderr(void)
{
	file = memfd_create("stderr", 0);
	MUST(file >= 0 && dup2(file, 2) == 2);
}

/* What was written since the last time. */
static const char *said(void)
{
	static char text[1000];
	ssize_t n = pread(file, text, sizeof(text) - 1, 0);

	MUST(n >= 0 && !ftruncate(file, 0) && !lseek(file, 0, SEEK_SET));
	text[n] = 0;
	return text;
}

enum what { GPUS, VRAM, BAR1, RESERVED, PER_PIN, BLOCKS, ENGINES, MODE };

static const char *const names[] = {
	"SOFTGPU_GPUS", "SOFTGPU_VRAM_MIB", "SOFTGPU_BAR1_MIB", "SOFTGPU_BAR1_RESERVED", "SOFTGPU_BAR1_PER_PIN", "SOFTGPU_BLOCKS",
	"SOFTGPU_ENGINES", "SOFTGPU_COMPUTE_MODE",
};

/* Sizes in bytes. said: of a text that is not taken. */
static const struct number {
	enum what what;
	const char *text;
	uint64_t value;
	const char *said;
} numbers[] = {
	{ GPUS, NULL, 1, NULL }, { GPUS, "1", 1, NULL }, { GPUS, "16", 16, NULL }, { GPUS, "0x3", 3, NULL },
	{ GPUS, "0", 1, "1 to 16: using 1" }, { GPUS, "17", 1, "1 to 16: using 1" }, { GPUS, "", 1, "1 to 16: using 1" },
	{ GPUS, "-1", 1, "1 to 16: using 1" }, { GPUS, "2x", 1, "1 to 16: using 1" },
	{ VRAM, NULL, 256 * MIB, NULL }, { VRAM, "1", MIB, NULL }, { VRAM, "3", 3 * MIB, NULL },
	{ VRAM, "0", 256 * MIB, "1 to 1048576: using 256" }, { VRAM, "1048577", 256 * MIB, "1 to 1048576: using 256" },
	/* as much as there is VRAM: 32 MiB */
	{ BAR1, NULL, 32 * MIB, NULL }, { BAR1, "1", MIB, NULL }, { BAR1, "1048576", (uint64_t)1 << 40, NULL },
	{ BAR1, "0", 32 * MIB, "1 to 1048576: using 32" }, { BAR1, "1048577", 32 * MIB, "1 to 1048576: using 32" },
	{ RESERVED, NULL, MIB, NULL }, { RESERVED, "0", 0, NULL }, { RESERVED, "64", 64 * KIB, NULL },
	{ RESERVED, "192", 192 * KIB, NULL },
	{ RESERVED, "1073741825", 0, "0 to 1073741824: using 0" }, { RESERVED, "x", 0, "0 to 1073741824: using 0" },
	{ PER_PIN, NULL, 0, NULL }, { PER_PIN, "0", 0, NULL }, { PER_PIN, "1", 1, NULL }, { PER_PIN, "2", 0, "0 to 1: using 0" },
	{ BLOCKS, NULL, 0, NULL }, { BLOCKS, "0", 0, NULL }, { BLOCKS, "1", 1, NULL }, { BLOCKS, "2", 0, "0 to 1: using 0" },
	{ ENGINES, NULL, 2, NULL }, { ENGINES, "1", 1, NULL }, { ENGINES, "16", 16, NULL }, { ENGINES, "0", 2, "1 to 16: using 2" },
	{ ENGINES, "17", 2, "1 to 16: using 2" },
	{ MODE, NULL, 0, NULL }, { MODE, "0", 0, NULL }, { MODE, "2", 2, NULL }, { MODE, "3", 3, NULL },
	{ MODE, "4", 0, "0 to 3: using 0" },
};

static uint64_t value_of(enum what what)
{
	const struct sg_gpu_desc *desc = &softgpu_inprocess_core()->gpus[0]->desc;
	int n;

	switch (what) {
	case GPUS:
		MUST(!cuDeviceGetCount(&n));
		return (uint64_t)n;
	case VRAM:
		return desc->vram_size;
	case BAR1:
		return desc->bar1_size;
	case RESERVED:
		return desc->bar1_reserved;
	case PER_PIN:
		return desc->bar1_per_pin;
	case BLOCKS:
		return desc->blocks;
	case ENGINES:
		return desc->engines;
	case MODE:
		return desc->compute_mode;
	}
	return 77;
}

static void number(void *arg)
{
	const struct number *n = arg;
	char line[200] = "";

	if (n->what != VRAM)
		setenv("SOFTGPU_VRAM_MIB", "32", 1);
	if (n->text)
		setenv(names[n->what], n->text, 1);
	catch_stderr();
	setenv("SOFTGPU_LOG", "1", 1);
	MUST(!cuInit(0));
	MUST(value_of(n->what) == n->value);
	if (n->said)
		snprintf(line, sizeof(line), "softgpu: %s=%s is not a number from %s\n", names[n->what], n->text, n->said);
	MUST(!strcmp(said(), line));
}

/* Nothing is printed if stderr is closed. */
static void silent(void *arg)
{
	catch_stderr();
	setenv("SOFTGPU_GPUS", "x", 1);
	MUST(!cuInit(0) && !strcmp(said(), ""));
}

static const struct chaos {
	const char *text;
	CUresult result;
	uint64_t values[9];	/* in the knobs' order */
	const char *said;
} chaoses[] = {
	{ "", CUDA_SUCCESS, { 0 }, "" },
	{ " , ,", CUDA_SUCCESS, { 0 }, "" },
	{ "fail_pin=1,fail_map=2 fail_alloc=3,callback_delay_ms=4, bar1_limit=5,revoke_every=6,seed=7,strict=1,device_pointers=1",
	  CUDA_SUCCESS, { 1, 2, 3, 4, 5, 6, 7, 1, 1 }, "" },
	{ "fail_pin=4294967295,fail_map=4294967295,fail_alloc=4294967295,callback_delay_ms=60000,bar1_limit=0xffffffffffffffff,"
	  "revoke_every=4294967295,seed=18446744073709551615", CUDA_SUCCESS,
	  { 4294967295, 4294967295, 4294967295, 60000, UINT64_MAX, 4294967295, UINT64_MAX, 0, 0 }, "" },
	{ "strict=1,strict=0", CUDA_SUCCESS, { 0 }, "" },
	{ "strict", CUDA_ERROR_INVALID_VALUE, { 0 }, "softgpu: SOFTGPU_CHAOS: 'strict': give it as knob=number\n" },
	{ "seed=1,strict", CUDA_ERROR_INVALID_VALUE, { 0 }, "softgpu: SOFTGPU_CHAOS: 'strict': give it as knob=number\n" },
	{ "strict=", CUDA_ERROR_INVALID_VALUE, { 0 }, "softgpu: SOFTGPU_CHAOS: 'strict=': is not a number of 64 bits\n" },
	{ "strict=x", CUDA_ERROR_INVALID_VALUE, { 0 }, "softgpu: SOFTGPU_CHAOS: 'strict=x': is not a number of 64 bits\n" },
	{ "seed=18446744073709551616", CUDA_ERROR_INVALID_VALUE, { 0 },
	  "softgpu: SOFTGPU_CHAOS: 'seed=18446744073709551616': is not a number of 64 bits\n" },
	{ "strict=2", CUDA_ERROR_INVALID_VALUE, { 0 }, "softgpu: SOFTGPU_CHAOS: 'strict=2': is too large\n" },
	{ "device_pointers=2", CUDA_ERROR_INVALID_VALUE, { 0 }, "softgpu: SOFTGPU_CHAOS: 'device_pointers=2': is too large\n" },
	{ "callback_delay_ms=60001", CUDA_ERROR_INVALID_VALUE, { 0 },
	  "softgpu: SOFTGPU_CHAOS: 'callback_delay_ms=60001': is too large\n" },
	{ "fail_pin=4294967296", CUDA_ERROR_INVALID_VALUE, { 0 }, "softgpu: SOFTGPU_CHAOS: 'fail_pin=4294967296': is too large\n" },
#define KNOBS ": no such knob; there are fail_pin fail_map fail_alloc callback_delay_ms bar1_limit revoke_every seed strict " \
	"device_pointers\n"
	{ "stric=1", CUDA_ERROR_INVALID_VALUE, { 0 }, "softgpu: SOFTGPU_CHAOS: 'stric=1'" KNOBS },
	{ "stricter=1", CUDA_ERROR_INVALID_VALUE, { 0 }, "softgpu: SOFTGPU_CHAOS: 'stricter=1'" KNOBS },
	{ "=1", CUDA_ERROR_INVALID_VALUE, { 0 }, "softgpu: SOFTGPU_CHAOS: '=1'" KNOBS },
};

static void chaos(void *arg)
{
	const struct chaos *c = arg;
	struct sg_chaos is;

	setenv("SOFTGPU_CHAOS", c->text, 1);
	catch_stderr();
	MUST(cuInit(0) == c->result);
	MUST(!strcmp(said(), c->said));
	if (c->result)
		return;
	sg_chaos_get(softgpu_inprocess_core(), &is);
	for (u32 i = 0; i < 9; i++)
		MUST(sg_chaos_value(&is, i) == c->values[i]);
	MUST(sg_chaos_knob(8) && !sg_chaos_knob(9));
}

/* Which GPU it is: SOFTGPU_INPROCESS decides, and if it says nothing, the program. */
static const struct place {
	const char *text;
	bool begun;
	bool inside;
} places[] = {
	{ "1", false, true }, { "1", true, true }, { "0", false, false }, { "0", true, false }, { "", true, false },
	{ "11", true, false },
	{ NULL, true, true }, { NULL, false, false },
};

static void place(void *arg)
{
	const struct place *p = arg;

	unsetenv("SOFTGPU_INPROCESS");
	if (p->text)
		setenv("SOFTGPU_INPROCESS", p->text, 1);
	MUST(softgpu_inprocess_begun() == 0);
	if (p->begun) {
		softgpu_inprocess_begin();
		MUST(softgpu_inprocess_begun() == 1);
	}
	MUST(!softgpu_inprocess_core());
	MUST(cuInit(0) == (p->inside ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE));
	MUST(!softgpu_inprocess_core() == !p->inside);
	MUST(!p->inside || !strcmp(softgpu_inprocess_core()->gpus[0]->desc.name, "softgpu (in this process)"));
}

CASE(each_number)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (in_child(number, (void *)(uintptr_t)&numbers[i]))
			fail_msg("%s=%s", names[numbers[i].what], numbers[i].text);
	}
	assert_int_equal(in_child(silent, NULL), 0);
}

CASE(each_chaos)
{
	for (size_t i = 0; i < sizeof(chaoses) / sizeof(chaoses[0]); i++) {
		if (in_child(chaos, (void *)(uintptr_t)&chaoses[i]))
			fail_msg("SOFTGPU_CHAOS=%s", chaoses[i].text);
	}
}

CASE(each_place)
{
	if (!access("/dev/softgpu0", F_OK))
		skip();
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (in_child(place, (void *)(uintptr_t)&places[i]))
			fail_msg("SOFTGPU_INPROCESS=%s, %d", places[i].text, places[i].begun);
	}
}

MAIN(NULL, NULL)
