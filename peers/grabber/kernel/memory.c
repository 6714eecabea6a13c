// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * memory.c - the memory of buffers, for videobuf2.
 *
 * Memory of the host (MMAP, USERPTR) is videobuf2-dma-sg's.  dma-bufs are imported here and
 * not there, since videobuf2 attaches to them in a way that their exporter cannot end: GPU
 * memory that may be freed at any time is not given to such an importer.  This one is
 * dynamic.  When the exporter calls, the controller is stopped, the buffer is given back with
 * V4L2_BUF_FLAG_ERROR, and its mapping ends.
 *
 * A mapping is made when the buffer is first queued and kept until it is detached.
 *
 * The controller writes a block to one even address.  A user pointer that does not begin at a
 * page has blocks in two pages each, unless an IOMMU makes one piece of them.  Such a buffer
 * has a second memory of the same size: frames go there, and are copied when the program
 * takes the buffer.
 */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/slab.h>
#include <media/videobuf2-dma-sg.h>

#include "compat.h"
#include "grabber.h"

static const struct vb2_mem_ops *const host = &vb2_dma_sg_memops;

struct memory {
	void *host;			/* videobuf2-dma-sg's; NULL: a dma-buf */
	void *second;			/* the same, see above */
	struct grabber_ring *ring;
	struct grabber_buffer *buffer;
	struct dma_buf *dmabuf;		/* videobuf2 has the reference */
	unsigned long size;
	struct device *dev;
	struct dma_buf_attachment *attach;	/* NULL: not yet */
	struct sg_table *table;		/* the dma-buf's reservation lock; NULL: not mapped */
};

static struct memory *new_memory(struct vb2_buffer *vb)
{
	struct memory *m = kzalloc(sizeof(*m), GFP_KERNEL);

	if (m) {
		m->ring = vb2_get_drv_priv(vb->vb2_queue);
		m->buffer = to_buffer(vb);
	}
	return m;
}

/* ---- the host's ---- */

/* Takes what videobuf2-dma-sg has made. */
static void *of_host(struct memory *m, void *made)
{
	if (IS_ERR_OR_NULL(made)) {
		kfree(m);
		return made ?: ERR_PTR(-ENOMEM);
	}
	m->host = made;
	return m;
}

static void *host_alloc(struct vb2_buffer *vb, struct device *dev, unsigned long size)
{
	struct memory *m = new_memory(vb);

	return m ? of_host(m, host->alloc(vb, dev, size)) : ERR_PTR(-ENOMEM);
}

static void host_put(void *priv)
{
	struct memory *m = priv;

	host->put(m->host);
	kfree(m);
}

static void *host_get_userptr(struct vb2_buffer *vb, struct device *dev, unsigned long vaddr,
			      unsigned long size)
{
	struct memory *m = new_memory(vb);

	return m ? of_host(m, host->get_userptr(vb, dev, vaddr, size)) : ERR_PTR(-ENOMEM);
}

static void host_put_userptr(void *priv)
{
	struct memory *m = priv;

	if (m->second)
		host->put(m->second);
	host->put_userptr(m->host);
	kfree(m);
}

static void host_prepare(void *priv)
{
	struct memory *m = priv;

	if (m->host)
		host->prepare(m->host);
}

static void host_finish(void *priv)
{
	struct memory *m = priv;

	if (m->host)
		host->finish(m->host);
}

static struct dma_buf *host_get_dmabuf(struct vb2_buffer *vb, void *priv, unsigned long flags)
{
	struct memory *m = priv;

	return host->get_dmabuf(vb, m->host, flags);
}

static int host_mmap(void *priv, struct vm_area_struct *vma)
{
	struct memory *m = priv;

	return host->mmap(m->host, vma);
}

/* videobuf2 asks of all kinds of memory. */
static unsigned int host_num_users(void *priv)
{
	struct memory *m = priv;

	return m->host ? host->num_users(m->host) : 1;
}

/* ---- dma-bufs ---- */

/* The reservation lock is held. */
static void unmap(struct memory *m)
{
	if (m->table)
		dma_buf_unmap_attachment(m->attach, m->table, DMA_FROM_DEVICE);
	m->table = NULL;
}

/* The reservation lock is held: the memory moves, or goes away. */
static void moved(struct dma_buf_attachment *attach)
{
	struct memory *m = attach->importer_priv;

	if (!m->table)
		return;
	ring_forget(m->ring, m->buffer);
	unmap(m);
}

static const struct dma_buf_attach_ops importer = {
	.allow_peer2peer = true,
	.invalidate_mappings = moved,
};

/*
 * It does nothing that fails: since 6.9 videobuf2 loses its reference to a dma-buf if this
 * callback returns an error, and the dma-buf's memory is never freed.  What can fail is in
 * map_dmabuf().
 */
static void *attach_dmabuf(struct vb2_buffer *vb, struct device *dev, struct dma_buf *dmabuf,
			   unsigned long size)
{
	struct memory *m = new_memory(vb);

	if (!m)
		return ERR_PTR(-ENOMEM);
	m->dmabuf = dmabuf;
	m->size = size;
	m->dev = dev;
	return m;
}

static int attach(struct memory *m)
{
	struct dma_buf_attachment *attach;

	if (m->attach)
		return 0;
	if (m->dmabuf->size < m->size)
		return -EFAULT;
	if (!(m->dmabuf->file->f_mode & FMODE_WRITE))
		return -EACCES;
	attach = dma_buf_dynamic_attach(m->dmabuf, m->dev, &importer, m);
	if (IS_ERR(attach))
		return PTR_ERR(attach);
	m->attach = attach;
	return 0;
}

static void detach_dmabuf(void *priv)
{
	struct memory *m = priv;

	if (m->attach) {
		dma_resv_lock(m->dmabuf->resv, NULL);
		unmap(m);
		dma_resv_unlock(m->dmabuf->resv);
		dma_buf_detach(m->dmabuf, m->attach);
	}
	kfree(m);
}

/* The reservation lock is held. */
static int map(struct memory *m)
{
	struct sg_table *table;

	if (m->table)
		return 0;
	table = dma_buf_map_attachment(m->attach, DMA_FROM_DEVICE);
	if (IS_ERR_OR_NULL(table))
		return table ? PTR_ERR(table) : -ENOMEM;
	m->table = table;
	return 0;
}

/* videobuf2 asks for each frame; memory_prepare() maps when it is needed. */
static int map_dmabuf(void *priv)
{
	return attach(priv);
}

static void unmap_dmabuf(void *priv)
{
}

/* ---- addresses ---- */

static void *cookie(struct vb2_buffer *vb, void *priv)
{
	struct memory *m = priv;

	return m->host ? host->cookie(vb, m->host) : m->table;
}

static int spread(const struct sg_table *table, dma_addr_t *blocks, u32 count)
{
	struct scatterlist *sg;
	u32 n = 0, i;

	for_each_sgtable_dma_sg(table, sg, i) {
		dma_addr_t addr = sg_dma_address(sg);
		u32 left = sg_dma_len(sg);

		if (addr & NIC_ODD)
			return -EINVAL;
		while (left >= GRABBER_BLOCK && n < count) {
			blocks[n++] = addr;
			addr += GRABBER_BLOCK;
			left -= GRABBER_BLOCK;
		}
		if (n == count)
			return 0;
		if (left)
			return -EINVAL;
	}
	return -EINVAL;
}

static int prepare_host(struct vb2_buffer *vb, struct memory *m)
{
	struct grabber_buffer *buffer = to_buffer(vb);
	void *second;
	int err;

	if (!m->second) {
		err = spread(host->cookie(vb, m->host), buffer->blocks, buffer->count);
		if (err != -EINVAL || vb->memory != VB2_MEMORY_USERPTR)
			return err;
		second = host->alloc(vb, vb->vb2_queue->dev, buffer->count * GRABBER_BLOCK);
		if (IS_ERR_OR_NULL(second))
			return -ENOMEM;
		m->second = second;
	}
	host->prepare(m->second);
	return spread(host->cookie(vb, m->second), buffer->blocks, buffer->count);
}

u32 memory_finish(struct grabber_buffer *buffer)
{
	struct vb2_buffer *vb = &buffer->vb.vb2_buf;
	struct memory *m = vb->planes[0].mem_priv;
	unsigned long length = vb2_get_plane_payload(vb, 0);
	struct sg_table *table;
	void *from;

	if (!m || !m->second || vb->state != VB2_BUF_STATE_DONE)
		return 0;
	host->finish(m->second);
	table = host->cookie(vb, m->host);
	from = host->vaddr(vb, m->second);
	return from ? sg_copy_from_buffer(table->sgl, table->orig_nents, from, length) : 0;
}

int memory_prepare(struct grabber_ring *ring, struct grabber_buffer *buffer)
{
	struct vb2_buffer *vb = &buffer->vb.vb2_buf;
	struct memory *m = vb->planes[0].mem_priv;
	u32 count = buffer->count;
	int err;

	if (m->host) {
		err = prepare_host(vb, m);
		if (!err)
			ring_valid(ring, buffer);
		return err;
	}
	dma_resv_lock(m->dmabuf->resv, NULL);
	err = map(m) ?: spread(m->table, buffer->blocks, count);
	if (!err)
		ring_valid(ring, buffer);
	dma_resv_unlock(m->dmabuf->resv);
	return err;
}

const struct vb2_mem_ops grabber_memory = {
	.alloc = host_alloc,
	.put = host_put,
	.get_userptr = host_get_userptr,
	.put_userptr = host_put_userptr,
	.prepare = host_prepare,
	.finish = host_finish,
	.get_dmabuf = host_get_dmabuf,
	.mmap = host_mmap,
	.num_users = host_num_users,
	.attach_dmabuf = attach_dmabuf,
	.detach_dmabuf = detach_dmabuf,
	.map_dmabuf = map_dmabuf,
	.unmap_dmabuf = unmap_dmabuf,
	.cookie = cookie,
};
