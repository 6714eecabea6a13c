// SPDX-License-Identifier: MIT OR GPL-2.0
/* peer_core_client.c - the client. See peer_core_client.h. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/scatterlist.h>

#include "peer_core_client.h"

#define DMA_BASE	0x4000000000ULL

/* acquire gets no pointer to its client: each has a slot and functions of its own. */
#define CLIENTS	2
static struct test_client *slots[CLIENTS];

void client_event(struct test_client *client, char event)
{
	size_t length;

	spin_lock(&client->lock);
	length = strlen(client->trace);
	if (length < sizeof(client->trace) - 1)
		client->trace[length] = event;
	spin_unlock(&client->lock);
}

static void expect(struct test_client *client, bool holds, const char *what)
{
	if (holds)
		return;
	pr_err("%s: wrong: %s (trace %s)\n", client->ex.client.name, what, client->trace);
	client->wrong++;
}

dma_addr_t client_dma(const struct test_client *client, unsigned long addr)
{
	unsigned long page = (addr - client->base) / client->page_size;

	return DMA_BASE + page * (client->page_size + client->gap);
}

static int acquire(struct test_client *client, unsigned long addr, size_t size, void *priv,
		   char *name, void **context)
{
	if (addr < client->base || addr + size > client->base + client->size)
		return 0;
	client_event(client, 'A');
	expect(client, !priv && !name, "acquire's obsolete arguments are NULL");
	expect(client, addr == client->addr && size == client->length, "acquire's range is raw");
	if (client->acquire_result > 0)
		*context = client;
	return client->acquire_result;
}

static int acquire_0(unsigned long addr, size_t size, void *priv, char *name, void **context)
{
	return acquire(slots[0], addr, size, priv, name, context);
}

static int acquire_1(unsigned long addr, size_t size, void *priv, char *name, void **context)
{
	return acquire(slots[1], addr, size, priv, name, context);
}

static int get_pages(unsigned long addr, size_t size, int write, int force, struct sg_table *sg_head,
		     void *context, u64 core_context)
{
	struct test_client *client = context;

	client_event(client, 'G');
	expect(client, addr == client->addr && size == client->length, "get_pages' range is raw");
	expect(client, write == 1, "get_pages' write is 1");
	expect(client, force == client->read_only, "get_pages' force says read-only");
	expect(client, !sg_head, "get_pages' sg_head is NULL");
	expect(client, !client->held, "get_pages once");
	client->context = core_context;
	client->held = !client->get_result;
	if (client->in_get)
		client->in_get(client);
	client_event(client, 'g');
	return client->get_result;
}

static int fill(struct test_client *client, struct sg_table *table, int *nmap)
{
	unsigned long start = ALIGN_DOWN(client->addr, client->page_size);
	unsigned long end = ALIGN(client->addr + client->length, client->page_size);
	int i, entries = (end - start) / client->page_size - client->missing_entries;
	struct scatterlist *sg;
	int err;

	err = sg_alloc_table(table, entries, GFP_KERNEL);
	if (err)
		return err;
	for_each_sg(table->sgl, sg, entries, i) {
		sg_set_page(sg, NULL, client->page_size, 0);
		sg_dma_address(sg) = client_dma(client, start + i * client->page_size) +
				     client->misaligned;
		sg_dma_len(sg) = client->page_size;
	}
	*nmap = entries;
	return 0;
}

static int dma_map(struct sg_table *sg_head, void *context, struct device *dma_device, int dmasync,
		   int *nmap)
{
	struct test_client *client = context;
	int err = client->map_result;

	client_event(client, 'M');
	expect(client, client->held, "dma_map after get_pages");
	expect(client, dma_device == client->dev, "dma_map is for the bus device");
	expect(client, !dmasync, "dmasync is 0");
	expect(client, !sg_head->sgl, "dma_map gets an empty table");
	if (!err || client->keep_table) {
		int filled = fill(client, sg_head, nmap);

		err = err ?: filled;
	}
	client->table = *sg_head;
	client->mapped = !err;
	if (client->in_map)
		client->in_map(client);
	client_event(client, 'm');
	return err;
}

static bool same_table(struct test_client *client, const struct sg_table *table)
{
	struct scatterlist *sg;
	bool same = !memcmp(table, &client->table, sizeof(*table));
	unsigned long start = ALIGN_DOWN(client->addr, client->page_size);
	int i;

	for_each_sg(table->sgl, sg, same ? table->nents : 0, i)
		same = same && sg_dma_len(sg) == client->page_size && sg_dma_address(sg) ==
		       client_dma(client, start + i * client->page_size) + client->misaligned;
	return same;
}

static int dma_unmap(struct sg_table *sg_head, void *context, struct device *dma_device)
{
	struct test_client *client = context;

	client_event(client, 'U');
	expect(client, client->mapped, "dma_unmap once, after dma_map");
	expect(client, dma_device == client->dev, "dma_unmap is for the bus device");
	expect(client, same_table(client, sg_head), "dma_unmap gets dma_map's table");
	client->mapped = false;
	if (client->in_unmap)
		client->in_unmap(client);
	client_event(client, 'u');
	return 0;
}

static void put_pages(struct sg_table *sg_head, void *context)
{
	struct test_client *client = context;

	client_event(client, 'P');
	expect(client, client->held, "put_pages once, after get_pages");
	expect(client, !client->mapped, "put_pages after dma_unmap");
	expect(client, same_table(client, sg_head), "put_pages gets dma_map's table");
	client->held = false;
	if (client->in_put)
		client->in_put(client);
	client_event(client, 'p');
}

static unsigned long get_page_size(void *context)
{
	struct test_client *client = context;

	return client->page_size;
}

static void release(void *context)
{
	struct test_client *client = context;

	expect(client, !client->held || (client->kind == UNMAPS), "release comes last");
	sg_free_table(&client->table);
	memset(&client->table, 0, sizeof(client->table));
	client->held = false;
	client->mapped = false;
	client_event(client, 'R');
}

void client_init(struct test_client *client, const char *name, enum kind kind, struct device *dev)
{
	memset(client, 0, sizeof(*client));
	strscpy(client->ex.client.name, name, sizeof(client->ex.client.name));
	strscpy(client->ex.client.version, "1.2-3", sizeof(client->ex.client.version));
	client->ex.client.get_pages = get_pages;
	client->ex.client.dma_map = dma_map;
	client->ex.client.dma_unmap = dma_unmap;
	client->ex.client.put_pages = put_pages;
	client->ex.client.get_page_size = get_page_size;
	client->ex.client.release = release;
	if (kind == UNMAPS) {
		client->ex.client.version[IB_PEER_MEMORY_VER_MAX - 1] = 1;
		client->ex.ex_size = sizeof(client->ex);
		client->ex.flags = PEER_MEM_INVALIDATE_UNMAPS;
	}
	client->kind = kind;
	client->dev = dev;
	client->page_size = PAGE_SIZE;
	client->acquire_result = 1;
	spin_lock_init(&client->lock);
}

bool client_register(struct test_client *client)
{
	int slot = slots[0] ? 1 : 0;

	slots[slot] = client;
	client->ex.client.acquire = slot ? acquire_1 : acquire_0;
	client->handle = ib_register_peer_memory_client(&client->ex.client,
							client->kind == PERSISTENT ?
							NULL : &client->invalidate);
	if (!client->handle)
		slots[slot] = NULL;
	return client->handle;
}

void client_unregister(struct test_client *client)
{
	ib_unregister_peer_memory_client(client->handle);
	slots[slots[1] == client] = NULL;
}

/* ---- what another thread does ---- */

static struct workqueue_struct *queue;

int async_init(void)
{
	queue = alloc_workqueue("peer_core_test", WQ_UNBOUND, 0);
	return queue ? 0 : -ENOMEM;
}

void async_exit(void)
{
	destroy_workqueue(queue);
}

static void async_run(struct work_struct *work)
{
	struct async *async = container_of(work, struct async, work);

	WRITE_ONCE(async->began, strlen(async->client->trace));
	complete(&async->begun);
	async->what(async);
	complete(&async->done);
}

void async_begin(struct async *async, struct test_client *client, void (*what)(struct async *async))
{
	async->client = client;
	async->context = client->context;
	async->what = what;
	init_completion(&async->begun);
	init_completion(&async->done);
	INIT_WORK_ONSTACK(&async->work, async_run);
	queue_work(queue, &async->work);
}

bool async_waits(struct async *async)
{
	wait_for_completion(&async->begun);
	complete(&async->begun);
	msleep(40);
	return !completion_done(&async->done);
}

bool async_returns(struct async *async)
{
	unsigned long left = wait_for_completion_timeout(&async->done, 20 * HZ);

	complete(&async->done);
	return left;
}

void async_end(struct async *async)
{
	flush_work(&async->work);
	destroy_work_on_stack(&async->work);
}

void async_invalidate(struct async *async)
{
	if (async->client->invalidate(async->client->handle, async->context))
		async->client->wrong++;
	client_event(async->client, 'I');
}

void async_release(struct async *async)
{
	ib_umem_release(async->umem);
}

void async_unregister(struct async *async)
{
	client_unregister(async->client);
}
