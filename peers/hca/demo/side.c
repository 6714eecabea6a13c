// SPDX-License-Identifier: MIT
/* side.c - memory of a GPU for an adapter: see side.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../fpga/src/sysfs.h"
#include "kernel.h"
#include "side.h"

static bool failed(struct side *s, const char *call)
{
	why_set(&s->why, "%s: %s", call, strerror(errno));
	return false;
}

static bool library_failed(struct side *s, const char *call)
{
	why_set(&s->why, "%s: %s", call, peerdma_last_error());
	return false;
}

/* ---- beginning and end ---- */

static bool open_gpu(struct side *s, bool second)
{
	if (!gpus_open(s->all, &s->gpus, &s->why))
		return false;
	s->gpu = s->all[second ? s->gpus - 1 : 0];
	return true;
}

static bool open_adapter(struct side *s)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (list && list[0])
		s->device = ibv_open_device(list[0]);
	if (!s->device) {
		if (list)
			ibv_free_device_list(list);
		why_set(&s->why, "no RDMA adapter: rdma link add rxe0 type rxe netdev eth0");
		return false;
	}
	snprintf(s->adapter, sizeof(s->adapter), "%s", ibv_get_device_name(list[0]));
	ibv_free_device_list(list);
	s->pd = ibv_alloc_pd(s->device);
	s->cq = s->pd ? ibv_create_cq(s->device, 64, NULL, NULL, 0) : NULL;
	if (!s->cq)
		return failed(s, "ibv_create_cq");
	return kernel_adapter_pci(s->adapter, s->adapter_pci, sizeof(s->adapter_pci), &s->why);
}

/* An IPv4 address as a GID. */
static bool find_address(struct side *s)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_port_attr port;

	if (ibv_query_port(s->device, 1, &port))
		return failed(s, "ibv_query_port");
	s->mtu = port.active_mtu;
	for (int i = 0; i < port.gid_tbl_len; i++) {
		if (!ibv_query_gid(s->device, 1, i, &s->own.gid) && !memcmp(s->own.gid.raw, mapped, sizeof(mapped))) {
			s->gid_index = i;
			return true;
		}
	}
	why_set(&s->why, "the adapter's network device has no IPv4 address");
	return false;
}

bool side_open(struct side *s, bool second)
{
	if (!open_gpu(s, second) || !open_adapter(s) || !find_address(s) || !kernel_trace_start(&s->why))
		return false;
	return !peerdma_open(&s->peerdma, 0) || library_failed(s, "peerdma_open");
}

void side_close(struct side *s)
{
	side_end(s);
	if (s->qp)
		ibv_destroy_qp(s->qp);
	if (s->cq)
		ibv_destroy_cq(s->cq);
	if (s->pd)
		ibv_dealloc_pd(s->pd);
	if (s->device)
		ibv_close_device(s->device);
	if (s->peerdma)
		peerdma_close(s->peerdma);
	gpus_close(s->all, s->gpus);
}

/* ---- memory ---- */

static bool export_and_register(struct side *s, int access)
{
	int fd;

	if (peerdma_pin(s->peerdma, (void *)(uintptr_t)s->addr, s->length, PEERDMA_DEVICE, NULL, &s->region))
		return library_failed(s, "peerdma_pin");
	if (peerdma_export_dmabuf(s->region, 0, 0, &fd))
		return library_failed(s, "peerdma_export_dmabuf");
	s->mr = ibv_reg_dmabuf_mr(s->pd, 0, s->length, s->addr, fd, access);
	close(fd);
	return s->mr || failed(s, "ibv_reg_dmabuf_mr");
}

bool side_register(struct side *s, enum way way, uint64_t length, struct translation *t)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	s->way = way;
	if (!gpu_alloc(&s->gpu, length, &s->addr, &s->why))
		return false;
	s->length = length;
	kernel_trace_clear();
	if (way == WAY_DMABUF) {
		if (!export_and_register(s, access))
			return false;
	} else {
		s->staged = way == WAY_STAGING ? buffer_alloc(length) : NULL;
		if (way == WAY_STAGING && !s->staged)
			return failed(s, "host memory");
		s->mr = ibv_reg_mr(s->pd, (void *)(uintptr_t)side_base(s), length, access);
		if (!s->mr)
			return failed(s, "ibv_reg_mr");
	}
	*t = (struct translation){ .pointer = side_base(s), .bar = -1 };
	t->translates = kernel_iommu_translates(s->adapter);
	return way == WAY_STAGING || kernel_translation(s, t);
}

uint64_t side_base(const struct side *s)
{
	return s->staged ? (uintptr_t)s->staged : s->addr;
}

bool side_free(struct side *s)
{
	uint64_t addr = s->addr;

	s->addr = 0;
	return !addr || gpu_free(&s->gpu, addr, &s->why);
}

bool side_end(struct side *s)
{
	bool ok = true;

	if (s->mr && ibv_dereg_mr(s->mr))
		ok = failed(s, "ibv_dereg_mr");
	s->mr = NULL;
	if (s->region && peerdma_unpin(s->region))
		ok = library_failed(s, "peerdma_unpin");
	s->region = NULL;
	buffer_free(s->staged, s->length);
	s->staged = NULL;
	return side_free(s) && ok;
}

bool side_stage(struct side *s, bool to_host)
{
	if (!s->staged)
		return true;
	return to_host ? gpu_read(&s->gpu, s->staged, s->addr, s->length, &s->why) :
			 gpu_write(&s->gpu, s->addr, s->staged, s->length, &s->why);
}

/* ---- counts ---- */

bool side_copied(struct side *s, uint64_t *bytes)
{
	return kernel_gpu_copied(s->gpu.index, bytes, &s->why);
}

bool side_counts(struct side *s, struct counts *c)
{
	struct gpu_usage usage = gpu_usage(&s->gpu);

	if (!usage.known) {
		why_set(&s->why, "NVML does not say what is used");
		return false;
	}
	c->bar1 = usage.bar1_used;
	c->vram = usage.vram_used;
	return kernel_counts(s->adapter, c, &s->why);
}
