// SPDX-License-Identifier: MIT
/*
 * server.c - the exporter's threads. The server thread holds page->alive while the process lives,
 * and answers importers, which connect to an abstract address that contains the process's random
 * id. The reaper thread does the work that freeing threads leave to it, and needs no descriptor.
 *
 * The server thread calls no provider: all data for the answers was prepared by the export. It
 * never waits for an importer: if a message cannot be sent at once, the connection ends.
 *
 * An importer with open signals keeps its connection. When the importer ends, the kernel closes the
 * connection, and the server thread wakes the waiters of these signals.
 */
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ipc.h"

#define TIMEOUT_MS	10000	/* for a connection without open signals */
#define CONNECTIONS	4096
#define OTHER_USERS	256	/* limit for connections of all other users */
#define OF_ONE_OTHER_USER	64	/* limit for connections of one other user */
/* closing threads; at this limit, other users' connections are refused */
#define PENDING_CLOSES		OTHER_USERS
#define NOT_OPEN	UINT32_MAX

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS	83	/* since Linux 6.16 */
#endif

struct connection {
	struct own_fd conn;
	uint32_t uid;
	pid_t pid;		/* 0: in a pid namespace that this process cannot see */
	int64_t since;		/* time of the last connect, answer or close */
	unsigned int count;	/* open signals */
	uint32_t opens[IPC_OPENS];	/* their slots, by the number of the open; NOT_OPEN */
};

/*
 * The kernel's list for the robust futex; the futex itself is in the pages that importers see. The
 * list is in a shared mapping: when memory is short, the kernel takes private pages from a killed
 * process before that process has ended.
 */
struct robust {
	struct robust_list_head head;
	struct robust_list entry;
};

struct server {
	struct ipc *ipc;
	int epoll;
	struct connection *connections[CONNECTIONS];
	unsigned int count, of_other_users;
	bool no_rights;		/* the kernel rejects descriptors from importers (SO_PASSRIGHTS) */
	struct robust *robust;
	bool started;
	int error;
};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- requests ---- */

/*
 * Caller holds ipc->lock. 0 or the reason of the refusal. Other users get only -EACCES, which tells
 * them nothing about the export.
 */
static int may_open(struct ipc *ipc, const struct ipc_request *q, uint32_t uid)
{
	bool same = uid == ipc->uid;
	const struct ipc_record *r = q->slot < ipc->high ? &ipc->records[q->slot] : NULL;
	bool live = r && r->used && (q->generation & 1) &&
		    ipc_generation(ipc, q->slot) == q->generation;
	bool key = r && ipc_key_equal(r->key, q->key) && r->what == (enum ipc_what)q->op;

	if (!same)
		return live && key && r->flags & PEERDMA_IPC_ANY_USER ? 0 : -EACCES;
	if (live)
		return key ? 0 : -EKEYREJECTED;
	/*
	 * An export that ended has a lower generation than the slot. Any other generation was made
	 * up.
	 */
	return r && (q->generation & 1) && q->generation < ipc_generation(ipc, q->slot) ? -ESTALE :
	       -EKEYREJECTED;
}

/* Caller holds ipc->lock. */
static void answer_open(struct ipc *ipc, struct connection *c, const struct ipc_request *q,
			struct ipc_reply *reply, int fds[IPC_FDS])
{
	const struct own_fd *file;
	struct ipc_record *r;

	reply->error = may_open(ipc, q, c->uid);
	if (reply->error)
		return;
	r = &ipc->records[q->slot];
	file = r->what == IPC_SIGNAL && r->shared && r->arena_number < IPC_ARENA_SIGNALS ?
		       &ipc->arena_file :
		       &r->file;
	/*
	 * The program may have closed the descriptors and reused the numbers for its own files,
	 * which must not be sent.
	 */
	if (!own_fd_still(&ipc->page_file) || (file->fd >= 0 && !own_fd_still(file))) {
		reply->error = -ESTALE;
		return;
	}
	if (r->what == IPC_SIGNAL) {
		c->opens[q->open] = q->slot;
		c->count++;
		r->openers++;
	}
	reply->provider = r->offer.provider;
	reply->arena_number = r->arena_number;
	reply->base = r->offer.base;
	reply->length = r->offer.length;
	reply->fd_offset = r->offer.pool ? r->offer.pool_number : r->offer.fd_offset;
	memcpy(reply->blob, r->offer.blob, sizeof(reply->blob));
	memcpy(reply->pci, r->offer.pci, sizeof(reply->pci));
	fds[0] = ipc->page_file.fd;
	fds[1] = file->fd;
	reply->fds = fds[1] >= 0 ? 3 : 1;
}

/* Caller holds ipc->lock. */
static void close_signal(struct ipc *ipc, struct connection *c, const struct ipc_request *q)
{
	uint32_t slot = c->opens[q->open];

	if (slot == NOT_OPEN)
		return;
	c->opens[q->open] = NOT_OPEN;
	c->count--;
	ipc_record_left(ipc, slot);
}

/* Receives and answers a request. False: end the connection. */
static bool answer(struct server *s, struct connection *c)
{
	struct ipc_reply reply = { .magic = IPC_MESSAGE_MAGIC };
	struct ipc *ipc = s->ipc;
	struct ipc_request q;
	int fds[IPC_FDS] = { -1, -1 };
	bool more;
	int n = own_fd_still(&c->conn) ? ipc_receive(c->conn.fd, &q, sizeof(q), NULL, 0, &more) :
		-EBADF;

	/*
	 * -ECONNRESET: the importer ended without reading the last answer. Its earlier messages can
	 * still be read.
	 */
	if (n == -EAGAIN || n == -ECONNRESET)
		return true;
	if (n <= 0 || more || q.magic != IPC_MESSAGE_MAGIC || q.open >= IPC_OPENS)
		return false;
	if (q.op == IPC_OP_SIGNAL && c->opens[q.open] != NOT_OPEN)
		return false;
	pthread_mutex_lock(&ipc->lock);
	if (q.op == IPC_OP_CLOSE_SIGNAL) {
		close_signal(ipc, c, &q);
		pthread_mutex_unlock(&ipc->lock);
		/* Keep the connection: the importer may open another signal soon. */
		c->since = now_ms();
		return true;
	}
	answer_open(ipc, c, &q, &reply, fds);
	if (reply.error)
		ipc_count(ipc, refused);
	else
		ipc_count(ipc, served);
	/* Sent under the lock, so that no thread closes the descriptors meanwhile. */
	n = ipc_send(c->conn.fd, &reply, sizeof(reply), fds, reply.fds == 3 ? 2 : reply.fds);
	pthread_mutex_unlock(&ipc->lock);
	if (!reply.error)
		c->since = now_ms();
	return !n;
}

/* ---- connections ---- */

static bool has_room(const struct server *s, uint32_t uid)
{
	unsigned int same = 0;

	if (s->count == CONNECTIONS || uid == s->ipc->uid)
		return s->count < CONNECTIONS;
	for (unsigned int i = 0; i < s->count; i++)
		same += s->connections[i]->uid == uid;
	return s->of_other_users < OTHER_USERS && same < OF_ONE_OTHER_USER &&
	       ipc_closes_pending() < PENDING_CLOSES;
}

static int accepted(struct server *s, int fd, uint32_t uid, pid_t pid)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct connection *c;

	if (!has_room(s, uid))
		return -EBUSY;
	c = malloc(sizeof(*c));
	event.data.ptr = c;
	if (!c || epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event)) {
		free(c);
		return -ENOMEM;
	}
	*c = (struct connection) { .conn = own_fd(fd), .uid = uid, .pid = pid, .since = now_ms() };
	for (unsigned int i = 0; i < IPC_OPENS; i++)
		c->opens[i] = NOT_OPEN;
	s->connections[s->count++] = c;
	s->of_other_users += uid != s->ipc->uid;
	return 0;
}

static void end_socket(const struct server *s, struct own_fd *conn, uint32_t uid)
{
	if (s->no_rights)
		ipc_close_socket(conn);
	else
		ipc_hang_up(conn, uid);
}

static void accept_one(struct server *s)
{
	struct ipc_reply reply = { .magic = IPC_MESSAGE_MAGIC };
	struct ucred cred = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(cred);
	int fd = own_fd_still(&s->ipc->listener) ? ipc_accept(s->ipc->listener.fd) : -EAGAIN;
	struct own_fd conn;

	if (fd == -EAGAIN || fd == -ECONNABORTED)
		return;
	if (fd < 0) {
		/*
		 * Usually out of descriptors. The importer waits in the backlog; closing another
		 * connection may free one.
		 */
		poll(NULL, 0, 10);
		return;
	}
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size))
		reply.error = accepted(s, fd, cred.uid, cred.pid);
	else
		reply.error = -ENOMEM;
	if (!reply.error)
		return;
	/* Without an answer, the importer would think that this process has ended. */
	ipc_send(fd, &reply, sizeof(reply), NULL, 0);
	conn = own_fd(fd);
	end_socket(s, &conn, cred.uid);
}

static bool opens(const struct connection *c, unsigned int n, uint32_t slot)
{
	for (unsigned int i = 0; i < n; i++) {
		if (c->opens[i] == slot)
			return true;
	}
	return false;
}

/*
 * Whether open `n` of an ending connection is its process's last open of the signal. A process may
 * open a signal several times, also on several connections, which all end with the process.
 */
static bool last_open(const struct server *s, const struct connection *c, unsigned int n)
{
	if (opens(c, n, c->opens[n]))
		return false;
	for (unsigned int i = 0; c->pid && i < s->count; i++) {
		const struct connection *o = s->connections[i];

		if (o != c && o->pid == c->pid && o->count && opens(o, IPC_OPENS, c->opens[n]))
			return false;
	}
	return true;
}

/* Ends a connection whose process has ended, or that has no signal open. */
static void hang_up(struct server *s, struct connection *c)
{
	struct ipc *ipc = s->ipc;
	unsigned int i;

	pthread_mutex_lock(&ipc->lock);
	for (i = 0; i < IPC_OPENS; i++) {
		struct ipc_record *r;

		if (c->opens[i] == NOT_OPEN)
			continue;
		r = &ipc->records[c->opens[i]];
		if (last_open(s, c, i)) {
			__atomic_fetch_add(&r->deaths, 1, __ATOMIC_RELEASE);
			if (r->shared)
				ipc_signal_changed(r->shared);
		}
		ipc_record_left(ipc, c->opens[i]);
	}
	pthread_mutex_unlock(&ipc->lock);
	s->of_other_users -= c->uid != ipc->uid;
	/*
	 * A child made by clone() may have a copy of the socket. Closing the socket here would then
	 * not remove it from the epoll.
	 */
	if (own_fd_still(&c->conn))
		epoll_ctl(s->epoll, EPOLL_CTL_DEL, c->conn.fd, NULL);
	end_socket(s, &c->conn, c->uid);
	for (i = 0; s->connections[i] != c; i++)
		;
	s->connections[i] = s->connections[--s->count];
	free(c);
}

/*
 * Ends connections that are idle for too long. Returns the milliseconds until the next one is due;
 * -1: none.
 */
static int close_idle(struct server *s)
{
	int64_t now = now_ms(), least = -1;

	for (unsigned int i = s->count; i--;) {
		struct connection *c = s->connections[i];
		int64_t left = c->since + TIMEOUT_MS - now;

		if (c->count)
			continue;
		if (left <= 0)
			hang_up(s, c);	/* moves the last connection to index i */
		else if (least < 0 || left < least)
			least = left;
	}
	return (int)least;
}

/*
 * Whether the listener and the epoll are still the library's. The program may have closed them and
 * reused the numbers. All epolls have the same inode, so the test is that this one already contains
 * the listener: EEXIST.
 */
static bool open_still(const struct server *s)
{
	const struct own_fd *listener = &s->ipc->listener;
	struct epoll_event event = { .events = 0 };

	if (!own_fd_still(listener))
		return false;
	if (!epoll_ctl(s->epoll, EPOLL_CTL_ADD, listener->fd, &event)) {
		epoll_ctl(s->epoll, EPOLL_CTL_DEL, listener->fd, NULL);
		return false;
	}
	return errno == EEXIST;
}

/* Returns if the program has closed the library's descriptors. */
static void serve(struct server *s)
{
	struct epoll_event events[64];

	while (open_still(s)) {
		int n = epoll_wait(s->epoll, events, 64, close_idle(s));

		if ((n < 0 && errno != EINTR) || (n > 0 && !open_still(s)))
			return;
		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr == &s->ipc->listener)
				accept_one(s);
			else if (!answer(s, events[i].data.ptr))
				hang_up(s, events[i].data.ptr);
		}
	}
}

/* ---- threads ---- */

/* Makes the kernel set FUTEX_OWNER_DIED when this thread ends. */
static int hold_alive(struct server *s)
{
	struct ipc_page *page = s->ipc->page;
	struct robust *r = s->robust;

	r->head.list.next = &r->entry;
	r->entry.next = &r->head.list;
	r->head.futex_offset = (long)((intptr_t)&page->alive - (intptr_t)&r->entry);
	r->head.list_op_pending = NULL;
	__atomic_store_n(&page->alive, (uint32_t)syscall(SYS_gettid) | FUTEX_WAITERS,
			 __ATOMIC_SEQ_CST);
	return syscall(SYS_set_robust_list, &r->head, sizeof(r->head)) ? -errno : 0;
}

static void *thread(void *arg)
{
	struct server *s = arg;
	struct ipc *ipc = s->ipc;
	int error;

	prctl(PR_SET_NAME, "peerdma-ipc");
	/*
	 * set_robust_list() replaces the C library's list of robust mutexes. This thread never uses
	 * one.
	 */
	error = hold_alive(s);
	pthread_mutex_lock(&ipc->lock);
	s->error = error;
	s->started = true;
	pthread_cond_broadcast(&ipc->settled);
	pthread_mutex_unlock(&ipc->lock);
	if (error)
		return NULL;
	serve(s);
	/* Exports stay live for the importers that have them open, so the thread must not end. */
	for (;;)
		pause();
}

static int listen_at(struct server *s, struct ipc *ipc)
{
	struct sockaddr_un address;
	socklen_t length = ipc_address(&ipc->self, &address);
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &ipc->listener };
	int fd = ipc_socket(), no = 0, ret;

	if (fd < 0)
		return fail(fd, "cannot open a socket for importers: %s", error_words(fd));
	/* Set before listening, because accepted sockets inherit it. */
	s->no_rights = !setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no));
	ipc->listener = own_fd(fd);
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll >= 0 && !bind(fd, (struct sockaddr *)&address, length) && !listen(fd, 128) &&
	    !epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event))
		return 0;
	ret = -errno;
	return fail(ret, "cannot open a socket for importers: %s", error_words(ret));
}

static void server_free(struct server *s)
{
	if (s && s->robust != MAP_FAILED)
		munmap(s->robust, sizeof(*s->robust));
	if (s && s->epoll >= 0)
		close(s->epoll);
	free(s);
}

static struct server *server_make(struct ipc *ipc)
{
	struct server *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->ipc = ipc;
	s->epoll = -1;
	s->robust = mmap(NULL, sizeof(*s->robust), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s->robust != MAP_FAILED)
		return s;
	server_free(s);
	return NULL;
}

/* The reaper thread: does the work that frees have left. */
static void *reaper(void *arg)
{
	struct ipc *ipc = arg;

	prctl(PR_SET_NAME, "peerdma-ipc-end");
	for (;;) {
		uint32_t todos = __atomic_load_n(&ipc->todos, __ATOMIC_SEQ_CST);

		ipc_recheck(ipc);
		pthread_mutex_lock(&ipc->lock);
		ipc_reap(ipc);
		pthread_mutex_unlock(&ipc->lock);
		syscall(SYS_futex, &ipc->todos, FUTEX_WAIT_PRIVATE, todos, NULL, NULL, 0);
	}
	return NULL;
}

/* 0 or -errno with text. */
static int start(void *(*fn)(void *), void *arg)
{
	sigset_t all, was;
	pthread_attr_t attr;
	pthread_t id;
	int ret;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	/* Signals of the program are handled by the program's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	ret = -pthread_create(&id, &attr, fn, arg);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	pthread_attr_destroy(&attr);
	if (ret)
		return fail(ret, "cannot start the threads that answer importers: %s; raise 'ulimit -u'",
			    strerror(-ret));
	return 0;
}

int ipc_server_start(struct ipc *ipc)
{
	struct server *s = server_make(ipc);
	int ret = s ? listen_at(s, ipc) : fail(-ENOMEM, "%s", error_words(-ENOMEM));

	/* The reaper keeps running if a later step fails. */
	if (!ret && !ipc->reaper_started)
		ret = start(reaper, ipc);
	ipc->reaper_started |= !ret;
	if (!ret)
		ret = start(thread, s);
	if (ret)
		goto fail;
	while (!s->started)
		cancel_safe_wait(&ipc->settled, &ipc->lock);
	ret = s->error;
	if (!ret)
		return 0;
	/* The server thread has ended or is about to, and does not use `s` any more. */
	fail(ret, "set_robust_list: %s; importers could not be notified of this process's end",
	     strerror(-ret));
fail:
	server_free(s);
	return ret;
}
