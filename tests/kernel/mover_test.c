// SPDX-License-Identifier: MIT
/*
 * mover_test.c - importers against dmabuf_mover.ko: moves, revocations and refusals at
 * every step of attach, pin, map, transfer, unmap and detach.  One list of tests, run
 * once for each importer: those of the test module peerdma_importer.ko, and the bridge
 * (PEERDMA_PIN_DMABUF_FD), which pins where it may and else lives with being moved.
 */
#include <linux/dma-buf.h>

#include "dmabuf_mover.h"
#include "mover_test.h"

static bool have_card, have_promises;

static void contents(void)
{
	buffer_make();
	CHECK(!attach());
	CHECK(!map());
	if (have_card)
		transfer();
	CHECK(!unmap_it());
	CHECK(!map());
	detach();
	CHECK(status("late") == 0);
	buffer_end();
}

/* What a command is to answer to this importer, which is mapped or only attached. */
static int answer(bool revoke, bool is_mapped)
{
	/* Up to Linux 6.15 a static one has it mapped while it is attached. */
	if (!s->revocable)
		return status("maps") == status("unmaps") ? 0 : -EBUSY;
	/* As soon as it has attached it has pinned; the bridge does when it maps. */
	if (!revoke && (s->kind == IMPORTER_PINNING || (s->kind == BRIDGE && is_mapped && !s->movable)))
		return -EBUSY;
	return s->keeps && is_mapped ? -ETIMEDOUT : 0;
}

/* A command between any two steps. */
static void between(bool revoke)
{
	const char *command = revoke ? "revoke" : "move";
	enum { ALONE, ATTACHED, MAPPED, UNMAPPED, STEPS };

	for (int step = ALONE; step < STEPS; step++) {
		bool is_mapped = step == MAPPED, moved;
		int expected, again;

		buffer_make();
		CHECK(!control("timeout 100"));
		if (step != ALONE)
			CHECK(!attach());
		if (step > ATTACHED)
			CHECK(!map());
		if (step == UNMAPPED)
			CHECK(!unmap_it());
		expected = step == ALONE ? 0 : -answer(revoke, is_mapped);
		FAILS(expected, (errno = control(command)) ? -1 : 0);
		moved = expected != EBUSY;
		CHECK(holds_old() == (moved && is_mapped && s->keeps));
		CHECK(status("late") == (moved && is_mapped && s->keeps));
		if (s->kind == BRIDGE && step != ALONE)
			CHECK(bridge_revoked() == (moved && is_mapped));
		/* Who lets go later, or not at all, has the memory until then, and goes on. */
		if (is_mapped)
			CHECK(!unmap_it());
		CHECK(!holds_old());
		if (step == ALONE) {
			again = attach();
			if (!again)
				again = map();
		} else {
			again = map();
		}
		if (moved && revoke)
			CHECK(again == (s->kind == BRIDGE ? ESTALE : ENODEV));
		else if (moved && is_mapped && s->kind == BRIDGE)
			CHECK(again == ESTALE);
		else
			CHECK(again == 0);
		/* Some refuse to attach to what is gone, and have nothing to detach. */
		if (step != ALONE || again == 0 || s->kind == BRIDGE || s->kind == IMPORTER_DYNAMIC)
			detach();
		else
			ioctl(im, IMPORTER_DETACH);
		buffer_end();
	}
}

static void move_between(void)
{
	between(false);
}

static void revoke_between(void)
{
	between(true);
}

static void wait_for(const char *name, long before)
{
	for (int i = 0; i < 3000 && status(name) + status("busy") <= before; i++)
		usleep(10000);
	CHECK(status(name) + status("busy") > before);
}

/* An importer's own step is what makes it happen: before the exporter does it, or as soon as it has. */
static void within(bool revoke)
{
	static const char *const orders[] = {
		"at attach", "at pin", "at map", "after attach", "after pin", "after map", "after unmap",
		"at detach",
	};
	const char *counter = revoke ? "revokes" : "moves";

	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		char command[64];
		bool after = orders[i][1] == 'f';
		int err;

		buffer_make();
		CHECK(!control("timeout 100"));
		snprintf(command, sizeof(command), "%s %s", orders[i], revoke ? "revoke" : "move");
		CHECK(!control(command));
		err = attach();
		if (after && !strcmp(orders[i] + 6, "attach") && s->kind != BRIDGE)
			wait_for(counter, 0);
		if (!err)
			err = map();
		/*
		 * The only reason to fail is that the memory is gone; the bridge has more words.  A
		 * move ends a pin of its that may be moved, perhaps before MAP has returned.
		 */
		CHECK(!err || (revoke && (err == ENODEV || err == ESTALE)) || (s->movable && err == ESTALE));
		if (!err && after && !strcmp(orders[i] + 6, "map"))
			wait_for(counter, 0);
		unmap_it();
		/* What was ordered for after this is done before the buffer can go. */
		if (s->kind == BRIDGE)
			detach();
		else
			ioctl(im, IMPORTER_DETACH);
		CHECK(status(counter) + status("busy") <= 1);
		CHECK(!holds_old());
		/* The buffer itself is as it should be. */
		CHECK(!control("at attach none") && !control("after unmap none"));
		buffer_end();
	}
}

static void move_within(void)
{
	within(false);
}

static void revoke_within(void)
{
	within(true);
}

/* Refused, an importer says why and has changed nothing. */
static void refusals(void)
{
	bool bridge = s->kind == BRIDGE;
	int err;

	buffer_make();
	CHECK(!control("refuse attach 1 12"));
	if (bridge) {
		CHECK(!attach());
		CHECK(map() == ENOMEM);
		CHECK(!map());
		detach();
	} else {
		CHECK(attach() == ENOMEM);
		CHECK(!attach());
		detach();
	}
	/* The bridge tries twice, pinned and not; only the latter comes to map where it may not pin. */
	CHECK(!control(bridge && s->movable ? "refuse map 1 16" : "refuse map 2 16"));
	err = attach();
	/* Linux up to 6.15 maps for static importers when they attach. */
	if (s->kind == IMPORTER_STATIC && err == EBUSY) {
		CHECK(attach() == EBUSY);
		CHECK(!attach());
	} else {
		CHECK(!err);
		if (bridge) {
			CHECK(map() == EOPNOTSUPP);
		} else {
			CHECK(map() == EBUSY);
			CHECK(map() == EBUSY);
		}
	}
	CHECK(!map());
	detach();
	buffer_end();
}

/* The card writes to where it has nothing mapped any more: the mover looks after that memory until it moves again. */
static void write_stale(void)
{
	struct peerdma_pin_args a;
	struct peerdma_segment seg;
	uint32_t count = 1, unused;
	char *memory = host_memory(PAGE);
	int fd = dev_open();

	WORKS(pin(fd, memory, PAGE, PEERDMA_PIN_HOST, &a));
	WORKS(card_map(fd, a.handle, PEERDMA_MAP_TO_DEVICE, &seg, &count, &unused));
	card_copy(seg.dma_addr, address, 16);
	CHECK(status("stale") == 1);
	close(fd);
	munmap(memory, PAGE);
}

/* One that does not let go is named, and its memory stays its own until it does. */
static void late(void)
{
	buffer_make();
	CHECK(!control("timeout 50"));
	CHECK(!attach());
	CHECK(!map());
	CHECK(control("move") == ETIMEDOUT);
	CHECK(status("late") == 1 && holds_old());
	bytes[2048] = 42;
	/* It writes to where the bytes were. */
	if (have_card)
		card_copy(address, address + 2048, 16);
	CHECK(bytes[2048] == 42);
	CHECK(!unmap_it());
	CHECK(!holds_old() && status("stale") == 0);
	/* After that it must not, which is seen where nothing stops the card. */
	if (have_card && !card_behind_iommu())
		write_stale();
	ioctl(im, IMPORTER_DETACH);
	CHECK(status("maps") == status("unmaps"));
	munmap(bytes, LENGTH);
	close(dmabuf);
}

/* Only an IOMMU stops the card in time, here where a program drives it; or the memory is kept for it. */
static bool may_go_on(bool lets_go)
{
	return have_card && (!lets_go || s->keeps || card_behind_iommu());
}

static int revokes(int peer, void *arg)
{
	control("revoke");
	return 0;
}

/* A revocation in another process while the card works: an importer that keeps the memory has it to the end, and no other memory is touched. */
static void revoked_while_transferring(void)
{
	bool refused = !s->revocable;
	struct process other;

	if (!may_go_on(s->revocable))
		return;
	buffer_make();
	CHECK(!control("timeout 100"));
	CHECK(!attach());
	CHECK(!map());
	other = begin(revokes, NULL);
	do {
		card_copy(address, address + 2048, 16);
	} while (!status("revokes") && !status("busy"));
	CHECK(status("busy") == refused);
	card_copy(address, address + 2048, 16);
	CHECK(finish(&other) == 0);
	if (refused)
		transfer();
	CHECK(holds_old() == s->keeps && status("late") == s->keeps);
	unmap_it();
	CHECK(!holds_old());
	detach();
	buffer_end();
}

/* Until the other end is closed: no clock decides how many. */
static int moves_until_closed(int peer, void *arg)
{
	char c;

	fcntl(peer, F_SETFL, O_NONBLOCK);
	while (read(peer, &c, 1) < 0) {
		control("move");
		usleep(1000);
	}
	return 0;
}

/* Moves in another process while the card works: what an importer still has is right. */
static void while_transferring(void)
{
	int rounds = 4, done = 0, err;
	struct process other;

	if (!may_go_on(s->movable))
		return;
	buffer_make();
	CHECK(!control("timeout 100"));
	other = begin(moves_until_closed, NULL);
	for (int i = 0; done < rounds; i++) {
		CHECK(!attach());
		err = map();
		/* A move ends the bridge's pin, if that may be moved, perhaps before MAP has returned. */
		CHECK(!err || (s->movable && err == ESTALE));
		if (err && err != ESTALE)
			break;
		if (!err) {
			bytes[0] = (char)(i + 1);
			card_copy(address, address + 2048, 16);
			/* Pinned, it has not been moved. */
			if (!s->movable)
				CHECK(bytes[2048] == (char)(i + 1));
			done++;
		}
		unmap_it();
		detach();
	}
	CHECK(finish(&other) == 0);
	CHECK(done == rounds);
	buffer_end();
}

/*
 * The memory moves shortly before the card writes to where it was.  The card has read there,
 * so the IOMMU knows the address, and Linux lets it keep that for up to 10 ms after memory
 * was unmapped.  An importer whose card goes on flushes the IOMMU before it lets go.  When
 * the card writes depends on the machine; at no time may it reach the old place.
 */
static void while_writing(void)
{
	struct dma_card card;

	if (!s->movable || s->keeps || !have_card || !card_behind_iommu())
		return;
	CHECK(cards_open(&card, 1) == 1);
	buffer_make();
	for (int before = 0; before < 8; before++) {
		CHECK(!attach());
		CHECK(!map());
		card_dma(address, CARD_MEMORY, 16);
		card_begin(&card, CARD_MEMORY, address + 2048, 16);
		usleep((CARD_TAKES_MS - before) * 1000);
		CHECK(!control("move"));
		card_wait(&card);
		CHECK(status("stale") == 0);
		unmap_it();
		detach();
	}
	buffer_end();
}

static void for_each(const char *name, void (*test)(void))
{
	char text[128];

	for (s = subjects; s < subjects + SUBJECTS; s++) {
		if (s->newer && !have_promises)
			continue;
		snprintf(text, sizeof(text), "%s: %s", s->name, name);
		subject_open();
		run(text, test);
		subject_close();
	}
}

static void create_checks(void)
{
	struct mover_create c = { .size = sizeof(c), .length = 1 };

	WORKS(ioctl(mover, MOVER_CREATE, &c));
	CHECK(lseek(c.fd, 0, SEEK_END) == (off_t)PAGE);
	number = c.number;
	for (const char *const *bad = (const char *const[]){
		"", "hop", "move it", "delay", "delay -1", "refuse", "refuse hop", "refuse unmap", "refuse map x",
		"refuse map 1 0", "at unmap move", "at map hop", "after", "at map move now", NULL }; *bad; bad++)
		if (**bad)
			FAILS(EINVAL, (errno = control(*bad)) ? -1 : 0);
	close(c.fd);
	c.length = 0;
	FAILS(EINVAL, ioctl(mover, MOVER_CREATE, &c));
	c.length = (64 << 20) + 1;
	FAILS(EINVAL, ioctl(mover, MOVER_CREATE, &c));
	c = (struct mover_create){ .size = sizeof(c) - 1, .length = 1 };
	FAILS(EINVAL, ioctl(mover, MOVER_CREATE, &c));
	c = (struct mover_create){ .size = sizeof(c), .length = 1, .flags = 1 };
	FAILS(EINVAL, ioctl(mover, MOVER_CREATE, &c));
}

/* A program's own access: it is told where the bytes are, and when they are gone. */
static void programs(void)
{
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ };

	buffer_make();
	CHECK(!control("refuse mmap 1 1"));
	CHECK(mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, dmabuf, 0) == MAP_FAILED && errno == EPERM);
	CHECK(!control("refuse begin 1 5"));
	FAILS(EIO, ioctl(dmabuf, DMA_BUF_IOCTL_SYNC, &sync));
	WORKS(ioctl(dmabuf, DMA_BUF_IOCTL_SYNC, &sync));
	sync.flags = DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ;
	CHECK(!control("refuse end 1 11"));
	FAILS(EAGAIN, ioctl(dmabuf, DMA_BUF_IOCTL_SYNC, &sync));
	WORKS(ioctl(dmabuf, DMA_BUF_IOCTL_SYNC, &sync));
	bytes[PAGE] = 77;
	CHECK(!control("move"));
	CHECK(bytes[PAGE] == 77);
	CHECK(!control("revoke"));
	CHECK(signal_of_read(bytes) == 7);
	FAILS(ENODEV, (errno = control("move")) ? -1 : 0);
	buffer_end();
}

/* A driver's own: the exporter cannot tell it to stop looking, so the bytes stay. */
static void kernel_view(void)
{
	struct importer_view v = { 0 };
	struct importer_peek p = { .offset = LENGTH - 1 };

	buffer_make();
	s = &subjects[A_DYNAMIC];
	subject_open();
	v.fd = dmabuf;
	CHECK(control("refuse vmap") == EINVAL);
	/* Moved before it is looked at, and ordered to move after that. */
	CHECK(!control("at vmap move") && !control("after vmap revoke"));
	WORKS(ioctl(im, IMPORTER_VMAP, &v));
	wait_for("revokes", 0);
	CHECK(status("moves") == 1 && status("revokes") == 0 && status("busy") == 1);
	WORKS(ioctl(im, IMPORTER_PEEK, &p));
	CHECK(p.value == (uint8_t)bytes[LENGTH - 1]);
	p.value++;
	p.write = 1;
	WORKS(ioctl(im, IMPORTER_PEEK, &p));
	CHECK((uint8_t)bytes[LENGTH - 1] == (uint8_t)p.value);
	CHECK(control("move") == EBUSY && control("revoke") == EBUSY);
	WORKS(ioctl(im, IMPORTER_VUNMAP));
	CHECK(!control("move") && !control("revoke"));
	subject_close();
	buffer_end();
}

static _Noreturn int writes_on(int peer, void *arg)
{
	for (size_t i = 0;; i += PAGE)
		((volatile char *)bytes)[i % LENGTH] = 1;
}

/*
 * A program writes while its pages move from under it: a page fault that is under way
 * when they do must not end with the old place in the program's page table.
 */
static void programs_race(void)
{
	struct process other;

	buffer_make();
	other = begin(writes_on, NULL);
	for (int i = 0; i < 3000; i++)
		CHECK(!control("move"));
	CHECK(!kill(other.pid, SIGKILL));
	CHECK(finish(&other) == -SIGKILL);
	/* What was set aside is looked at when the next is. */
	CHECK(!control("move"));
	buffer_end();
}

static int moves(int peer, void *arg)
{
	const struct mover_create *c = arg;
	char path[64];
	int fd;

	/* The child's own would keep the buffer. */
	close(c->fd);
	snprintf(path, sizeof(path), "/sys/kernel/debug/dmabuf_mover/%u", c->number);
	fd = open(path, O_WRONLY);
	CHECK(fd >= 0);
	say(peer);
	/* Moved, or gone before. */
	CHECK(write(fd, "move", 4) == 4 || errno == EIO);
	return 0;
}

/* Closes the last descriptor of a large buffer so much later than another process has begun to move it. */
static void close_while_moving(unsigned int us)
{
	struct mover_create c = { .size = sizeof(c), .length = 64 << 20 };
	struct process other;

	WORKS(ioctl(mover, MOVER_CREATE, &c));
	other = begin(moves, &c);
	CHECK(hear(other.peer));
	usleep(us);
	close(c.fd);
	CHECK(finish(&other) == 0);
}

static void closed_while_moving(void)
{
	for (int i = 0; i < 12; i++)
		close_while_moving(i * 5000);
}

/* Which importer may attach is as with VFIO; the bridge may, and lets go in time. */
static void vfio(void)
{
	buffer_make();
	CHECK(!control("vfio 1"));
	if (s->kind != BRIDGE && (!s->revocable || s->kind == IMPORTER_NO_PEER)) {
		CHECK(attach() == EOPNOTSUPP);
	} else {
		CHECK(!attach() && !map());
		if (!s->keeps)
			CHECK(!control("revoke") && status("late") == 0 && status("maps") == status("unmaps"));
		if (s->kind == BRIDGE)
			CHECK(bridge_revoked());
		detach();
	}
	buffer_end();
}

/* The call of the bridge itself. */
static void bridge_calls(void)
{
	struct peerdma_pin_dmabuf_args a, good;
	struct peerdma_query_args q;
	struct peerdma_event event;
	int fd = dev_open(), null = open("/dev/null", O_RDONLY);
	const uint32_t size = sizeof(a);

	buffer_make();
	struct {
		int error;
		struct peerdma_pin_dmabuf_args args;
	} wrong[] = {
		{ EBADF, { .size = size, .fd = -1, .length = 2 } },
		{ EBADF, { .size = size, .fd = null, .length = 2 } },
		{ EINVAL, { .size = size, .fd = dmabuf, .length = 2, .flags = PEERDMA_PIN_HOST } },
		{ EINVAL, { .size = size, .fd = dmabuf, .length = 2, .flags = PEERDMA_PIN_PERSISTENT } },
		{ EINVAL, { .size = size, .fd = dmabuf, .length = 2, .flags = PEERDMA_PIN_DMABUF } },
		{ EINVAL, { .size = size, .fd = dmabuf, .length = 2, .reserved = 1 } },
		{ EINVAL, { .size = size - 1, .fd = dmabuf, .length = 2 } },
		{ ENXIO, { .size = size, .fd = dmabuf, .length = 2, .offset = LENGTH } },
		{ ENXIO, { .size = size, .fd = dmabuf, .length = 0, .offset = LENGTH } },
		{ EINVAL, { .size = size, .fd = dmabuf, .length = 2, .offset = -1 } },
		{ ENXIO, { .size = size, .fd = dmabuf, .length = LENGTH, .offset = PAGE + 1 } },
	};

	good = (struct peerdma_pin_dmabuf_args){ .size = sizeof(good), .fd = dmabuf, .offset = PAGE + 1, .length = 2 };
	a = good;
	WORKS(ioctl(fd, PEERDMA_PIN_DMABUF_FD, &a));
	CHECK(a.page_offset == 1 && a.pinned_length == PAGE && a.page_shift == PAGE_SHIFT);
	WORKS(query(fd, a.handle, &q));
	CHECK(!strcmp(q.provider, "dmabuf") && q.addr == PAGE + 1 && q.length == 2);
	CHECK(q.flags == (PEERDMA_PIN_DEVICE | PEERDMA_PIN_DMABUF));
	CHECK(view(fd, a.handle, PAGE, PROT_READ) == MAP_FAILED && errno == EOPNOTSUPP);
	FAILS(EOPNOTSUPP, export(fd, a.handle, 0, 0));
	WORKS(unpin(fd, a.handle));

	a = good;
	a.length = 0;
	WORKS(ioctl(fd, PEERDMA_PIN_DMABUF_FD, &a));
	CHECK(a.length == LENGTH - PAGE - 1 && a.pinned_length == LENGTH - PAGE);
	WORKS(unpin(fd, a.handle));

	for (size_t i = 0; i < CHECK_COUNT(wrong); i++)
		FAILS(wrong[i].error, ioctl(fd, PEERDMA_PIN_DMABUF_FD, &wrong[i].args));
	CHECK(live_pins(fd) == 0);

	/* An exporter that maps less than it has said. */
	s = &subjects[THE_BRIDGE];
	im = fd;
	CHECK(!s->movable && !control("short 1"));
	CHECK(!attach() && map() == EOPNOTSUPP);
	CHECK(!control("short 0") && !map());
	detach();
	CHECK(control("short 16") == EINVAL);

	/* An event tells of the revocation; the pin outlives descriptor and file alike. */
	s = &subjects[BRIDGE_WITHOUT_PIN];
	CHECK(s->movable);
	im = fd;
	CHECK(!attach() && !map());
	CHECK(!control("move"));
	CHECK(read(fd, &event, sizeof(event)) == sizeof(event) && event.handle == pinned.handle);
	CHECK(map() == ESTALE);
	CHECK(control("refuse pin 0") == 0);
	CHECK(!attach() && !map());
	munmap(bytes, LENGTH);
	close(dmabuf);
	close(fd);
	im = -1;
	close(null);
}

/* What the bridge itself exports, of host memory, is a dma-buf as well. */
static void of_its_own(void)
{
	char *memory = host_memory(LENGTH);
	struct peerdma_pin_args a;
	int fd = dev_open();

	WORKS(pin(fd, memory, LENGTH, PEERDMA_PIN_HOST, &a));
	dmabuf = export(fd, a.handle, 0, 0);
	s = &subjects[THE_BRIDGE];
	im = fd;
	bytes = memory;
	CHECK(!attach() && !map());
	if (have_card)
		transfer();
	/* Asked not to be moved, the exporter's pin cannot end before. */
	FAILS(EBUSY, unpin(fd, a.handle));
	WORKS(unpin(fd, pinned.handle));
	WORKS(unpin(fd, a.handle));
	close(dmabuf);
	close(fd);
	im = -1;
	munmap(memory, LENGTH);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	mover = open("/dev/dmabuf_mover", O_RDWR | O_CLOEXEC);
	CHECK(mover >= 0);
	have_promises = importers_promise();
	have_card = card_open();
	CHECK(have_card);
	run("the mover's own calls", create_checks);
	run("a program's view of what moves", programs);
	run("a driver's own view", kernel_view);
	run("a program that writes to what moves", programs_race);
	run("a buffer that is closed while it moves", closed_while_moving);
	run("the bridge's call for a dma-buf", bridge_calls);
	run("the bridge imports what it exports", of_its_own);
	for_each("contents", contents);
	for_each("a move between any two steps", move_between);
	for_each("a revocation between any two steps", revoke_between);
	for_each("a move at each step", move_within);
	for_each("a revocation at each step", revoke_within);
	for_each("refusals", refusals);
	for_each("an exporter as VFIO", vfio);
	for_each("moves while the card works", while_transferring);
	for_each("moves shortly before the card writes", while_writing);
	for_each("a revocation while the card works", revoked_while_transferring);
	s = &subjects[A_LAZY];
	subject_open();
	run("an importer that lets go late", late);
	subject_close();

	check_none_left();
	return check_end("dma-bufs that move");
}
