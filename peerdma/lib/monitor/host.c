// SPDX-License-Identifier: MIT
/*
 * host.c - chooses the monitor of host memory, once per process, at its first use. In this order:
 *
 *	another library's monitor, if it was started (peerdma_monitor_start());
 *	our own: redirected system calls of the C library and the dynamic loader;
 *	UCX's ucm, if the process has loaded it and our own cannot be used.
 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "../base/component.h"
#include "../internal.h"
#include "monitor.h"
#include "sites.h"

struct code {
	uintptr_t inside;		/* an address in the wanted library */
	uintptr_t text, end, room_end;
};

static int find_code(struct dl_phdr_info *info, size_t size, void *arg)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct code *c = arg;
	bool mine = false;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type != PT_LOAD)
			continue;
		mine |= c->inside - start < ph->p_memsz;
		if (ph->p_flags & PF_X && !(ph->p_flags & PF_W)) {
			c->text = start;
			c->end = start + ph->p_filesz;
			c->room_end = (c->end + page - 1) & ~(page - 1);
		}
	}
	return mine;
}

#define SITES_MAX 64

struct found {
	uintptr_t sites[SITES_MAX];
	int n;
};

static int redirect(const char *what, const void *inside, struct found *found)
{
	struct code code = { .inside = (uintptr_t)inside };

	if (!inside || !dl_iterate_phdr(find_code, &code) || !code.text)
		return fail(-EOPNOTSUPP, "%s was not found in this process", what);
	found->n = sites_redirect(code.text, code.end, code.end, code.room_end, monitor_system_call,
				  found->sites, SITES_MAX);
	if (found->n == -EACCES)
		return fail(-EACCES, "this process may not change the code of %s (SELinux's execmod, or systemd's "
			    "MemoryDenyWriteExecute)", what);
	if (found->n == -EALREADY)
		return fail(-EOPNOTSUPP, "another copy of libpeerdma in this process has redirected the system calls of %s; load one copy only",
			    what);
	if (found->n <= 0)
		return fail(-EOPNOTSUPP,
			    "the code of %s has no system calls where they are expected (%d)", what,
			    found->n);
	return 0;
}

/* Whether a function of the C library contains one of the sites. */
static bool has_site(void *libc, const char *name, const struct found *found)
{
	void *function = dlsym(libc, name);
	const ElfW(Sym) *symbol;
	Dl_info info;

	if (!function || !dladdr1(function, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
		return false;
	for (int i = 0; i < found->n && i < SITES_MAX; i++) {
		if (found->sites[i] - (uintptr_t)function < symbol->st_size)
			return true;
	}
	return false;
}

static int own_begin(void)
{
	static const char *const names[] = { "munmap", "mmap",	"mremap", "madvise",
					     "brk",    "shmdt", "shmat",  "syscall" };
	struct found libc_sites, loader_sites;
	void *libc;
	int ret;

	if (!sites_known())
		return fail(-EOPNOTSUPP, "on this processor the system calls of the C library cannot be redirected");
	libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	ret = redirect("the C library", libc ? dlsym(libc, "munmap") : NULL, &libc_sites);
	if (!ret)
		ret = redirect("the dynamic loader", (void *)getauxval(AT_BASE), &loader_sites);
	for (unsigned int i = 0; !ret && i < sizeof(names) / sizeof(names[0]); i++) {
		if (!has_site(libc, names[i], &libc_sites))
			ret = fail(-EOPNOTSUPP,
				   "%s() in the C library has no system call where it is expected",
				   names[i]);
	}
	return ret ? ret : monitor_try_host();
}

static const char own_name[] = "system calls of the C library", ucm_name[] = "ucm";
static const char *name;		/* of the chosen monitor */
static char own_why[200], ucm_why[256];	/* why not, if it was tried */

static int begin(void)
{
	int ret = own_begin();

	if (!ret) {
		name = own_name;
		return 0;
	}
	snprintf(own_why, sizeof(own_why), "%s", peerdma_last_error());
	if (!ucm_begin()) {
		name = ucm_name;
		return 0;
	}
	snprintf(ucm_why, sizeof(ucm_why), "%s", peerdma_last_error());
	return fail(ret, "%s", own_why);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool begun, done;
static char why[256];
static int result;

/*
 * Runs in a forked child. fork() does not wait for `lock`, because its holder waits for the
 * loader's lock, which the forking thread may hold. If another thread of the parent was redirecting
 * calls, the code may be half changed. So the child leaves it, and has no monitor.
 */
static void forked(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	if (!atomic_load(&begun) || atomic_load(&done))
		return;
	result = -EOPNOTSUPP;
	strcpy(why, "this process was forked by one that was about to begin with it");
	atomic_store(&done, true);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forked);
}

int host_monitor_begin(void)
{
	uint32_t was;

	if (monitor_outside(MONITOR_HOST))
		return 0;
	if (!atomic_load(&done)) {
		pthread_mutex_lock(&lock);
		if (!atomic_load(&done)) {
			atomic_store(&begun, true);
			was = attempt_begin();
			result = begin();
			if (result)
				snprintf(why, sizeof(why), "%s", peerdma_last_error());
			attempt_end(was, 0);
			atomic_store(&done, true);
		}
		pthread_mutex_unlock(&lock);
	}
	return result ? fail(result, "host memory is not monitored: %s", why) : 0;
}

const char *host_monitor_name(void)
{
	const char *outside = monitor_outside(MONITOR_HOST);

	return outside ? outside : name;
}

/* untried: why a monitor was not tried; why_not: why it is not used, if it was. */
static void describe(const char *is, const char *untried, const char *why_not,
		     struct components *to)
{
	struct peerdma_component c = component(PEERDMA_COMPONENT_MONITOR, is);
	const char *outside = monitor_outside(MONITOR_HOST);

	/* outside.c describes it. */
	if (outside && !strcmp(outside, is))
		return;
	if (outside) {
		c.state = PEERDMA_COMPONENT_OFF;
		component_why(&c, "host memory: not used, because '%s' monitors it", outside);
	} else if (!atomic_load(&done)) {
		c.state = PEERDMA_COMPONENT_UNKNOWN;
		component_why(&c, "host memory: %s", untried);
	} else if (name == is) {
		component_why(&c, "host memory: reports munmap(), mremap(), madvise() and others, as a trial has shown");
	} else {
		c.state = PEERDMA_COMPONENT_OFF;
		component_why(&c, "host memory: %s", *why_not ? why_not : why);
	}
	components_add(to, &c);
}

void host_describe(struct components *to)
{
	describe(own_name, "not begun yet: decided at its first use, by a cache that pins host memory or by peerdma_monitor_subscribe()",
		 own_why, to);
	describe(ucm_name, "tried only where the system calls cannot be monitored",
		 atomic_load(&done) && name == own_name ? "not needed, because the system calls are monitored" : ucm_why, to);
}
