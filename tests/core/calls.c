// SPDX-License-Identifier: MIT
/* calls.c - every call of the core: what it does, and what it says to bad input. */
#include "world.h"

static int other_key;

static int setup(void **state)
{
	machine_up(&m, 2, 64 * PAGE, 32 * PAGE, 0);
	user_up(&u, &m, 0, &key);
	return 0;
}

FIXTURE(setup, teardown)

/* Each struct a byte short and a byte long, and junk in the surplus. */
CASE(sizes)
{
	u8 arg[4096];
	u32 nr, size, min;
	int calls = 0;

	for (nr = 0; nr < 256; nr++) {
		size = sg_call_size(nr, &min);
		memset(arg, 0, sizeof(arg));
		if (!size) {
			assert_int_equal(sg_call(u.client, nr, arg, 64), -ENOTTY);
			continue;
		}
		calls++;
		assert_int_equal(sg_call(u.client, nr, arg, min - 1), -EINVAL);
		assert_int_equal(sg_call(u.client, nr, arg, 0), -EINVAL);
		assert_int_not_equal(sg_call(u.client, nr, arg, size + 8), -E2BIG);
		memset(arg, 0, sizeof(arg));
		arg[size] = 1;
		assert_int_equal(sg_call(u.client, nr, arg, size + 1), -E2BIG);
	}
	assert_int_equal(calls, 42);
}

CASE(unknown_flags)
{
	struct softgpu_stream_create sc = { .ctx = u.ctx, .flags = 2 };
	struct softgpu_event_create ec = { .ctx = u.ctx, .flags = 1 };
	struct softgpu_va_reserve vr = { .length = PAGE, .flags = 1 };
	struct softgpu_phys_create pc = { .length = PAGE, .flags = 2 };
	struct softgpu_copy c = { .ctx = u.ctx, .flags = 2, .width = 1, .height = 1 };

	assert_int_equal(CALL(u.client, SOFTGPU_CTX_CREATE, (&(struct softgpu_ctx_create){ .flags = 1 })), -EINVAL);
	assert_int_equal(CALL(u.client, SOFTGPU_STREAM_CREATE, &sc), -EINVAL);
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_CREATE, &ec), -EINVAL);
	assert_int_equal(CALL(u.client, SOFTGPU_VA_RESERVE, &vr), -EINVAL);
	assert_int_equal(CALL(u.client, SOFTGPU_PHYS_CREATE, &pc), -EINVAL);
	assert_int_equal(CALL(u.client, SOFTGPU_MEM_FREE, (&(struct softgpu_va){ .flags = 2 })), -EINVAL);
	assert_int_equal(CALL(u.client, SOFTGPU_COPY, &c), -EINVAL);
	assert_int_equal(CALL(u.client, SOFTGPU_SET_ATTR, (&(struct softgpu_set_attr){ .attr = 77 })), -EINVAL);
}

CASE(bad_ranges)
{
	struct tpin t = { 0 };
	u64 va, len[] = { 0, ~0ULL, 1ULL << 63, 65 * PAGE };
	u32 i;

	for (i = 0; i < 4; i++)
		assert_int_equal(mem_alloc(&u, len[i], &va), len[i] ? -ENOSPC : -EINVAL);
	assert_int_equal(mem_alloc(&u, 4 * PAGE, &va), 0);
	assert_int_equal(tpin_get(&t, &u, va + 1, PAGE, false), -EINVAL);
	assert_int_equal(tpin_get(&t, &u, va, 0, false), -EINVAL);
	assert_int_equal(tpin_get(&t, &u, va, PAGE + 1, false), -EINVAL);
	assert_int_equal(tpin_get(&t, &u, va, 5 * PAGE, false), -EINVAL);
	assert_int_equal(tpin_get(&t, &u, va, ~(PAGE - 1), false), -EINVAL);
	assert_int_equal(tpin_get(&t, &u, 0, PAGE, false), -EINVAL);
	assert_int_equal(mem_free(&u, va + PAGE), -ENOENT);
	assert_int_equal(copy(&u, 0, va, ~0ULL - 4, 64, SOFTGPU_OP_SYNC), -EINVAL);
	assert_int_equal(copy(&u, 0, va, va, 5 * PAGE, SOFTGPU_OP_SYNC), -EFAULT);
	assert_int_equal(copy(&u, 7, va, va, PAGE, SOFTGPU_OP_SYNC), -ENOENT);
	/* None of it has hurt the context. */
	assert_int_equal(copy(&u, 0, va, va + PAGE, PAGE, SOFTGPU_OP_SYNC), 0);
}

CASE(tokens)
{
	struct tpin t = { 0 };
	struct sg_pin_who who = { .proc_key = &other_key };
	struct softgpu_query q;
	struct user stranger;
	u64 va = mem_new(&u, PAGE);

	q = query(&u, va);
	assert_true(q.p2p_token && q.va_space_token);
	assert_int_equal(sg_pin_get(m.sg, &t.pin, &tpin_ops, &who, va, PAGE, false), -EINVAL);
	who.p2p_token = q.p2p_token;
	assert_int_equal(sg_pin_get(m.sg, &t.pin, &tpin_ops, &who, va, PAGE, false), -EIO);
	who.va_space_token = q.va_space_token ^ 1;
	assert_int_equal(sg_pin_get(m.sg, &t.pin, &tpin_ops, &who, va, PAGE, false), -EINVAL);
	who.va_space_token ^= 1;
	assert_int_equal(sg_pin_get(m.sg, &t.pin, &tpin_ops, &who, va, PAGE, false), 0);
	assert_int_equal(sg_pin_put(m.sg, &t.pin, false), 0);
	/* Another context of the same address has other tokens; a dead one has none. */
	user_up(&stranger, &m, 0, &other_key);
	assert_int_equal(mem_alloc(&stranger, PAGE, &va), 0);
	assert_int_not_equal(query(&stranger, va).p2p_token, q.p2p_token);
	q = query(&stranger, va);
	user_down(&stranger);
	who.p2p_token = q.p2p_token;
	who.va_space_token = q.va_space_token;
	memset(&t, 0, sizeof(t));
	assert_int_equal(sg_pin_get(m.sg, &t.pin, &tpin_ops, &who, va, PAGE, false), -EINVAL);
}

/* A put by name: of the memory's process, or by the token of its context; any other leaves the pin. */
CASE(put_by)
{
	struct sg_pin_who owner = { .proc_key = u.key }, other = { .proc_key = &other_key };
	struct sg_pin_claim claim = { .who = &other };
	struct tpin t = { 0 };
	u64 va = mem_new(&u, PAGE);

	assert_int_equal(tpin_get(&t, &u, va, PAGE, false), 0);
	assert_int_equal(sg_pin_put_by(m.sg, &t.pin, &claim), -EACCES);
	assert_false(sg_pin_is_of(&t.pin, &other));
	other.p2p_token = query(&u, va).p2p_token + 1;
	assert_int_equal(sg_pin_put_by(m.sg, &t.pin, &claim), -EACCES);
	owner.p2p_token = other.p2p_token;
	claim.who = &owner;
	assert_int_equal(sg_pin_put_by(m.sg, &t.pin, &claim), -EACCES);
	owner.p2p_token = 0;
	claim.serial = t.pin.serial + 1;
	assert_int_equal(sg_pin_put_by(m.sg, &t.pin, &claim), -ENOENT);
	claim.serial = t.pin.serial;
	assert_true(sg_pin_is_of(&t.pin, &owner));
	assert_int_equal(sg_pin_put_by(m.sg, &t.pin, &claim), 0);
	assert_int_equal(t.callbacks, 0);

	memset(&t, 0, sizeof(t));
	assert_int_equal(tpin_get(&t, &u, va, PAGE, false), 0);
	other.p2p_token = query(&u, va).p2p_token;
	claim = (struct sg_pin_claim){ .who = &other };
	assert_int_equal(sg_pin_put_by(m.sg, &t.pin, &claim), 0);

	memset(&t, 0, sizeof(t));
	assert_int_equal(tpin_get(&t, &u, va, PAGE, true), 0);
	assert_int_equal(sg_pin_put_by(m.sg, &t.pin, &claim), -EINVAL);
	assert_int_equal(sg_pin_put(m.sg, &t.pin, true), 0);
}

/* Slots freed under a pin are not allocated until the pin has gone. */
CASE(limbo)
{
	struct tpin t = { 0 };
	u64 a = mem_new(&u, 512), b, c;

	assert_int_equal(mem_alloc(&u, 512, &b), 0);
	assert_int_equal(b, a + 512);
	assert_int_equal(tpin_get(&t, &u, a & ~(PAGE - 1), PAGE, false), 0);
	assert_int_equal(mem_free(&u, a), 0);
	assert_int_equal(t.callbacks, 0);
	assert_int_equal(mem_alloc(&u, 512, &c), 0);
	assert_int_not_equal(c, a);
	assert_int_equal(sg_pin_put(m.sg, &t.pin, false), 0);
	assert_int_equal(mem_free(&u, c), 0);
	assert_int_equal(mem_alloc(&u, 512, &c), 0);
	assert_int_equal(c, a);
}

/* Invariant 1: in the callback the memory is still the old one, and VRAM is not reused before its end. */
static u64 seen_free;

static void look(struct tpin *t)
{
	seen_free = stats_of(&m, 0).vram_free;
}

CASE(callback_before_reuse)
{
	struct tpin t = { .on_callback = look };
	u64 va = mem_new(&u, 8 * PAGE);

	assert_int_equal(tpin_get(&t, &u, va, PAGE, false), 0);
	assert_int_equal(mem_free(&u, va), 0);
	assert_int_equal(t.callbacks, 1);
	assert_int_equal(seen_free, stats_of(&m, 0).vram_free - 8 * PAGE);
}

CASE(persistent_outlives_all)
{
	struct tpin t = { 0 };
	struct user brief;
	u64 va, phys;

	user_up(&brief, &m, 0, &other_key);
	assert_int_equal(mem_alloc(&brief, 2 * PAGE, &va), 0);
	assert_int_equal(tpin_get(&t, &brief, va, 2 * PAGE, true), 0);
	phys = sg_pin_page(&t.pin, 0);
	assert_int_equal(mem_free(&brief, va), 0);
	user_down(&brief);
	assert_int_equal(t.callbacks, 0);
	assert_int_equal(sg_pin_page(&t.pin, 0), phys);
	memset(m.vram[0] + (phys - VRAM_PHYS), 0x5a, PAGE);
	assert_int_equal(mem_alloc(&u, 32 * PAGE, &va), 0);
	assert_int_equal(m.vram[0][phys - VRAM_PHYS], 0x5a);
	assert_int_equal(sg_pin_put(m.sg, &t.pin, true), 0);
	assert_int_equal(sg_pin_put(m.sg, &t.pin, true), -ENOENT);
}

CASE(copies)
{
	static u8 in[3 * 65536], out[3 * 65536];
	struct user second;
	u64 a, b, i;

	for (i = 0; i < sizeof(in); i++)
		in[i] = (u8)(i * 7 + i / 251);
	user_up(&second, &m, 1, &key);
	assert_int_equal(mem_alloc(&u, sizeof(in), &a), 0);
	assert_int_equal(mem_alloc(&second, sizeof(in), &b), 0);
	assert_int_equal(copy(&u, 0, a, HOST(in), sizeof(in), SOFTGPU_OP_SYNC), 0);
	assert_int_equal(copy(&u, 0, b + 1, a, sizeof(in) - 1, 0), 0);	/* to the other GPU */
	assert_int_equal(copy(&u, 0, HOST(out), b + 1, sizeof(in) - 1, SOFTGPU_OP_SYNC), 0);
	assert_memory_equal(in, out, sizeof(in) - 1);
	memset(out, 0, sizeof(out));
	assert_int_equal(copy(&u, 0, HOST(out), HOST(in), sizeof(in), SOFTGPU_OP_SYNC), 0);
	assert_memory_equal(in, out, sizeof(in));
	user_down(&second);
}

CASE(rows_and_fills)
{
	static u8 out[4096];
	struct softgpu_fill f = { .ctx = u.ctx, .width = 10, .height = 3, .pitch = 64, .value = 0x11223344,
				  .elem = 4, .flags = SOFTGPU_OP_SYNC };
	struct softgpu_copy c = { .ctx = u.ctx, .flags = SOFTGPU_OP_SYNC, .width = 40, .height = 3,
				  .dst_pitch = 100, .src_pitch = 64 };
	u32 row, i, v;

	assert_int_equal(mem_alloc(&u, PAGE, (u64 *)&f.dst), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_FILL, &f), 0);
	c.src = f.dst;
	c.dst = HOST(out);
	assert_int_equal(CALL(u.client, SOFTGPU_COPY, &c), 0);
	for (row = 0; row < 3; row++) {
		for (i = 0; i < 100; i += 4) {
			memcpy(&v, out + row * 100 + i, 4);
			assert_int_equal(v, i < 40 ? 0x11223344 : 0);
		}
	}
	f.elem = 3;
	assert_int_equal(CALL(u.client, SOFTGPU_FILL, &f), -EINVAL);
	f.elem = 2;
	f.dst += 1;
	assert_int_equal(CALL(u.client, SOFTGPU_FILL, &f), -EINVAL);
	c.src_pitch = 39;
	assert_int_equal(CALL(u.client, SOFTGPU_COPY, &c), -EINVAL);
	for (i = 0; i < 4; i++) {
		struct softgpu_copy none = { .ctx = u.ctx, .flags = SOFTGPU_OP_SYNC, .width = 40, .height = 1, .dst = c.dst, .src = c.src };

		none.width = i == 0 ? 0 : i == 1 ? ((u64)1 << 48) + 1 : 40;
		none.height = i == 2 ? 0 : i == 3 ? ((u64)1 << 32) + 1 : 1;
		none.dst_pitch = none.src_pitch = 64;
		assert_int_equal(CALL(u.client, SOFTGPU_COPY, &none), -EINVAL);
	}
	/* Host memory is filled as well: managed memory is. */
	assert_int_equal(fill(&u, 0, HOST(out), 4096, 7, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(out[4095], 7);
}

/* An address that faults in the middle of work kills the context, and only that one. */
CASE(fault_is_sticky)
{
	struct softgpu_handle h = { .handle = 0 };
	struct user second;
	u64 va;

	user_up(&second, &m, 0, &key);
	assert_int_equal(mem_alloc(&second, PAGE, &va), 0);
	assert_int_equal(copy(&second, 0, va, 64, 512, 0), 0);
	h.handle = second.ctx;
	assert_int_equal(CALL(u.client, SOFTGPU_CTX_SYNC, &h), -EIO);
	assert_int_equal(copy(&second, 0, va, va + 512, 512, 0), -EIO);
	assert_int_equal(mem_free(&second, va), 0);
	assert_int_equal(mem_alloc(&u, PAGE, &va), 0);
	assert_int_equal(copy(&u, 0, va, va + 512, 512, SOFTGPU_OP_SYNC), 0);
	user_down(&second);
}

static u32 new_event(void)
{
	struct softgpu_event_create a = { .ctx = u.ctx };

	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_CREATE, &a), 0);
	return a.event;
}

static int mark(u32 call, u32 stream, u32 event)
{
	struct softgpu_event a = { .ctx = u.ctx, .stream = stream, .event = event };

	a.size = sizeof(a);
	return sg_call(u.client, call, &a, sizeof(a));
}

/* Chains over many streams and events come out in the order that they ask for. */
CASE(ordering)
{
	u32 s[4], e[4], i, round;
	u64 va = mem_new(&u, 4 * PAGE);
	u8 out[64];

	for (i = 0; i < 4; i++) {
		s[i] = stream_new(&u);
		e[i] = new_event();
		assert_int_equal(mark(_IOC_NR(SOFTGPU_EVENT_QUERY), 0, e[i]), 0);
	}
	for (round = 0; round < 50; round++) {
		assert_int_equal(fill(&u, s[0], va, PAGE, round, 0), 0);
		for (i = 0; i < 3; i++) {
			assert_int_equal(mark(_IOC_NR(SOFTGPU_EVENT_RECORD), s[i], e[i]), 0);
			assert_int_equal(mark(_IOC_NR(SOFTGPU_STREAM_WAIT), s[i + 1], e[i]), 0);
			assert_int_equal(copy(&u, s[i + 1], va + (i + 1) * PAGE, va + i * PAGE, PAGE, 0), 0);
		}
		assert_int_equal(copy(&u, s[3], HOST(out), va + 3 * PAGE + PAGE - 64, 64, 0), 0);
		assert_int_equal(mark(_IOC_NR(SOFTGPU_EVENT_RECORD), s[3], e[3]), 0);
		assert_int_equal(mark(_IOC_NR(SOFTGPU_EVENT_SYNC), 0, e[3]), 0);
		assert_int_equal(out[0], round);
		assert_int_equal(out[63], round);
	}
}

/* A process has so many streams, whichever of its files and contexts they are of, and no more. */
CASE(streams_are_limited)
{
	struct softgpu_stream_create sc = { .ctx = u.ctx };
	struct softgpu_stream s = { .ctx = u.ctx };
	struct softgpu_ctx_create cc = { 0 };
	u32 i, round;
	struct user other;

	for (round = 0; round < 2; round++) {
		/* The context that user_up() has made has one. */
		for (i = 1; i < SOFTGPU_MAX_STREAMS; i++)
			s.stream = stream_blocking(&u);
		assert_int_equal(CALL(u.client, SOFTGPU_STREAM_CREATE, &sc), -ENOMEM);
		assert_int_equal(CALL(u.client, SOFTGPU_CTX_CREATE, &cc), -ENOMEM);
		user_up(&other, &m, 0, &other_key);
		user_down(&other);
		assert_int_equal(CALL(u.client, SOFTGPU_STREAM_DESTROY, &s), 0);
		assert_int_equal(CALL(u.client, SOFTGPU_CTX_CREATE, &cc), 0);
		assert_int_equal(CALL(u.client, SOFTGPU_STREAM_CREATE, &sc), -ENOMEM);
		user_down(&u);
		user_up(&u, &m, 0, &key);
	}
}

/* Who waits for one record of many waits for the latest at that time, not for later ones. */
CASE(records_of_one_event)
{
	u32 word = 0, e = new_event(), s = stream_new(&u);
	u32 other = stream_new(&u), waiter = stream_new(&u);
	struct softgpu_host_register reg = { .ctx = u.ctx, .va = HOST(&word) & ~4095ull, .length = 8192,
					     .kind = SOFTGPU_KIND_REGISTERED };
	struct softgpu_value value = { .ctx = u.ctx, .op = SOFTGPU_VALUE_EQ, .va = HOST(&word), .value = 1, .width = 4 };
	struct softgpu_stream sync = { .ctx = u.ctx };
	int i;

	assert_int_equal(CALL(u.client, SOFTGPU_HOST_REGISTER, &reg), 0);
	for (i = 0; i < 100; i++)
		assert_int_equal(mark(_IOC_NR(SOFTGPU_EVENT_RECORD), s, e), 0);
	assert_int_equal(mark(_IOC_NR(SOFTGPU_STREAM_WAIT), waiter, e), 0);
	value.stream = other;
	assert_int_equal(CALL(u.client, SOFTGPU_VALUE, &value), 0);
	assert_int_equal(mark(_IOC_NR(SOFTGPU_EVENT_RECORD), other, e), 0);
	sync.stream = waiter;
	assert_int_equal(CALL(u.client, SOFTGPU_STREAM_SYNC, &sync), 0);
	assert_int_equal(mark(_IOC_NR(SOFTGPU_EVENT_QUERY), 0, e), -EAGAIN);
	/* A record that is done before an earlier one. */
	assert_int_equal(mark(_IOC_NR(SOFTGPU_EVENT_RECORD), s, e), 0);
	assert_int_equal(mark(_IOC_NR(SOFTGPU_EVENT_SYNC), 0, e), 0);
	assert_int_equal(mark(_IOC_NR(SOFTGPU_EVENT_QUERY), 0, e), 0);
	assert_int_equal(mark(_IOC_NR(SOFTGPU_STREAM_WAIT), waiter, e), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_STREAM_SYNC, &sync), 0);
	__atomic_store_n(&word, 1, __ATOMIC_RELEASE);
	sync.stream = other;
	assert_int_equal(CALL(u.client, SOFTGPU_STREAM_SYNC, &sync), 0);
}

/* The default stream stands between the blocking ones. */
CASE(default_stream)
{
	u32 a = stream_blocking(&u), b = stream_blocking(&u), round;
	u64 va = mem_new(&u, 8 * PAGE);
	u8 out[16];

	for (round = 1; round < 50; round++) {
		assert_int_equal(fill(&u, a, va, 2 * PAGE, round, 0), 0);
		assert_int_equal(copy(&u, 0, va + 4 * PAGE, va, 2 * PAGE, 0), 0);
		assert_int_equal(copy(&u, b, HOST(out), va + 6 * PAGE - 16, 16, SOFTGPU_OP_SYNC), 0);
		assert_int_equal(out[15], round);
	}
}

CASE(handles_die)
{
	struct softgpu_stream s = { .ctx = u.ctx };
	struct softgpu_handle h = { 0 };
	u32 stream = stream_blocking(&u), event = new_event();
	struct user second;
	u64 va = mem_new(&u, PAGE);

	assert_int_equal(copy(&u, stream, va, va + 512, 512, 0), 0);
	s.stream = stream;
	assert_int_equal(CALL(u.client, SOFTGPU_STREAM_DESTROY, &s), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_STREAM_DESTROY, &s), -ENOENT);
	s.stream = event;
	assert_int_equal(CALL(u.client, SOFTGPU_STREAM_QUERY, &s), -ENOENT);
	h.handle = u.ctx;
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_DESTROY, &h), -ENOENT);
	h.handle = event;
	assert_int_equal(CALL(u.client, SOFTGPU_EVENT_DESTROY, &h), 0);
	/* Handles are a process's own. */
	user_up(&second, &m, 0, &other_key);
	h.handle = 0xffffffff;
	assert_int_equal(CALL(second.client, SOFTGPU_CTX_SYNC, &h), -ENOENT);
	user_down(&second);
}

/* Memory that is not for other devices is not pinned, but exported. */
CASE(vmm_no_rdma)
{
	const struct sg_pin_who who = { .proc_key = sg_client_key(u.client) };
	struct softgpu_phys_create p = { .length = 2 * PAGE, .flags = SOFTGPU_PHYS_NO_RDMA };
	struct softgpu_va_reserve r = { .length = 2 * PAGE };
	struct softgpu_map map = { .length = 2 * PAGE };
	struct sg_movable movable;
	struct tpin t = { 0 };
	u64 other;

	assert_int_equal(CALL(u.client, SOFTGPU_VA_RESERVE, &r), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_PHYS_CREATE, &p), 0);
	map.va = r.va;
	map.handle = p.handle;
	assert_int_equal(CALL(u.client, SOFTGPU_MAP, &map), 0);
	assert_int_equal(tpin_get(&t, &u, r.va, 2 * PAGE, false), -EACCES);
	assert_int_equal(tpin_get(&t, &u, r.va + PAGE, PAGE, true), -EACCES);
	assert_int_equal(sg_movable_get(m.sg, &movable, &who, r.va, 2 * PAGE), 0);
	assert_int_equal(sg_movable_pin(&movable, &t.pin, &tpin_ops), 0);
	assert_int_equal(sg_pin_put(m.sg, &t.pin, true), 0);
	sg_movable_put(&movable);
	/* The next allocation is another one. */
	assert_int_equal(mem_alloc(&u, PAGE, &other), 0);
	assert_int_equal(tpin_get(&t, &u, other, PAGE, false), 0);
	assert_int_equal(tpin_put(&t, &u, false), 0);
}

CASE(vmm)
{
	struct softgpu_va_reserve r = { .length = 8 * PAGE, .align = 4 * PAGE };
	struct softgpu_phys_create p = { .length = 2 * PAGE };
	struct softgpu_map map;
	struct softgpu_va_range ar;
	struct softgpu_va va;
	struct tpin t = { 0 };
	u32 phys[2];
	u64 i;

	assert_int_equal(CALL(u.client, SOFTGPU_VA_RESERVE, &r), 0);
	assert_int_equal(r.va % (4 * PAGE), 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(CALL(u.client, SOFTGPU_PHYS_CREATE, &p), 0);
		phys[i] = p.handle;
		map = (struct softgpu_map){ .handle = p.handle, .va = r.va + i * 2 * PAGE, .length = 2 * PAGE };
		assert_int_equal(CALL(u.client, SOFTGPU_MAP, &map), 0);
		assert_int_equal(CALL(u.client, SOFTGPU_MAP, &map), -EEXIST);
	}
	map.va = r.va + 7 * PAGE;
	assert_int_equal(CALL(u.client, SOFTGPU_MAP, &map), -ENOENT);
	/* Neighbours, but two allocations: no pin spans them; a copy may. */
	assert_int_equal(tpin_get(&t, &u, r.va + PAGE, 2 * PAGE, false), -EINVAL);
	assert_int_equal(tpin_get(&t, &u, r.va + PAGE, PAGE, false), 0);
	/* Access is given by hand: none at first, then reading, then both. */
	ar = (struct softgpu_va_range){ .va = r.va, .length = 4 * PAGE, .access = 1 };
	assert_int_equal(copy(&u, 0, HOST(&i), r.va, 8, SOFTGPU_OP_SYNC), -EFAULT);
	assert_int_equal(CALL(u.client, SOFTGPU_ACCESS, &ar), 0);
	assert_int_equal(copy(&u, 0, HOST(&i), r.va, 8, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(copy(&u, 0, r.va, HOST(&i), 8, SOFTGPU_OP_SYNC), -EFAULT);
	ar.access = 3;
	assert_int_equal(CALL(u.client, SOFTGPU_ACCESS, &ar), 0);
	assert_int_equal(copy(&u, 0, r.va + 2 * PAGE, r.va + PAGE, 2 * PAGE - 8, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(copy(&u, 0, r.va + 3 * PAGE, r.va, 2 * PAGE, SOFTGPU_OP_SYNC), -EFAULT);
	assert_int_equal(query(&u, r.va + PAGE).kind, SOFTGPU_KIND_VMM);
	assert_int_equal(query(&u, r.va + PAGE).phys, phys[0]);
	assert_int_equal(query(&u, r.va + 5 * PAGE).kind, SOFTGPU_KIND_RESERVED);
	assert_int_equal(CALL(u.client, SOFTGPU_PHYS_RELEASE, (&(struct softgpu_handle){ .handle = phys[0] })), 0);
	assert_int_equal(query(&u, r.va + PAGE).phys, 0);
	va = (struct softgpu_va){ .va = r.va };
	assert_int_equal(CALL(u.client, SOFTGPU_VA_RELEASE, &va), -EBUSY);
	ar = (struct softgpu_va_range){ .va = r.va, .length = 3 * PAGE };
	assert_int_equal(CALL(u.client, SOFTGPU_UNMAP, &ar), -EINVAL);
	ar.length = 2 * PAGE;
	ar.access = 3;
	assert_int_equal(CALL(u.client, SOFTGPU_ACCESS, &ar), 0);
	ar.access = 0;
	assert_int_equal(CALL(u.client, SOFTGPU_UNMAP, &ar), 0);
	assert_int_equal(t.callbacks, 1);
	ar.va += 2 * PAGE;
	assert_int_equal(CALL(u.client, SOFTGPU_UNMAP, &ar), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_VA_RELEASE, &va), 0);
}

CASE(host_memory)
{
	static u8 plain[2 * 65536];
	struct softgpu_va_reserve r = { .length = 2 * PAGE };
	struct softgpu_host_register h = { .ctx = u.ctx, .kind = SOFTGPU_KIND_HOST, .host_flags = 4,
					   .length = PAGE };
	struct softgpu_va va = { 0 };
	struct tpin t = { 0 };

	assert_int_equal(CALL(u.client, SOFTGPU_VA_RESERVE, &r), 0);
	h.va = r.va;
	assert_int_equal(CALL(u.client, SOFTGPU_HOST_REGISTER, &h), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_HOST_REGISTER, &h), -EEXIST);
	assert_int_equal(query(&u, r.va + 5).kind, SOFTGPU_KIND_HOST);
	assert_int_equal(query(&u, r.va + 5).host_flags, 4);
	assert_int_equal(tpin_get(&t, &u, r.va, PAGE, false), -EINVAL);	/* not VRAM */
	assert_int_equal(mem_free(&u, r.va), -ENOENT);
	h.kind = SOFTGPU_KIND_REGISTERED;
	h.va = r.va + PAGE;
	assert_int_equal(CALL(u.client, SOFTGPU_HOST_REGISTER, &h), -EINVAL);
	h.va = HOST(plain);
	assert_int_equal(CALL(u.client, SOFTGPU_HOST_REGISTER, &h), 0);
	va.va = HOST(plain);
	assert_int_equal(CALL(u.client, SOFTGPU_HOST_UNREGISTER, &va), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_HOST_UNREGISTER, &va), -ENOENT);
	h.kind = SOFTGPU_KIND_DEVICE;
	assert_int_equal(CALL(u.client, SOFTGPU_HOST_REGISTER, &h), -EINVAL);
}

static int alloc_in_none(struct user *who, u64 len, u64 *va)
{
	struct softgpu_mem_alloc a = { .length = len };
	int err = CALL(who->client, SOFTGPU_MEM_ALLOC, &a);

	*va = a.va;
	return err;
}

/* Memory of no context outlives all contexts, and ends with the file by which it was made. */
CASE(in_no_context)
{
	struct softgpu_ctx_create c = { 0 };
	struct softgpu_host_register r = { .kind = SOFTGPU_KIND_REGISTERED, .va = HOST(&c), .length = 4 };
	u64 large, small, other, before = stats_of(&m, 0).vram_free;
	struct user second = { .key = &key, .sg = m.sg };
	struct softgpu_query q;
	struct tpin t = { 0 };
	u8 byte = 0;

	assert_int_equal(alloc_in_none(&u, 0, &large), -EINVAL);
	assert_int_equal(alloc_in_none(&u, 65 * PAGE, &large), -ENOSPC);
	assert_int_equal(CALL(u.client, SOFTGPU_HOST_REGISTER, &r), -ENOENT);	/* device memory only */
	assert_int_equal(alloc_in_none(&u, 2 * PAGE, &large), 0);
	assert_int_equal(alloc_in_none(&u, 600, &small), 0);
	assert_int_equal(mem_alloc(&u, 600, &other), 0);
	assert_true(small / PAGE != other / PAGE);
	q = query(&u, large + PAGE);
	assert_int_equal(q.kind, SOFTGPU_KIND_DEVICE);
	assert_true(q.base == large && q.length == 2 * PAGE && q.gpu == 0);
	assert_true(!q.ctx && !q.p2p_token && !q.va_space_token);
	assert_int_equal(fill(&u, 0, large, 2 * PAGE, 7, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(tpin_get(&t, &u, large, PAGE, false), 0);

	assert_int_equal(CALL(u.client, SOFTGPU_CTX_DESTROY, (&(struct softgpu_handle){ .handle = u.ctx })), 0);
	assert_int_equal(t.callbacks, 0);
	assert_true(query(&u, large).buffer_id == q.buffer_id);
	assert_int_equal(CALL(u.client, SOFTGPU_CTX_CREATE, &c), 0);
	u.ctx = c.ctx;
	assert_int_equal(copy(&u, 0, HOST(&byte), large + 2 * PAGE - 1, 1, SOFTGPU_OP_SYNC), 0);
	assert_int_equal(byte, 7);
	assert_int_equal(fill(&u, 0, small, 600, 8, SOFTGPU_OP_SYNC), 0);
	/* another file of the process frees it */
	assert_int_equal(sg_client_open(m.sg, 1, &key, &user_host_ops, NULL, &second.client), 0);
	assert_int_equal(mem_free(&second, large), 0);
	assert_int_equal(t.callbacks, 1);
	assert_int_equal(mem_free(&u, large), -ENOENT);
	assert_int_equal(mem_free(&u, small), 0);
	assert_true(stats_of(&m, 0).vram_free == before);

	/* which file: the one that was called, not the one that ends first */
	sg_client_close(second.client);
	assert_int_equal(sg_client_open(m.sg, 0, &key, &user_host_ops, NULL, &second.client), 0);
	assert_int_equal(alloc_in_none(&second, 2 * PAGE, &large), 0);
	assert_int_equal(alloc_in_none(&second, 600, &small), 0);
	assert_int_equal(alloc_in_none(&u, 600, &other), 0);
	assert_int_equal(tpin_get(&t, &u, large, PAGE, false), 0);
	sg_client_close(second.client);
	assert_int_equal(t.callbacks, 1);
	assert_int_equal(query(&u, small).kind, SOFTGPU_KIND_NONE);
	assert_int_equal(query(&u, other).kind, SOFTGPU_KIND_DEVICE);
}

/* A removed GPU revokes what it can, unmaps the rest, and answers ENODEV. */
CASE(removal)
{
	struct tpin revocable = { 0 }, persistent = { 0 };
	struct machine lone;
	struct user w;
	u64 va, dummy, of_none;

	machine_up(&lone, 1, 16 * PAGE, 0, 0);
	user_up(&w, &lone, 0, &other_key);
	assert_int_equal(mem_alloc(&w, 2 * PAGE, &va), 0);
	assert_int_equal(alloc_in_none(&w, 600, &of_none), 0);
	assert_int_equal(tpin_get(&revocable, &w, va, PAGE, false), 0);
	assert_int_equal(tpin_get(&persistent, &w, va, PAGE, true), 0);
	sg_gpu_remove(lone.sg, 0);
	assert_int_equal(revocable.callbacks, 1);
	assert_int_equal(revocable.frees, 1);
	assert_int_equal(persistent.unmaps, 1);
	assert_int_equal(persistent.frees, 0);
	assert_int_equal(mem_alloc(&w, PAGE, &dummy), -ENODEV);
	assert_int_equal(alloc_in_none(&w, PAGE, &dummy), -ENODEV);
	assert_int_equal(sg_pin_put(lone.sg, &persistent.pin, true), 0);
	assert_int_equal(persistent.unmaps, 1);
	assert_int_equal(persistent.frees, 1);
	user_down(&w);
	machine_down(&lone);
}

/* Every allocation of a whole life fails once; nothing leaks, nothing is half done. */
static int whole_life(struct machine *lone)
{
	struct softgpu_ctx_create c = { 0 };
	struct softgpu_stream_create s = { 0 };
	struct softgpu_event_create e = { 0 };
	struct softgpu_va_reserve r = { .length = 4 * PAGE };
	struct softgpu_phys_create p = { .length = PAGE };
	struct softgpu_host_register h = { .kind = SOFTGPU_KIND_MANAGED, .length = PAGE };
	struct softgpu_event ev = { 0 };
	struct user w2 = { .key = &other_key, .sg = lone->sg };
	u64 small, big, of_none;
	int err;

	err = sg_client_open(lone->sg, 0, &other_key, NULL, NULL, &w2.client);
	if (err)
		return err;
#define TRY(expr) do { err = (expr); if (err) goto out; } while (0)
	TRY(CALL(w2.client, SOFTGPU_WINDOW, (&(struct softgpu_window){ .base = WINDOW_BASE, .length = WINDOW_LEN, .server = 1 })));
	TRY(CALL(w2.client, SOFTGPU_CTX_CREATE, &c));
	w2.ctx = s.ctx = e.ctx = h.ctx = ev.ctx = c.ctx;
	TRY(mem_alloc(&w2, 100, &small));
	TRY(mem_alloc(&w2, 3 * PAGE, &big));
	TRY(alloc_in_none(&w2, 100, &of_none));
	TRY(CALL(w2.client, SOFTGPU_STREAM_CREATE, &s));
	TRY(CALL(w2.client, SOFTGPU_EVENT_CREATE, &e));
	ev.stream = s.stream;
	ev.event = e.event;
	TRY(copy(&w2, s.stream, big, small, 100, 0));
	TRY(CALL(w2.client, SOFTGPU_EVENT_RECORD, &ev));
	TRY(CALL(w2.client, SOFTGPU_STREAM_WAIT, &ev));
	TRY(CALL(w2.client, SOFTGPU_VA_RESERVE, &r));
	TRY(CALL(w2.client, SOFTGPU_PHYS_CREATE, &p));
	TRY(CALL(w2.client, SOFTGPU_MAP, (&(struct softgpu_map){ .length = PAGE, .handle = p.handle, .va = r.va })));
	h.va = r.va + 2 * PAGE;
	TRY(CALL(w2.client, SOFTGPU_HOST_REGISTER, &h));
	TRY(mem_free(&w2, small));
#undef TRY
out:
	sg_client_close(w2.client);
	return err;
}

CASE(fail_nth)
{
	struct machine lone;
	u64 nth;
	int err;

	machine_up(&lone, 1, 16 * PAGE, 0, 0);
	for (nth = 1; ; nth++) {
		sg_fail_alloc(nth);
		err = whole_life(&lone);
		sg_fail_alloc(0);
		machine_idle(&lone);
		if (!err)
			break;
		assert_int_equal(err, -ENOMEM);
		assert_true(nth < 1000);
	}
	assert_true(nth > 20);
	machine_down(&lone);
}

/* Does a call that makes something, and takes it back as if its answer had not got through. */
#define UNDONE(name, arg)							\
	do {									\
		u32 before_ = stats_of(&m, 0).objects;					\
		assert_true(sg_call_answers(_IOC_NR(name)));			\
		assert_int_equal(CALL(u.client, name, arg), 0);			\
		assert_int_equal(stats_of(&m, 0).objects, before_ + 1);			\
		sg_call_undo(u.client, _IOC_NR(name), arg);			\
		assert_int_equal(stats_of(&m, 0).objects, before_);				\
	} while (0)

CASE(undone)
{
	struct softgpu_ctx_create ctx = { 0 };
	struct softgpu_mem_alloc mem = { .ctx = u.ctx, .length = 3 * PAGE };
	struct softgpu_va_reserve r = { .length = 4 * PAGE };
	struct softgpu_phys_create p = { .length = 4 * PAGE };
	struct softgpu_map map = { .ctx = u.ctx, .length = 4 * PAGE };
	struct softgpu_host_register h = { .ctx = u.ctx, .kind = SOFTGPU_KIND_MANAGED, .length = PAGE };
	struct softgpu_stream_create sc = { .ctx = u.ctx };
	struct softgpu_event_create ec = { .ctx = u.ctx };
	struct softgpu_ipc_export key = { 0 };
	struct softgpu_ipc_open open = { .ctx = u.ctx };
	struct softgpu_phys_export pe = { 0 };
	struct softgpu_phys_import pi = { 0 };
	struct user other;
	u64 va;

	UNDONE(SOFTGPU_CTX_CREATE, &ctx);
	UNDONE(SOFTGPU_MEM_ALLOC, &mem);
	UNDONE(SOFTGPU_VA_RESERVE, &r);
	UNDONE(SOFTGPU_PHYS_CREATE, &p);
	UNDONE(SOFTGPU_STREAM_CREATE, &sc);
	UNDONE(SOFTGPU_EVENT_CREATE, &ec);
	assert_int_equal(CALL(u.client, SOFTGPU_VA_RESERVE, &r), 0);
	assert_int_equal(CALL(u.client, SOFTGPU_PHYS_CREATE, &p), 0);
	h.va = r.va;
	UNDONE(SOFTGPU_HOST_REGISTER, &h);
	map.va = r.va;
	map.handle = p.handle;
	UNDONE(SOFTGPU_MAP, &map);
	user_up(&other, &m, 0, &other_key);
	assert_int_equal(mem_alloc(&other, PAGE, &va), 0);
	key.va = va;
	assert_int_equal(CALL(other.client, SOFTGPU_IPC_EXPORT, &key), 0);
	open.id = key.id;
	memcpy(open.key, key.key, sizeof(open.key));
	UNDONE(SOFTGPU_IPC_OPEN, &open);
	pe.handle = p.handle;
	assert_int_equal(CALL(u.client, SOFTGPU_PHYS_EXPORT, &pe), 0);
	pi.id = pe.id;
	memcpy(pi.key, pe.key, sizeof(pi.key));
	UNDONE(SOFTGPU_PHYS_IMPORT, &pi);
	user_down(&other);
	assert_false(sg_call_answers(_IOC_NR(SOFTGPU_MEM_FREE)));
}

MAIN(NULL, NULL)
