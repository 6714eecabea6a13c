// SPDX-License-Identifier: MIT
/* peerdma_test_util.c - see peerdma_test.h */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peerdma_test.h"

int failures;

void run(const char *name, void (*test)(void))
{
	int before = failures;

	test();
	printf("%s %s\n", failures == before ? "ok  " : "FAIL", name);
	fflush(stdout);
}

void skip(const char *name, const char *why)
{
	printf("skip %s: %s\n", name, why);
	fflush(stdout);
}

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

static void *unpin_thread(void *arg)
{
	struct unpinner *u = arg;

	u->error = unpin(u->fd, u->handle) ? errno : 0;
	return NULL;
}

void unpin_begin(struct unpinner *u, int fd, uint32_t handle)
{
	*u = (struct unpinner){ .fd = fd, .handle = handle };
	CHECK(!pthread_create(&u->thread, NULL, unpin_thread, u));
}

int unpin_end(struct unpinner *u)
{
	pthread_join(u->thread, NULL);
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

void *host_memory(size_t length)
{
	char *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	for (size_t i = 0; i < length; i += PAGE)
		p[i] = (char)(i / PAGE);
	return p;
}

int in_child(int (*function)(void *arg), void *arg)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		int result;

		failures = 0;
		result = function(arg);
		fflush(stdout);
		_exit(failures ? 99 : result);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static sigjmp_buf landing;

static void land(int sig)
{
	siglongjmp(landing, sig);
}

static int signal_of(volatile char *addr, bool write, char value)
{
	struct sigaction action = { .sa_handler = land }, bus, segv;
	int sig;

	sigaction(SIGBUS, &action, &bus);
	sigaction(SIGSEGV, &action, &segv);
	sig = sigsetjmp(landing, 1);
	if (!sig) {
		if (write)
			*addr = value;
		else
			(void)*addr;
	}
	sigaction(SIGBUS, &bus, NULL);
	sigaction(SIGSEGV, &segv, NULL);
	return sig;
}

int signal_of_read(const volatile void *addr)
{
	return signal_of((volatile char *)addr, false, 0);
}

int signal_of_write(volatile void *addr, char value)
{
	return signal_of(addr, true, value);
}

static char *debugfs_read(const char *name)
{
	static char text[4 << 20];
	char path[128];
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "/sys/kernel/debug/peerdma/%s", name);
	f = fopen(path, "r");
	if (!f) {
		perror(path);
		failures++;
		return NULL;
	}
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

long long debugfs_stat(const char *name)
{
	char *text = debugfs_read("stats"), *at, *save;
	size_t n = strlen(name);

	for (at = text ? strtok_r(text, "\n", &save) : NULL; at; at = strtok_r(NULL, "\n", &save))
		if (!strncmp(at, name, n) && at[n] == '\t')
			return atoll(at + n);
	CHECK(!"a line of that name in debugfs stats");
	return -1;
}

static bool write_value(const char *path, const char *value)
{
	ssize_t length = strlen(value);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done;

	if (fd < 0)
		return false;
	done = write(fd, value, length) == length;
	close(fd);
	return done;
}

bool module_set(const char *module, const char *parameter, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/module/%s/parameters/%s", module, parameter);
	return write_value(path, value);
}

bool softgpu_chaos(const char *knob, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/kernel/debug/softgpu/chaos/%s", knob);
	return write_value(path, value);
}

long file_number(const char *path)
{
	FILE *f = fopen(path, "r");
	long n = -1;

	if (!f)
		return -1;
	if (fscanf(f, "%li", &n) != 1)
		n = -1;
	fclose(f);
	return n;
}

unsigned int find_cards(struct peerdma_map_args *cards, unsigned int room)
{
	unsigned int domain, bus, device, function, n = 0;
	DIR *dir = opendir("/sys/bus/pci/devices");
	struct dirent *entry;
	char path[512];

	if (!dir)
		return 0;
	while (n < room && (entry = readdir(dir))) {
		if (sscanf(entry->d_name, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
			continue;
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/vendor", entry->d_name);
		if (file_number(path) != 0x1234)
			continue;
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/device", entry->d_name);
		if (file_number(path) != 0x11e8)
			continue;
		cards[n].domain = domain;
		cards[n].bus = bus;
		cards[n++].devfn = device << 3 | function;
	}
	closedir(dir);
	return n;
}

bool find_card(struct peerdma_map_args *map)
{
	return find_cards(map, 1);
}
