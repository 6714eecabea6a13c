/* SPDX-License-Identifier: MIT */
/* The parts of the guest's PID 1. What the host and it say to each other: main.c. */
#ifndef VM_INIT_H
#define VM_INIT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/ioctl.h>

#define MAX_ITEMS	1024

/* What the host asks for. All strings point into one buffer that lives forever. */
struct orders {
	char *argv[MAX_ITEMS + 1];	/* "arg=", in order */
	char *envp[MAX_ITEMS + 1];	/* "env=NAME=VALUE" */
	char *shares[MAX_ITEMS];	/* "share=TAG:PATH", mounted read-write at PATH */
	char *addresses[MAX_ITEMS];	/* "address=IPV4", of eth0, eth1... */
	char *names[MAX_ITEMS];		/* "name=LINE", for /etc/hosts */
	int argc, envc, sharec, addressc, namec;
	char *hostname;			/* "hostname=" */
	char *cwd;			/* "cwd=" */
	char *modules;			/* "modules=": the host's folder for /lib/modules/$(uname -r) */
	char *release;			/* "release=": that $(uname -r) */
	char *above;			/* "above=": tag of a file system whose files hide the host's */
	struct winsize tty;		/* "tty=ROWSxCOLUMNS": run on a terminal */
	bool interactive;
};

/* ---- host.c ------------------------------------------------------------ */

extern int ctl;		/* the port of that name; -1 while there is none */

void load_modules(void);
int open_port(const char *name);
void read_orders(struct orders *o);
void read_line(char *line, size_t size);
void wait_for_go(void);

void power_off(void) __attribute__((noreturn));

/* The guest cannot do its job: tell the host why and end. */
void fail(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* ---- copyup.c ---------------------------------------------------------- */

/*
 * Copies what each program opens as it starts, such as the C library, from the host's
 * file system to the layer above it. What cannot be copied is opened there as before.
 */
void copy_up(void);

/* ---- net.c ------------------------------------------------------------- */

/*
 * Brings up the loopback device and eth0, eth1... with one IPv4 address each, and
 * adds lines to /etc/hosts.
 */
void network_up(const struct orders *o);

#endif
