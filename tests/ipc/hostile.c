// SPDX-License-Identifier: MIT
/*
 * hostile.c - processes that send an exporter other messages than the library does; any process can
 * read its address in /proc/net/unix. The exporter must go on serving others, keep no descriptor,
 * and give nothing away.
 *
 * usage: hostile [old]: as on kernels before 6.16, which let descriptors be sent to any socket
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "other.h"
#include "util.h"

struct request {		/* of message.h: what a hostile process would have read there */
	uint32_t magic, op, slot, open;
	uint64_t generation;
	uint8_t key[16];
};

#define MAGIC	0x32637069
#define REPLY	128
#define PASSRIGHTS 83	/* SO_PASSRIGHTS */

static struct sockaddr_un address;
static socklen_t address_length;
static struct other exporter;
static struct other_answer memory, signals;

/* The process's number is in the handle, from byte 32 on; it is there for all to see as well. */
static bool find_address(void)
{
	FILE *file = fopen("/proc/net/unix", "re");
	char line[512], wanted[64] = "@peerdma-ipc/";
	bool found = false;

	for (int i = 0; i < 16; i++)
		sprintf(wanted + 13 + 2 * i, "%02x", memory.handle.bytes[32 + i]);
	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, wanted);
	if (file)
		fclose(file);
	address.sun_family = AF_UNIX;
	memcpy(address.sun_path + 1, wanted + 1, strlen(wanted) - 1);
	address_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(wanted));
	return found;
}

static int call(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd >= 0 && !connect(fd, (struct sockaddr *)&address, address_length))
		return fd;
	close(fd);
	return -1;
}

static bool settled(unsigned int before)
{
	for (int i = 0; i < 300 && descriptors(exporter.pid) > before; i++)
		usleep(10000);
	return descriptors(exporter.pid) <= before;
}

/* A well-behaved importer, each time a new process: nothing is cached. */
static bool served(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct peerdma_ipc_memory *m;

		_exit(peerdma_ipc_open(&memory.handle, sizeof(memory.handle), 0, &m) || *(char *)m->ptr != 7);
	}
	waitpid(pid, &status, 0);
	return !status;
}

/* fd n times. */
static int send_fd(int sock, const void *bytes, size_t size, int fd, int n)
{
	union {
		char bytes[CMSG_SPACE(16 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;

	memset(&control, 0, sizeof(control));
	if (n) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
		for (int i = 0; i < n; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(int));
	}
	return (int)sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int send_fds(int sock, const void *bytes, size_t size, int n)
{
	int ret = send_fd(sock, bytes, size, sock, n);

	/* Newer kernels do not pass them on. */
	return ret < 0 && errno == EPERM && n ? send_fd(sock, bytes, size, sock, 0) : ret;
}

/* Since Linux 6.16 no process can send descriptors to a socket that does not want them. */
static void no_descriptors(void)
{
	int no = 0, fd = call();

	if (!setsockopt(fd, SOL_SOCKET, PASSRIGHTS, &no, sizeof(no)))
		CHECK(send_fd(fd, "", 1, fd, 1) < 0 && errno == EPERM, "the kernel takes no descriptors for it: %s", strerror(errno));
	else
		printf("# not tried: this kernel lets descriptors be sent to any socket\n");
	close(fd);
}

static void garbage(void)
{
	unsigned int before = descriptors(exporter.pid), refused = 0, sent = 0;
	unsigned char bytes[300];

	for (int i = 0; i < 300; i++) {
		int fd = call();

		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] = (unsigned char)rand();
		if (i % 3 == 0)
			memcpy(bytes, &(uint32_t) { MAGIC }, 4);
		sent += send_fds(fd, bytes, (size_t)(i % 3 == 0 ? 40 : i), i % 5 * 3) >= 0;
		/* Refused, or hung up on. */
		refused += poll(&(struct pollfd) { .fd = fd, .events = POLLIN }, 1, 5000) == 1 && recv(fd, bytes, sizeof(bytes), 0) <= REPLY;
		close(fd);
	}
	CHECK(sent > 290 && refused == 300, "garbage, with descriptors: %u of 300 sent, %u answered at once", sent, refused);
	CHECK(settled(before), "no descriptor stays: %u, before %u", descriptors(exporter.pid), before);
	CHECK(served(), "others are served");
}

static void never_reads(void)
{
	struct request q = { .magic = MAGIC, .op = 1, .generation = 1 };
	unsigned int before = descriptors(exporter.pid);
	int fd = call(), sent = 0;

	memcpy(&q.slot, memory.handle.bytes + 72, 4);
	memcpy(&q.generation, memory.handle.bytes + 80, 8);
	memcpy(q.key, memory.handle.bytes + 48, 16);
	for (int i = 0; i < 100000; i++) {
		if (send_fds(fd, &q, sizeof(q), 0) >= 0)
			sent++;
		else if (errno == EPIPE || errno == ECONNRESET)
			break;
	}
	CHECK(sent > 10, "%d requests, no answer is read", sent);
	CHECK(served(), "others are served");
	close(fd);
	CHECK(settled(before), "no descriptor stays");
}

static void many(void)
{
	unsigned int before = descriptors(exporter.pid);
	int fds[400], made = 0;

	for (int i = 0; i < 400; i++) {
		fds[i] = call();
		made += fds[i] >= 0;
	}
	CHECK(made == 400 && served(), "%d connections that say nothing, and others are served", made);
	for (int i = 0; i < 400; i++)
		close(fds[i]);
	CHECK(settled(before), "no descriptor stays");
}

/* What is not open on a connection is not closed on it. */
static void closes(void)
{
	struct request q = { .magic = MAGIC, .op = 3 };
	struct peerdma_ipc_signal *s = NULL;
	struct peerdma_ipc_handle next;
	int fd = call();

	CHECK(!peerdma_ipc_signal_open(&signals.handle, sizeof(signals.handle), &s), "a signal is open");
	memcpy(&q.slot, signals.handle.bytes + 72, 4);
	memcpy(&q.generation, signals.handle.bytes + 80, 8);
	for (int i = 0; i < 10; i++)
		send_fds(fd, &q, sizeof(q), 0);
	usleep(100000);
	/* If it counted as closed, its place would be the next signal's, with that one's value. */
	other_ask(&exporter, (struct other_ask) { .op = OTHER_CLOSE });
	next = other_ask(&exporter, (struct other_ask) { .op = OTHER_SIGNAL, .value = 99 }).handle;
	CHECK(peerdma_ipc_signal_get(s) == 7, "another process's close is not taken for this one's");
	CHECK(memcmp(&next, &signals.handle, sizeof(next)), "the next signal has another handle");
	peerdma_ipc_signal_close(s);
	close(fd);
}

/* A connection has room for so many opens; more are a process that is none of the library's. */
static void opens(void)
{
	struct request q = { .magic = MAGIC, .op = 2 };
	unsigned int before = descriptors(exporter.pid);
	int fd = call(), answered = 0;
	char reply[256];

	memcpy(&q.slot, signals.handle.bytes + 72, 4);
	memcpy(&q.generation, signals.handle.bytes + 80, 8);
	memcpy(q.key, signals.handle.bytes + 48, 16);
	for (q.open = 0; q.open < 1000; q.open++) {
		/* Descriptors that come with it are dropped. */
		if (send_fds(fd, &q, sizeof(q), 0) < 0 || recv(fd, reply, sizeof(reply), 0) != REPLY)
			break;
		answered++;
	}
	CHECK(answered == 64, "64 opens of a signal on a connection: %d", answered);
	close(fd);
	fd = call();
	q.open = 5;
	CHECK(send_fds(fd, &q, sizeof(q), 0) > 0 && recv(fd, reply, sizeof(reply), 0) == REPLY, "one with a number");
	CHECK(send_fds(fd, &q, sizeof(q), 0) > 0 && recv(fd, reply, sizeof(reply), 0) <= 0, "not twice with the same");
	close(fd);
	CHECK(settled(before), "no descriptor stays");
}

static pid_t as_user(uid_t uid, void (*fn)(void))
{
	static int pipes[2];
	char byte;
	pid_t pid;

	MUST(!pipe(pipes));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setresuid(uid, uid, uid))
			_exit(1);
		fn();
		if (write(pipes[1], "", 1) != 1)
			_exit(1);
		pause();
	}
	close(pipes[1]);
	CHECK(read(pipes[0], &byte, 1) == 1, "user %u does what it does", uid);
	close(pipes[0]);
	return pid;
}

static void connect_64(void)
{
	for (int i = 0; i < 64; i++)
		call();
}

/* A socket whose close waits for as long as this process wishes. */
static int lingers(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(in);
	struct linger linger = { 1, 1000 };
	int server = socket(AF_INET, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_STREAM, 0);
	static char bytes[65536];

	if (bind(server, (struct sockaddr *)&in, size) || listen(server, 5) || getsockname(server, (struct sockaddr *)&in, &size) ||
	    connect(one, (struct sockaddr *)&in, size) || accept(server, NULL, NULL) < 0)
		abort();
	while (send(one, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	setsockopt(one, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	return one;
}

/* The last of all references waits in its close: this one, if the exporter has closed its own already. */
static void *close_one(void *fd)
{
	close(*(int *)fd);
	return NULL;
}

static void send_lingering(void)
{
	struct request q = { .magic = MAGIC, .op = 1 };
	static int slow;
	pthread_t id;
	bool sent;

	slow = lingers();
	/* With what is read, with what is more than fits, and with what is not read any more. */
	if (send_fd(call(), "x", 1, slow, 1) < 0 && errno == EPERM)
		return;		/* the kernel passes none on; here the close would wait */
	sent = send_fd(call(), &q, sizeof(q), slow, 12) >= 0;
	for (int fd = call(), i = 0; i < 3; i++)
		send_fd(fd, "x", 1, slow, 1);
	MUST(!sent || !pthread_create(&id, NULL, close_one, &slow));
}

static int open_as(uid_t uid)
{
	struct peerdma_ipc_memory *m;
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		alarm(20);
		if (setresuid(uid, uid, uid))
			_exit(1);
		_exit(-peerdma_ipc_open(&memory.handle, sizeof(memory.handle), 0, &m));
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -ETIMEDOUT;
}

static void users(void)
{
	unsigned int before = descriptors(exporter.pid);
	pid_t pid;

	if (getuid()) {
		printf("# not tried: users: only root can be another user\n");
		return;
	}
	pid = as_user(1001, connect_64);
	usleep(100000);
	CHECK(!open_as(1002), "it takes no other user's place");
	CHECK(open_as(1001) == -EBUSY, "its own, and that is said");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	CHECK(settled(before), "no descriptor stays");
	CHECK(!open_as(1001), "then it opens");
	pid = as_user(1001, send_lingering);
	usleep(100000);
	CHECK(served() && !open_as(1002), "descriptors that do not close delay no other process");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void strangers(void)
{
	int status, pipes[2];
	char byte = 0;
	pid_t pid;

	if (getuid()) {
		printf("# not tried: strangers: only root can be another user\n");
		return;
	}
	MUST(!pipe(pipes));
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setresuid(1001, 1001, 1001))
			_exit(1);
		for (int i = 0; i < 300; i++)
			call();
		if (write(pipes[1], &byte, 1) != 1)
			_exit(1);
		pause();
	}
	CHECK(read(pipes[0], &byte, 1) == 1, "another user connects 300 times and says nothing");
	usleep(100000);
	CHECK(served() && settled(99), "it has a share, and the others the rest: %u", descriptors(exporter.pid));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

/* setsockopt(SO_PASSRIGHTS) fails, here and in all children. */
static void be_old(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setsockopt, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PASSRIGHTS, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(steps) / sizeof(steps[0]), .filter = steps };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		printf("skipped: no seccomp filter\n");
		exit(77);
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "old"))
		be_old();
	exporter = other_make(getuid());
	memory = ASK(&exporter, OTHER_ALLOC, .value = 8192, .fill = 7, .flags = PEERDMA_IPC_ANY_USER);
	signals = ASK(&exporter, OTHER_SIGNAL, .value = 7);
	CHECK(!memory.ret && !signals.ret && find_address(), "an exporter, and its address");
	no_descriptors();
	garbage();
	never_reads();
	many();
	strangers();
	users();
	opens();
	closes();
	CHECK(served(), "at the end it serves still");
	other_end(&exporter, SIGKILL);
	fflush(stdout);
	return check_end(NULL);
}
