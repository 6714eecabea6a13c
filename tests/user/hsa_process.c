// SPDX-License-Identifier: MIT
/* hsa_process.c - a second process for HSA's tests: this program, run once more. */
#include <fcntl.h>
#include <sys/socket.h>

#include "hsa_test.h"

struct child child_start(const char *role)
{
	int fds[2];
	struct child c;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (!c.pid) {
		dup2(fds[1], 3);
		fcntl(3, F_SETFD, 0);
		execl("/proc/self/exe", "user_hsa", "--role", role, (char *)NULL);
		_exit(99);
	}
	close(fds[1]);
	c.fd = fds[0];
	return c;
}

bool in_role;

/* The other side is gone: what did not hold there is its exit status. */
static void alone(void)
{
	int status = 0;

	if (in_role)
		_exit(98);
	wait(&status);
	print_error("the other process ended with %#x\n", status);
	fail();
}

void tell(int fd, const void *what, size_t size)
{
	if (send(fd, what, size, MSG_NOSIGNAL) != (ssize_t)size)
		alone();
}

void hear(int fd, void *what, size_t size)
{
	if (recv(fd, what, size, 0) != (ssize_t)size)
		alone();
}

/* Its exit status, or -signal. */
int child_end(struct child *c)
{
	int status;

	close(c->fd);
	assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void child_kill(struct child *c)
{
	assert_int_equal(kill(c->pid, SIGKILL), 0);
	assert_int_equal(child_end(c), -SIGKILL);
}
