// SPDX-License-Identifier: MIT
/*
 * state.c - the one struct ipc of a process, and what forked children must not have.
 *
 * A child detects by process_id() that it is one, however it was forked, and makes a struct of its
 * own, because a thread of the parent may have held any lock. The parent's struct is kept, because
 * objects point to it.
 *
 * Sockets that a child kept open would outlive the parent, and the parent's end would go unnoticed.
 * So they are closed in the child before fork() returns. A child of _Fork() or clone() keeps them;
 * then importers learn of the exporter's end by page->alive alone, which no child holds.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "ipc.h"

#define FDS (1 << 20)

static struct ipc *current;		/* atomic */
/* No fork falls between making or closing a socket and its bit.  Nothing is waited for with it, and no other lock taken. */
static pthread_mutex_t forks = PTHREAD_MUTEX_INITIALIZER;
static uint64_t not_inherited[FDS];	/* the inode, for each descriptor that is a socket of the library's; pages are taken as they are used */
static unsigned int most;		/* of these may be */
static uint64_t device;			/* that all sockets are on */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
	pthread_mutex_lock(&forks);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&forks);
}

static void in_child(void)
{
	for (unsigned int i = 0; i < most; i++) {
		struct own_fd f = { .fd = (int)i, .device = device, .inode = not_inherited[i] };

		if (!f.inode)
			continue;
		own_fd_close(&f);
		not_inherited[i] = 0;
	}
	most = 0;
	pthread_mutex_unlock(&forks);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, in_parent, in_child);
}

/* forks: fd, or -errno, as the call that made it left it. */
static int keep(int fd)
{
	struct own_fd f;

	if (fd < 0)
		return -errno;
	if (fd >= FDS) {
		close(fd);
		return -EMFILE;
	}
	f = own_fd(fd);
	device = f.device;
	not_inherited[fd] = f.inode;
	if (most <= (unsigned int)fd)
		most = (unsigned int)fd + 1;
	return fd;
}

int ipc_socket(void)
{
	int fd;

	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&forks);
	fd = keep(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	pthread_mutex_unlock(&forks);
	return fd;
}

int ipc_accept(int listener)
{
	int fd;

	pthread_mutex_lock(&forks);
	fd = keep(accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
	pthread_mutex_unlock(&forks);
	return fd;
}

/* forks: it is to be closed, or the program has closed it. */
static void forget(const struct own_fd *f)
{
	if (not_inherited[f->fd] == f->inode)
		not_inherited[f->fd] = 0;
}

void ipc_close_socket(struct own_fd *f)
{
	if (f->fd < 0)
		return;
	pthread_mutex_lock(&forks);
	forget(f);
	own_fd_close(f);
	pthread_mutex_unlock(&forks);
}

void ipc_hang_up(struct own_fd *f, uint32_t uid)
{
	if (f->fd < 0 || uid == geteuid() || !own_fd_still(f)) {
		ipc_close_socket(f);
		return;
	}
	/* What was sent before goes on being there to be read; a child that is forked from here on has a dead one. */
	shutdown(f->fd, SHUT_RDWR);
	pthread_mutex_lock(&forks);
	forget(f);
	pthread_mutex_unlock(&forks);
	ipc_close_async(&f->fd, 1);
	*f = OWN_FD_NONE;
}

struct ipc *ipc_there(void)
{
	struct ipc *ipc = __atomic_load_n(&current, __ATOMIC_ACQUIRE);

	return ipc && ipc->process == process_id() ? ipc : NULL;
}

struct ipc *ipc_get(void)
{
	struct ipc *ipc = __atomic_load_n(&current, __ATOMIC_ACQUIRE), *made;

	while (!ipc || ipc->process != process_id()) {
		made = calloc(1, sizeof(*made));
		if (!made) {
			fail(-ENOMEM, "out of memory");
			return NULL;
		}
		made->process = process_id();
		made->parent = ipc;
		made->page_file = made->arena_file = made->listener = OWN_FD_NONE;
		made->free = IPC_SLOTS;
		pthread_mutex_init(&made->lock, NULL);
		pthread_mutex_init(&made->pools_lock, NULL);
		pthread_cond_init(&made->settled, NULL);
		if (__atomic_compare_exchange_n(&current, &ipc, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return made;
		free(made);
	}
	return ipc;
}

bool ipc_mine(const struct ipc *ipc)
{
	return ipc->process == process_id();
}

int ipc_not_mine(const char *call)
{
	return fail(-EPERM, "%s: a parent process made this object; export or open it again in this process", call);
}

int ipc_random(void *bytes, size_t size)
{
	char *p = bytes;

	while (size) {
		ssize_t n = getrandom(p, size, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail(-EIO, "getrandom: the kernel gives no random bytes");
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int read_boot(struct ipc_id *boot)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC), nibbles = 0;
	int error = fd < 0 ? errno : 0;
	char text[64];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

	if (fd >= 0)
		close(fd);
	memset(boot, 0, sizeof(*boot));
	for (ssize_t i = 0; i < n && nibbles < 32; i++) {
		int d = digit(text[i]);

		if (d >= 0) {
			boot->bytes[nibbles / 2] |= (uint8_t)(d << (nibbles & 1 ? 0 : 4));
			nibbles++;
		}
	}
	if (nibbles == 32)
		return 0;
	if (error == EMFILE || error == ENFILE)
		return fail(-error, "%s", error_words(-error));
	return fail(-ENODEV, "/proc/sys/kernel/random/boot_id, which tells machines and boots apart, cannot be read; mount /proc");
}

int ipc_boot(struct ipc *ipc, struct ipc_id *boot)
{
	int ret = 0;

	pthread_mutex_lock(&ipc->lock);
	if (!ipc->boot_known)
		ret = read_boot(&ipc->boot);
	ipc->boot_known = !ret;
	*boot = ipc->boot;
	pthread_mutex_unlock(&ipc->lock);
	return ret;
}
