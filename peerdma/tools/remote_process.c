// SPDX-License-Identifier: MIT
/*
 * remote_process.c - the memory of a process, through /proc/PID/mem, and where in it
 * libpeerdma has left its page.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/cache/inspect.h"
#include "remote_cache.h"
#include "base/tool.h"

/* As the kernel shows a mapping of a file that has only ever had memfd_create()'s name. */
#define PAGE_SHOWN " /memfd:" INSPECT_NAME " (deleted)"

size_t remote_pages_find(const char *maps, uint64_t *pages, size_t max)
{
	size_t n = 0, length;

	for (const char *line = maps; *line && n < max; line += length + (line[length] == '\n')) {
		length = strcspn(line, "\n");
		if (length > strlen(PAGE_SHOWN) &&
		    !strncmp(line + length - strlen(PAGE_SHOWN), PAGE_SHOWN, strlen(PAGE_SHOWN)))
			n += sscanf(line, "%" SCNx64 "-", &pages[n]) == 1;
	}
	return n;
}

static int memory_read(void *arg, uint64_t addr, void *to, size_t length)
{
	int fd = *(int *)arg;
	char *p = to;

	if (addr > INT64_MAX)
		return -EIO;
	while (length) {
		ssize_t n = pread(fd, p, length, (off_t)addr);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ESRCH;	/* 0: the process is gone */
		p += n;
		addr += (uint64_t)n;
		length -= (size_t)n;
	}
	return 0;
}

static int read_comm(uint64_t pid, char **comm)
{
	size_t length;
	char path[64], *raw;
	int ret;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/comm", pid);
	ret = file_read("", path, &raw, &length);
	if (ret)
		return ret;
	*comm = text_clean(raw, strcspn(raw, "\n"));
	free(raw);
	return *comm ? 0 : -ENOMEM;
}

/* ENOENT of a file in /proc/PID: there is no such process. */
static int plain_error(int error)
{
	switch (error) {
	case -ENOENT:
		return -ESRCH;
	case -EPERM:
		return -EACCES;
	default:
		return error;
	}
}

int remote_process_read(uint64_t pid, size_t most, struct remote_process *out)
{
	uint64_t pages[REMOTE_PAGES_MAX];
	struct remote_memory memory;
	char path[64], *maps;
	size_t length, n;
	int fd, ret;

	*out = (struct remote_process){ .pid = pid };
	ret = read_comm(pid, &out->comm);
	if (ret)
		return plain_error(ret);
	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/maps", pid);
	ret = file_read("", path, &maps, &length);
	if (ret)
		goto out;
	n = remote_pages_find(maps, pages, REMOTE_PAGES_MAX);
	free(maps);
	ret = -ENODATA;
	if (!n)
		goto out;
	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ret = fd < 0 ? -errno : 0;
	memory = (struct remote_memory){ memory_read, &fd,
					 most ? REMOTE_BUDGET : REMOTE_BUDGET_GLANCE };
	for (size_t i = 0; !ret && i < n; i++)
		ret = remote_caches_read(&memory, pages[i], most, &out->caches);
	if (fd >= 0)
		close(fd);
	if (!ret && !out->caches.count)
		ret = -ENODATA;
out:
	if (ret)
		remote_process_free(out);
	return plain_error(ret);
}

static int add_unread(struct remote_processes *all, uint64_t pid)
{
	uint64_t *bigger = reallocarray(all->unread, all->unread_count + 1, sizeof(*bigger));

	if (!bigger)
		return -ENOMEM;
	all->unread = bigger;
	bigger[all->unread_count++] = pid;
	return 0;
}

int remote_processes_read(size_t most, struct remote_processes *out)
{
	struct dirent *entry;
	DIR *proc = opendir("/proc");
	int ret = proc ? 0 : -errno;

	memset(out, 0, sizeof(*out));
	while (!ret && (entry = readdir(proc))) {
		struct remote_process *bigger;
		uint64_t pid;

		if (!text_u64(entry->d_name, strlen(entry->d_name), &pid))
			continue;
		bigger = reallocarray(out->processes, out->count + 1, sizeof(*bigger));
		if (!bigger) {
			ret = -ENOMEM;
			break;
		}
		out->processes = bigger;
		switch (remote_process_read(pid, most, &bigger[out->count])) {
		case 0:
			out->count++;
			break;
		case -EACCES:
			out->refused++;
			break;
		case -ENOMEM:
			ret = -ENOMEM;
			break;
		case -ESRCH:	/* it has ended meanwhile */
		case -ENODATA:
			break;
		default:
			ret = add_unread(out, pid);
		}
	}
	if (proc)
		closedir(proc);
	if (ret)
		remote_processes_free(out);
	return ret;
}

void remote_processes_free(struct remote_processes *all)
{
	for (size_t i = 0; i < all->count; i++)
		remote_process_free(&all->processes[i]);
	free(all->processes);
	free(all->unread);
	memset(all, 0, sizeof(*all));
}

void remote_process_free(struct remote_process *process)
{
	free(process->comm);
	remote_caches_free(&process->caches);
	process->comm = NULL;
}
