// SPDX-License-Identifier: MIT
/* peerdma_test_util.c - see peerdma_test.h */
#include "peerdma_test.h"

int dev_open(void)
{
	int fd = open("/dev/peerdma", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0) {
		perror("/dev/peerdma");
		exit(1);
	}
	return fd;
}

int pin_va(int fd, uint64_t addr, size_t length, uint32_t flags, struct peerdma_pin_args *args)
{
	*args = (struct peerdma_pin_args){
		.size = sizeof(*args), .flags = flags, .addr = addr, .length = length,
	};
	return ioctl(fd, PEERDMA_PIN, args);
}

int pin(int fd, void *addr, size_t length, uint32_t flags, struct peerdma_pin_args *args)
{
	return pin_va(fd, (uintptr_t)addr, length, flags, args);
}

int unpin(int fd, uint32_t handle)
{
	struct peerdma_handle_args args = { .size = sizeof(args), .handle = handle };

	return ioctl(fd, PEERDMA_UNPIN, &args);
}

static void unpin_it(void *arg)
{
	struct unpinner *u = arg;

	u->error = unpin(u->fd, u->handle) ? errno : 0;
}

void unpin_begin(struct unpinner *u, int fd, uint32_t handle)
{
	*u = (struct unpinner){ .fd = fd, .handle = handle };
	task_begin(&u->task, unpin_it, u);
}

int unpin_end(struct unpinner *u)
{
	task_end(&u->task);
	return u->error;
}

int unmap(int fd, uint32_t mapping)
{
	struct peerdma_handle_args args = { .size = sizeof(args), .handle = mapping };

	return ioctl(fd, PEERDMA_UNMAP, &args);
}

int query(int fd, uint32_t handle, struct peerdma_query_args *args)
{
	*args = (struct peerdma_query_args){ .size = sizeof(*args), .handle = handle };
	return ioctl(fd, PEERDMA_QUERY, args);
}

int export(int fd, uint32_t handle, uint64_t offset, uint64_t length)
{
	struct peerdma_export_args args = {
		.size = sizeof(args), .handle = handle, .offset = offset, .length = length,
	};

	return ioctl(fd, PEERDMA_EXPORT, &args) < 0 ? -1 : args.fd;
}

void *view(int fd, uint32_t handle, size_t length, int prot)
{
	return mmap(NULL, length, prot, MAP_SHARED, fd, (off_t)PEERDMA_MMAP_PIN(handle));
}

const volatile uint32_t *generations(int fd)
{
	void *p = mmap(NULL, PEERDMA_MMAP_GENERATIONS_SIZE, PROT_READ, MAP_SHARED, fd,
		       PEERDMA_MMAP_GENERATIONS);

	CHECK(p != MAP_FAILED);
	return p;
}

uint64_t live_pins(int fd)
{
	struct peerdma_info info = { .size = sizeof(info) };

	WORKS(ioctl(fd, PEERDMA_INFO, &info));
	return info.pins;
}

unsigned int times_mapped(unsigned int wanted)
{
	return wanted > 7 && !access("/sys/kernel/debug/dma-api", F_OK) ? 7 : wanted;
}

static char *debugfs_read(const char *name)
{
	static char text[4 << 20];
	char path[128];
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "/sys/kernel/debug/peerdma/%s", name);
	f = fopen(path, "r");
	if (!CHECK(f, "%s", path))
		return NULL;
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	fclose(f);
	return text;
}

/* The field of this column of a line; both begin a text, and end with a newline or it. */
static bool field_of(const char *names, const char *line, const char *column, char *value, size_t size)
{
	size_t n = strlen(column), length;

	for (;;) {
		length = strcspn(names, "\t\n");
		if (length == n && !strncmp(names, column, n)) {
			snprintf(value, size, "%.*s", (int)strcspn(line, "\t\n"), line);
			return true;
		}
		names += length;
		line += strcspn(line, "\t\n");
		if (*names++ != '\t' || *line++ != '\t')
			return false;
	}
}

static long long number_of(const char *names, const char *line, const char *column)
{
	char value[32];

	return field_of(names, line, column, value, sizeof(value)) ? strtoll(value, NULL, 0) : -1;
}

/* The line after this one that has a pin of this process with this handle, or NULL. */
static const char *next_pin(const char *names, const char *line, uint32_t handle)
{
	while ((line = strchr(line, '\n')) && *++line)
		if (number_of(names, line, "handle") == handle && number_of(names, line, "pid") == getpid())
			return line;
	return NULL;
}

unsigned int debugfs_pins(uint32_t handle)
{
	const char *names = debugfs_read("pins"), *line = names;
	unsigned int n = 0;

	while (line && (line = next_pin(names, line, handle)))
		n++;
	return n;
}

bool debugfs_field(uint32_t handle, const char *column, char *value, size_t size)
{
	const char *names = debugfs_read("pins"), *line = names ? next_pin(names, names, handle) : NULL;

	return line && field_of(names, line, column, value, size);
}

bool debugfs_is(uint32_t handle, const char *column, const char *value)
{
	char text[64];

	return debugfs_field(handle, column, text, sizeof(text)) && !strcmp(text, value);
}

long long debugfs_stat(const char *name)
{
	long long n = line_number("/sys/kernel/debug/peerdma/stats", name);

	CHECK(n >= 0, "no line \"%s\" in debugfs' stats", name);
	return n;
}

void check_none_left(void)
{
	int fd = dev_open();

	CHECK(live_pins(fd) == 0);
	close(fd);
	CHECK(debugfs_stat("pins") == debugfs_stat("unpins"));
	CHECK(debugfs_stat("maps") == debugfs_stat("unmaps"));
}
