// SPDX-License-Identifier: MIT
/*
 * probe_outputs.c - prints what `peerdma doctor --probe` finds where the GPU, a card and a drive are made up and one thing
 * after the other goes wrong. test_outputs.py compares it with probe.txt. libibverbs is ../doctor/stand-in's.
 *
 *   probe_outputs FOLDER       a machine with a GPU and one of each kind of device, and FOLDER/drive, which is its drive's
 *
 * CUDA, the nodes and libpeerdma are in this file: a "GPU's memory" of this process.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "doctor/probe.h"
#include "fpga_ioctl.h"
#include "base/json.h"
#include "peerdma.h"
#include "peerdma_copy.h"
#include "peerdma_file.h"
#include "base/tool.h"

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);
void *__real_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);
ssize_t __real_pread(int fd, void *to, size_t length, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t length, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t length, off_t at);
int __real_close(int fd);
int __wrap_close(int fd);

static char folder[128], memory[PROBE_MEMORY] __attribute__((aligned(4096)));
static int card = -1, drive = -1, live, allocated, retained;

/* What goes wrong: "call" or "call@N", its Nth time, and how. */
static struct {
	const char *call;
	int nth, times;
	const char *how;
} wrong[3];

/* NULL: nothing is wrong with this call. */
static const char *how(const char *call)
{
	for (int i = 0; i < 3; i++) {
		if (wrong[i].call && !strncmp(wrong[i].call, call, strlen(call)) && strchr("@", wrong[i].call[strlen(call)]) &&
		    (++wrong[i].times == wrong[i].nth || !wrong[i].nth))
			return wrong[i].how;
	}
	return NULL;
}

static bool is(const char *a, const char *b)
{
	return a && !strcmp(a, b);
}

/* ---- CUDA ---- */

static int cuda(const char *call)
{
	const char *as = how(call);

	return as ? atoi(as) : 0;
}

static int cu_init(unsigned int flags)
{
	return flags ? 1 : cuda("cuInit");
}

static int cu_by_pci(int *device, const char *pci)
{
	*device = 3;
	return strcmp(pci, "0000:03:00.0") ? 101 : cuda("cuDeviceGetByPCIBusId");
}

static int cu_get(int *device, int number)
{
	*device = 3;
	return number ? 101 : cuda("cuDeviceGet");
}

static int cu_retain(void **context, int device)
{
	int ret = device == 3 ? cuda("cuDevicePrimaryCtxRetain") : 101;

	*context = memory + 1;
	retained += !ret;
	return ret;
}

static int cu_release(int device)
{
	retained -= device == 3;
	return 0;
}

static int cu_set_current(void *context)
{
	return context == memory + 1 ? cuda("cuCtxSetCurrent") : 201;
}

static int cu_alloc(uint64_t *p, size_t size)
{
	int ret = size == PROBE_MEMORY ? cuda("cuMemAlloc_v2") : 2;

	*p = (uintptr_t)memory;
	allocated += !ret;
	return ret;
}

static int cu_free(uint64_t p)
{
	allocated -= p == (uintptr_t)memory;
	return 0;
}

static int cu_to_gpu(uint64_t to, const void *from, size_t size)
{
	int ret = cuda("cuMemcpyHtoD_v2");

	if (!ret)
		memcpy((void *)(uintptr_t)to, from, size);
	return ret;
}

static int cu_to_host(void *to, uint64_t from, size_t size)
{
	int ret = cuda("cuMemcpyDtoH_v2");

	if (!ret)
		memcpy(to, (void *)(uintptr_t)from, size);
	return ret;
}

static int cu_set_attribute(const void *value, int attribute, uint64_t p)
{
	if (*(const unsigned int *)value != 1 || attribute != 6 || p != (uintptr_t)memory)
		return 1;
	return cuda("cuPointerSetAttribute");
}

static int cu_get_handle(void *handle, uint64_t p, size_t size, int type, unsigned long long flags)
{
	char path[160];
	int fd;

	if (p != (uintptr_t)memory || size != PROBE_MEMORY || type != 1 || flags)
		return 1;
	snprintf(path, sizeof(path), "%s/drive", folder);
	fd = __real_open(path, O_RDONLY | O_CLOEXEC);
	*(int *)handle = fd;
	return cuda("cuMemGetHandleForAddressRange");
}

static const struct {
	const char *name;
	void (*function)(void);
} functions[] = {
	{ "cuInit", (void (*)(void))cu_init }, { "cuDeviceGetByPCIBusId", (void (*)(void))cu_by_pci },
	{ "cuDeviceGet", (void (*)(void))cu_get }, { "cuDevicePrimaryCtxRetain", (void (*)(void))cu_retain },
	{ "cuDevicePrimaryCtxRelease_v2", (void (*)(void))cu_release }, { "cuCtxSetCurrent", (void (*)(void))cu_set_current },
	{ "cuMemAlloc_v2", (void (*)(void))cu_alloc }, { "cuMemFree_v2", (void (*)(void))cu_free },
	{ "cuMemcpyHtoD_v2", (void (*)(void))cu_to_gpu }, { "cuMemcpyDtoH_v2", (void (*)(void))cu_to_host },
	{ "cuPointerSetAttribute", (void (*)(void))cu_set_attribute },
	{ "cuMemGetHandleForAddressRange", (void (*)(void))cu_get_handle },
};

void *__wrap_dlopen(const char *name, int flags)
{
	if (strcmp(name, "libcuda.so.1"))
		return how("dlopen") && !strcmp(name, "libibverbs.so.1") ? NULL : __real_dlopen(name, flags);
	return how("libcuda") ? NULL : &folder;
}

void *__wrap_dlsym(void *library, const char *name)
{
	char lacks[64];

	if (library != &folder)
		return __real_dlsym(library, name);
	snprintf(lacks, sizeof(lacks), "no %s", name);
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		if (!strcmp(functions[i].name, name) && !how(lacks))
			return (void *)(uintptr_t)functions[i].function;
	}
	return NULL;
}

/* ---- nodes: the card is the fourth that there is, the second that answers ---- */

static int number(const char *error)
{
	static const struct {
		const char *name;
		int error;
	} errors[] = { { "EACCES", EACCES }, { "EIO", EIO }, { "EFAULT", EFAULT }, { "ENOENT", ENOENT } };

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (!strcmp(errors[i].name, error))
			return errors[i].error;
	}
	return 0;
}

static int open_node(const char *path, int flags)
{
	char real[160];
	const char *as;
	unsigned int n;

	if (sscanf(path, "/dev/fpga%u", &n) == 1) {
		as = how("card");
		errno = n == 1 ? EACCES : n > 1 && n < 5 && !is(as, "none") ? 0 : ENOENT;
		if (errno)
			return -1;
		live++;
		card = __real_open("/dev/null", O_RDONLY | O_CLOEXEC);
		lseek(card, 0, SEEK_SET);
		return card;
	}
	if (!strcmp(path, "/dev/nvme0n1")) {
		as = how("drive");
		errno = as ? number(as) : 0;
		if (errno)
			return -1;
		if ((flags & O_ACCMODE) != O_RDONLY || !(flags & O_DIRECT))
			abort();
		snprintf(real, sizeof(real), "%s/%s", folder, as ? as : "drive");
		live++;
		drive = __real_open(real, O_RDONLY | O_CLOEXEC);
		return drive;
	}
	return -2;
}

int __wrap_open(const char *path, int flags, ...)
{
	int fd = open_node(path, flags);

	return fd == -2 ? __real_open(path, flags, 0600) : fd;
}

int __wrap_open64(const char *path, int flags, ...)
{
	int fd = open_node(path, flags);

	return fd == -2 ? __real_open(path, flags, 0600) : fd;
}

int __wrap_close(int fd)
{
	live -= fd >= 0 && (fd == card || fd == drive);
	if (fd == card)
		card = -1;
	if (fd == drive)
		drive = -1;
	return __real_close(fd);
}

/* Other cards of the kind: on another bus, on another slot, of another function. */
static int info(struct fpga_info *i)
{
	static int asked;
	static const uint32_t others[][3] = { { 0, 0x82, 1 << 3 }, { 1, 0x82, 0 }, { 0, 0x82, 0 } };
	const uint32_t *is_card = others[asked++ % 3];

	if (i->size != sizeof(*i) || how("FPGA_INFO"))
		return EIO;
	i->pci_domain = is_card[0];
	i->pci_bus = is_card[1];
	i->pci_devfn = is_card[2];
	return 0;
}

static int carry(const struct fpga_copy *c)
{
	const char *as = how("FPGA_COPY");

	if (c->size != sizeof(*c) || c->flags || (as && number(as)))
		return as ? number(as) : EINVAL;
	if (is(as, "lose"))
		return 0;
	memcpy((void *)(uintptr_t)c->dst, (void *)(uintptr_t)c->src, c->length);
	if (is(as, "flip")) {
		((char *)(uintptr_t)c->dst)[1234] ^= 1;
		((char *)(uintptr_t)c->dst)[c->length - 1] ^= 1;
	}
	return 0;
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (fd != card || card < 0)
		return __real_ioctl(fd, request, arg);
	errno = request == FPGA_INFO ? info(arg) : request == FPGA_COPY ? carry(arg) : ENOTTY;
	return errno ? -1 : 0;
}

ssize_t __wrap_pread(int fd, void *to, size_t length, off_t at)
{
	const char *as;

	if (fd != drive)
		return __real_pread(fd, to, length, at);
	as = how("pread");
	errno = as ? number(as) : 0;
	if (errno)
		return -1;
	if (is(as, "lose"))
		return (ssize_t)length;
	return __real_pread(fd, to, is(as, "short") ? length - 1 : length, at);
}

ssize_t __wrap_pread64(int fd, void *to, size_t length, off_t at)
{
	return __wrap_pread(fd, to, length, at);
}

/* ---- libpeerdma ---- */

static const char *error;
static int pinned;

const char *peerdma_last_error(void)
{
	return error;
}

static int failed(const char *call)
{
	error = call;
	return how(call) ? -EIO : 0;
}

int peerdma_open(struct peerdma **ctx, unsigned int flags)
{
	*ctx = NULL;
	if (flags != (PEERDMA_OPEN_CUDA | PEERDMA_OPEN_DIRECT) || failed("peerdma_open"))
		return -EIO;
	*ctx = (struct peerdma *)memory;
	pinned++;
	return 0;
}

void peerdma_close(struct peerdma *ctx)
{
	pinned -= ctx == (struct peerdma *)memory;
}

int peerdma_pin(struct peerdma *ctx, void *addr, size_t length, unsigned int flags, void *more, struct peerdma_region **region)
{
	if (ctx != (struct peerdma *)memory || addr != memory || length != PROBE_MEMORY || flags != PEERDMA_DEVICE || more)
		return -EINVAL;
	*region = (struct peerdma_region *)memory;
	return failed("peerdma_pin");
}

int peerdma_cpu_view(struct peerdma_region *region, void **view)
{
	*view = memory;
	return region == (struct peerdma_region *)memory ? failed("peerdma_cpu_view") : -EINVAL;
}

int peerdma_status(struct peerdma_region *region, struct peerdma_status *status)
{
	status->pinned_addr = (uintptr_t)memory;
	status->pinned_length = PROBE_MEMORY;
	return region == (struct peerdma_region *)memory ? failed("peerdma_status") : -EINVAL;
}

/* This memory has no pages to give; tests/vm/files.sh probes memory that has. */
int peerdma_page_view(struct peerdma_region *region, uint64_t offset, uint64_t length, unsigned int flags, const char *pci, int *fd)
{
	return region == (struct peerdma_region *)memory && !offset && !length && !flags && pci && fd ? -EOPNOTSUPP : -EINVAL;
}

static void copied(const char *call, void *to, const void *from, size_t n)
{
	const char *as = how(call);

	if (!as || !is(as, "lose"))
		memcpy(to, from, n);
	if (is(as, "flip"))
		((char *)to)[n / 2] ^= 1;
}

void peerdma_copy_to_view(void *view, const void *src, size_t n)
{
	copied("peerdma_copy_to_view", view, src, n);
}

void peerdma_copy_from_view(void *dst, const void *view, size_t n)
{
	copied("peerdma_copy_from_view", dst, view, n);
}

/* ---- runs ---- */

static void show(const struct doctor *d)
{
	for (unsigned int i = 0; i < d->count; i++) {
		const struct finding *f = &d->findings[i];

		if (strncmp(f->check->name, "probe", 5))
			continue;
		printf("%s: %s: %s\n", verdict_word(f->verdict), f->check->name, f->subject);
		/* Of those, the first run has all. */
		if (f->verdict == VERDICT_OK && wrong[0].call)
			continue;
		for (unsigned int e = 0; e < f->evidence_count; e++)
			printf("  seen %s: %s\n", f->evidence[e].source, f->evidence[e].value);
		if (f->consequence)
			printf("  so   %s\n", f->consequence);
		if (f->remedy)
			printf("  do   %s\n", f->remedy);
	}
	moved_text(d);
}

/* Only devices of one kind beside the GPU: "card", "nvme", "nic", "view" is the GPU itself; "all". */
static void run(const char *what, const char *a, const char *as_a, const char *b, const char *as_b)
{
	static const struct {
		const char *what;
		enum device_kind kind;
	} kinds[] = { { "card", DEVICE_CARD }, { "nvme", DEVICE_NVME }, { "nic", DEVICE_NIC } };
	struct tree *t = tree_open(folder);
	struct doctor d;
	struct machine m;
	int gpu = -1, other = -1;
	int ret = t ? machine_read(&m, t) : -1;

	memset(wrong, 0, sizeof(wrong));
	wrong[0].call = a;
	wrong[0].how = as_a;
	wrong[1].call = b;
	wrong[1].how = as_b;
	for (int i = 0; i < 2; i++)
		wrong[i].nth = wrong[i].call && strchr(wrong[i].call, '@') ? atoi(strchr(wrong[i].call, '@') + 1) : 0;
	printf("\n== %s", what);
	for (int i = 0; i < 2 && wrong[i].call; i++)
		printf(", %s: %s", wrong[i].call, wrong[i].how);
	printf("\n");
	for (unsigned int i = 0; !ret && i < m.count; i++) {
		if (m.devices[i].kind == DEVICE_GPU && gpu < 0)
			gpu = (int)i;
		for (size_t k = 0; k < 3; k++) {
			if (!strcmp(kinds[k].what, what) && m.devices[i].kind == kinds[k].kind && other < 0)
				other = (int)i;
		}
	}
	memset(memory, 0x77, sizeof(memory));
	if (!ret)
		ret = doctor_run(&d, &m, &(struct doctor_options){ .a = other < 0 ? -1 : gpu, .b = other < 0 ? -1 : other, .probe = true });
	if (ret) {
		printf("error %d\n", ret);
		return;
	}
	show(&d);
	if (!wrong[0].call) {
		struct json_object *o = json_new("peerdma-doctor/2");

		moved_json(&d, json_array_in(o, "moved"));
		json_print(o);
	}
	if (live || allocated || retained || pinned)
		printf("left open: %d, memory: %d, contexts: %d, pinned: %d\n", live, allocated, retained, pinned);
	live = allocated = retained = pinned = 0;
	doctor_free(&d);
	machine_free(&m);
	tree_close(t);
}

int main(int argc, char **argv)
{
	char lacks[64];

	if (argc != 2)
		return 2;
	setvbuf(stdout, NULL, _IONBF, 0);
	snprintf(folder, sizeof(folder), "%s", argv[1]);
	run("all", NULL, NULL, NULL, NULL);

	for (int i = 1; i < 3; i++) {
		run("card", i == 1 ? "FPGA_COPY@1" : "FPGA_COPY@2", "lose", NULL, NULL);
		run("card", i == 1 ? "FPGA_COPY@1" : "FPGA_COPY@2", "flip", NULL, NULL);
		run("card", i == 1 ? "FPGA_COPY@1" : "FPGA_COPY@2", "EIO", NULL, NULL);
		run("card", i == 1 ? "FPGA_COPY@1" : "FPGA_COPY@2", "EFAULT", i == 1 ? "cuMemcpyDtoH_v2@2" : "cuMemcpyHtoD_v2@4", "700");
	}
	run("card", "cuMemcpyHtoD_v2@2", "700", NULL, NULL);
	run("card", "cuMemcpyHtoD_v2@3", "700", NULL, NULL);
	run("card", "cuMemcpyDtoH_v2@2", "700", NULL, NULL);
	run("card", "card", "none", NULL, NULL);
	run("card", "FPGA_INFO", "fails", NULL, NULL);

	run("nvme", NULL, NULL, NULL, NULL);
	run("nvme", "drive", "EACCES", NULL, NULL);
	run("nvme", "drive", "small", NULL, NULL);
	run("nvme", "pread@1", "EIO", NULL, NULL);
	run("nvme", "pread@1", "short", NULL, NULL);
	run("nvme", "pread@2", "EFAULT", NULL, NULL);
	run("nvme", "pread@2", "short", "peerdma_pin", "fails");
	run("nvme", "pread@2", "lose", NULL, NULL);
	run("nvme", "pread@2", "EFAULT", "cuMemcpyDtoH_v2@2", "700");
	run("nvme", "cuMemcpyHtoD_v2@2", "700", "pread@2", "EFAULT");
	run("nvme", "cuMemcpyDtoH_v2@2", "700", "pread@3", "short");

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		snprintf(lacks, sizeof(lacks), "no %s", functions[i].name);
		run("nvme", lacks, "lacking", NULL, NULL);
	}
	run("nvme", "libcuda", "lacking", NULL, NULL);
	for (size_t i = 0; i < 11; i++)
		run("nvme", functions[i].name, "7", NULL, NULL);

	run("nic", "peerdma_open", "fails", NULL, NULL);
	run("nic", "peerdma_cpu_view", "fails", "cuMemGetHandleForAddressRange", "801");
	run("nic", "peerdma_copy_to_view", "flip", "cuMemcpyDtoH_v2@2", "700");
	run("nic", "peerdma_copy_from_view", "lose", "cuMemcpyHtoD_v2@1", "700");
	run("nic", "dlopen", "lacking", "cuMemcpyDtoH_v2@1", "700");
	return 0;
}
