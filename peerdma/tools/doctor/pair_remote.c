// SPDX-License-Identifier: MIT
/*
 * pair_remote.c - see pair_remote.h.
 *
 * What comes from there is as untrusted as any bundle: its size and the time it may take are limited.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../lib/base/clean.h"
#include "pair_remote.h"
#include "base/tool.h"

extern char **environ;

#define WORDS_MAX	64
#define BUNDLE_MAX	(64UL << 20)
#define GRACE_S		1U	/* from SIGTERM to SIGKILL */
/* Until a wait is worth a word, and between two of them */
#define NOTICE_MS	2000
#define NOTICES_MS	10000

long long remote_deadline(unsigned int seconds)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000 + seconds * 1000LL;
}

int remote_left(long long deadline)
{
	long long left = deadline - remote_deadline(0);

	return left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

/* ---- start -------------------------------------------------------------------------- */

/* Cuts rsh, which is changed.  0: too many words, or none. */
static size_t command_line(char *rsh, const char *host, const char *const command[],
			   char *argv[WORDS_MAX])
{
	bool placed = false;
	char *rest, *word;
	size_t n = 0;

	for (word = strtok_r(rsh, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
		if (n == WORDS_MAX - 2)
			return 0;
		argv[n] = strcmp(word, "%h") ? word : (char *)host;
		placed |= n && argv[n] == host;
		n++;
	}
	if (!n)
		return 0;
	if (!placed)
		argv[n++] = (char *)host;
	for (size_t i = 0; command[i]; i++) {
		if (n == WORDS_MAX - 1)
			return 0;
		argv[n++] = (char *)command[i];
	}
	argv[n] = NULL;
	return n;
}

static int spawn(struct remote *r, char *argv[], bool talk)
{
	int to[2] = { -1, -1 }, from[2], ret;
	posix_spawn_file_actions_t actions;

	if (pipe2(from, O_CLOEXEC))
		return -errno;
	if (talk && pipe2(to, O_CLOEXEC)) {
		ret = -errno;
		close(from[0]);
		close(from[1]);
		return ret;
	}
	posix_spawn_file_actions_init(&actions);
	if (talk)
		posix_spawn_file_actions_adddup2(&actions, to[0], 0);
	else
		posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, from[1], 1);
	ret = -posix_spawnp(&r->pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(from[1]);
	if (talk)
		close(to[0]);
	r->from = from[0];
	r->to = to[1];
	return ret;
}

static void close_ends(struct remote *r)
{
	if (r->to >= 0)
		close(r->to);
	if (r->from >= 0)
		close(r->from);
	r->to = r->from = -1;
}

/* A host that begins with '-' would be an option of the remote shell: ssh runs what -oProxyCommand= says. */
static bool host_fits(const char *host)
{
	if (*host && *host != '-')
		return true;
	warn(*host ? "doctor: --pair: a host's name does not begin with '-'" : "doctor: --pair: the host's name is empty");
	return false;
}

bool remote_start(struct remote *r, const char *rsh, const char *host, const char *const command[],
		  bool talk)
{
	char *words = strdup(rsh), *argv[WORDS_MAX];
	int ret;

	*r = (struct remote){ .host = host, .to = -1, .from = -1 };
	if (!words || !host_fits(host)) {
		free(words);
		return false;
	}
	if (!command_line(words, host, command, argv)) {
		warn("doctor: --rsh: give a command of 1 to %d words", WORDS_MAX / 2);
		free(words);
		return false;
	}
	ret = spawn(r, argv, talk);
	if (ret) {
		warn("doctor: %s: %s", argv[0], strerror(-ret));
		r->pid = 0;
		close_ends(r);
	}
	free(words);
	return !ret;
}

/* ---- end ---------------------------------------------------------------------------- */

/* False: it still runs. */
static bool ended_by(pid_t pid, long long deadline)
{
	struct pollfd p = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
	int ret;

	if (p.fd < 0)
		return false;
	do {
		ret = poll(&p, 1, remote_left(deadline));
	} while (ret < 0 && errno == EINTR);
	close(p.fd);
	return ret > 0;
}

int remote_end(struct remote *r, unsigned int seconds)
{
	bool in_time;
	int status;

	if (!r->pid)
		return -1;
	/* The pipes first: a program that waits for them ends. */
	close_ends(r);
	in_time = ended_by(r->pid, remote_deadline(seconds));
	if (!in_time) {
		kill(r->pid, SIGTERM);
		if (!ended_by(r->pid, remote_deadline(GRACE_S)))
			kill(r->pid, SIGKILL);
	}
	while (waitpid(r->pid, &status, 0) < 0 && errno == EINTR)
		;
	r->pid = 0;
	return in_time ? status : -1;
}

/* ---- a bundle ----------------------------------------------------------------------- */

/* All that it prints, into fd.  0, -EFBIG, -ETIMEDOUT or another -errno. */
static int take_output(const struct remote *r, int fd, long long deadline, size_t *length)
{
	long long start = remote_deadline(0), notice = start + NOTICE_MS;
	char buf[65536];

	for (*length = 0;;) {
		int until = remote_left(notice), left = remote_left(deadline), ret;
		struct pollfd p = { .fd = r->from, .events = POLLIN };
		ssize_t n;

		ret = poll(&p, 1, until < left ? until : left);
		if (ret < 0 && errno != EINTR)
			return -errno;
		if (!remote_left(deadline))
			return -ETIMEDOUT;
		if (!remote_left(notice)) {
			warn("doctor: %s: waiting for its bundle, %lld s", r->host, (remote_deadline(0) - start) / 1000);
			notice += NOTICES_MS;
		}
		if (ret <= 0)
			continue;
		n = read(r->from, buf, sizeof(buf));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (!n)
			return 0;
		*length += n < 0 ? 0 : (size_t)n;
		if (*length > BUNDLE_MAX)
			return -EFBIG;
		ret = n < 0 ? 0 : file_write_all(fd, buf, (size_t)n);
		if (ret)
			return ret;
	}
}

/* What it has printed instead, for the message. */
static void first_line(int fd, char out[96])
{
	char raw[80];
	ssize_t n = pread(fd, raw, sizeof(raw), 0);

	*out = 0;
	if (n <= 0)
		return;
	raw[n - (n == sizeof(raw))] = 0;
	raw[strcspn(raw, "\r\n")] = 0;
	clean_copy(out, 96, raw);
}

/* A plain tar file, as tree_bundle() writes it: what is compressed may be of any size unpacked. */
static bool is_bundle(int fd)
{
	char magic[5];

	return pread(fd, magic, sizeof(magic), 257) == sizeof(magic) &&
	       !memcmp(magic, "ustar", sizeof(magic));
}

/* The doctor's verdicts are no errors; what ended it is. */
static bool status_fits(const char *host, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) <= 3)
		return true;
	if (!WIFEXITED(status))
		warn("doctor: %s: the remote command was ended by signal %d", host, WTERMSIG(status));
	else
		warn("doctor: %s: the remote command failed with code %d%s", host, WEXITSTATUS(status),
		     WEXITSTATUS(status) == 127 ? ": is peerdma installed there, and on the PATH?" :
		     WEXITSTATUS(status) == 64 ? ": does that release know 'peerdma doctor --bundle -'?" : "");
	return false;
}

static bool check(const char *host, int fd, int ret, size_t length, int status,
		  unsigned int seconds)
{
	char line[96];

	if (ret == -ETIMEDOUT || (!ret && status == -1))
		warn("doctor: %s: the remote command has not ended after %u s, with %zu bytes of a bundle; see --timeout", host, seconds,
		     length);
	else if (ret == -EFBIG)
		warn("doctor: %s: gives more than %lu MiB: no bundle", host, BUNDLE_MAX >> 20);
	else if (ret)
		warn("doctor: %s: %s", host, strerror(-ret));
	if (ret || status == -1 || !status_fits(host, status))
		return false;
	if (is_bundle(fd))
		return true;
	first_line(fd, line);
	if (!length)
		warn("doctor: %s: the remote command printed nothing", host);
	else
		warn("doctor: %s: the remote command printed no bundle but '%s'; its shell must print nothing of its own", host, line);
	return false;
}

int remote_bundle(const char *rsh, const char *host, unsigned int seconds, char path[64])
{
	static const char *const command[] = { "peerdma", "doctor", "--bundle", "-", NULL };
	long long deadline = remote_deadline(seconds);
	int fd = memfd_create("bundle", MFD_CLOEXEC), ret, status;
	struct remote r;
	size_t length;

	if (fd < 0) {
		warn("doctor: %s: %s", host, strerror(errno));
		return -1;
	}
	if (!remote_start(&r, rsh, host, command, false)) {
		close(fd);
		return -1;
	}
	ret = take_output(&r, fd, deadline, &length);
	status = remote_end(&r, ret ? 0 : (unsigned int)(remote_left(deadline) + 999) / 1000);
	if (!check(host, fd, ret, length, status, seconds)) {
		close(fd);
		return -1;
	}
	/* tar(1), another process, opens it by this. */
	snprintf(path, 64, "/proc/%d/fd/%d", (int)getpid(), fd);
	return fd;
}
