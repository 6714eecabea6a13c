// SPDX-License-Identifier: MIT
/* softgpu_share_util.c - exports and imports. */
#include "softgpu_share.h"

int dmabuf_err(struct gpu *g, uint64_t va, uint64_t length, int *fd)
{
	return sg_dmabuf(g->fd, va, length, fd);
}

int dmabuf_of(struct gpu *g, uint64_t va, uint64_t length)
{
	int fd;

	MUST(!sg_dmabuf(g->fd, va, length, &fd));
	return fd;
}

int import_err(int fd, uint32_t kind, int *importer)
{
	*importer = importer_open();
	if (!importer_attach(*importer, fd, kind))
		return 0;
	close(*importer);
	return errno;
}

int map_err(int importer, struct importer_map *m)
{
	memset(m, 0, sizeof(*m));	/* both directions */
	return importer_map(importer, m) ? errno : 0;
}

uint64_t dma_address(int importer)
{
	struct importer_map m;

	MUST(!map_err(importer, &m));
	return m.dma_addr;
}

uint64_t dma_address_at(int importer, uint64_t offset)
{
	struct importer_map m = { .offset = offset };

	MUST(!importer_unmap(importer) && !importer_map(importer, &m));
	return m.dma_addr;
}

uint64_t vram_free(struct gpu *g)
{
	return sg_need_info(g->fd).vram_free;
}

uint64_t bar1_used(struct gpu *g)
{
	return sg_need_info(g->fd).bar1_used;
}

void put(struct gpu *g, uint64_t va, const void *data, uint64_t length)
{
	MUST(!sg_copy(g->fd, g->ctx, va, PTR(data), length, SOFTGPU_OP_SYNC));
}

void get(struct gpu *g, void *data, uint64_t va, uint64_t length)
{
	MUST(!sg_copy(g->fd, g->ctx, PTR(data), va, length, SOFTGPU_OP_SYNC));
}

bool untranslated(struct gpu *g)
{
	uint64_t va = need_alloc(g, PAGE64), a, b;
	int fd = dmabuf_of(g, va, PAGE64), one, two;

	MUST(!import_err(fd, IMPORTER_STATIC, &one) && !import_err(fd, IMPORTER_STATIC, &two));
	a = dma_address(one);
	b = dma_address(two);
	close(one);
	close(two);
	close(fd);
	MUST(!sg_free(g->fd, va));
	return a == b;
}
