// SPDX-License-Identifier: MIT
/*
 * transport_core.c - the transport to softgpu's core inside this process: a software GPU without a
 * kernel module, for experiments and tests.
 *
 * The memory belongs to this process, and no device or other process can reach it. The environment
 * configures it: SOFTGPU_GPUS (1), SOFTGPU_VRAM_MIB (256), SOFTGPU_BAR1_MIB (the size of VRAM), and
 * with the meaning of softgpu.ko's parameters: SOFTGPU_BAR1_RESERVED (KiB), SOFTGPU_BAR1_PER_PIN,
 * SOFTGPU_BLOCKS, SOFTGPU_ENGINES, SOFTGPU_COMPUTE_MODE (2: prohibited, 3: exclusive process).
 * SOFTGPU_CHAOS injects faults (chaos.h).
 */
#include <errno.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include "chaos.h"
#include "inprocess.h"
#include "parse.h"
#include "release.h"
#include "sg.h"
#include "transport.h"
#include "vram.h"

/* Written once, under lock, before any call is made. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/*
 * Process of the core. A forked child's copy of the core has no engine threads, and threads of the
 * parent may have held its locks.
 */
static _Atomic pid_t owner;
static struct sg *core;
static struct sg_client *clients[SOFTGPU_MAX_GPUS];
static unsigned int count;

/*
 * The engines run in this process and could access its memory directly. But an invalid address must
 * end the copy, not the process.
 */
static int host_copy(void *cookie, void *local, u64 addr, u64 len, bool to_process)
{
	struct iovec mine = { .iov_base = local, .iov_len = len };
	struct iovec theirs = { .iov_base = (void *)(uintptr_t)addr, .iov_len = len };
	ssize_t n;

	(void)cookie;
	n = to_process ? process_vm_writev(getpid(), &mine, 1, &theirs, 1, 0)
		       : process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0);
	return n == (ssize_t)len ? 0 : -EFAULT;
}

static const struct sg_host_ops host_ops = { .copy = host_copy };

/* There is no bus. The CPU address of VRAM stands in for the bus address. */
static u64 phys(void *vram, u64 offset)
{
	return (uintptr_t)vram + offset;
}

static unsigned long number(const char *name, unsigned long otherwise, unsigned long min,
			    unsigned long max)
{
	const char *text = getenv(name);
	uint64_t value;

	if (!text)
		return otherwise;
	if (sgu_number(text, strlen(text), &value) && value >= min && value <= max)
		return value;
	sgu_log("%s=%s is not a number from %lu to %lu: using %lu", name, text, min, max,
		otherwise);
	return otherwise;
}

static u64 bar1_reserved(void)
{
	if (!getenv("SOFTGPU_BAR1_RESERVED"))
		return SG_BAR1_RESERVED_DEFAULT;
	return (u64)number("SOFTGPU_BAR1_RESERVED", 0, 0, 1 << 30) << 10;
}

static int add_gpu(unsigned int i, u64 vram_size, u64 bar1_size)
{
	struct sg_gpu_desc desc = {
		.name = "softgpu (in this process)", .vram_size = vram_size, .bar1_size = bar1_size,
		.bar1_reserved = bar1_reserved(),
		.bar1_per_pin = number("SOFTGPU_BAR1_PER_PIN", 0, 0, 1),
		.blocks = number("SOFTGPU_BLOCKS", 0, 0, 1),
		.engines = number("SOFTGPU_ENGINES", 2, 1, 16), .phys = phys,
		.compute_mode = number("SOFTGPU_COMPUTE_MODE", 0, 0, SOFTGPU_COMPUTE_EXCLUSIVE),
		.driver = sgu_release()->branch,
	};
	u32 index;
	int err;

	if (getrandom(desc.uuid, sizeof(desc.uuid), 0) != sizeof(desc.uuid))
		return -EIO;
	desc.vram = sgu_vram_make(i, vram_size);
	if (!desc.vram)
		return -ENOMEM;
	desc.priv = desc.vram;
	err = sg_gpu_add(core, &desc, &index);
	if (!err)
		err = sg_client_open(core, index, &core, &host_ops, NULL, &clients[i]);
	return err;
}

static int core_create(void)
{
	struct sg_chaos chaos = { 0 };
	int err = sgu_chaos_parse(getenv("SOFTGPU_CHAOS"), &chaos);

	if (!err)
		err = sg_create(&core);
	if (!err)
		sg_chaos_set(core, &chaos);
	return err;
}

static int core_open(unsigned int index[SOFTGPU_MAX_GPUS])
{
	unsigned long vram = number("SOFTGPU_VRAM_MIB", 256, 1, 1 << 20);
	unsigned long bar1 = number("SOFTGPU_BAR1_MIB", vram, 1, 1 << 20);
	unsigned long gpus = number("SOFTGPU_GPUS", 1, 1, SOFTGPU_MAX_GPUS);
	int err = 0;

	if (owner && owner != getpid())
		return 0;
	pthread_mutex_lock(&lock);
	owner = getpid();
	if (!core)
		err = core_create();
	while (!err && count < gpus) {
		err = add_gpu(count, (u64)vram << 20, (u64)bar1 << 20);
		if (!err)
			count++;
	}
	for (unsigned int i = 0; i < count; i++)
		index[i] = i;
	pthread_mutex_unlock(&lock);
	return err ? err : (int)count;
}

static int core_call(unsigned int index, unsigned long cmd, void *arg)
{
	u32 size = *(u32 *)arg;

	if (owner != getpid())
		return -EPERM;
	return sg_call(clients[index], _IOC_NR(cmd), arg, size);
}

/* The GPU exists as long as the process. */
static void core_forget(void)
{
}

const struct sgu_transport sgu_transport_core = {
	.name = "in this process",
	.open = core_open,
	.call = core_call,
	.forget = core_forget,
};

__attribute__((visibility("default"))) const struct sgu_transport *softgpu_inprocess_transport(void)
{
	return &sgu_transport_core;
}

__attribute__((visibility("default"))) struct sg *softgpu_inprocess_core(void)
{
	return owner == getpid() ? core : NULL;
}

__attribute__((visibility("default"))) const void *softgpu_inprocess_key(void)
{
	return &core;
}
