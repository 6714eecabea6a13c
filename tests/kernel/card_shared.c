// SPDX-License-Identifier: MIT
/*
 * card_shared.c - one user's copies by the DMA card do not keep another user's copies, or
 * the administrator, waiting: copies from and to a page that is never answered, and many long
 * ones.
 */
#include "fpga_ioctl.h"
#include "peerdma_test_users.h"
#include "unanswered.h"

#define ATTACKER	4711
#define VICTIM		4712
#define LONG		(256UL << 10)	/* 13 seconds alone */
#define COPIERS		8
#define PIECES		5
#define STUCK		2

/* Processes share it.  Of the copy that reads such a page, and of the one that writes it. */
static struct shared {
	struct unanswered page[STUCK];
	volatile uint32_t *reads[STUCK];
} *shared;

static int card_open_node(void)
{
	int fd = open("/dev/fpga0", O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

static struct fpga_info card_info(int fd)
{
	struct fpga_info info = { .size = sizeof(info) };

	CHECK(!ioctl(fd, FPGA_INFO, &info));
	return info;
}

/* The errno, or 0. */
static int copy(int fd, const void *from, void *to, size_t length, uint64_t *done)
{
	struct fpga_copy c = { .size = sizeof(c), .src = (uintptr_t)from, .dst = (uintptr_t)to, .length = length };
	int err = ioctl(fd, FPGA_COPY, &c) ? errno : 0;

	*done = c.done;
	return err;
}

/* ---- the attacker ---- */

static int copies_unanswered(int peer, void *arg)
{
	size_t which = (size_t)arg;
	struct unanswered page;
	uint64_t done;
	char *own;
	int fd;

	may_lock(8 * MIB);
	become(ATTACKER, 0);
	fd = card_open_node();
	if (unanswered_begin(&page, PAGE, shared->reads[which]))
		return 1;
	shared->page[which] = page;
	own = host_memory(PAGE);
	return which ? copy(fd, own, page.memory, 100, &done) : copy(fd, page.memory, own, 100, &done);
}

/* Ends with the errno. */
static int copies_much(int peer, void *arg)
{
	char *own = host_memory(2 * LONG);
	uint64_t done;
	int fd, err;

	may_lock(8 * MIB);
	become(ATTACKER, 0);
	fd = card_open_node();
	err = copy(fd, own, own + LONG, LONG, &done);
	CHECK(done < LONG);
	return err;
}

/* ---- the victim ---- */

static int copies_little(int peer, void *arg)
{
	uint64_t before, done, *made = arg;
	char *from, *to;
	size_t length;
	int fd;

	may_lock(8 * MIB);
	become(VICTIM, 0);
	fd = card_open_node();
	length = PIECES * card_info(fd).max_transfer;
	from = host_memory(length);
	to = host_memory(length);
	memset(from, 0x5a, length);
	before = card_info(fd).transfers;
	CHECK(!copy(fd, from, to, length, &done) && done == length);
	*made = card_info(fd).transfers - before;
	CHECK(!memcmp(from, to, length));
	return 0;
}

/* Transfers that the card made meanwhile, for all. */
static uint64_t victims_copy(void)
{
	uint64_t made, *transfers = shared_memory(PAGE);
	struct process victim = begin(copies_little, transfers);

	CHECK(!finish(&victim));
	made = *transfers;
	munmap(transfers, PAGE);
	return made;
}

/* ---- the administrator ---- */

static char device[64];		/* the card's folder in sysfs */

static void find_device(void)
{
	struct fpga_info info;
	int fd = card_open_node();

	info = card_info(fd);
	close(fd);
	snprintf(device, sizeof(device), "%04x:%02x:%02x.%u", info.pci_domain, info.pci_bus, info.pci_devfn >> 3,
		 info.pci_devfn & 7);
}

static void bind_card(bool bind)
{
	must_write(device, "/sys/bus/pci/drivers/peerdma_fpga/%s", bind ? "bind" : "unbind");
}

/* ---- tests ---- */

static void kill_unanswered(struct process *attackers)
{
	for (size_t i = 0; i < STUCK; i++) {
		CHECK(is_alive(&attackers[i]));
		kill(attackers[i].pid, SIGKILL);
		/* Linux waits for the answer to a request that the server has read, killed or not. */
		CHECK(shared->page[i].server > 0 && !kill(shared->page[i].server, SIGKILL));
		CHECK(finish(&attackers[i]) == -SIGKILL);
		rmdir(shared->page[i].mount);
	}
	CHECK(nothing_left(ATTACKER));
}

static void test_shared(void)
{
	struct process stuck[STUCK], copiers[COPIERS];
	uint64_t made;
	int fd = card_open_node();

	for (size_t i = 0; i < STUCK; i++)
		stuck[i] = begin(copies_unanswered, (void *)i);
	CHECK(UNTIL(*shared->reads[0] && *shared->reads[1]));
	victims_copy();

	for (int i = 0; i < COPIERS; i++)
		copiers[i] = begin(copies_much, NULL);
	CHECK(UNTIL(card_info(fd).mappings == 2 * COPIERS));
	made = victims_copy();
	printf("%llu transfers for another user's %d pieces\n", (unsigned long long)made, PIECES);
	/* One user's copies get every second turn, however many; not every ninth. */
	CHECK(made >= 2 * PIECES && made < COPIERS * PIECES);
	for (int i = 0; i < COPIERS; i++)
		CHECK(is_alive(&copiers[i]));

	bind_card(false);
	for (int i = 0; i < COPIERS; i++)
		CHECK(finish(&copiers[i]) == ENODEV);
	CHECK(is_alive(&stuck[0]) && is_alive(&stuck[1]));
	close(fd);
	kill_unanswered(stuck);
	bind_card(true);
	CHECK(!access("/dev/fpga0", F_OK));
	victims_copy();
}

int main(void)
{
	setlinebuf(stdout);
	shared = shared_memory(PAGE);
	for (size_t i = 0; i < STUCK; i++)
		shared->reads[i] = unanswered_counter();
	find_device();
	run("a card that users share", test_shared);
	return check_end("a card that users share");
}
