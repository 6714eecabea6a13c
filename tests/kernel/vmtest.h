/* SPDX-License-Identifier: MIT */
/*
 * vmtest.h - what the programs that run as root in a virtual machine share: files of the system, memory,
 * processes and threads, users and cgroups.
 */
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "check.h"
#include "patience.h"

/* The system's: arm64 has kernels whose pages are of 16 or 64 KiB. */
#define PAGE		((unsigned long)getpagesize())
#define PAGE_SHIFT	((unsigned int)__builtin_ctzl(PAGE))
#define GPU_PAGE	65536UL
#define KIB		1024UL
#define MIB		(1UL << 20)

/* ---- tests ---- */

void run(const char *name, void (*test)(void));
void skip(const char *name, const char *why);

/* Waits until the condition holds; false: it does not, after time enough on any machine. */
#define UNTIL(cond) ({									\
	bool holds_;									\
											\
	for (long ms_ = 60000L * patience(); !(holds_ = (cond)) && ms_; ms_--)		\
		usleep(1000);								\
	holds_;										\
})

/* ---- files ---- */

/* Into a file that is there, of debugfs or of a module's parameters: 0 or an errno. */
int write_text(const char *path, const char *text);
/* The same, which must work.  The path as for printf(). */
void must_write(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The number in a file, e.g. a module's reference count; -1: none. */
long file_number(const char *path);
/* The number behind the name at the beginning of a line; -1: no such line, or no file. */
long long line_number(const char *path, const char *name);
/* Sets a module's parameter; false: it has no such, or not with that value. */
bool module_set(const char *module, const char *parameter, const char *value);
/* A parameter that is a bool is set. */
bool module_is(const char *module, const char *parameter);
/* Sets a chaos knob of softgpu. */
bool softgpu_chaos(const char *knob, const char *value);
/* The kernel's log from now on; how many of its records since the last look have both texts. */
int log_open(void);
int log_records(int log, const char *text, const char *and);

/* ---- memory ---- */

/* Anonymous and private; of these, host_memory() is touched: each page begins with its number. */
char *anonymous(size_t length);
char *host_memory(size_t length);
/* Zeroes that processes which are forked after this share. */
void *shared_memory(size_t length);
/* Pages that do not come until the userfaultfd answers, or is closed. */
char *absent_memory(size_t length, int *uffd);

/* Does a read of the byte raise this signal (0: none)?  In any thread. */
int signal_of_read(const volatile void *addr);
int signal_of_write(volatile void *addr, char value);

/* ---- processes ---- */

/* A child, and a socket to it.  It ends with the function's value, or 99 if a check has failed in it. */
struct process {
	pid_t pid;
	int peer;
};
struct process begin(int (*function)(int peer, void *arg), void *arg);
void say(int peer);
/* False: the other has gone. */
bool hear(int peer);
/* Closes the socket and waits; the child's exit code, or -signal. */
int finish(struct process *p);
/* The same; one that has not ended within these seconds has failed, and is killed. */
int finish_within(struct process *p, int seconds);
bool is_alive(const struct process *p);
/* A descriptor. */
void pass(int peer, int fd);
int receive(int peer);
/* The state of a process or thread in /proc, 'D' for example; 0: there is none. */
char state_of(pid_t tid);

/* The calling process, root's, becomes the user's for good, with these capabilities (a mask) only. */
void become(uid_t uid, uint32_t capabilities);
/* RLIMIT_MEMLOCK; before become(). */
void may_lock(size_t bytes);
/* A cgroup that may use so much memory; false: this kernel has none.  cgroup_enter() is for a child. */
#define CGROUP		"/sys/fs/cgroup/vmtest"
bool cgroup_make(size_t bytes);
void cgroup_enter(void);
void cgroup_remove(void);

/* ---- threads ---- */

struct task {
	void (*function)(void *arg);
	void *arg;
	pthread_t thread;
	volatile bool over;
};
void task_begin(struct task *t, void (*function)(void *arg), void *arg);
/* Waits for it; ends the program when it does not come. */
void task_end(struct task *t);

/* ---- random numbers that differ between threads ---- */

extern __thread uint64_t random_state;
static inline unsigned int r(unsigned int n)
{
	return (unsigned int)below(&random_state, n);
}
