// SPDX-License-Identifier: MIT
/*
 * locked.c - back-end host: the program's own locks of memory stay what they are,
 * memory that took the place of what was pinned is not taken for it, and a pin waits
 * for no other pin's memory.
 *
 * What is locked is read from /proc/self/smaps.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "peerdma.h"
#include "peerdma_cache.h"
#include "peerdma_monitor.h"
#include "checks.h"

#define PAGES	32
#define STEPS	250

static struct peerdma *ctx;
static size_t page;

static char *memory(size_t pages)
{
	char *p = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		exit(2);
	return p;
}

/* By number: sanitizers put functions that do nothing in the place of the C library's. */
static int lock(void *p, size_t pages)
{
	return (int)syscall(SYS_mlock, p, pages * page);
}

static int unlock(void *p, size_t pages)
{
	return (int)syscall(SYS_munlock, p, pages * page);
}

/* Which of the pages are locked: a bit for each. */
static uint32_t locked(const char *p, unsigned int pages)
{
	unsigned long from = 0, to = 0;
	FILE *f = fopen("/proc/self/smaps", "re");
	uint32_t bits = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long a, b;

		if (sscanf(line, "%lx-%lx ", &a, &b) == 2) {
			from = a;
			to = b;
		} else if (!strncmp(line, "VmFlags:", 8) && strstr(line, " lo")) {
			for (unsigned int i = 0; i < pages; i++) {
				if ((uintptr_t)p + i * page >= from && (uintptr_t)p + i * page < to)
					bits |= 1U << i;
			}
		}
	}
	if (f)
		fclose(f);
	return bits;
}

static struct peerdma_region *pin(char *p, size_t pages)
{
	struct peerdma_region *r = NULL;

	CHECK(!peerdma_pin(ctx, p, pages * page, PEERDMA_HOST, NULL, &r), "a pin of %zu pages", pages);
	return r;
}

static uint32_t state(struct peerdma_region *r)
{
	struct peerdma_status s = { .size = sizeof(s) };

	return peerdma_status(r, &s) ? 0 : s.state;
}

/* ---- the program's own locks ---- */

static void own_locks(void)
{
	char *p = memory(8);
	struct peerdma_region *r;

	r = pin(p, 8);
	CHECK(locked(p, 8) == 0xff, "a pin locks its pages");
	CHECK(!peerdma_unpin(r) && locked(p, 8) == 0, "and unlocks them");
	lock(p, 8);
	r = pin(p, 8);
	CHECK(!peerdma_unpin(r) && locked(p, 8) == 0xff, "what the program had locked stays locked");
	unlock(p, 8);
	lock(p + 2 * page, 2);
	lock(p + 6 * page, 1);
	r = pin(p, 8);
	CHECK(locked(p, 8) == 0xff, "a pin of pages of which the program had locked some");
	CHECK(!peerdma_unpin(r) && locked(p, 8) == 0x4c, "leaves those locked, and no others");
	munmap(p, 8 * page);
}

static int all_locked(void)
{
	struct peerdma_region *r;
	char *p;

	if (syscall(SYS_mlockall, MCL_FUTURE))	/* not MCL_CURRENT: a sanitizer has terabytes */
		return 0;
	p = memory(4);
	r = pin(p, 4);
	CHECK(state(r) == PEERDMA_STATE_UNKNOWN, "of pages that the program locks, status says that it does not know");
	CHECK(!peerdma_unpin(r) && locked(p, 4) == 0xf, "after mlockall(), an unpin unlocks nothing");
	return check_counts.failures != 0;
}

/* What is locked is what the program had locked, and what any pin holds. */
static void at_random(void)
{
	struct { struct peerdma_region *r; unsigned int from, count; } pins[16] = { 0 };
	char *p = memory(PAGES);
	uint32_t own = 0;
	int bad = 0;

	srand(7);
	for (int i = 0; i < 6; i++) {
		unsigned int at = (unsigned int)rand() % PAGES;

		lock(p + at * page, 1);
		own |= 1U << at;
	}
	for (int step = 0; step < STEPS && !bad; step++) {
		unsigned int i = (unsigned int)rand() % 16;
		uint32_t held = own;

		if (pins[i].r) {
			bad |= peerdma_unpin(pins[i].r);
			pins[i].r = NULL;
		} else {
			pins[i].from = (unsigned int)rand() % PAGES;
			pins[i].count = 1 + (unsigned int)rand() % (PAGES - pins[i].from);
			bad |= peerdma_pin(ctx, p + pins[i].from * page, pins[i].count * page, PEERDMA_HOST, NULL, &pins[i].r);
		}
		for (i = 0; i < 16; i++) {
			if (pins[i].r)
				held |= (uint32_t)(((1ULL << pins[i].count) - 1) << pins[i].from);
		}
		bad |= locked(p, PAGES) != held;
	}
	for (int i = 0; i < 16; i++)
		peerdma_unpin(pins[i].r);
	CHECK(!bad && locked(p, PAGES) == own, "%d pins and unpins at random lock what they hold, and no more", STEPS);
	munmap(p, PAGES * page);
}

/* ---- other memory at the same address ---- */

/* The pin of what was there before ends last, when the program has locked what is there now. */
static void ended_last(char *p)
{
	struct peerdma_region *old = pin(p, 8), *new;

	mmap(p + page, 6 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	new = pin(p + 2 * page, 4);
	CHECK(locked(p, 8) == 0xbd, "a pin of other memory, beside the pin of what was there before");
	CHECK(!peerdma_unpin(new) && locked(p, 8) == 0x81, "its end unlocks its pages, and leaves the other pin's (0x%x)", locked(p, 8));
	CHECK(!lock(p + 3 * page, 2), "the program locks two pages");
	CHECK(!peerdma_unpin(old) && locked(p, 8) == 0x18, "the end of the older pin leaves these, and no others (0x%x)", locked(p, 8));
	unlock(p, 8);
}

static void replaced(void)
{
	struct peerdma_region *old, *new;
	char *p = memory(4);

	old = pin(p, 4);
	CHECK(state(old) == PEERDMA_STATE_LIVE && peerdma_valid(old), "a pin is live");
	munmap(p + page, page);
	CHECK(state(old) == PEERDMA_STATE_REVOKED, "one page is unmapped: it is not");
	CHECK(!peerdma_valid(old), "and not valid, now that this is known");
	peerdma_unpin(old);
	mmap(p, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	old = pin(p, 4);
	mmap(p, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	CHECK(state(old) == PEERDMA_STATE_REVOKED, "other memory at its address: it is revoked");
	new = pin(p + page, 2);
	CHECK(locked(p, 4) == 0x6, "a pin of the other memory locks it");
	CHECK(state(new) == PEERDMA_STATE_LIVE && state(old) == PEERDMA_STATE_REVOKED, "and is live; the first stays revoked");
	CHECK(!peerdma_unpin(old) && locked(p, 4) == 0x6 && state(new) == PEERDMA_STATE_LIVE, "the end of the first leaves it alone");
	CHECK(!peerdma_unpin(new) && locked(p, 4) == 0, "its own end does not");
	munmap(p, 4 * page);
	p = memory(8);
	ended_last(p);
	munmap(p, 8 * page);
}

static void seen(void *arg, const struct peerdma_hook_event *event)
{
}

static void renew(char *p, size_t pages)
{
	munmap(p, pages * page);
	CHECK(mmap(p, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p, "other memory");
	CHECK(!lock(p, pages), "which the program locks");
}

/* Other memory by a system call that no monitor sees, of which the program then says that any may have gone. */
static void gone_somewhere(char *p)
{
#if defined(__x86_64__)
	struct peerdma_region *r = pin(p, 8);
	size_t length = 8 * page;
	long ret = SYS_mmap;
	register long flags __asm__("r10") = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, fd __asm__("r8") = -1, offset __asm__("r9") = 0;

	__asm__ volatile("syscall" : "+a"(ret)
			 : "D"(p), "S"(length), "d"(PROT_READ | PROT_WRITE), "r"(flags), "r"(fd), "r"(offset) : "rcx", "r11", "memory");
	CHECK(ret == (long)p, "other memory, unseen");
	peerdma_monitor_notify(PEERDMA_MEMORY_HOST, NULL, SIZE_MAX, 1);
	CHECK(!lock(p, 8), "which the program locks");
	CHECK(!peerdma_unpin(r) && locked(p, 8) == 0xff, "a pin's end leaves it alone after an event of all memory");
	unlock(p, 8);
#endif
}

/* A file's memory at such an address may be of huge pages: the event is wider than what went. */
static void replaced_at_a_huge_page(void)
{
	size_t huge = 2UL << 20, pages = 2 * huge / page;
	char *whole = memory(pages), *p = (char *)(((uintptr_t)whole + huge - 1) & ~(huge - 1));
	int fd = memfd_create("locked", MFD_CLOEXEC);

	CHECK(fd >= 0 && !ftruncate(fd, (off_t)(8 * page)), "a file");
	for (size_t n = 1; n < 8; n++) {
		struct peerdma_region *r = pin(p, 8);

		CHECK(mmap(p, n * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == p && !lock(p, n),
		      "%zu pages of a file, which the program locks", n);
		CHECK(!peerdma_unpin(r) && locked(p, 8) == (1U << n) - 1, "a pin's end leaves them alone, and nothing else locked");
		CHECK(mmap(p, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p, "ordinary memory");
	}
	close(fd);
	munmap(whole, pages * page);
}

/* The program locks memory at the address of a pin that has not ended yet: the monitor of host memory saw what was there go. */
static void locked_since(void)
{
	struct peerdma_cached *hold = NULL;
	struct peerdma_cache *cache;
	struct peerdma_region *r, *again;
	char *p = memory(8);

	if (peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, seen, NULL)) {
		printf("# skipped: %s\n", peerdma_last_error());
		return;
	}
	r = pin(p, 8);
	renew(p + 2 * page, 3);
	CHECK(state(r) == PEERDMA_STATE_REVOKED, "the pin is revoked");
	again = pin(p, 8);
	CHECK(!peerdma_unpin(r) && locked(p, 8) == 0xff, "its end unlocks nothing that is pinned again");
	CHECK(!peerdma_unpin(again) && locked(p, 8) == 0x1c, "nor does that one's unlock what the program locked");
	unlock(p, 8);

	r = pin(p, 8);
	madvise(p, 4 * page, 21 /* MADV_PAGEOUT */);
	CHECK(madvise(p, page, MADV_DONTNEED), "pinned memory cannot be discarded");
	CHECK(state(r) == PEERDMA_STATE_LIVE && !peerdma_unpin(r) && locked(p, 8) == 0, "what stayed is unlocked");

	CHECK(!peerdma_cache_open(ctx, NULL, &cache) && !peerdma_cache_get(cache, p, 8 * page, &hold), "a cached pin");
	peerdma_cache_put(cache, hold);
	CHECK(peerdma_cache_invalidate(cache, p, 8 * page) == 1 && locked(p, 8) == 0xff, "its end is deferred");
	renew(p, 4);
	CHECK(peerdma_cache_drain(cache) == 1 && locked(p, 8) == 0xf, "and leaves what the program has locked since");
	peerdma_cache_close(cache);
	unlock(p, 8);
	ended_last(p);
	gone_somewhere(p);
	replaced_at_a_huge_page();
	peerdma_monitor_unsubscribe(PEERDMA_MEMORY_HOST, seen, NULL);
	munmap(p, 8 * page);
}

/* ---- threads ---- */

struct slow {
	char *p;
	_Atomic int over;
	int ret;
};

static void *pins_slowly(void *arg)
{
	struct slow *slow = arg;
	struct peerdma_region *r = NULL;

	slow->ret = peerdma_pin(ctx, slow->p, page, PEERDMA_HOST, NULL, &r);
	slow->over = 1;
	peerdma_unpin(r);
	return NULL;
}

/* Memory whose pages another thread fills in: an mlock(2) of it takes as long as that takes.  -1: not to be had. */
static int slow_memory(char *p)
{
	struct uffdio_register how = { .range = { (uintptr_t)p, page }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd >= 0 && !ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &how))
		return fd;
	return -1;
}

static void others_wait_not(void)
{
	struct slow slow = { .p = memory(1) }, same = { .p = slow.p };
	struct uffdio_zeropage zero = { .range = { (uintptr_t)slow.p, page } };
	struct peerdma_region *r;
	int fd = slow_memory(slow.p);
	struct uffd_msg message;
	pthread_t threads[2];
	char *p = memory(1);

	if (fd < 0) {
		printf("# skipped: this user may not use userfaultfd(2)\n");
		return;
	}
	pthread_create(&threads[0], NULL, pins_slowly, &slow);
	CHECK(read(fd, &message, sizeof(message)) == sizeof(message), "a thread's mlock(2) waits for its memory");
	pthread_create(&threads[1], NULL, pins_slowly, &same);
	alarm(30);
	r = pin(p, 1);
	CHECK(!slow.over && !peerdma_unpin(r), "another thread pins and unpins a page meanwhile");
	usleep(20000);
	CHECK(!same.over, "but not the same page");
	CHECK(!ioctl(fd, UFFDIO_ZEROPAGE, &zero), "the memory comes");
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	alarm(0);
	CHECK(!slow.ret && !same.ret && locked(slow.p, 1) == 0, "both have pinned it, and given it back");
	close(fd);
}

static void *churns(void *arg)
{
	char *p = arg;
	unsigned int seed = (unsigned int)(uintptr_t)&p >> 4;
	intptr_t bad = 0;

	for (int i = 0; i < 3000; i++) {
		unsigned int from = (unsigned int)rand_r(&seed) % PAGES, count = 1 + (unsigned int)rand_r(&seed) % (PAGES - from);
		struct peerdma_region *r = NULL;

		bad |= peerdma_pin(ctx, p + from * page, count * page, PEERDMA_HOST, NULL, &r);
		if (r && !(i & 63))
			bad |= state(r) != PEERDMA_STATE_LIVE;
		bad |= peerdma_unpin(r);
	}
	return (void *)bad;
}

static void several(void)
{
	char *p = memory(PAGES);
	pthread_t threads[4];
	intptr_t bad = 0;
	void *ret;

	memset(p, 1, PAGES * page);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, churns, p);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &ret);
		bad |= (intptr_t)ret;
	}
	CHECK(!bad, "four threads pin ranges that overlap");
	CHECK(locked(p, PAGES) == 0, "nothing is locked when all have unpinned (0x%x)", locked(p, PAGES));
	munmap(p, PAGES * page);
}

static void *pins_both(void *arg)
{
	struct slow *slow = arg;

	return pin(slow->p, 2);
}

/* The first page is another's by the time at which the second has its memory: the pin counts in neither pin's segment. */
static void replaced_while_pinning(void)
{
	struct slow slow = { .p = memory(2) };
	struct uffdio_zeropage zero = { .range = { (uintptr_t)slow.p + page, page } };
	struct peerdma_region *before = pin(slow.p, 1), *after, *both;
	int fd = slow_memory(slow.p + page);
	struct uffd_msg message;
	pthread_t thread;
	void *ret;

	if (fd < 0) {
		printf("# skipped: this user may not use userfaultfd(2)\n");
		return;
	}
	pthread_create(&thread, NULL, pins_both, &slow);
	CHECK(read(fd, &message, sizeof(message)) == sizeof(message), "a thread has pinned one page, and waits for the next");
	mmap(slow.p, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	after = pin(slow.p, 1);
	CHECK(!ioctl(fd, UFFDIO_ZEROPAGE, &zero), "the memory comes");
	pthread_join(thread, &ret);
	both = ret;
	CHECK(state(both) == PEERDMA_STATE_REVOKED && state(after) == PEERDMA_STATE_LIVE, "its pin is revoked, the one made meanwhile is not");
	CHECK(!peerdma_unpin(both) && locked(slow.p, 2) == 1, "its end leaves the other's page locked");
	CHECK(!peerdma_unpin(before) && locked(slow.p, 2) == 1, "so does that of the pin before");
	CHECK(!peerdma_unpin(after) && locked(slow.p, 2) == 0, "that one's own end does not");
	close(fd);
	munmap(slow.p, 2 * page);
}

static _Atomic int replacing;

static void *replaces(void *arg)
{
	char *p = arg;

	for (unsigned int i = 0; replacing; i++) {
		unsigned int from = i * 7 % PAGES, count = 1 + i % (PAGES - from);

		mmap(p + from * page, count * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	}
	return NULL;
}

static void *churns_blindly(void *arg)
{
	char *p = arg;
	unsigned int seed = (unsigned int)(uintptr_t)&p >> 4;

	for (int i = 0; i < 2000; i++) {
		struct peerdma_region *r[2] = { NULL, NULL };

		for (int j = 0; j < 2; j++) {
			unsigned int from = (unsigned int)rand_r(&seed) % PAGES, count = 1 + (unsigned int)rand_r(&seed) % (PAGES - from);

			peerdma_pin(ctx, p + from * page, count * page, PEERDMA_HOST, NULL, &r[j]);
		}
		peerdma_unpin(r[0]);
		peerdma_unpin(r[1]);
	}
	return NULL;
}

/* Whatever was replaced while it was being pinned: when all pins have ended, none is counted. */
static void replaced_meanwhile(void)
{
	char *p = memory(PAGES);
	pthread_t threads[3], other;

	replacing = 1;
	pthread_create(&other, NULL, replaces, p);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, churns_blindly, p);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	replacing = 0;
	pthread_join(other, NULL);
	CHECK(locked(p, PAGES) == 0, "memory is replaced while three threads pin it: nothing stays locked (0x%x)", locked(p, PAGES));
	for (unsigned int i = 0; i < PAGES; i++) {
		struct peerdma_region *r = pin(p + i * page, 1);

		CHECK(state(r) == PEERDMA_STATE_LIVE && !peerdma_unpin(r) && locked(p, PAGES) == 0, "page %u: pinned once, unlocked once", i);
	}
	munmap(p, PAGES * page);
}

int main(void)
{
	int status = -1;
	pid_t pid;

	page = (size_t)sysconf(_SC_PAGESIZE);
	if (!CHECK(!peerdma_open(&ctx, 0), "a context"))
		return 1;
	own_locks();
	at_random();
	replaced();
	locked_since();
	others_wait_not();
	replaced_while_pinning();
	several();
	replaced_meanwhile();
	peerdma_close(ctx);

	pid = fork();
	if (!pid) {
		check_counts.failures = 0;
		CHECK(!peerdma_open(&ctx, 0), "opens");
		_exit(all_locked());
	}
	waitpid(pid, &status, 0);
	CHECK(status == 0, "a process that locks all its memory");
	return check_end(NULL);
}
