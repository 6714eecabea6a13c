// SPDX-License-Identifier: MIT
/* peerdma_test_users.c - see peerdma_test_users.h */
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "peerdma_test_users.h"

/* ---- accounts ---- */

long long taken(uid_t uid, const char *column)
{
	FILE *f = fopen("/sys/kernel/debug/peerdma/accounts", "r");
	char line[512], *field, *rest;
	int at = -1, i;
	long long found = 0;

	CHECK(f && fgets(line, sizeof(line), f));
	line[strcspn(line, "\n")] = 0;
	for (i = 0, rest = line; (field = strsep(&rest, "\t")); i++)
		if (!strcmp(field, column))
			at = i;
	CHECK(at > 0);
	while (f && fgets(line, sizeof(line), f)) {
		if (strtoul(line, NULL, 10) != uid)
			continue;
		for (i = 0, rest = line; (field = strsep(&rest, "\t")) && i < at; i++)
			;
		found = field ? atoll(field) : -1;
	}
	if (f)
		fclose(f);
	return found;
}

bool nothing_left(uid_t uid)
{
	static const char *const columns[] = { "pins", "mappings", "views", "exports", "aperture", "locked" };
	bool left = true;

	/* A dma-buf's last reference may go some time after the process that had it. */
	for (int tries = 0; left && tries < 1000; tries++) {
		if (tries)
			usleep(10000);
		left = false;
		for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
			left |= taken(uid, columns[i]) != 0;
	}
	return !left;
}

struct peerdma_info info(int fd)
{
	struct peerdma_info i = { .size = sizeof(i) };

	WORKS(ioctl(fd, PEERDMA_INFO, &i));
	return i;
}

void lowered(const char *parameter, const char *value, void (*test)(void))
{
	char path[128], before[32];

	snprintf(path, sizeof(path), "/sys/module/peerdma/parameters/%s", parameter);
	snprintf(before, sizeof(before), "%ld", file_number(path));
	CHECK(module_set("peerdma", parameter, value));
	test();
	CHECK(module_set("peerdma", parameter, before));
}

/* ---- users and processes ---- */

void become(uid_t uid, uint32_t capabilities)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { .effective = capabilities, .permitted = capabilities } };

	CHECK(!prctl(PR_SET_KEEPCAPS, 1) && !setresuid(uid, uid, uid));
	CHECK(!syscall(SYS_capset, &header, data));
}

void may_lock(size_t bytes)
{
	struct rlimit limit = { .rlim_cur = bytes, .rlim_max = bytes };

	CHECK(!setrlimit(RLIMIT_MEMLOCK, &limit));
}

struct process begin(int (*function)(int peer, void *arg), void *arg)
{
	struct process p;
	int ends[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	fflush(stdout);
	p.pid = fork();
	if (!p.pid) {
		int result;

		close(ends[0]);
		failures = 0;
		result = function(ends[1], arg);
		fflush(stdout);
		_exit(failures ? 99 : result);
	}
	CHECK(p.pid > 0);
	close(ends[1]);
	p.peer = ends[0];
	return p;
}

void say(int peer)
{
	CHECK(write(peer, "", 1) == 1);
}

bool hear(int peer)
{
	char c;

	return read(peer, &c, 1) == 1;
}

int finish(struct process *p)
{
	int status = 0;

	close(p->peer);
	CHECK(waitpid(p->pid, &status, 0) == p->pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void pass(int peer, int fd)
{
	char c = 0, control[CMSG_SPACE(sizeof(fd))] = { 0 };
	struct iovec iov = { &c, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	CHECK(sendmsg(peer, &m, 0) == 1);
}

int receive(int peer)
{
	char c, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &c, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	int fd = -1;

	CHECK(recvmsg(peer, &m, 0) == 1 && CMSG_FIRSTHDR(&m));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}
