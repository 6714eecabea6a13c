// SPDX-License-Identifier: MIT
/* device.c - see device.h. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "device.h"

#define FILES	256

struct sg *device_core;
int device_open_error;
bool device_failed;
bool device_no_sysfs;
void (*device_meanwhile)(unsigned long cmd);
unsigned int device_open_files, device_calls[256];
u32 device_abi_more;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t owner;
static struct sg_client *files[FILES];	/* by descriptor */
static const char this_process, other_process;

static unsigned long fail_cmd;
static unsigned int fail_in;
static int fail_error;

void device_fail(unsigned long cmd, unsigned int nth, int error)
{
	fail_cmd = cmd;
	fail_error = error;
	device_failed = device_failed && !nth;
	__atomic_store_n(&fail_in, nth, __ATOMIC_SEQ_CST);
}

static bool fails(unsigned long cmd)
{
	unsigned int in = __atomic_load_n(&fail_in, __ATOMIC_SEQ_CST);

	if (!in || fail_cmd != cmd || (in != DEVICE_EACH && __atomic_sub_fetch(&fail_in, 1, __ATOMIC_SEQ_CST)))
		return false;
	device_failed = true;
	errno = fail_error;
	return true;
}

static void *map(void *at, size_t length, int prot, int flags, int fd, off_t offset)
{
	return (void *)syscall(SYS_mmap, at, length, prot, flags, fd, offset);
}

static void *shared_memory(u64 length)
{
	void *p = map(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void shared_free(void *memory, u64 length)
{
	munmap(memory, length);
}

static u64 shared_phys(const void *memory, u64 offset)
{
	return (uintptr_t)memory + offset;
}

static u64 phys(void *priv, u64 offset)
{
	return (uintptr_t)priv + offset;
}

static void hide(void *priv, const void *key, u64 va, u64 length)
{
	if (key == &this_process)
		map((void *)(uintptr_t)va, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static int host_copy(void *cookie, void *local, u64 addr, u64 len, bool to_process)
{
	struct iovec mine = { .iov_base = local, .iov_len = len }, theirs = { .iov_base = (void *)(uintptr_t)addr, .iov_len = len };
	ssize_t n = to_process ? process_vm_writev(getpid(), &mine, 1, &theirs, 1, 0) :
		process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0);

	return n == (ssize_t)len ? 0 : -EFAULT;
}

static const struct sg_host_ops host_ops = { .copy = host_copy };

static unsigned long wanted(const char *name, unsigned long otherwise)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 10) : otherwise;
}

/* The machine is made with its first file. */
static void make(void)
{
	unsigned long first = wanted("DEVICE_FIRST", 0), gpus = wanted("DEVICE_GPUS", 2);
	u32 index;

	owner = getpid();
	if (sg_create(&device_core))
		abort();
	for (unsigned long i = 0; i < first + gpus; i++) {
		struct sg_gpu_desc desc = {
			.name = "softgpu (stand-in)", .uuid = { 0xa0, 0xb1, 0xc2, 0xd3, 0xe4, 0xf5, 0x06, 0x17, 0x28, 0x39, 0x4a,
								0x5b, 0x6c, 0x7d, 0x8e, (u8)i },
			.vram_size = DEVICE_VRAM, .bar1_size = wanted("DEVICE_BAR1_MIB", 0) << 20,
			.bar1_reserved = SG_BAR1_RESERVED_DEFAULT, .compute_mode = (u32)wanted("DEVICE_MODE", 0), .on_pci = true,
			.pci_domain = DEVICE_DOMAIN, .pci_bus = DEVICE_BUS + (u32)i, .pci_device = DEVICE_SLOT,
			.pci_function = DEVICE_FUNCTION, .engines = 2, .phys = phys, .hide = hide,
			.system_alloc = shared_memory, .system_free = shared_free, .system_phys = shared_phys,
		};

		desc.vram = desc.priv = shared_memory(DEVICE_VRAM);
		if (!desc.vram || sg_gpu_add(device_core, &desc, &index) || index != i)
			abort();
	}
	/* Numbers may have gaps. */
	for (unsigned long i = 0; i < first; i++)
		sg_gpu_remove(device_core, (u32)i);
}

static int open_gpu(u32 gpu)
{
	struct sg_client *client = NULL;
	int fd, err = -ENODEV;

	pthread_mutex_lock(&lock);
	if (!owner)
		make();
	if (owner == getpid())
		err = sg_client_open(device_core, gpu, &this_process, &host_ops, NULL, &client);
	fd = err ? -1 : (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
	if (fd >= FILES)
		abort();
	if (fd >= 0) {
		files[fd] = client;
		device_open_files++;
	}
	pthread_mutex_unlock(&lock);
	if (err)
		errno = -err;
	return fd;
}

static struct sg_client *client_of(int fd)
{
	return fd >= 0 && fd < FILES ? files[fd] : NULL;
}

struct sg_client *device_other(u32 gpu, u32 flags, u32 *ctx)
{
	struct softgpu_window window = { .size = sizeof(window), .base = (u64)1 << 45, .length = (u64)1 << 30 };
	struct softgpu_ctx_create create = { .size = sizeof(create), .flags = flags };
	struct sg_client *client;

	if (sg_client_open(device_core, gpu, &other_process, &host_ops, NULL, &client) ||
	    sg_call(client, _IOC_NR(SOFTGPU_WINDOW), &window, sizeof(window)) ||
	    sg_call(client, _IOC_NR(SOFTGPU_CTX_CREATE), &create, sizeof(create)))
		abort();
	*ctx = create.ctx;
	return client;
}

/* ---- what the libraries call ---- */

static int opens(const char *path, int flags, mode_t mode)
{
	char end;
	u32 gpu;

	if (sscanf(path, "/dev/softgpu%u%c", &gpu, &end) != 1)
		return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
	/* exec closes it, or another program would have this one's memory */
	if (flags != (O_RDWR | O_CLOEXEC))
		abort();
	if (!device_open_error)
		return open_gpu(gpu);
	errno = device_open_error;
	return -1;
}

#define OPEN(name)					\
	int name(const char *path, int flags, ...)	\
	{						\
		va_list args;				\
		mode_t mode;				\
							\
		va_start(args, flags);			\
		mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;	\
		va_end(args);				\
		return opens(path, flags, mode);	\
	}
#undef open
OPEN(open)
OPEN(open64)

int access(const char *path, int how)
{
	return strncmp(path, "/dev/softgpu", strlen("/dev/softgpu")) ?
		(int)syscall(SYS_faccessat, AT_FDCWD, path, how) : 0;
}

int close(int fd)
{
	struct sg_client *client = getpid() == owner ? client_of(fd) : NULL;

	if (client) {
		files[fd] = NULL;
		device_open_files--;
		sg_client_close(client);
	}
	return (int)syscall(SYS_close, fd);
}

/* A file of that size stands for a dma-buf. */
static int dmabuf(struct softgpu_dmabuf *a)
{
	struct sg_found found;

	if (sg_find(device_core, &this_process, a->va, &found) || a->va - found.base + a->length > found.length + SG_PAGE_SIZE)
		return -EINVAL;
	a->fd = memfd_create("dmabuf", MFD_CLOEXEC);
	return a->fd < 0 || ftruncate(a->fd, (off_t)a->length) ? -EMFILE : 0;
}

int ioctl(int fd, unsigned long cmd, ...)
{
	struct sg_client *client = client_of(fd);
	va_list args;
	void *arg;
	int err;

	va_start(args, cmd);
	arg = va_arg(args, void *);
	va_end(args);
	if (!client)
		return (int)syscall(SYS_ioctl, fd, cmd, arg);
	__atomic_add_fetch(&device_calls[_IOC_NR(cmd)], 1, __ATOMIC_RELAXED);
	if (device_meanwhile)
		device_meanwhile(cmd);
	if (fails(cmd))
		return -1;
	err = getpid() != owner ? -EPERM : cmd == SOFTGPU_DMABUF ? dmabuf(arg) :
		sg_call(client, _IOC_NR(cmd), arg, *(u32 *)arg);
	if (cmd == SOFTGPU_INFO && !err)
		((struct softgpu_info *)arg)->abi += device_abi_more;
	errno = -err;
	return err ? -1 : 0;
}

static void seen(void *arg, u64 at, bool on_pci)
{
	*(u64 *)arg = at;
}

/* The CPU sees the pages where the GPU has them, and no child does. */
static void *show(struct sg_client *client, char *at, size_t length)
{
	for (size_t i = 0; i < length; i += SG_PAGE_SIZE) {
		size_t n = length - i < SG_PAGE_SIZE ? length - i : SG_PAGE_SIZE;
		u64 there;

		if (sg_visible_page(client, (uintptr_t)at + i, seen, &there) ||
		    mremap((void *)(uintptr_t)there, 0, n, MREMAP_MAYMOVE | MREMAP_FIXED, at + i) == MAP_FAILED) {
			errno = EINVAL;
			return MAP_FAILED;
		}
	}
	madvise(at, length, MADV_DONTFORK);
	return at;
}

static void *maps(void *at, size_t length, int prot, int flags, int fd, off_t offset)
{
	struct sg_client *client = client_of(fd);

	if (!client)
		return map(at, length, prot, flags, fd, offset);
	if (fails(DEVICE_MMAP))
		return MAP_FAILED;
	if (flags != (MAP_SHARED | MAP_FIXED) || prot != (PROT_READ | PROT_WRITE))
		abort();
	if (offset == (off_t)SOFTGPU_MMAP_WRITE_COMBINED || offset == (off_t)SOFTGPU_MMAP_MANAGED)
		return map(at, length, prot, flags | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (offset != (off_t)(uintptr_t)at)
		abort();
	return show(client, at, length);
}

#undef mmap
void *mmap(void *at, size_t length, int prot, int flags, int fd, off_t offset)
{
	return maps(at, length, prot, flags, fd, offset);
}

#undef mmap64
void *mmap64(void *at, size_t length, int prot, int flags, int fd, off_t offset);
void *mmap64(void *at, size_t length, int prot, int flags, int fd, off_t offset)
{
	return maps(at, length, prot, flags, fd, offset);
}

/* What the kernel knows of the GPUs' PCI functions. */
static FILE *pci_file(const char *path)
{
	static const struct {
		const char *name, *text;
	} known[] = {
		{ "vendor", "0x10de\n" }, { "device", "0x2331\n" }, { "subsystem_vendor", "0x1af4\n" },
		{ "subsystem_device", "0x16c1\n" },
	};
	char folder[64];
	size_t length;

	for (u32 gpu = 0; gpu < SOFTGPU_MAX_GPUS; gpu++) {
		length = (size_t)snprintf(folder, sizeof(folder), "/sys/bus/pci/devices/%04x:%02x:%02x.%x/", DEVICE_DOMAIN,
					  DEVICE_BUS + gpu, DEVICE_SLOT, DEVICE_FUNCTION);
		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && !strncmp(path, folder, length); i++) {
			if (!strcmp(path + length, known[i].name))
				return fmemopen((void *)(uintptr_t)known[i].text, strlen(known[i].text), "r");
		}
	}
	return NULL;
}

static FILE *opens_stream(const char *path, const char *how)
{
	int fd;

	/* As it may in the C library's. */
	pthread_testcancel();
	if (!strncmp(path, "/sys/bus/pci/", strlen("/sys/bus/pci/")))
		return device_no_sysfs ? NULL : pci_file(path);
	if (how[0] != 'r')
		abort();	/* the libraries only read */
	fd = opens(path, O_RDONLY | O_CLOEXEC, 0);
	return fd < 0 ? NULL : fdopen(fd, how);
}

FILE *fopen(const char *path, const char *how)
{
	return opens_stream(path, how);
}

FILE *fopen64(const char *path, const char *how);
FILE *fopen64(const char *path, const char *how)
{
	return opens_stream(path, how);
}
