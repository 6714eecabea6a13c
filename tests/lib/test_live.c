// SPDX-License-Identifier: MIT
/*
 * test_live.c - what is read of a machine itself, and of no folder: the kernel's log, commands, device nodes, cards.
 * The log's node and the cards' are this program's own.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "../cases.h"
#include "../descriptors.h"
#include "fpga_ioctl.h"
#include "machine/tree.h"
#include "top/top.h"

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
ssize_t __real_read(int fd, void *to, size_t length);
ssize_t __wrap_read(int fd, void *to, size_t length);
int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);
int __real_close(int fd);
int __wrap_close(int fd);

/* ---- nodes ---- */

static const struct record {
	const char *text;	/* NULL: an error */
	int error;
} *records;
static int log_fd = -1, log_error, reads, live;
static struct fpga_info cards[3];
static unsigned int card_number[3], card_count;
static int card_fd[3] = { -1, -1, -1 };

static int node(void)
{
	live++;
	return __real_open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int open_node(const char *path, int flags)
{
	unsigned int n;

	if (!strcmp(path, "/dev/kmsg")) {
		if (log_error) {
			errno = log_error;
			return -1;
		}
		/* It must not wait for what the kernel will say. */
		assert_int_equal(flags & (O_ACCMODE | O_NONBLOCK | O_CLOEXEC), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		return log_fd = node();
	}
	if (sscanf(path, "/dev/fpga%u", &n) == 1) {
		for (unsigned int i = 0; i < card_count; i++) {
			if (card_number[i] == n)
				return card_fd[i] = node();
		}
		errno = ENOENT;
		return -1;
	}
	return __real_open(path, flags, 0600);
}

int __wrap_open(const char *path, int flags, ...)
{
	return open_node(path, flags);
}

int __wrap_open64(const char *path, int flags, ...)
{
	return open_node(path, flags);
}

ssize_t __wrap_read(int fd, void *to, size_t length)
{
	const struct record *r;
	size_t n;

	if (fd < 0 || fd != log_fd)
		return __real_read(fd, to, length);
	reads++;
	if (!records) {		/* a log without end */
		memcpy(to, "6,1,1,-;again\n", 14);
		return 14;
	}
	r = records++;
	errno = r->error;
	if (!r->text)
		return r->error ? -1 : 0;
	n = strlen(r->text);
	/* As the kernel does it. */
	if (n > length) {
		errno = EINVAL;
		return -1;
	}
	memcpy(to, r->text, n);
	return (ssize_t)n;
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	for (unsigned int i = 0; i < card_count; i++) {
		if (fd >= 0 && fd == card_fd[i]) {
			struct fpga_info *info = arg;

			if (request != FPGA_INFO || info->size != sizeof(*info) || !cards[i].size)
				return errno = EINVAL, -1;
			*info = cards[i];
			return 0;
		}
	}
	return __real_ioctl(fd, request, arg);
}

int __wrap_close(int fd)
{
	if (fd >= 0 && fd == log_fd) {
		live--;
		log_fd = -1;
	}
	for (unsigned int i = 0; i < 3; i++) {
		if (fd >= 0 && fd == card_fd[i]) {
			live--;
			card_fd[i] = -1;
		}
	}
	return __real_close(fd);
}

static int setup(void **state)
{
	log_error = reads = live = 0;
	card_count = 0;
	return 0;
}

FIXTURE(setup, NULL)

/* ---- the log ---- */

static bool wanted(const char *line, size_t length, void *arg)
{
	return !memchr(line, 'x', length);
}

static int read_log(const struct record *of, const char **data)
{
	struct tree *t = tree_open("");
	static char kept[4096];
	int ret;

	records = of;
	assert_non_null(t);
	assert_true(tree_is_live(t));
	ret = tree_log(t, wanted, NULL, data);
	if (!ret) {
		snprintf(kept, sizeof(kept), "%.4000s", *data);
		*data = kept;
		/* The same answer again, without another look. */
		records = of;
		log_error = EIO;
		assert_int_equal(tree_log(t, wanted, NULL, data), 0);
		assert_int_equal(strncmp(*data, kept, 4000), 0);
		*data = kept;
	}
	tree_close(t);
	assert_int_equal(live, 0);
	return ret;
}

CASE(kernel_log)
{
	static char longest[8193];
	static const struct record all[] = {
		{ "6,339,5140900,-;what it says\n SUBSYSTEM=pci\n DEVICE=+pci:0000:13:00.0\n", 0 }, { NULL, EPIPE },
		{ "4,340,1,-;second", 0 }, { "no semicolon", 0 }, { "1,341,1,-;with an x\n", 0 }, { NULL, EINTR },
		{ "1,342,1,-;\n", 0 }, { "1,343,1,-;a;b\n x", 0 }, { longest, 0 }, { NULL, EAGAIN }, { "6,344,1,-;too late\n", 0 },
	};
	static const struct record ends[] = { { "6,1,1,-;a\n", 0 }, { NULL, 0 }, { "6,1,1,-;b\n", 0 } };
	static const struct record fails[] = { { "6,1,1,-;a\n", 0 }, { NULL, EIO }, { "6,1,1,-;b\n", 0 } };
	const char *data;

	memset(longest, 'y', sizeof(longest) - 1);
	memcpy(longest, "6,1,1,-;y\n", 10);
	assert_int_equal(read_log(all, &data), 0);
	assert_string_equal(data, "what it says\nsecond\n\na;b\ny\n");
	assert_int_equal(reads, 10);
	setup(state);
	assert_int_equal(read_log(ends, &data), 0);
	assert_string_equal(data, "a\n");
	setup(state);
	assert_int_equal(read_log(fails, &data), -EIO);
	setup(state);
	log_error = EPERM;
	assert_int_equal(read_log(ends, &data), -EPERM);
}

/* It ends, whatever the kernel does. */
CASE(kernel_log_without_end)
{
	const char *data;

	assert_int_equal(read_log(NULL, &data), 0);
	assert_int_equal(strncmp(data, "again\nagain\n", 12), 0);
	assert_int_equal(reads, 1000000);
}

/* ---- commands and nodes ---- */

CASE(commands)
{
	static const char *const echo[] = { "echo", "a b", "$HOME", NULL }, *const environment[] = { "env", NULL },
				 *const fails[] = { "false", NULL }, *const nothing[] = { "no-such-program", NULL },
				 *const input[] = { "sh", "-c", "read line; echo \"$?<$line>\"; echo y >&2", NULL },
				 *const most[] = { "head", "-c", "1048576", "/dev/zero", NULL },
				 *const more[] = { "head", "-c", "99999999", "/dev/zero", NULL };
	struct tree *t = tree_open("");
	unsigned int before = descriptors();
	const char *data;
	size_t length;

	assert_int_equal(tree_command(t, "echo", echo, &data, &length), 0);
	assert_string_equal(data, "a b $HOME\n");
	assert_int_equal(length, 10);
	/* By its name: it is not run again. */
	assert_int_equal(tree_command(t, "echo", nothing, &data, &length), 0);
	assert_string_equal(data, "a b $HOME\n");
	assert_int_equal(tree_command(t, "env", environment, &data, &length), 0);
	assert_non_null(strstr(data, "LC_ALL=C\n"));
	assert_non_null(strstr(data, "PATH=/usr/sbin:/sbin:/usr/bin:/bin\n"));
	assert_null(strstr(data, "HOME="));
	assert_int_equal(tree_command(t, "false", fails, &data, &length), -ENOENT);
	assert_int_equal(tree_command(t, "nothing", nothing, &data, &length), -ENOENT);
	assert_int_equal(tree_command(t, "most", most, &data, &length), 0);
	assert_int_equal(length, TREE_FILE_MAX);
	assert_int_equal(tree_command(t, "more", more, &data, &length), -EFBIG);
	assert_int_equal(tree_command(t, "input", input, &data, &length), 0);
	assert_string_equal(data, "1<>\n");
	assert_int_equal(descriptors(), before);
	/* No process is left either: all were waited for. */
	assert_true(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	tree_close(t);
}

CASE(nodes)
{
	char path[] = "/tmp/live-XXXXXX";
	int fd = mkstemp(path);
	struct tree *t = tree_open("");
	struct tree_node n;

	assert_int_equal(tree_node(t, "/dev/null", &n), 0);
	assert_true(S_ISCHR(n.mode) && n.usable);
	assert_int_equal(tree_node(t, "/nothing/there", &n), -ENOENT);
	assert_int_equal(fchmod(fd, 0400), 0);
	assert_int_equal(tree_node(t, path, &n), 0);
	assert_int_equal(n.mode & 07777, 0400);
	assert_int_equal(n.usable, geteuid() == 0);
	/* As it was when it was first looked at. */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(tree_node(t, path, &n), 0);
	close(fd);
	tree_close(t);
}

/* ---- cards ---- */

CASE(top_cards)
{
	const struct tool tool = { .root = "" };
	struct top_sample s = { 0 };
	struct top_device *d;

	cards[0] = (struct fpga_info){ .size = sizeof(cards[0]), .pci_domain = 0x10000, .pci_bus = 0xab, .pci_devfn = 0x1f << 3 | 7, .mappings = 5,
				       .bytes_read = 100, .bytes_written = 2000, .revocations = 3, .pins = 77 };
	cards[1] = (struct fpga_info){ .size = 0 };		/* another driver's node: says nothing */
	cards[2] = cards[0];
	cards[2].pci_domain = 0;
	cards[2].pci_devfn = 1 << 3;
	card_number[0] = 0;
	card_number[1] = 1;
	card_number[2] = 63;
	card_count = 3;
	/* What a table of clients has of it is part of what it says of itself. */
	d = top_device(&s, "10000:ab:1f.7");
	top_count(&d->counts, TOP_READ, 50);
	top_count(&d->counts, TOP_COPIES, 1);
	assert_int_equal(top_read_cards(&tool, &s), 0);
	assert_int_equal(s.device_count, 2);
	d = &s.devices[0];
	assert_string_equal(d->driver, "peerdma_fpga");
	assert_int_equal(d->mappings, 5);
	assert_int_equal(d->counts.value[TOP_READ], 100);
	assert_int_equal(d->counts.value[TOP_WRITTEN], 2000);
	assert_int_equal(d->counts.value[TOP_REVOCATIONS], 3);
	assert_false(top_known(&d->counts, TOP_COPIES));
	assert_string_equal(s.devices[1].name, "0000:ab:01.0");
	top_free(&s);
	/* The table of pins knows of the mappings of all drivers. */
	s.has_pins = true;
	card_count = 1;
	assert_int_equal(top_read_cards(&tool, &s), 0);
	assert_int_equal(s.devices[0].mappings, 0);
	top_free(&s);
	/* The 65th is not looked for. */
	card_number[0] = 64;
	assert_int_equal(top_read_cards(&tool, &s), 0);
	assert_int_equal(s.device_count, 0);
	top_free(&s);
	card_number[0] = 0;
	assert_int_equal(top_read_cards(&(struct tool){ .root = "/tmp" }, &s), 0);
	assert_int_equal(s.device_count, 0);
	assert_int_equal(live, 0);
}

MAIN(NULL, NULL)
