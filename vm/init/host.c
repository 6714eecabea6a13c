// SPDX-License-Identifier: MIT
/* How the guest reaches the host: drivers, ports, and what the host asks for. */
#define _GNU_SOURCE
#include "init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <unistd.h>

int ctl = -1;

void power_off(void)
{
	sync();
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

void fail(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	dprintf(ctl >= 0 ? ctl : STDERR_FILENO, "fail %s\n", text);
	power_off();
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int no_dots(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

/* The initramfs numbers its modules in the order of their dependencies. */
void load_modules(void)
{
	struct dirent **list;
	int n = scandir("/modules", &list, no_dots, by_name);

	for (int i = 0; i < n; i++) {
		char path[300];
		int fd;

		snprintf(path, sizeof(path), "/modules/%s", list[i]->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
			fprintf(stderr, "init: %s: %m\n", path);
		close(fd);
	}
}

static int try_open_port(const char *name)
{
	const char *class = "/sys/class/virtio-ports";
	struct dirent *entry;
	DIR *dir = opendir(class);
	int port = -1;

	while (dir && port < 0 && (entry = readdir(dir))) {
		char path[400], found[64] = "";
		int fd;

		snprintf(path, sizeof(path), "%s/%s/name", class, entry->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (read(fd, found, sizeof(found) - 1) > 0)
			found[strcspn(found, "\n")] = 0;
		close(fd);
		if (strcmp(found, name))
			continue;
		snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
		port = open(path, O_RDWR | O_CLOEXEC);
	}
	if (dir)
		closedir(dir);
	return port;
}

/* Ports appear a moment after their driver was loaded. */
int open_port(const char *name)
{
	for (int i = 0; i < 3000; i++) {
		int fd = try_open_port(name);

		if (fd >= 0)
			return fd;
		usleep(10000);
	}
	fail("the virtio-serial port '%s' did not appear", name);
}

/* ---- orders ------------------------------------------------------------ */

static void append(char **list, int *count, char *value)
{
	if (*count == MAX_ITEMS)
		fail("more than %d arguments, variables or shares", MAX_ITEMS);
	list[(*count)++] = value;
}

static void take_order(struct orders *o, char *key)
{
	char *value = strchr(key, '=');

	if (!value)
		fail("the host sent an order without a value: '%s'", key);
	*value++ = 0;
	if (!strcmp(key, "arg"))
		append(o->argv, &o->argc, value);
	else if (!strcmp(key, "env"))
		append(o->envp, &o->envc, value);
	else if (!strcmp(key, "share"))
		append(o->shares, &o->sharec, value);
	else if (!strcmp(key, "address"))
		append(o->addresses, &o->addressc, value);
	else if (!strcmp(key, "name"))
		append(o->names, &o->namec, value);
	else if (!strcmp(key, "hostname"))
		o->hostname = value;
	else if (!strcmp(key, "cwd"))
		o->cwd = value;
	else if (!strcmp(key, "modules"))
		o->modules = value;
	else if (!strcmp(key, "release"))
		o->release = value;
	else if (!strcmp(key, "above"))
		o->above = value;
	else if (!strcmp(key, "tty"))
		o->interactive = sscanf(value, "%hux%hu", &o->tty.ws_row, &o->tty.ws_col) == 2;
	else
		fail("the host sent an unknown order '%s'", key);
}

void read_orders(struct orders *o)
{
	size_t size = 1 << 20, used = 0, start = 0;
	char *buf = malloc(size);

	while (used < size) {
		ssize_t n = read(ctl, buf + used, size - used);

		if (n <= 0) {		/* 0: the host's end is not open yet */
			usleep(1000);
			continue;
		}
		used += n;
		for (char *end; (end = memchr(buf + start, 0, used - start));) {
			if (end == buf + start) {
				if (!o->argc || !o->cwd || !o->hostname)
					fail("the host sent no command, no folder or no name");
				return;
			}
			take_order(o, buf + start);
			start = end - buf + 1;
		}
	}
	fail("the command and its environment are longer than %zu bytes", size);
}

/* The host's next line. */
void read_line(char *line, size_t size)
{
	size_t used = 0;

	while (used + 1 < size) {
		ssize_t n = read(ctl, line + used, 1);

		if (n <= 0) {
			usleep(1000);
			continue;
		}
		if (line[used] == '\n')
			break;
		used++;
	}
	line[used] = 0;
}

void wait_for_go(void)
{
	char line[16];

	dprintf(ctl, "ready\n");
	do
		read_line(line, sizeof(line));
	while (strcmp(line, "go"));
}

