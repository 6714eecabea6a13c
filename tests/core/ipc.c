// SPDX-License-Identifier: MIT
/* ipc.c - one process's memory in another: keys, imports, and what each side's end does. */
#include "../cases.h"
#include "util.h"

#include <pthread.h>

static struct machine m;
static struct user a, b;	/* exporter and importer, two processes */
static int key_a, key_b;

static int setup(void **state)
{
	machine_up(&m, 2, 64 * PAGE, 0, 0);
	user_up(&a, &m, 0, &key_a);
	user_up(&b, &m, 0, &key_b);
	return 0;
}

static int teardown(void **state)
{
	user_down(&a);
	user_down(&b);
	machine_down(&m);
	return 0;
}

FIXTURE(setup, teardown)

static int export(struct user *u, u64 va, struct softgpu_ipc_export *e)
{
	*e = (struct softgpu_ipc_export){ .va = va };
	return CALL(u->client, SOFTGPU_IPC_EXPORT, e);
}

static int open_in(struct user *u, u32 ctx, const struct softgpu_ipc_export *e, u64 *va)
{
	struct softgpu_ipc_open o = { .ctx = ctx, .id = e->id, .key = { e->key[0], e->key[1] } };
	int err = CALL(u->client, SOFTGPU_IPC_OPEN, &o);

	*va = o.va;
	return err;
}

static int open_by(struct user *u, const struct softgpu_ipc_export *e, u64 *va)
{
	return open_in(u, u->ctx, e, va);
}

static int close_by(struct user *u, u64 va)
{
	struct softgpu_va c = { .va = va };

	return CALL(u->client, SOFTGPU_IPC_CLOSE, &c);
}

CASE(both_see_one_memory)
{
	struct softgpu_ipc_export e, again;
	struct softgpu_query q;
	u64 va, dummy, got, same;

	/* so that the two processes' addresses differ */
	assert_int_equal(mem_alloc(&b, 3 * PAGE, &dummy), 0);
	assert_int_equal(mem_alloc(&a, 4 * PAGE, &va), 0);
	set_word_at(&a, va, 11);
	set_word_at(&a, va + 3 * PAGE, 14);
	assert_int_equal(export(&a, va, &e), 0);
	/* any address in it stands for the whole, and asking again gives the same */
	assert_int_equal(export(&a, va + 3 * PAGE + 5, &again), 0);
	assert_true(again.id == e.id && again.key[0] == e.key[0] && again.key[1] == e.key[1]);
	assert_int_equal(open_by(&b, &e, &got), 0);
	assert_true(got != va);
	assert_int_equal(word_at(&b, got), 11);
	assert_int_equal(word_at(&b, got + 3 * PAGE), 14);
	set_word_at(&b, got + PAGE, 22);
	assert_int_equal(word_at(&a, va + PAGE), 22);

	q = query(&b, got + 3 * PAGE);
	assert_int_equal(q.kind, SOFTGPU_KIND_IPC);
	assert_true(q.base == got && q.length == 4 * PAGE && q.ctx == b.ctx && q.gpu == 0);
	assert_true(q.buffer_id != query(&a, va).buffer_id);
	/* each process has its own SYNC_MEMOPS */
	struct softgpu_set_attr s = { .attr = SOFTGPU_ATTR_SYNC_MEMOPS, .va = got, .value = 1 };
	assert_int_equal(CALL(b.client, SOFTGPU_SET_ATTR, &s), 0);
	assert_int_equal(query(&a, va).sync_memops, 0);

	/* as often closed as opened */
	assert_int_equal(open_by(&b, &e, &same), 0);
	assert_true(same == got);
	assert_int_equal(close_by(&b, got + PAGE), -ENOENT);
	assert_int_equal(mem_free(&b, got), -ENOENT);
	assert_int_equal(close_by(&b, got), 0);
	assert_int_equal(word_at(&b, got), 11);
	assert_int_equal(close_by(&b, got), 0);
	assert_int_equal(query(&b, got).kind, SOFTGPU_KIND_NONE);
	assert_int_equal(close_by(&b, got), -ENOENT);
	assert_int_equal(word_at(&a, va), 11);
}

CASE(who_may_not)
{
	struct softgpu_va_reserve r = { .length = PAGE };
	struct softgpu_host_register h = { .kind = SOFTGPU_KIND_HOST, .length = PAGE };
	struct softgpu_phys_create p = { .length = PAGE };
	struct softgpu_map map = { .length = PAGE };
	struct softgpu_ctx_create c = { 0 };
	struct softgpu_ipc_export e, wrong;
	struct softgpu_va va_flagged = { .flags = 2 };
	u64 va = mem_new(&a, PAGE), got, none;
	u32 bit;

	assert_int_equal(CALL(a.client, SOFTGPU_IPC_EXPORT, (&(struct softgpu_ipc_export){ .flags = 2, .va = va })), -EINVAL);
	assert_int_equal(export(&a, va + PAGE, &e), -ENOENT);
	assert_int_equal(export(&a, 0, &e), -ENOENT);
	assert_int_equal(export(&b, va, &e), -ENOENT);
	assert_int_equal(export(&a, va, &e), 0);
	/* one's own */
	assert_int_equal(open_by(&a, &e, &got), -EEXIST);
	assert_int_equal(close_by(&a, va), -ENOENT);
	/* by a context that is not one's own */
	assert_int_equal(open_in(&b, 77, &e, &got), -ENOENT);
	/* any bit of the key wrong, or the id of nothing */
	for (bit = 0; bit < 128; bit++) {
		wrong = e;
		wrong.key[bit / 64] ^= 1ULL << bit % 64;
		assert_int_equal(open_by(&b, &wrong, &none), -ENOKEY);
	}
	wrong = e;
	wrong.id++;
	assert_int_equal(open_by(&b, &wrong, &none), -ENOKEY);
	/* one context for each GPU of a process */
	assert_int_equal(CALL(b.client, SOFTGPU_CTX_CREATE, &c), 0);
	assert_int_equal(open_by(&b, &e, &got), 0);
	assert_int_equal(open_in(&b, c.ctx, &e, &none), -EBUSY);
	/* what was imported is not for exporting */
	assert_int_equal(export(&b, got, &wrong), -ENOENT);
	CALL(b.client, SOFTGPU_IPC_CLOSE, &va_flagged);
	va_flagged.va = got;
	assert_int_equal(CALL(b.client, SOFTGPU_IPC_CLOSE, &va_flagged), -EINVAL);
	assert_int_equal(close_by(&b, got), 0);
	assert_int_equal(open_in(&b, c.ctx, &e, &got), 0);
	/* nor other kinds */
	assert_int_equal(CALL(a.client, SOFTGPU_VA_RESERVE, &r), 0);
	h.ctx = a.ctx;
	h.va = r.va;
	assert_int_equal(CALL(a.client, SOFTGPU_HOST_REGISTER, &h), 0);
	assert_int_equal(export(&a, h.va, &wrong), -ENOENT);
	assert_int_equal(CALL(a.client, SOFTGPU_VA_RESERVE, &r), 0);
	assert_int_equal(CALL(a.client, SOFTGPU_PHYS_CREATE, &p), 0);
	map.va = r.va;
	map.handle = p.handle;
	assert_int_equal(CALL(a.client, SOFTGPU_MAP, &map), 0);
	assert_int_equal(export(&a, map.va, &wrong), -ENOENT);
}

/* Opened in no context: no context's end is the import's. */
CASE(in_no_context)
{
	struct softgpu_ctx_create c = { 0 };
	struct softgpu_mem_alloc alloc = { .length = PAGE };
	struct softgpu_ipc_export e;
	u64 got, same, none, id;

	assert_int_equal(CALL(a.client, SOFTGPU_MEM_ALLOC, &alloc), 0);
	set_word_at(&a, alloc.va, 7);
	assert_int_equal(export(&a, alloc.va, &e), 0);
	assert_int_equal(open_in(&a, 0, &e, &none), -EEXIST);
	assert_int_equal(open_in(&b, 0, &e, &got), 0);
	assert_int_equal(open_in(&b, 0, &e, &same), 0);
	assert_true(same == got);
	assert_int_equal(open_by(&b, &e, &none), -EBUSY);
	id = query(&b, got).buffer_id;
	assert_int_equal(query(&b, got).ctx, 0);
	assert_int_equal(CALL(b.client, SOFTGPU_CTX_DESTROY, (&(struct softgpu_handle){ .handle = b.ctx })), 0);
	assert_true(query(&b, got).buffer_id == id);
	assert_int_equal(CALL(b.client, SOFTGPU_CTX_CREATE, &c), 0);
	b.ctx = c.ctx;
	assert_int_equal(word_at(&b, got), 7);
	assert_int_equal(close_by(&b, got), 0);
	assert_int_equal(close_by(&b, got), 0);
	assert_int_equal(close_by(&b, got), -ENOENT);
	assert_int_equal(open_in(&b, 0, &e, &got), 0);
	assert_true(query(&b, got).buffer_id != id);
}

CASE(a_freed_ones_key_is_dead)
{
	struct softgpu_ipc_export e, next;
	u64 va = mem_new(&a, PAGE), va2, got;

	assert_int_equal(export(&a, va, &e), 0);
	assert_int_equal(mem_free(&a, va), 0);
	assert_int_equal(open_by(&b, &e, &got), -ENOKEY);
	assert_int_equal(mem_alloc(&a, PAGE, &va2), 0);
	assert_true(va2 == va);
	assert_int_equal(open_by(&b, &e, &got), -ENOKEY);
	assert_int_equal(export(&a, va2, &next), 0);
	assert_true(next.id != e.id && next.key[0] != e.key[0] && next.key[1] != e.key[1]);
	assert_int_equal(open_by(&b, &e, &got), -ENOKEY);
	/* the process's end is one, too */
	user_down(&a);
	assert_int_equal(open_by(&b, &next, &got), -ENOKEY);
}

CASE(the_importer_keeps_the_memory)
{
	struct softgpu_ipc_export e;
	u64 before = stats_of(&m, 0).vram_free, va = mem_new(&a, 4 * PAGE), next, got, same;

	set_word_at(&a, va, 77);
	assert_int_equal(export(&a, va, &e), 0);
	assert_int_equal(open_by(&b, &e, &got), 0);
	assert_true(stats_of(&m, 0).vram_free == before - 4 * PAGE);
	assert_int_equal(mem_free(&a, va), 0);
	assert_true(stats_of(&m, 0).vram_free == before - 4 * PAGE);
	/* the exporter's address is used again; the memory is not */
	assert_int_equal(mem_alloc(&a, 4 * PAGE, &next), 0);
	assert_true(next == va);
	assert_int_equal(word_at(&a, next), 0);
	set_word_at(&a, next, 88);
	assert_int_equal(word_at(&b, got), 77);
	/* open as it is, by this key it is not opened again */
	assert_int_equal(open_by(&b, &e, &same), -ENOKEY);
	user_down(&a);
	assert_int_equal(word_at(&b, got), 77);
	assert_true(stats_of(&m, 0).vram_free == before - 4 * PAGE);
	assert_int_equal(close_by(&b, got), 0);
	assert_true(stats_of(&m, 0).vram_free == before);
}

CASE(pins_are_each_sides_own)
{
	static struct tpin exporters, importers, persistent, late;
	struct softgpu_ipc_export e;
	u64 va = mem_new(&a, 4 * PAGE), got, same;

	assert_int_equal(export(&a, va, &e), 0);
	assert_int_equal(open_by(&b, &e, &got), 0);
	assert_int_equal(open_by(&b, &e, &same), 0);
	assert_int_equal(tpin_get(&exporters, &a, va, 4 * PAGE, false), 0);
	assert_int_equal(tpin_get(&importers, &b, got, 4 * PAGE, false), 0);
	assert_int_equal(tpin_get(&persistent, &b, got, PAGE, true), 0);
	/* the same pages, the same aperture */
	assert_true(sg_pin_page(&exporters.pin, 3) == sg_pin_page(&importers.pin, 3));
	assert_true(stats_of(&m, 0).bar1_used == 4 * PAGE);

	assert_int_equal(mem_free(&a, va), 0);
	assert_int_equal(tpin_count(&exporters.callbacks), 1);
	assert_int_equal(tpin_count(&importers.callbacks), 0);
	assert_int_equal(close_by(&b, got), 0);
	assert_int_equal(tpin_count(&importers.callbacks), 0);
	assert_int_equal(close_by(&b, got), 0);
	assert_int_equal(tpin_count(&importers.callbacks), 1);
	assert_int_equal(tpin_count(&importers.frees), 1);
	assert_int_equal(tpin_count(&persistent.frees), 0);
	assert_int_equal(tpin_get(&late, &b, got, PAGE, false), -EINVAL);
	assert_int_equal(sg_pin_put(m.sg, &persistent.pin, true), 0);
}

/* Two allocations in one page: two keys, and no allocation gets a slot that another process may write to. */
CASE(small_ones)
{
	struct softgpu_ipc_export e1, e2;
	u64 va1 = mem_new(&a, 600), va2, got1, got2, next;

	assert_int_equal(mem_alloc(&a, 600, &va2), 0);
	assert_true(va1 / PAGE == va2 / PAGE);
	set_word_at(&a, va1, 1);
	set_word_at(&a, va2, 2);
	assert_int_equal(export(&a, va1, &e1), 0);
	assert_int_equal(export(&a, va2 + 599, &e2), 0);
	assert_true(e1.id != e2.id);
	assert_int_equal(open_by(&b, &e1, &got1), 0);
	assert_int_equal(open_by(&b, &e2, &got2), 0);
	assert_int_equal(word_at(&b, got1), 1);
	assert_int_equal(word_at(&b, got2), 2);
	assert_true(query(&b, got2).base == got2 && query(&b, got2).length == 600);

	assert_int_equal(close_by(&b, got2), 0);
	assert_int_equal(mem_free(&a, va1), 0);
	assert_int_equal(open_by(&b, &e1, &next), -ENOKEY);
	assert_int_equal(mem_alloc(&a, 600, &next), 0);
	assert_true(next != va1);
	set_word_at(&b, got1, 3);
	assert_int_equal(word_at(&a, next), 0);
	assert_int_equal(mem_free(&a, next), 0);
	assert_int_equal(close_by(&b, got1), 0);
	assert_int_equal(mem_alloc(&a, 600, &next), 0);
	assert_true(next == va1);
}

CASE(ends_of_all_kinds)
{
	static struct tpin t;
	struct softgpu_ipc_export e;
	u64 va = mem_new(&a, PAGE), got;

	assert_int_equal(export(&a, va, &e), 0);
	assert_int_equal(open_by(&b, &e, &got), 0);
	assert_int_equal(tpin_get(&t, &b, got, PAGE, false), 0);
	assert_int_equal(CALL(b.client, SOFTGPU_CTX_DESTROY, (&(struct softgpu_handle){ .handle = b.ctx })), 0);
	assert_int_equal(tpin_count(&t.callbacks), 1);
	assert_int_equal(query(&b, got).kind, SOFTGPU_KIND_NONE);
	assert_int_equal(close_by(&b, got), -ENOENT);
	/* a new one opens it anew, and the process ends with it open */
	user_down(&b);
	user_up(&b, &m, 0, &key_b);
	assert_int_equal(open_by(&b, &e, &got), 0);
	assert_int_equal(tpin_get(&t, &b, got, PAGE, false), 0);
	user_down(&b);
	assert_int_equal(tpin_count(&t.callbacks), 1);
	assert_int_equal(word_at(&a, va), 0);
}

/* From a context on another GPU; and that of the memory is taken out. */
CASE(two_gpus)
{
	static struct tpin t;
	struct softgpu_ipc_export e, other;
	struct user c;
	u64 va, mine, got;

	user_up(&c, &m, 1, &key_b);
	assert_int_equal(mem_alloc(&a, PAGE, &va), 0);
	set_word_at(&a, va, 5);
	assert_int_equal(export(&a, va, &e), 0);
	assert_int_equal(open_by(&c, &e, &got), 0);
	assert_int_equal(query(&c, got).gpu, 0);
	assert_int_equal(query(&c, got).ctx, c.ctx);
	assert_int_equal(word_at(&c, got), 5);
	/* that is per GPU: this one's own context may have it, too */
	assert_int_equal(open_by(&b, &e, &mine), 0);
	assert_true(mine != got);
	assert_int_equal(export(&a, va, &other), 0);
	assert_int_equal(tpin_get(&t, &c, got, PAGE, false), 0);
	sg_gpu_remove(m.sg, 0);
	assert_int_equal(tpin_count(&t.callbacks), 1);
	assert_int_equal(query(&c, got).kind, SOFTGPU_KIND_NONE);
	assert_int_equal(open_by(&c, &other, &got), -ENOKEY);
	user_down(&c);
}

/* Both sides at once: opened, pinned and closed under frees. */
static u64 shared_key[3];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static bool stop;

static void *import_over_and_over(void *arg)
{
	static struct tpin t;
	struct softgpu_ipc_export e;
	u64 *opened = arg, got;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		pthread_mutex_lock(&shared_lock);
		e.id = shared_key[0];
		e.key[0] = shared_key[1];
		e.key[1] = shared_key[2];
		pthread_mutex_unlock(&shared_lock);
		if (open_by(&b, &e, &got))
			continue;
		++*opened;
		MUST(!tpin_get(&t, &b, got & ~(PAGE - 1), PAGE, false));
		if (*opened % 2)
			MUST(!sg_pin_put(m.sg, &t.pin, false));
		MUST(!close_by(&b, got));
		MUST(tpin_count(&t.frees) == 1 && tpin_count(&t.callbacks) == (int)(1 - *opened % 2));
	}
	return NULL;
}

CASE(frees_against_opens)
{
	struct softgpu_ipc_export e;
	u64 opened = 0, va, rounds;
	pthread_t importer;

	__atomic_store_n(&stop, false, __ATOMIC_RELEASE);
	assert_int_equal(pthread_create(&importer, NULL, import_over_and_over, &opened), 0);
	for (rounds = 0; rounds < 3000; rounds++) {
		MUST(!mem_alloc(&a, rounds % 2 ? 600 : 2 * PAGE, &va));
		MUST(!export(&a, va, &e));
		pthread_mutex_lock(&shared_lock);
		shared_key[0] = e.id;
		shared_key[1] = e.key[0];
		shared_key[2] = e.key[1];
		pthread_mutex_unlock(&shared_lock);
		if (rounds % 4)
			sg_sleep_ms(0);
		MUST(!mem_free(&a, va));
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	pthread_join(importer, NULL);
	print_message("%llu opens under 3000 frees\n", (unsigned long long)opened);
}

/* Every allocation that opening and exporting makes fails once. */
CASE(out_of_memory)
{
	struct softgpu_ipc_export e;
	u64 va = mem_new(&a, PAGE), got, n;
	int err;

	for (n = 1, err = -ENOMEM; err; n++) {
		sg_fail_alloc(n);
		err = export(&a, va, &e);
		sg_fail_alloc(0);
		assert_true(!err || err == -ENOMEM);
	}
	assert_int_equal(n, 3);
	for (n = 1, err = -ENOMEM; err; n++) {
		sg_fail_alloc(n);
		err = open_by(&b, &e, &got);
		sg_fail_alloc(0);
		assert_true(!err || err == -ENOMEM);
	}
	assert_true(n >= 4);
	assert_int_equal(word_at(&b, got), 0);
}

MAIN(NULL, NULL)
