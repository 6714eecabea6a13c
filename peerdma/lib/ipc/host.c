// SPDX-License-Identifier: MIT
/*
 * host.c - host memory in shared mappings of files. The exporter sends a descriptor of the file.
 *
 * Private pages belong to one process, and no other process can map them. /proc/PID/mem could copy
 * them, but would read whatever is at that address when the copy runs. So private memory is not
 * supported.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/component.h"
#include "ipc.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/*
 * A line of /proc/thread-self/maps. /proc/self would be the first thread's, which is empty after
 * that thread has ended.
 */
struct map {
	uint64_t from, to, offset;
	bool none, shared, writable;
	unsigned int major, minor;
	unsigned long inode;
	char name[512];
};

/*
 * 0; -ENXIO: nothing is mapped at ptr; -ENODEV: no /proc; or another -errno. All errors have a
 * text.
 */
static int find_map(const void *ptr, struct map *m)
{
	FILE *file = fopen("/proc/thread-self/maps", "re");
	uint64_t p = (uintptr_t)ptr;
	char *line = NULL;
	size_t size = 0;
	bool found = false;

	if (!file)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM ?
			       fail(-errno, "/proc/thread-self/maps: %s", error_words(-errno)) :
			       fail(-ENODEV, "/proc/thread-self/maps: %s; mount /proc",
				    strerror(errno));
	while (!found && getline(&line, &size, file) > 0) {
		char perms[5];
		int at = 0;

		if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &m->from, &m->to, perms,
			   &m->offset, &m->major, &m->minor, &m->inode, &at) < 7)
			continue;
		m->none = !strncmp(perms, "---", 3);
		m->shared = perms[3] == 's';
		m->writable = perms[1] == 'w';
		snprintf(m->name, sizeof(m->name), "%.*s", (int)strcspn(line + at, "\n"),
			 line + at);
		found = p >= m->from && p < m->to;
	}
	free(line);
	fclose(file);
	if (!found)
		return fail(-ENXIO, "%p: nothing is mapped there", ptr);
	/* CUDA keeps the address range of freed memory reserved, without access rights. */
	if (m->none && !m->shared)
		return fail(-ENXIO, "%p: no memory is there, only addresses that are reserved; was it freed?",
			    ptr);
	return 0;
}

static void describe(const struct map *m, struct ipc_offer *offer)
{
	offer->provider = IPC_HOST;
	offer->base = m->from;
	offer->length = m->to - m->from;
	offer->fd_offset = m->offset;
	offer->id = m->inode;
	offer->device = makedev(m->major, m->minor);
}

static int host_identify(const void *ptr, struct ipc_offer *offer)
{
	struct map m;
	int ret = find_map(ptr, &m);

	if (ret)
		return ret;
	if (!m.shared)
		return fail(-EOPNOTSUPP, "%p: private memory of this process, which no other can map; allocate it with "
			    "peerdma_ipc_alloc(), or map a file with MAP_SHARED", ptr);
	describe(&m, offer);
	return 0;
}

/* ---- the file's descriptor ---- */

static bool is_file(const struct stat *st, const struct map *m)
{
	return S_ISREG(st->st_mode) && st->st_ino == m->inode && major(st->st_dev) == m->major &&
	       minor(st->st_dev) == m->minor;
}

static bool has_access(int fd, const struct map *m)
{
	int mode = fcntl(fd, F_GETFL);

	return mode >= 0 && !(mode & O_PATH) &&
	       (m->writable ? (mode & O_ACCMODE) == O_RDWR : (mode & O_ACCMODE) != O_WRONLY);
}

static int check_file(int fd, const struct map *m)
{
	struct stat st;

	if (fd < 0 || (!fstat(fd, &st) && is_file(&st, m) && has_access(fd, m)))
		return fd;
	close(fd);
	return -1;
}

/*
 * Opens the file by name. stat() comes first: another file may have the name now, for example a
 * device for which open() has a side effect.
 */
static int by_name(const struct map *m)
{
	struct stat st;

	if (m->name[0] != '/' || stat(m->name, &st) || !is_file(&st, m))
		return -1;
	return check_file(open(m->name, (m->writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK |
			       O_NOCTTY), m);
}

/*
 * Returns a duplicate of one of this process's descriptors of the file, or -errno; -ENOENT: it has
 * none. Another thread may close the descriptor meanwhile and open another file under its number.
 * So the duplicate is checked again. The first check is by name with fstatat(), because race
 * detectors report fstat() beside close().
 */
static int by_descriptor(const struct map *m)
{
	DIR *dir = opendir("/proc/thread-self/fd");
	struct dirent *e;
	int found = -ENOENT;

	if (!dir)
		return -errno;
	while (found == -ENOENT && (e = readdir(dir))) {
		struct stat st;
		char *end;
		long fd = strtol(e->d_name, &end, 10);

		if (end == e->d_name || *end || fd == dirfd(dir) ||
		    fstatat(dirfd(dir), e->d_name, &st, 0) || !is_file(&st, m) ||
		    !has_access((int)fd, m))
			continue;
		found = fcntl((int)fd, F_DUPFD_CLOEXEC, 0);
		if (found < 0)
			found = -errno;
		else if (check_file(found, m) < 0)
			found = -ENOENT;
	}
	closedir(dir);
	return found;
}

/*
 * Importers get no more access than the mapping has. only_owner_writes() stops other users from
 * opening the descriptor again with more access, through /proc/self/fd.
 */
static int only_reads(int fd)
{
	char name[64];
	int other;

	if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY)
		return fd;
	snprintf(name, sizeof(name), "/proc/thread-self/fd/%d", fd);
	other = open(name, O_RDONLY | O_CLOEXEC);
	close(fd);
	return other;
}

/*
 * Whether the file is in memory and can never become shorter. Then no access to it raises SIGBUS.
 */
static bool cannot_shrink(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;

	/*
	 * Seals first: fstatfs() may block for files of other file systems. A page of hugetlbfs may
	 * be unavailable, so hugetlbfs is refused.
	 */
	return seals >= 0 && seals & F_SEAL_SHRINK && !fstatfs(fd, &fs) && fs.f_type == TMPFS_MAGIC;
}

/*
 * Any user may open a memfd for writing, unless its mode or a seal forbids it. Returns 0, or
 * -EOPNOTSUPP with text if this process may not change the mode, or does not own the file.
 */
static int only_owner_writes(int fd, const void *ptr)
{
	const mode_t others = S_IWGRP | S_IWOTH;
	struct stat st;

	if (fcntl(fd, F_GET_SEALS) & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		return 0;
	if (!fstat(fd, &st) && st.st_uid == geteuid() &&
	    (!(st.st_mode & others) || !fchmod(fd, st.st_mode & 07777 & ~others)))
		return 0;
	return fail(-EOPNOTSUPP, "%p: the mapping is read-only, but importers of other users could open its file for writing; seal "
		    "the file with F_SEAL_FUTURE_WRITE or F_SEAL_WRITE", ptr);
}

static int host_offer(const void *ptr, struct ipc_offer *offer)
{
	struct ipc_offer now = { .fd = -1 };
	struct map m;
	int ret = find_map(ptr, &m);

	if (ret && ret != -ENXIO)
		return ret;
	if (!ret)
		describe(&m, &now);
	if (ret || !m.shared || !ipc_same_memory(&now, offer))
		return fail(-ENXIO, "%p: the memory was unmapped meanwhile", ptr);
	offer->fd = by_descriptor(&m);
	if (offer->fd == -EMFILE || offer->fd == -ENFILE)
		return fail(offer->fd, "%s", error_words(offer->fd));
	errno = 0;
	if (offer->fd < 0)
		offer->fd = by_name(&m);
	if (offer->fd >= 0 && !m.writable)
		offer->fd = only_reads(offer->fd);
	if (offer->fd < 0 && (errno == EMFILE || errno == ENFILE))
		return fail(-errno, "%s", error_words(-errno));
	if (offer->fd < 0)
		return fail(-EOPNOTSUPP,
			    "%p: this process has no descriptor of '%s', which is mapped there, and cannot open it by that "
			    "name; keep one open, or allocate the memory with peerdma_ipc_alloc()",
			    ptr, m.name[0] ? m.name : "shared memory");
	if (!offer->any_user)
		return 0;
	if (!cannot_shrink(offer->fd))
		ret = fail(-EOPNOTSUPP, "%p: this is memory of a file that any user could shorten; allocate it with "
			   "peerdma_ipc_alloc(), or seal the file with F_SEAL_SHRINK", ptr);
	else
		ret = m.writable ? 0 : only_owner_writes(offer->fd, ptr);
	if (!ret)
		return 0;
	close(offer->fd);
	offer->fd = -1;
	return ret;
}

/* ---- the importer ---- */

static int host_open(struct ipc_mapping *m, const struct ipc_reply *reply, int fd)
{
	struct stat st;
	void *p;
	int ret;

	/*
	 * A process of another user could shorten the file during use, and an access would raise
	 * SIGBUS.
	 */
	if (fd >= 0 && m->exporter->uid != geteuid() && !cannot_shrink(fd))
		return fail(-EACCES,
			    "user %u could shorten the file behind the memory while it is used; let the exporter allocate it "
			    "with peerdma_ipc_alloc()",
			    m->exporter->uid);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	    reply->fd_offset + m->length < m->length ||
	    (uint64_t)st.st_size < reply->fd_offset + m->length)
		return fail(-ESTALE, "the file behind the memory is shorter than the memory: it was cut after it was exported");
	p = mmap(NULL, m->length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)reply->fd_offset);
	if (p == MAP_FAILED && errno == EACCES)
		p = mmap(NULL, m->length, PROT_READ, MAP_SHARED, fd, (off_t)reply->fd_offset);
	if (p == MAP_FAILED) {
		ret = ipc_mmap_error();
		return fail(ret, "mmap of %llu bytes: %s", (unsigned long long)m->length,
			    error_words(ret));
	}
	m->base = p;
	return 0;
}

static int host_close(struct ipc_mapping *m)
{
	int ret = munmap(m->base, m->length) ? -errno : 0;

	return ret ? fail(-EIO, "munmap: %s", strerror(-ret)) : 0;
}

static void host_tell(struct peerdma_component *c)
{
	component_why(c, "decided per allocation: memory of peerdma_ipc_alloc(), and shared mappings of files");
}

const struct ipc_provider ipc_host = {
	.id = IPC_HOST,
	.name = "host",
	.describe = host_tell,
	.identify = host_identify,
	.offer = host_offer,
	.open = host_open,
	.close = host_close,
};
