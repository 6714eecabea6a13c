// SPDX-License-Identifier: MIT
/*
 * test_probe_nic.c - the probe of RDMA devices: which ways are tried, and that no word is believed.
 * CUDA and libibverbs are stand-ins; tests/vm/doctor.sh has a real libibverbs and its software device.
 */
#include <dlfcn.h>

#include "../cases.h"
#include "../descriptors.h"
#include "doctor/doctor.h"
#include "doctor/probe.h"
#include "doctor/rdma.h"
#include "fake_rdma.h"

static struct fake_rdma *fake;
static char *memory;		/* the GPU's */
static int cuda_error, handle_error;
static unsigned int descriptors_before;
static struct doctor d;
static struct check check;
static struct probe p;
static struct rdma r;

static cuda_result to_gpu(cuda_pointer to, const void *from, size_t size)
{
	memcpy((void *)(uintptr_t)to, from, size);
	return 0;
}

static cuda_result to_host(void *to, cuda_pointer from, size_t size)
{
	memcpy(to, (void *)(uintptr_t)from, size);
	return cuda_error;
}

static cuda_result get_handle(void *handle, cuda_pointer at, size_t size, int type, unsigned long long flags)
{
	assert_int_equal(at, (uintptr_t)memory);
	assert_int_equal(size, PROBE_MEMORY);
	assert_int_equal(type, 1);
	if (!handle_error)
		*(int *)handle = dup(1);
	return handle_error;
}

static int setup(void **state)
{
	*fake = (struct fake_rdma){ 0 };
	fake->not_host = memory;
	fake->not_host_length = PROBE_MEMORY;
	cuda_error = handle_error = 0;
	descriptors_before = descriptors();
	d = (struct doctor){ .check = &check, .probe = true };
	assert_true(probe_begin(&p));
	p.memory = (uintptr_t)memory;
	p.cuda = (struct cuda){ .to_gpu = to_gpu, .to_host = to_host, .get_handle = get_handle };
	return 0;
}

/* All that was opened is given back. */
static int over(void **state)
{
	rdma_close(&r);
	probe_end(&p);
	doctor_free(&d);
	return fake->live || descriptors() != descriptors_before;
}

FIXTURE(setup, over)

/* Opens, and counts transfers from there on. */
static void try(void)
{
	if (!rdma_open(&r, "fake0"))
		fail_msg("%s", r.why);
	fake->transfers = 0;
	probe_nic_try(&d, &p, &r, "GPU0 and NIC0", false);
	assert_false(d.no_memory);
}

static unsigned int count(enum verdict v, const char *word)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < d.count; i++)
		n += d.findings[i].verdict == v && strstr(d.findings[i].subject, word);
	return n;
}

/* How many transfers, or refusals, ended so. */
static unsigned int rows(enum moved_result result, const char *way)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < d.moved_count; i++) {
		n += d.moved[i].result == result && !strcmp(d.moved[i].way, way) &&
		     d.moved[i].bytes == (result == MOVED_NOT_TAKEN ? 0 : PROBE_LENGTH);
	}
	return n;
}

static bool told(const char *word)
{
	for (unsigned int i = 0; i < d.count; i++) {
		for (unsigned int e = 0; e < d.findings[i].evidence_count; e++) {
			if (strstr(d.findings[i].evidence[e].value, word))
				return true;
		}
	}
	return false;
}

CASE(every_way)
{
	try();
	assert_int_equal(count(VERDICT_OK, "by dma-buf"), 4);
	assert_int_equal(count(VERDICT_OK, "by peer memory"), 4);
	assert_int_equal(d.count, 8);
	assert_int_equal(rows(MOVED_EQUAL, "dma-buf"), 4);
	assert_int_equal(rows(MOVED_EQUAL, "peer memory"), 4);
	assert_int_equal(d.moved_count, 8);
	assert_int_equal(fake->dmabufs, 1);
	/* Two writes of each way are followed by a read. */
	assert_int_equal(fake->transfers, 12);
}

CASE(one_way)
{
	fake->dmabuf_error = EOPNOTSUPP;
	try();
	assert_int_equal(count(VERDICT_OK, "by peer memory"), 4);
	/* The other is not, and how to get it. */
	assert_int_equal(count(VERDICT_OK, "by dma-buf"), 1);
	assert_int_equal(d.count, 5);
	assert_non_null(d.findings[4].remedy);
	assert_int_equal(rows(MOVED_NOT_TAKEN, "dma-buf"), 1);
	assert_string_equal(d.moved[0].why, d.findings[4].evidence[0].value);
	assert_int_equal(rows(MOVED_EQUAL, "peer memory"), 4);
	assert_int_equal(d.moved_count, 5);
}

/* A driver that takes dma-bufs behind a provider that does not. */
CASE(past_the_provider)
{
	fake->dmabuf_error = EOPNOTSUPP;
	fake->kernel_error = -1;
	fake->reg_error = EFAULT;
	try();
	assert_int_equal(fake->past, 1);
	assert_int_equal(rows(MOVED_EQUAL, "dma-buf"), 4);
	assert_int_equal(rows(MOVED_NOT_TAKEN, "peer memory"), 1);
	assert_int_equal(count(VERDICT_OK, "ibv_reg_dmabuf_mr()"), 1);
	assert_int_equal(d.count, 6);
	rdma_close(&r);

	/* It is tried only where the provider has no such call. */
	fake->dmabuf_error = EINVAL;
	try();
	assert_int_equal(fake->past, 1);
	assert_true(told("ibv_reg_dmabuf_mr: Invalid argument"));
}

CASE(no_way)
{
	fake->dmabuf_error = EOPNOTSUPP;
	fake->reg_error = EFAULT;
	try();
	assert_int_equal(d.count, 1);
	assert_int_equal(d.findings[0].verdict, VERDICT_BROKEN);
	assert_true(told("ibv_reg_dmabuf_mr: Operation not supported"));
	assert_true(told("ibv_reg_mr: Bad address"));

	/* Of a program's device that tells nothing of adapters. */
	probe_nic_try(&d, &p, &r, "GPU0 and rxe0", true);
	assert_int_equal(d.findings[1].verdict, VERDICT_UNKNOWN);
}

/* CUDA gives no dma-buf of it, or is too old to. */
CASE(no_dmabuf)
{
	handle_error = 801;
	try();
	assert_int_equal(rows(MOVED_NOT_TAKEN, "dma-buf"), 1);
	assert_int_equal(rows(MOVED_EQUAL, "peer memory"), 4);
	assert_true(told("cuMemGetHandleForAddressRange: CUDA error 801"));
	assert_int_equal(over(state), 0);
	setup(state);
	p.cuda.get_handle = NULL;
	try();
	assert_int_equal(rows(MOVED_NOT_TAKEN, "dma-buf"), 1);
	assert_int_equal(rows(MOVED_EQUAL, "peer memory"), 4);
	assert_true(told("libcuda.so.1 has no cuMemGetHandleForAddressRange"));
	assert_int_equal(fake->dmabufs, 0);
}

/* Not even memory of the host can be registered: that says nothing of the GPU, and nothing is moved. */
CASE(no_host_memory)
{
	fake->not_host = (char *)p.room;
	fake->not_host_length = PROBE_ROOM;
	fake->reg_error = ENOMEM;
	try();
	assert_int_equal(d.count, 1);
	assert_int_equal(d.findings[0].verdict, VERDICT_UNKNOWN);
	assert_true(told("ibv_reg_mr: Cannot allocate memory"));
	assert_string_equal(d.findings[0].consequence, "no data was moved");
	assert_non_null(strstr(d.findings[0].remedy, "ulimit -l"));
	assert_int_equal(d.moved_count + (unsigned int)fake->transfers, 0);
}

/* Each of the four transfers in turn. */
CASE(success_is_not_believed)
{
	static const int nth[] = { 1, 3, 5, 6 };

	fake->reg_error = EFAULT;
	try();
	assert_int_equal(count(VERDICT_OK, "by dma-buf"), 4);
	for (int how = 0; how < 2; how++) {
		for (size_t i = 0; i < sizeof(nth) / sizeof(nth[0]); i++) {
			over(state);
			setup(state);
			fake->reg_error = EFAULT;
			assert_true(rdma_open(&r, "fake0"));
			fake->transfers = 0;
			*(how ? &fake->lose : &fake->flip) = nth[i];
			probe_nic_try(&d, &p, &r, "GPU0 and NIC0", false);
			assert_int_equal(count(VERDICT_BROKEN, "by dma-buf"), 1);
			assert_int_equal(count(VERDICT_OK, "by dma-buf"), 3);
			assert_int_equal(d.findings[i].verdict, VERDICT_BROKEN);
			assert_int_equal(rows(MOVED_DIFFERS, "dma-buf"), 1);
			assert_int_equal(rows(MOVED_EQUAL, "dma-buf"), 3);
			assert_int_equal(d.moved[i].result, MOVED_DIFFERS);
			assert_true(strstr(d.moved[i].why, how ? "bytes, the first at 0" : "1 bytes, the first at 4500"));
			assert_true(told("the device reports success"));
			assert_true(told(how ? "bytes differ, the first at 0" : "1 of 9000 bytes differ, the first at 4500"));
		}
	}
}

/* An error is told, and the next transfers go on. */
CASE(error)
{
	fake->reg_error = EFAULT;
	assert_true(rdma_open(&r, "fake0"));
	fake->transfers = 0;
	fake->fail = 3;
	probe_nic_try(&d, &p, &r, "GPU0 and NIC0", false);
	assert_int_equal(d.findings[1].verdict, VERDICT_BROKEN);
	assert_true(told("the device reports: remote access error"));
	assert_int_equal(rows(MOVED_FAILED, "dma-buf"), 1);
	assert_int_equal(count(VERDICT_OK, "by dma-buf"), 3);
}

/* What is acknowledged may be on its way: it is not called lost. */
CASE(late)
{
	fake->late = true;
	try();
	assert_int_equal(count(VERDICT_OK, ""), 8);
}

CASE(cuda_fails)
{
	cuda_error = 700;
	fake->reg_error = EFAULT;
	try();
	assert_int_equal(rows(MOVED_NOT_COMPARED, "dma-buf"), 2);
	assert_int_equal(count(VERDICT_UNKNOWN, "to the GPU"), 2);
	assert_int_equal(count(VERDICT_OK, "from the GPU"), 2);
	assert_true(told("cuMemcpyDtoH: CUDA error 700"));
}

static void refused(const char *device, const char *why)
{
	assert_false(rdma_open(&r, device));
	if (!strstr(r.why, why))
		fail_msg("\"%s\" does not say \"%s\"", r.why, why);
	rdma_close(&r);
}

/* What fails with memory of the host says nothing of the GPU. */
CASE(device)
{
	refused("fake1", "does not know fake1");
	fake->port_down = 2;
	refused("fake0", "none of its ports is active");
	fake->port_down = 1;
	fake->bad_gids = 2;
	assert_true(rdma_open(&r, "fake0"));
	assert_int_equal(r.port_number, 2);
	assert_int_equal(r.gid_index, 1);
	rdma_close(&r);
	fake->bad_gids = 3;
	refused("fake0", "transport retry counter exceeded");
	fake->bad_gids = 0;
	fake->create_error = EOPNOTSUPP;
	refused("fake0", "ibv_create_qp, reliable connection: Operation not supported");
	fake->create_error = 0;
	fake->transfers = 0;
	fake->flip = 1;
	/* The last address lost a byte of its trial, the one before did not. */
	assert_true(rdma_open(&r, "fake0"));
	assert_int_equal(r.gid_index, 2);
}

/* A completion that takes its time, and one that never comes for the queue is broken; what cannot be made or posted. */
CASE(errors)
{
	fake->slow = 5;
	try();
	assert_int_equal(fake->slow, 0);
	assert_int_equal(rows(MOVED_EQUAL, "dma-buf"), 4);
	rdma_close(&r);
	fake->poll_error = -1;
	refused("fake0", "ibv_poll_cq: failed");
	fake->poll_error = 0;
	fake->post_error = EINVAL;
	refused("fake0", "ibv_post_send: Invalid argument");
	fake->post_error = -EIO;
	refused("fake0", "ibv_post_send: Input/output error");
	fake->post_error = 0;
	fake->open_error = EACCES;
	refused("fake0", "ibv_open_device: Permission denied");
	fake->open_error = 0;
	fake->pd_error = ENOMEM;
	refused("fake0", "ibv_alloc_pd: Cannot allocate memory");
	fake->pd_error = 0;
	fake->cq_error = EMFILE;
	refused("fake0", "ibv_create_cq: Too many open files");
	fake->cq_error = 0;
	/* In an InfiniBand subnet no address of that kind is needed. */
	fake->lid = true;
	assert_true(rdma_open(&r, "fake0"));
	assert_int_equal(r.gid_index, -1);
}

int main(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);
	struct fake_rdma *(*get)(void);

	get = library ? (struct fake_rdma *(*)(void))dlsym(library, "fake_rdma") : NULL;
	memory = aligned_alloc(4096, PROBE_MEMORY);
	if (!get || !memory)
		return 1;
	fake = get();
	return cases_run(NULL, NULL);
}
