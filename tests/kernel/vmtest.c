// SPDX-License-Identifier: MIT
/* vmtest.c - see vmtest.h: tests, files and memory. */
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <sys/syscall.h>

#include "vmtest.h"

__thread uint64_t random_state;

void run(const char *name, void (*test)(void))
{
	unsigned long before = check_counts.failures;

	test();
	printf("%s %s\n", check_counts.failures == before ? "ok  " : "FAIL", name);
	fflush(stdout);
}

void skip(const char *name, const char *why)
{
	printf("skip %s: %s\n", name, why);
	fflush(stdout);
}

/* ---- files ---- */

int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), err;

	if (fd < 0)
		return errno;
	err = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : errno;
	close(fd);
	return err;
}

void must_write(const char *text, const char *format, ...)
{
	char path[512];
	va_list args;
	int err;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	err = write_text(path, text);
	MUST(!err, "%s into %s: %s", text, path, strerror(err));
}

long file_number(const char *path)
{
	FILE *f = fopen(path, "re");
	long n = -1;

	if (!f)
		return -1;
	if (fscanf(f, "%li", &n) != 1)
		n = -1;
	fclose(f);
	return n;
}

long long line_number(const char *path, const char *name)
{
	FILE *f = fopen(path, "re");
	size_t length = strlen(name);
	char line[512];
	long long n = -1;

	while (f && n < 0 && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, length) && line[length] && strchr(":\t ", line[length]))
			n = strtoll(line + length + 1, NULL, 0);
	if (f)
		fclose(f);
	return n;
}

bool module_set(const char *module, const char *parameter, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/module/%s/parameters/%s", module, parameter);
	return !write_text(path, value);
}

bool module_is(const char *module, const char *parameter)
{
	char path[128];
	FILE *f;
	bool on;

	snprintf(path, sizeof(path), "/sys/module/%s/parameters/%s", module, parameter);
	f = fopen(path, "re");
	on = f && fgetc(f) == 'Y';
	if (f)
		fclose(f);
	return on;
}

bool softgpu_chaos(const char *knob, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/kernel/debug/softgpu/chaos/%s", knob);
	return !write_text(path, value);
}

int log_open(void)
{
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	MUST(log >= 0 && lseek(log, 0, SEEK_END) >= 0);
	return log;
}

int log_records(int log, const char *text, const char *and)
{
	char record[8192];
	int count = 0;
	ssize_t n;

	/* EPIPE: records were lost; those that follow are there. */
	while ((n = read(log, record, sizeof(record) - 1)) > 0 || (n < 0 && errno == EPIPE)) {
		if (n < 0)
			continue;
		record[n] = 0;
		count += strstr(record, text) && strstr(record, and);
	}
	return count;
}

/* ---- memory ---- */

char *anonymous(size_t length)
{
	char *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(p != MAP_FAILED);
	return p;
}

char *host_memory(size_t length)
{
	char *p = anonymous(length);

	for (size_t i = 0; i < length; i += PAGE)
		p[i] = (char)(i / PAGE);
	return p;
}

void *shared_memory(size_t length)
{
	void *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	MUST(p != MAP_FAILED);
	return p;
}

char *absent_memory(size_t length, int *uffd)
{
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };
	char *p = anonymous(length);

	*uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	reg.range.start = (uintptr_t)p;
	reg.range.len = length;
	MUST(*uffd >= 0 && !ioctl(*uffd, UFFDIO_API, &api) && !ioctl(*uffd, UFFDIO_REGISTER, &reg));
	return p;
}

static __thread volatile uintptr_t landing;	/* a sigjmp_buf */

static void land(int sig)
{
	if (landing)
		siglongjmp(*(sigjmp_buf *)landing, sig);
	/* Not an access of signal_of(): it is tried again, and ends the process. */
	signal(sig, SIG_DFL);
}

static int signal_of(volatile char *addr, bool write, char value)
{
	struct sigaction action = { .sa_handler = land };
	sigjmp_buf here;
	int sig;

	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
	sig = sigsetjmp(here, 1);
	if (!sig) {
		landing = (uintptr_t)&here;
		if (write)
			*addr = value;
		else
			(void)*addr;
	}
	landing = 0;
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
