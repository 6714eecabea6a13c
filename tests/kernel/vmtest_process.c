// SPDX-License-Identifier: MIT
/* vmtest_process.c - see vmtest.h: processes and threads, users and cgroups. */
#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "vmtest.h"

/* ---- processes ---- */

struct process begin(int (*function)(int peer, void *arg), void *arg)
{
	unsigned long failures;
	struct process p;
	int ends[2], result;

	MUST(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	fflush(stdout);
	p.pid = fork();
	MUST(p.pid >= 0);
	if (!p.pid) {
		close(ends[0]);
		/* Below check_in_child() the parent has the same counts. */
		failures = check_counts.failures;
		result = function(ends[1], arg);
		fflush(stdout);
		_exit(check_counts.failures > failures ? 99 : result);
	}
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
	return check_status(status);
}

int finish_within(struct process *p, int seconds)
{
	close(p->peer);
	return check_wait(p->pid, seconds * patience());
}

bool is_alive(const struct process *p)
{
	siginfo_t info = { 0 };

	return !waitid(P_PID, p->pid, &info, WEXITED | WNOHANG | WNOWAIT) && !info.si_pid;
}

union control {
	struct cmsghdr align;
	char space[CMSG_SPACE(sizeof(int))];
};

void pass(int peer, int fd)
{
	union control control = { 0 };
	struct iovec iov = { "x", 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	CHECK(sendmsg(peer, &m, 0) == 1);
}

int receive(int peer)
{
	union control control = { 0 };
	char c;
	struct iovec iov = { &c, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	int fd = -1;

	if (CHECK(recvmsg(peer, &m, 0) == 1 && CMSG_FIRSTHDR(&m)))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

char state_of(pid_t tid)
{
	char path[32], line[256] = "", *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	f = fopen(path, "re");
	if (f && !fgets(line, sizeof(line), f))
		line[0] = 0;
	if (f)
		fclose(f);
	end = strrchr(line, ')');
	return end && end[1] ? end[2] : 0;
}

/* ---- users and cgroups ---- */

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

#define CGROUPS		"/sys/fs/cgroup"

bool cgroup_make(size_t bytes)
{
	char limit[32];

	if (access(CGROUPS "/cgroup.controllers", F_OK) && mount("none", CGROUPS, "cgroup2", 0, NULL))
		return false;
	must_write("+memory", CGROUPS "/cgroup.subtree_control");
	MUST(!mkdir(CGROUP, 0755));
	snprintf(limit, sizeof(limit), "%zu", bytes);
	must_write(limit, CGROUP "/memory.max");
	return true;
}

void cgroup_enter(void)
{
	must_write("0", CGROUP "/cgroup.procs");
}

void cgroup_remove(void)
{
	CHECK(!rmdir(CGROUP));
}

/* ---- threads ---- */

static void *task_main(void *arg)
{
	struct task *t = arg;

	t->function(t->arg);
	__atomic_store_n(&t->over, true, __ATOMIC_RELEASE);
	return NULL;
}

void task_begin(struct task *t, void (*function)(void *arg), void *arg)
{
	*t = (struct task){ .function = function, .arg = arg };
	MUST(!pthread_create(&t->thread, NULL, task_main, t));
}

void task_end(struct task *t)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 60 * patience();
	MUST(!pthread_timedjoin_np(t->thread, NULL, &until), "a thread does not come back");
}
