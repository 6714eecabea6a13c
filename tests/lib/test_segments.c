// SPDX-License-Identifier: MIT
/*
 * test_segments.c - ranges that span allocations: one region over one dma-buf, or over
 * several pins.  The kernel, CUDA and libibverbs are stand-ins.
 */
#include "side_by_side.h"
#include "peerdma_cache.h"
#include "peerdma_verbs.h"

static int live_pins(void)
{
	int n = 0;

	for (int i = 0; i < FAKE_PINS; i++)
		n += fake.pins[i].live;
	return n;
}

static int over(void **state)
{
	peerdma_close(ctx);
	return live_pins() + fake_verbs_live(verbs) + fake.mappings;
}

FIXTURE(reset, over)

static struct peerdma_region *pin(char *at, size_t length, unsigned int flags)
{
	struct peerdma_region *region = NULL;

	if (peerdma_pin(ctx, at, length, flags, "cookie", &region))
		fail_msg("%s", peerdma_last_error());
	return region;
}

static struct peerdma_status status(struct peerdma_region *region)
{
	struct peerdma_status s = { .size = sizeof(s) };

	assert_int_equal(peerdma_status(region, &s), 0);
	return s;
}

static void says(const char *text)
{
	if (!strstr(peerdma_last_error(), text))
		fail_msg("\"%s\" does not say \"%s\"", peerdma_last_error(), text);
}

/* ---- several pins ---- */

CASE(pinned)
{
	struct peerdma_region *r, *one, *const *segments;
	struct peerdma_status s;
	size_t n;

	open_with("kernel");
	r = pin(memory + 100, N * PAGE - 200, 0);
	segments = peerdma_segments(r, &n);
	assert_int_equal(n, N);
	assert_int_equal(live_pins(), N);
	s = status(r);
	assert_string_equal(s.backend, "kernel");
	assert_string_equal(s.provider, "nvidia");
	assert_true(s.direct && !s.by_id && s.segments == N && s.sync_memops && s.flags == PEERDMA_DEVICE);
	assert_true(s.addr == (uintptr_t)memory + 100 && s.length == N * PAGE - 200);
	assert_true(s.pinned_addr == (uintptr_t)memory && s.pinned_length == N * PAGE && s.page_size == PAGE);
	for (int i = 0; i < N; i++) {
		assert_int_equal(cuda->memory[i].sync_memops, 1);
		s = status(segments[i]);
		assert_true(s.addr == (uintptr_t)memory + i * PAGE + (i ? 0 : 100) && s.segments == 1);
		assert_true(peerdma_valid(segments[i]));
		assert_ptr_equal(*peerdma_segments(segments[i], &n), segments[i]);
	}
	assert_true(peerdma_valid(r));
	assert_int_equal(peerdma_unpin(segments[0]), -EINVAL);
	assert_int_equal(peerdma_unpin(r), 0);
	assert_int_equal(fake.unpins, N);
	one = pin(memory, PAGE, 0);
	assert_ptr_equal(*peerdma_segments(one, &n), one);
	assert_int_equal(n, 1);
}

/* One mapping, whose ranges are the pinned bytes, each once, though neighbours share pages. */
CASE(mapped)
{
	struct peerdma_mapping *m;
	const struct peerdma_range *ranges;
	struct peerdma_region *r;
	uint64_t sum = 0;
	void *view;
	size_t n;

	open_with("kernel");
	r = pin(memory, N * PAGE, 0);
	assert_int_equal(peerdma_map(r, "03:00.0", PEERDMA_TO_DEVICE, &m), 0);
	ranges = peerdma_ranges(m, &n);
	assert_int_equal(n, N);
	assert_int_equal(fake.mappings, N);
	assert_int_equal(status(r).mappings, 1);
	assert_int_equal(peerdma_unmap(m), 0);
	assert_int_equal(fake.mappings, 0);
	assert_int_equal(peerdma_map(r, "03:00.0", PEERDMA_TO_DEVICE, &m), 0);
	assert_int_equal(peerdma_cpu_view(r, &view), 0);
	memset(view, 1, N * PAGE);
	assert_int_equal(peerdma_cpu_view_end(r, view), 0);
	assert_int_equal(peerdma_cpu_view(r, &view), 0);
	fake.view_error = -EDQUOT;
	assert_int_equal(peerdma_cpu_view(r, &view), -EDQUOT);
	fake.view_error = 0;
	fake.map_error = -ENODEV;
	assert_int_equal(peerdma_map(r, "03:00.0", PEERDMA_TO_DEVICE, &m), -ENODEV);
	fake.map_error = 0;
	assert_int_equal(peerdma_unpin(r), 0);
	fake.mappings = 0;	/* went with the pins */

	allocations(2, PAGE + PAGE / 2);
	fake.segments = 2;
	r = pin(memory, 3 * PAGE, 0);
	assert_int_equal(status(r).segments, 2);
	assert_int_equal(status(r).pinned_length, 3 * PAGE);
	assert_int_equal(peerdma_map(r, "03:00.0", PEERDMA_TO_DEVICE, &m), 0);
	ranges = peerdma_ranges(m, &n);
	for (size_t i = 0; i < n; i++)
		sum += ranges[i].length;
	assert_int_equal(n, 4);
	assert_int_equal(sum, 3 * PAGE);
	assert_int_equal(ranges[1].length, PAGE / 2);
	assert_true(ranges[2].addr % PAGE == PAGE / 2 && ranges[2].length == PAGE / 2);
	assert_int_equal(peerdma_unmap(m), 0);
	assert_int_equal(peerdma_cpu_view(r, &view), -EOPNOTSUPP);
	says("peerdma_segments");
}

/* Over when one of them is, with one notice. */
CASE(revoked)
{
	struct peerdma_notice notice = { .size = sizeof(notice) };
	struct peerdma_region *r, *other, *const *segments;
	size_t n;

	open_with("kernel");
	other = pin(memory, 4 * PAGE, 0);
	r = pin(memory + 10 * PAGE, 5 * PAGE, 0);
	segments = peerdma_segments(r, &n);
	for (uint32_t h = 1; h < FAKE_PINS; h++) {
		if (fake.pins[h].live && (fake.pins[h].addr == (uintptr_t)memory + 12 * PAGE ||
					  fake.pins[h].addr == (uintptr_t)memory + 14 * PAGE))
			fake_revoke(h);
	}
	assert_false(peerdma_valid(r));
	assert_true(peerdma_valid(other) && peerdma_valid(segments[0]) && !peerdma_valid(segments[2]));
	assert_int_equal(status(r).state, PEERDMA_STATE_REVOKED);
	assert_int_equal(peerdma_next_event(ctx, &notice, 0), 0);
	assert_ptr_equal(notice.region, r);
	assert_string_equal(notice.cookie, "cookie");
	assert_true(notice.addr == (uintptr_t)memory + 10 * PAGE && notice.length == 5 * PAGE);
	assert_int_equal(peerdma_next_event(ctx, &notice, 0), -EAGAIN);
	assert_int_equal(peerdma_unpin(r), 0);
	assert_int_equal(live_pins(), 4);
}

/* Whichever pin fails, nothing is left. */
CASE(fails)
{
	static const int errors[] = { -EDQUOT, -ENOSPC, -ENOMEM, -ENFILE };
	struct peerdma_region *r = (void *)1;

	open_with("kernel");
	for (int nth = 1; nth <= 8; nth++) {
		fake.fail_nth = nth;
		fake.nth_error = errors[nth % 4];
		assert_int_equal(peerdma_pin(ctx, memory, 8 * PAGE, 0, NULL, &r), errors[nth % 4]);
		assert_ptr_equal(r, (void *)1);
		assert_int_equal(live_pins(), 0);
	}
	/* Freed meanwhile: by its word, or because it is not there any more. */
	fake.revoked_at_once = 1;
	assert_int_equal(peerdma_pin(ctx, memory, 8 * PAGE, 0, NULL, &r), -ESTALE);
	assert_int_equal(live_pins(), 0);
	fake.revoked_at_once = 0;
	cuda->memory[3].size = 0;
	assert_int_equal(peerdma_pin(ctx, memory, 8 * PAGE, 0, NULL, &r), -ENXIO);
	says("no allocation follows at offset 196608");
	assert_int_equal(live_pins(), 0);
	r = pin(memory, 3 * PAGE, 0);
	fake.busy = 2;
	assert_int_equal(peerdma_unpin(r), -EBUSY);
	assert_int_equal(live_pins(), 1);
	assert_false(peerdma_valid(r));
	assert_int_equal(status(r).state, PEERDMA_STATE_REVOKED);
	fake.busy = 0;
	assert_int_equal(peerdma_unpin(r), 0);
	assert_int_equal(fake.unpins, 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 3);
}

/* ---- one dma-buf ---- */

CASE(exported)
{
	struct peerdma_region *r;
	int fd;

	open_with("kernel");
	r = pin(memory, 8 * PAGE, 0);
	assert_int_equal(peerdma_export_dmabuf(r, 0, 0, &fd), 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), 8 * PAGE);
	close(fd);
	assert_int_equal(cuda->exports, 1);
	/* Within one segment it is that pin's own, which is revoked with it. */
	assert_int_equal(peerdma_export_dmabuf(r, 2 * PAGE, PAGE, &fd), 0);
	close(fd);
	assert_int_equal(cuda->exports, 1);
	assert_int_equal(peerdma_export_dmabuf(r, PAGE, 8 * PAGE, &fd), -EINVAL);
	assert_int_equal(peerdma_export_dmabuf(r, 5, PAGE, &fd), -EINVAL);
	cuda->export_error = 801;
	assert_int_equal(peerdma_export_dmabuf(r, 0, 0, &fd), -EOPNOTSUPP);
	says("peerdma_segments");
	cuda->export_error = 0;
	cuda->memory[7].id++;
	assert_int_equal(peerdma_export_dmabuf(r, 0, 0, &fd), -ESTALE);
	cuda->memory[7].id--;
	fake_revoke(5);
	assert_int_equal(peerdma_export_dmabuf(r, 0, 0, &fd), -ESTALE);
}

CASE(dmabuf)
{
	struct peerdma_region *r;
	struct peerdma_notice notice = { .size = sizeof(notice) };
	int fd, first = dup(0);

	close(first);
	open_with("dmabuf");
	r = pin(memory + 100, N * PAGE - 200, PEERDMA_DIRECT);
	assert_int_equal(cuda->exports, 1);
	assert_true(status(r).segments == 1 && status(r).by_id && status(r).state == PEERDMA_STATE_LIVE);
	assert_int_equal(status(r).pinned_length, N * PAGE);
	for (int i = 0; i < N; i++)
		assert_int_equal(cuda->memory[i].sync_memops, 1);
	cuda->memory[N - 1].id++;
	assert_int_equal(status(r).state, PEERDMA_STATE_REVOKED);
	assert_int_equal(peerdma_export_dmabuf(r, 0, 4096, &fd), -ESTALE);
	assert_int_equal(peerdma_unpin(r), 0);

	cuda->memory[4].managed = 1;
	assert_int_equal(peerdma_pin(ctx, memory, 8 * PAGE, 0, NULL, &r), -ENXIO);
	says("managed");
	cuda->memory[4].managed = 0;
	cuda->reallocate = 1;		/* the first of them */
	assert_int_equal(peerdma_pin(ctx, memory, 8 * PAGE, 0, NULL, &r), -ESTALE);

	/* A driver that exports only one by one. */
	cuda->one_by_one = 1;
	r = pin(memory, 8 * PAGE, 0);
	assert_int_equal(status(r).segments, 8);
	assert_true(status(r).by_id && !peerdma_valid(r));
	assert_string_equal(status(r).backend, "dmabuf");
	assert_int_equal(peerdma_export_dmabuf(r, 0, 0, &fd), -EOPNOTSUPP);
	assert_int_equal(peerdma_export_dmabuf(r, 3 * PAGE, PAGE, &fd), 0);
	close(fd);
	cuda->memory[3].id++;
	assert_int_equal(status(r).state, PEERDMA_STATE_REVOKED);
	assert_int_equal(peerdma_next_event(ctx, &notice, 0), -EAGAIN);
	assert_int_equal(peerdma_unpin(r), 0);
	peerdma_close(ctx);
	fd = dup(0);
	assert_int_equal(fd, first);	/* no descriptor is left */
	close(fd);
	open_with("dmabuf");
}

CASE(staging)
{
	struct peerdma_region *r;
	char *view;

	memset(memory, 'a', 8 * PAGE);
	fake.allocation = 0;		/* the kernel pins the copy */
	open_with("staging,kernel");
	r = pin(memory + 100, 3 * PAGE, PEERDMA_STAGING);
	assert_string_equal(status(r).backend, "staging");
	assert_int_equal(peerdma_cpu_view(r, (void **)&view), 0);
	assert_true(view[0] == 'a' && view[3 * PAGE - 1] == 'a');
	memset(view, 'b', 3 * PAGE);
	assert_int_equal(peerdma_sync(r, PAGE, PAGE, PEERDMA_FROM_DEVICE), 0);
	assert_true(memory[100 + PAGE - 1] == 'a' && memory[100 + PAGE] == 'b' && memory[100 + 2 * PAGE - 1] == 'b' &&
		    memory[100 + 2 * PAGE] == 'a');
	cuda->memory[3].id++;
	assert_int_equal(status(r).state, PEERDMA_STATE_REVOKED);
	assert_int_equal(peerdma_sync(r, 0, 0, PEERDMA_FROM_DEVICE), -ESTALE);
}

/* ---- keys ---- */

CASE(keys)
{
	struct peerdma_region *r, *const *segments;
	const struct peerdma_mr *mr, *each[8];
	size_t n;

	open_with("kernel");
	r = pin(memory + 100, 8 * PAGE - 200, 0);
	assert_int_equal(peerdma_verbs_mr(r, pd, 1, &mr), 0);
	assert_string_equal(mr->way, "dmabuf");
	assert_true(mr->addr == (uintptr_t)memory + 100 && mr->length == 8 * PAGE - 200);
	assert_int_equal(verbs->by_dmabuf, 1);
	assert_int_equal(peerdma_verbs_end(ctx, pd), 0);
	assert_int_equal(fake_verbs_live(verbs), 0);

	/* No common key: each segment's. */
	cuda->export_error = 801;
	verbs->error = EFAULT;
	assert_int_equal(peerdma_verbs_mr(r, pd, 1, &mr), -EOPNOTSUPP);
	says("peerdma_segments");
	segments = peerdma_segments(r, &n);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(peerdma_verbs_mr(segments[i], pd, 1, &each[i]), 0);
		assert_true(each[i]->addr == (uintptr_t)memory + i * PAGE + (i ? 0 : 100));
	}
	assert_int_equal(fake_verbs_live(verbs), 8);
	assert_int_equal(peerdma_verbs_end(ctx, pd), 0);
	assert_int_equal(fake_verbs_live(verbs), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(peerdma_verbs_mr(segments[i], pd, 1, &each[i]), 0);
	verbs->dereg_error = EBUSY;
	assert_int_equal(peerdma_unpin(r), -EBUSY);
	verbs->dereg_error = 0;
	assert_int_equal(live_pins(), 8);
	assert_true(peerdma_valid(r));
	fake_revoke(3);
	assert_int_equal(peerdma_verbs_mr(segments[2], (struct ibv_pd *)0x2000, 1, &mr), -ESTALE);
	assert_int_equal(peerdma_unpin(r), 0);
	assert_int_equal(fake_verbs_live(verbs), 0);
}

/* ---- a cache ---- */

static double hit(struct peerdma_cache *cache, size_t length)
{
	struct peerdma_cached *hold;
	struct timespec a, b;
	double best = 1e9, ns;

	for (int round = 0; round < 40; round++) {
		clock_gettime(CLOCK_MONOTONIC, &a);
		for (int i = 0; i < 2000; i++) {
			peerdma_cache_get(cache, memory + (length > PAGE ? 0 : N * PAGE), length, &hold);
			peerdma_cache_put(cache, hold);
		}
		clock_gettime(CLOCK_MONOTONIC, &b);
		ns = ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / 2000;
		best = ns < best ? ns : best;
	}
	return best;
}

CASE(cached)
{
	struct peerdma_cache_counters c = { .size = sizeof(c) };
	struct peerdma_cached *hold, *again;
	struct peerdma_cache *cache;
	double one, all;
	int calls;

	allocations(N + 1, PAGE);
	open_with("kernel");
	assert_int_equal(peerdma_cache_open(ctx, NULL, &cache), 0);
	assert_int_equal(peerdma_cache_get(cache, memory + 100, N * PAGE - 200, &hold), 0);
	assert_true(hold->addr == (uintptr_t)memory && hold->length == N * PAGE);
	assert_int_equal(peerdma_cache_get(cache, memory + 7 * PAGE + 9, 2 * PAGE, &again), 0);
	assert_ptr_equal(again, hold);
	peerdma_cache_put(cache, again);
	assert_int_equal(peerdma_cache_counters(cache, &c), 0);
	assert_true(c.misses == 1 && c.bytes == N * PAGE && !c.checked);
	fake_revoke(40);
	assert_int_equal(peerdma_cache_get(cache, memory, PAGE, &again), 0);
	assert_ptr_not_equal(again, hold);
	peerdma_cache_put(cache, again);
	peerdma_cache_put(cache, hold);
	assert_int_equal(peerdma_cache_counters(cache, &c), 0);
	assert_int_equal(c.stale, 1);
	assert_int_equal(live_pins(), 1);
	assert_int_equal(peerdma_cache_get(cache, memory, N * PAGE, &hold), 0);
	peerdma_cache_put(cache, hold);
	assert_int_equal(peerdma_cache_invalidate(cache, memory + 30 * PAGE, 1), 1);
	assert_int_equal(peerdma_cache_trim(cache, 1), 0);	/* deregisters what that has ended */
	assert_int_equal(live_pins(), 0);
	one = hit(cache, PAGE);
	assert_int_equal(peerdma_cache_get(cache, memory, N * PAGE, &hold), 0);
	peerdma_cache_put(cache, hold);
	calls = cuda->calls;
	all = hit(cache, N * PAGE);
	assert_int_equal(cuda->calls, calls);	/* no call for each; how many times it is in quiet: live_expandable cost */
	print_message("a hit takes %.1f ns of one allocation, %.1f ns of %d: %.2f times\n", one, all, N, all / one);
	peerdma_cache_close(cache);
}

CASE(child)
{
	struct peerdma_region *r, *other;
	struct peerdma_mapping *m;
	int result = -1;
	void *view;
	pid_t pid;

	open_with("kernel");
	r = pin(memory, 8 * PAGE, 0);
	assert_int_equal(peerdma_map(r, "03:00.0", PEERDMA_TO_DEVICE, &m), 0);
	assert_int_equal(peerdma_cpu_view(r, &view), 0);
	pid = fork();
	if (!pid) {
		result = peerdma_pin(ctx, memory, PAGE, 0, NULL, &other) != -EPERM || peerdma_unmap(m) || peerdma_unpin(r);
		peerdma_close(ctx);
		_exit(result || live_pins() != 8);
	}
	waitpid(pid, &result, 0);
	assert_int_equal(result, 0);
	assert_true(peerdma_valid(r));
	assert_int_equal(peerdma_unmap(m), 0);
}

int main(void)
{
	return side_by_side() ? cases_run(NULL, NULL) : 1;
}
