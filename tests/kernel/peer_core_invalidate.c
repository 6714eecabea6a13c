// SPDX-License-Identifier: MIT OR GPL-2.0
/* peer_core_invalidate.c - memory that goes away, at each point of a region's life. */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/random.h>
#include <rdma/ib_verbs.h>

#include "peer_core_test.h"

/* The device: what stops it, and what a test has it wait for. */
static struct {
	struct test_client *client;
	struct ib_umem *umem;
	struct completion entered, leave;
	bool blocks;
	int calls;
	bool stopped;
} device;

static void stop_device(void *cookie, struct ib_umem *umem, unsigned long addr, size_t size)
{
	CHECK(cookie == &device);
	CHECK(umem == device.umem && ib_umem_is_peer(umem));
	CHECK(addr == device.client->addr && size == device.client->length);
	device.calls++;
	client_event(device.client, 'F');
	complete(&device.entered);
	if (device.blocks)
		wait_for_completion(&device.leave);
	WRITE_ONCE(device.stopped, true);
}

static void device_init(struct test_client *client, bool blocks)
{
	device.client = client;
	device.blocks = blocks;
	device.calls = 0;
	device.stopped = false;
	init_completion(&device.entered);
	init_completion(&device.leave);
}

static struct async racer;

static void begin_client(struct test_client *client, enum kind kind)
{
	client_at(client, "revoked", kind, 0x1800, 5 * PAGE_SIZE);
	device_init(client, false);
}

/* A region whose device runs, or NULL. */
static struct ib_umem *begin_running(struct test_client *client, enum kind kind, bool blocks)
{
	begin_client(client, kind);
	device.blocks = blocks;
	device.umem = get_rw(client);
	CHECK(!IS_ERR(device.umem));
	if (IS_ERR(device.umem))
		return NULL;
	CHECK(!ib_umem_activate_invalidation_notifier(device.umem, stop_device, &device));
	CHECK(ib_umem_activate_invalidation_notifier(device.umem, stop_device, &device) == -EINVAL);
	return device.umem;
}

static void invalidate_now(struct test_client *client)
{
	CHECK(!client->invalidate(client->handle, client->context));
	client_event(client, 'I');
}

static const char *by_kind(enum kind kind, const char *plain, const char *unmaps)
{
	return kind == PLAIN ? plain : unmaps;
}

static void running(enum kind kind)
{
	struct test_client client;
	struct ib_umem *umem = begin_running(&client, kind, false);

	if (umem) {
		invalidate_now(&client);
		CHECK(device.calls == 1 && device.stopped);
		ib_umem_stop_invalidation_notifier(umem);
		ib_umem_stop_invalidation_notifier(umem);
		ib_umem_release(umem);
	}
	client_end(&client, by_kind(kind, "AGgMmFUuPpIR", "AGgMmFIR"));
}

static void before_activate(enum kind kind)
{
	struct test_client client;
	struct ib_umem *umem;

	begin_client(&client, kind);
	umem = get_rw(&client);
	CHECK(!IS_ERR(umem));
	if (!IS_ERR(umem)) {
		invalidate_now(&client);
		CHECK(ib_umem_activate_invalidation_notifier(umem, stop_device, &device) == -EFAULT);
		CHECK(umem->sgt_append.sgt.nents == 1);
		ib_umem_release(umem);
	}
	CHECK(!device.calls);
	client_end(&client, by_kind(kind, "AGgMmUuPpIR", "AGgMmIR"));
}

static void race_within(struct test_client *client)
{
	async_begin(&racer, client, async_invalidate);
	CHECK(async_waits(&racer));
}

/* It goes while get_pages or dma_map runs: from within that, or by another thread, which waits. */
static void while_it_begins(enum kind kind)
{
	static const struct {
		bool within, in_map;
		int result;		/* of the call that it is in */
		long err;		/* of the registration; 0: any */
		/* Plain and unmapping clients; a thread's invalidation may return before or after release. */
		const char *plain, *plain_late, *unmaps, *unmaps_late;
	} cases[] = {
		{ false, false, 0, -EFAULT, "AGgPpIR", "AGgPpRI", "AGgIR", "AGgRI" },
		{ false, false, -ENOMEM, -ENOMEM, "AGgIR", "AGgRI", "AGgIR", "AGgRI" },
		{ false, true, 0, -EFAULT, "AGgMmUuPpIR", "AGgMmUuPpRI", "AGgMmIR", "AGgMmRI" },
		{ false, true, -EIO, 0, "AGgMmPpIR", "AGgMmPpRI", "AGgMmIR", "AGgMmRI" },
		{ true, false, 0, -EFAULT, "AGIgPpR", "", "AGIgR", "" },
		{ true, true, 0, -EFAULT, "AGgMImUuPpR", "", "AGgMImR", "" },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *late = by_kind(kind, cases[i].plain_late, cases[i].unmaps_late);
		const char *trace = by_kind(kind, cases[i].plain, cases[i].unmaps);
		void (*go)(struct test_client *client) = race_within;
		struct test_client client;

		if (cases[i].within)
			go = invalidate_now;
		begin_client(&client, kind);
		if (cases[i].in_map) {
			client.in_map = go;
			client.map_result = cases[i].result;
		} else {
			client.in_get = go;
			client.get_result = cases[i].result;
		}
		get_fails(&client, cases[i].err);
		if (!cases[i].within)
			async_end(&racer);
		if (*late && !strcmp(client.trace, late))
			trace = late;
		client_end(&client, trace);
	}
}

static void within_put_pages(enum kind kind)
{
	struct test_client client;
	struct ib_umem *umem = begin_running(&client, kind, false);

	client.in_put = invalidate_now;
	if (umem)
		ib_umem_release(umem);
	CHECK(!device.calls);
	client_end(&client, "AGgMmUuPIpR");
}

/* The thread that deregisters is in dma_unmap: a plain client's invalidation waits for it. */
static void race_unmap(struct test_client *client)
{
	async_begin(&racer, client, async_invalidate);
	CHECK(client->kind == PLAIN ? async_waits(&racer) : async_returns(&racer));
}

static void during_dma_unmap(enum kind kind)
{
	struct test_client client;
	struct ib_umem *umem = begin_running(&client, kind, false);

	client.in_unmap = race_unmap;
	if (umem) {
		ib_umem_stop_invalidation_notifier(umem);
		async_end(&racer);
		ib_umem_release(umem);
	}
	CHECK(!device.calls);
	client_end(&client, by_kind(kind, "AGgMmUuPpIR", "AGgMmUIuPpR"));
}

/* Deregistration and a second invalidation wait for the device that is being stopped. */
static void during_stop(enum kind kind)
{
	struct async second, release;
	struct test_client client;
	struct ib_umem *umem = begin_running(&client, kind, true);

	if (umem) {
		async_begin(&racer, &client, async_invalidate);
		CHECK(wait_for_completion_timeout(&device.entered, 20 * HZ));
		async_begin(&second, &client, async_invalidate);
		CHECK(async_waits(&second));
		release.umem = umem;
		async_begin(&release, &client, async_release);
		CHECK(async_waits(&release));
		CHECK(async_waits(&racer));
		CHECK(!strcmp(client.trace, "AGgMmF"));
		complete(&device.leave);
		async_end(&racer);
		async_end(&second);
		async_end(&release);
	}
	CHECK(device.calls == 1 && !client.wrong);
	CHECK(!strncmp(client.trace, by_kind(kind, "AGgMmFUuPp", "AGgMmF"), kind == PLAIN ? 10 : 6));
	CHECK(strlen(client.trace) == (kind == PLAIN ? 13 : 9));
	client_unregister(&client);
}

static void after_the_end(enum kind kind)
{
	struct test_client client;
	struct ib_umem *umem = begin_running(&client, kind, false);

	CHECK(!client.invalidate(client.handle, client.context + 12345));
	CHECK(!client.invalidate(client.handle, U64_MAX));
	CHECK(!client.invalidate(client.handle, 0));
	CHECK(!device.calls);
	if (umem) {
		ib_umem_stop_invalidation_notifier(umem);
		invalidate_now(&client);
		ib_umem_release(umem);
	}
	invalidate_now(&client);
	CHECK(!device.calls);
	client_end(&client, "AGgMmUuPpIRI");
}

static void unregister_waits(enum kind kind)
{
	struct test_client client, next;
	struct ib_umem *umem;
	int tries;

	client_at(&client, "twins", kind, 0, PAGE_SIZE);
	umem = get_rw(&client);
	CHECK(!IS_ERR(umem));
	async_begin(&racer, &client, async_unregister);
	CHECK(async_waits(&racer));
	/* Its name is free as soon as it is not asked any more. */
	client_init(&next, "twins", kind, function);
	for (tries = 0; tries < 500 && !client_register(&next); tries++)
		msleep(40);
	CHECK(next.handle);
	get_fails(&client, -EFAULT);
	if (kind != PERSISTENT)
		CHECK(!client.invalidate(client.handle, client.context));
	if (!IS_ERR(umem))
		ib_umem_release(umem);
	async_end(&racer);
	check_trace(&client, by_kind(kind == UNMAPS ? UNMAPS : PLAIN, "AGgMmUuPpR", "AGgMmR"));
	if (next.handle)
		client_unregister(&next);
}

static void pause_a_bit(void)
{
	udelay(get_random_u32() % 200);
	if (get_random_u32() % 4 == 0)
		cond_resched();
}

static void pause_within(struct test_client *client)
{
	pause_a_bit();
}

/* What holds in every interleaving; client.wrong counts the order of the client's own calls. */
static void check_round(struct test_client *client)
{
	const char *got = strchr(client->trace, 'G');
	const char *returned = strchr(client->trace, 'I');

	CHECK(!client->wrong);
	CHECK(strchr(client->trace, 'R') && !client->held && !client->mapped);
	CHECK(!strchr(client->trace, 'F') || device.stopped);
	/* What an invalidation finds that began after get_pages did. */
	if (!got || !returned || racer.began <= got - client->trace)
		return;
	CHECK(!strchr(returned, 'F') && !strchr(returned, 'M'));
	CHECK(client->kind == UNMAPS || !strpbrk(returned, "UuPp"));
}

static void random_races(enum kind kind)
{
	struct test_client client;
	int i;

	begin_client(&client, kind);
	client.in_get = pause_within;
	client.in_map = pause_within;
	client.in_unmap = pause_within;
	client.in_put = pause_within;
	for (i = 0; i < 300; i++) {
		bool early = get_random_u32() % 2;
		struct ib_umem *umem;

		memset(client.trace, 0, sizeof(client.trace));
		device_init(&client, false);
		/* Contexts are the core's business: the last one, or the next if they count up. */
		client.context += early;
		if (early)
			async_begin(&racer, &client, async_invalidate);
		pause_a_bit();
		umem = get_rw(&client);
		if (!IS_ERR(umem)) {
			device.umem = umem;
			if (!early)
				async_begin(&racer, &client, async_invalidate);
			if (get_random_u32() % 2)
				pause_a_bit();
			if (!ib_umem_activate_invalidation_notifier(umem, stop_device, &device))
				pause_a_bit();
			if (get_random_u32() % 2)
				ib_umem_stop_invalidation_notifier(umem);
			ib_umem_release(umem);
		} else {
			CHECK(umem == ERR_PTR(-EFAULT));
		}
		if (early || !IS_ERR(umem))
			async_end(&racer);
		check_round(&client);
	}
	client_unregister(&client);
}

const struct row invalidate_rows[] = {
	{ "the device is stopped, then the memory unmapped", running, REVOCABLE_KINDS },
	{ "before the driver has activated", before_activate, REVOCABLE_KINDS },
	{ "during get_pages and dma_map, and from within them", while_it_begins, REVOCABLE_KINDS },
	{ "from within put_pages", within_put_pages, REVOCABLE_KINDS },
	{ "during dma_unmap", during_dma_unmap, REVOCABLE_KINDS },
	{ "while another invalidation stops the device", during_stop, REVOCABLE_KINDS },
	{ "after the end, and of unknown regions", after_the_end, REVOCABLE_KINDS },
	{ "unregistering waits for regions", unregister_waits, ALL_KINDS },
	{ "300 random races", random_races, REVOCABLE_KINDS },
	{ }
};
