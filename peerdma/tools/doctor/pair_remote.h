/* SPDX-License-Identifier: MIT */
/* pair_remote.h - a command on another machine, run through a remote shell: ssh, or what --rsh names. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct remote {
	const char *host;
	pid_t pid;		/* 0: none runs */
	int to, from;		/* its standard input and output; -1: closed */
};

#define REMOTE_RSH	"ssh"

/*
 * No shell takes part on this side: rsh is cut at blanks.  A word "%h" of it is replaced by the host,
 * which without one is the word after it; then comes the command.  `talk': its standard input is a pipe,
 * else it is empty.  False: it failed, and that was said.
 */
bool remote_start(struct remote *r, const char *rsh, const char *host, const char *const command[],
		  bool talk);
/* Waits until it ends, `seconds' at most, then ends it.  Its status as of waitpid(2); -1: it had to be ended. */
int remote_end(struct remote *r, unsigned int seconds);

/* Milliseconds that are left until then, never less than 0; 0 seconds: now. */
long long remote_deadline(unsigned int seconds);
int remote_left(long long deadline);

/*
 * The bundle of another machine, in a file without a name: its descriptor, and a path to it.  -1: it
 * failed, and that was said.
 */
int remote_bundle(const char *rsh, const char *host, unsigned int seconds, char path[64]);
