// SPDX-License-Identifier: MIT
/*
 * PID 1 of the virtual machine that vm/run boots.
 *
 * Loads the modules that the initramfs carries, takes its orders from the host
 * over a virtio-serial port, makes the host's root file system the guest's
 * (read-only over 9p, below a writable layer in memory), runs one command as
 * root, carries its output and the kernel's log to the host, and powers off.
 * Several guests start their commands together, and power off together.
 *
 * The ports, by name:
 *   ctl   host to guest: orders, NUL-terminated "key=value", an empty one ends
 *                        (what they are: struct orders); then the lines "go" (run
 *                        the command) and "off" (end what runs, and power off)
 *         guest to host: lines; "ready" (the command can run), "mark SEQ" (kernel
 *                        records after this one are the command's), "ended STATUS"
 *                        (the command has), "exit STATUS" (all has), "fail TEXT"
 *   out, err             what the command writes
 *   kmsg                 every record of /dev/kmsg, as the kernel formats it
 *   tty                  both ways, only for an interactive run
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init.h"

#define NEW_ROOT	"/newroot"
#define P9_OPTIONS	"trans=virtio,version=9p2000.L,msize=262144"

static void write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;		/* the host has gone */
		data += n;
		len -= n;
	}
}

/* ---- file systems ------------------------------------------------------ */

static void make_dirs(const char *path)
{
	char copy[4096];

	snprintf(copy, sizeof(copy), "%s", path);
	for (char *p = copy + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		mkdir(copy, 0755);
		*p = '/';
	}
	mkdir(copy, 0755);
}

static void must_mount(const char *source, const char *target, const char *type,
		       unsigned long flags, const char *data)
{
	make_dirs(target);
	if (mount(source, target, type, flags, data))
		fail("cannot mount %s (%s) on %s: %s", source, type, target, strerror(errno));
}

/* For what a kernel may have been built without. */
static void try_mount(const char *type, const char *target)
{
	mkdir(target, 0755);
	mount(type, target, type, 0, NULL);
}

/* The image's own modules, with a writable layer for "depmod" and friends. */
static void mount_modules(const struct orders *o)
{
	char target[512], data[8192];

	if (!o->modules || !o->release)
		return;
	mkdir("/layer/modules", 0755);
	mkdir("/layer/modules-work", 0755);
	snprintf(target, sizeof(target), NEW_ROOT "/lib/modules/%s", o->release);
	snprintf(data, sizeof(data), "lowerdir=/host%s,upperdir=/layer/modules,workdir=/layer/modules-work",
		 o->modules);
	must_mount("overlay", target, "overlay", 0, data);
}

static void mount_shares(const struct orders *o)
{
	for (int i = 0; i < o->sharec; i++) {
		char *path = strchr(o->shares[i], ':'), target[4096];

		if (!path)
			fail("the host sent a share without a path: '%s'", o->shares[i]);
		*path++ = 0;
		snprintf(target, sizeof(target), NEW_ROOT "%s", path);
		must_mount(o->shares[i], target, "9p", 0, P9_OPTIONS ",cache=mmap,access=any");
	}
}

static void build_root(const struct orders *o)
{
	char layers[128];

	must_mount("root", "/host", "9p", MS_RDONLY, P9_OPTIONS ",cache=loose,access=any");
	must_mount("layer", "/layer", "tmpfs", 0, "size=75%");
	mkdir("/layer/root", 0755);
	mkdir("/layer/root-work", 0755);
	if (o->above)
		must_mount(o->above, "/above", "9p", MS_RDONLY, P9_OPTIONS ",cache=loose,access=any");
	snprintf(layers, sizeof(layers), "lowerdir=%s/host,upperdir=/layer/root,workdir=/layer/root-work",
		 o->above ? "/above:" : "");
	must_mount("overlay", NEW_ROOT, "overlay", 0, layers);
	mount_modules(o);

	must_mount("/dev", NEW_ROOT "/dev", NULL, MS_MOVE, NULL);
	must_mount("/proc", NEW_ROOT "/proc", NULL, MS_MOVE, NULL);
	must_mount("/sys", NEW_ROOT "/sys", NULL, MS_MOVE, NULL);
	must_mount("run", NEW_ROOT "/run", "tmpfs", MS_NODEV | MS_NOSUID, "mode=755");
	must_mount("shm", NEW_ROOT "/dev/shm", "tmpfs", MS_NODEV | MS_NOSUID, "mode=1777");
	must_mount("devpts", NEW_ROOT "/dev/pts", "devpts", 0, "mode=620,ptmxmode=666");
	try_mount("debugfs", NEW_ROOT "/sys/kernel/debug");
	try_mount("tracefs", NEW_ROOT "/sys/kernel/tracing");
	try_mount("configfs", NEW_ROOT "/sys/kernel/config");
	mount_shares(o);

	if (symlink("/proc/self/fd", NEW_ROOT "/dev/fd") ||
	    symlink("/proc/self/fd/0", NEW_ROOT "/dev/stdin") ||
	    symlink("/proc/self/fd/1", NEW_ROOT "/dev/stdout") ||
	    symlink("/proc/self/fd/2", NEW_ROOT "/dev/stderr"))
		fail("cannot make /dev/fd and friends: %s", strerror(errno));
	if (chdir(NEW_ROOT) || mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		fail("cannot change to the new root: %s", strerror(errno));
	copy_up();
}

/* ---- the command ------------------------------------------------------- */

/* What carries bytes from the command, the kernel and the terminal to the host. */
struct carrier {
	int out_pipe, err_pipe, kmsg, terminal;		/* from */
	int out_port, err_port, kmsg_port, tty_port;	/* to */
	unsigned long long last_record;
};

/* All that is there now. Both ends of every pair are set before the first call. */
static void carry(int from, int to)
{
	char buf[65536];
	ssize_t n;

	while (from >= 0 && (n = read(from, buf, sizeof(buf))) > 0)
		write_all(to, buf, n);
}

/* A record per read. EPIPE: the ring overran; the host sees the gap in the numbers. */
static void carry_kmsg(struct carrier *c)
{
	char buf[16384];

	for (;;) {
		ssize_t n = read(c->kmsg, buf, sizeof(buf) - 1);

		if (n < 0 && (errno == EPIPE || errno == EINTR))
			continue;
		if (n <= 0)
			return;
		buf[n] = 0;
		sscanf(buf, "%*u,%llu,", &c->last_record);
		write_all(c->kmsg_port, buf, n);
		write_all(c->kmsg_port, "", 1);
	}
}

static void carry_all(struct carrier *c)
{
	carry(c->out_pipe, c->out_port);
	carry(c->err_pipe, c->err_port);
	carry(c->terminal, c->tty_port);
	carry_kmsg(c);
}

static pid_t start(struct orders *o, struct carrier *c)
{
	int out[2], err[2];
	sigset_t none;
	pid_t pid;

	sigemptyset(&none);
	if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		fail("cannot make a pipe: %s", strerror(errno));
	pid = o->interactive ? forkpty(&c->terminal, NULL, NULL, &o->tty) : fork();
	if (pid < 0)
		fail("cannot start a process: %s", strerror(errno));
	if (!pid) {
		sigprocmask(SIG_SETMASK, &none, NULL);
		if (!o->interactive) {
			setsid();
			dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
			dup2(out[1], STDOUT_FILENO);
			dup2(err[1], STDERR_FILENO);
		}
		environ = o->envp;	/* before the search in PATH */
		if (chdir(o->cwd))
			fprintf(stderr, "vm: no folder %s in the guest: %m\n", o->cwd);
		else if (execvp(o->argv[0], o->argv))
			fprintf(stderr, "vm: cannot run %s: %m\n", o->argv[0]);
		_exit(127);
	}
	close(out[1]);
	close(err[1]);
	c->out_pipe = out[0];
	c->err_pipe = err[0];
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	fcntl(err[0], F_SETFL, O_NONBLOCK);
	if (o->interactive)
		fcntl(c->terminal, F_SETFL, O_NONBLOCK);
	return pid;
}

/* True when the command itself has ended; other processes are only reaped. */
static bool reap(pid_t command, int *status)
{
	bool ended = false;
	pid_t pid;
	int s;

	while ((pid = waitpid(-1, &s, WNOHANG)) > 0) {
		if (pid != command)
			continue;
		*status = WIFEXITED(s) ? WEXITSTATUS(s) : 128 + WTERMSIG(s);
		ended = true;
	}
	return ended;
}

/* Until the command has ended and the host says "off". What it left running may be another guest's server until then. */
static int run(struct orders *o, struct carrier *c)
{
	struct signalfd_siginfo info;
	sigset_t child;
	bool ended = false, off = false;
	int sig, status = 0;
	pid_t pid;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	sig = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	pid = start(o, c);

	while (!ended || !off) {
		struct pollfd p[] = {
			{ .fd = sig, .events = POLLIN },
			{ .fd = c->out_pipe, .events = POLLIN },
			{ .fd = c->err_pipe, .events = POLLIN },
			{ .fd = c->kmsg, .events = POLLIN },
			{ .fd = c->terminal, .events = POLLIN },
			{ .fd = o->interactive ? c->tty_port : -1, .events = POLLIN },
			{ .fd = ctl, .events = POLLIN },
		};

		/* A pipe or terminal whose writers have gone is not read again. */
		poll(p, sizeof(p) / sizeof(p[0]), -1);
		if (p[0].revents) {
			while (read(sig, &info, sizeof(info)) > 0)
				;
			if (reap(pid, &status)) {
				ended = true;
				carry_all(c);
				dprintf(ctl, "ended %d\n", status);
			}
		}
		carry_all(c);
		if (p[1].revents == POLLHUP)
			c->out_pipe = -1;
		if (p[2].revents == POLLHUP)
			c->err_pipe = -1;
		if (p[4].revents == POLLHUP)
			c->terminal = -1;
		if (p[5].revents & POLLIN) {
			char keys[256];
			ssize_t n = read(c->tty_port, keys, sizeof(keys));

			if (n > 0 && c->terminal >= 0)
				write_all(c->terminal, keys, n);
		}
		if (p[6].revents & POLLIN) {
			char line[16];

			read_line(line, sizeof(line));
			off = !strcmp(line, "off");
			if (off && !ended)
				kill(-1, SIGKILL);
		}
	}
	return status;
}

/* Whatever the command left running dies before the kernel's last words are read. */
static void end_the_rest(const struct orders *o)
{
	kill(-1, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	for (int i = o->sharec - 1; i >= 0; i--)
		umount2(o->shares[i] + strlen(o->shares[i]) + 1, MNT_DETACH);
	sync();
}

/* ---- leaks ------------------------------------------------------------- */

#define LEAK_MIN_AGE	6	/* seconds: the kernel does not suspect younger memory */
#define LEAK_SCANS	4	/* what changed since the scan before is not suspected yet */

/* Copies the report into the kernel's log, where the host judges it.  One write a record: dprintf() seeks first. */
static void report_leaks(int leaks)
{
	int kmsg = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
	char buf[65536], record[512], *line, *rest = buf;
	size_t used = 0;
	ssize_t n;

	while (used < sizeof(buf) - 1 && (n = read(leaks, buf + used, sizeof(buf) - 1 - used)) > 0)
		used += n;
	buf[used] = 0;
	while ((line = strsep(&rest, "\n"))) {
		int length = snprintf(record, sizeof(record), "<3>kmemleak: %.400s\n", line);

		if (*line && write(kmsg, record, length) != length)
			fail("memory has leaked, and the kernel's log does not take the report: %s", strerror(errno));
	}
	close(kmsg);
}

/*
 * On a kernel that can tell: kernel memory that no pointer leads to any
 * more. A pointer may be in a register just then, so only what several scans
 * in a row find counts.
 */
static void look_for_leaks(struct carrier *c)
{
	int leaks = open("/sys/kernel/debug/kmemleak", O_RDWR | O_CLOEXEC);
	bool found = true;
	char byte;

	if (leaks < 0)
		return;
	sleep(LEAK_MIN_AGE);
	if (write(leaks, "scan", 4) != 4)
		fail("cannot scan for leaks: %s", strerror(errno));
	for (int i = 1; i < LEAK_SCANS && found; i++) {
		if (write(leaks, "scan", 4) != 4)
			fail("cannot scan for leaks: %s", strerror(errno));
		found = pread(leaks, &byte, 1, 0) == 1;
		carry_kmsg(c);
	}
	if (found && lseek(leaks, 0, SEEK_SET) == 0)
		report_leaks(leaks);
	close(leaks);
}

/* The machine boots with one processor: vm/harness/machine.py. */
static void start_processors(void)
{
	for (int i = 1;; i++) {
		char path[64];
		int fd;

		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", i);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			return;
		if (write(fd, "1", 1) != 1 && errno != EINVAL)
			fail("processor %d does not start: %s", i, strerror(errno));
		close(fd);
	}
}

int main(void)
{
	static struct orders o;
	struct carrier c = { -1, -1, -1, -1, -1, -1, -1, -1, 0 };
	int status;

	must_mount("proc", "/proc", "proc", 0, NULL);
	must_mount("sys", "/sys", "sysfs", 0, NULL);
	must_mount("dev", "/dev", "devtmpfs", 0, NULL);
	load_modules();
	ctl = open_port("ctl");
	read_orders(&o);
	c.out_port = open_port("out");
	c.err_port = open_port("err");
	c.kmsg_port = open_port("kmsg");
	if (o.interactive)
		c.tty_port = open_port("tty");
	c.kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (c.kmsg < 0)
		fail("cannot read the kernel's log: %s", strerror(errno));

	build_root(&o);
	sethostname(o.hostname, strlen(o.hostname));
	network_up(&o);
	start_processors();
	wait_for_go();
	carry_kmsg(&c);
	dprintf(ctl, "mark %llu\n", c.last_record);
	status = run(&o, &c);
	end_the_rest(&o);
	if (!o.interactive)
		look_for_leaks(&c);
	carry_all(&c);
	dprintf(ctl, "exit %d\n", status);
	power_off();
}
