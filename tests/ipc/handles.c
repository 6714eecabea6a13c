// SPDX-License-Identifier: MIT
/*
 * handles.c - handles of memory and signals: changed, forged, and in the hands of another user.
 *
 * usage: handles TEST
 */
#include <stdio.h>

#include "other.h"
#include "util.h"

#define MIB (1UL << 20)

static void handles(void)
{
	struct other o = other_make(getuid());
	struct other_answer a = ASK(&o, OTHER_ALLOC, .value = MIB, .offset = 4096, .fill = 7), s = ASK(&o, OTHER_SIGNAL, .value = 1);
	struct peerdma_ipc_handle h = { { 0 } };
	struct peerdma_ipc_memory *m = NULL, *cached = NULL;
	struct peerdma_ipc_signal *signal;
	/* Fields, by their place in the handle: what a forger with the right checksum gets. */
	static const struct {
		const char *what;
		int at;
		int error;
	} forged[] = {
		{ "format", 8, -EPROTO }, { "a signal's", 10, -EINVAL }, { "reserved", 12, -EINVAL }, { "boot", 16, -EREMOTE },
		{ "process", 40, -EOWNERDEAD }, { "key", 48, -EKEYREJECTED }, { "key's end", 63, -EKEYREJECTED },
		{ "user", 64, -EACCES }, { "slot", 72, -EKEYREJECTED }, { "slot past the end", 74, -EINVAL },
		{ "reserved", 76, -EINVAL }, { "generation", 81, -EKEYREJECTED }, { "range", 91, -EINVAL }, { "length", 99, -EINVAL },
		{ "length wraps", 103, -EINVAL }, { "reserved", 104, -EINVAL }, { "reserved", 119, -EINVAL },
	};
	int wrong = 0, ret;

	CHECK(!a.ret && !s.ret, "something to open");
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < sizeof(h); i++) {
			for (int bit = 0; bit < 8; bit++) {
				h = a.handle;
				h.bytes[i] ^= (unsigned char)(1 << bit);
				wrong += OPEN(&h, &m) != -EINVAL;
			}
		}
		CHECK(!wrong, "every bit of a handle turned round: -EINVAL (%s)", round ? "opened before" : "not opened yet");
		for (size_t size = 0; size < sizeof(h); size++)
			wrong += peerdma_ipc_open(&a.handle, size, 0, &m) != -EINVAL;
		wrong += peerdma_ipc_open(&a.handle, sizeof(h) + 1, 0, &m) != -EINVAL;
		CHECK(!wrong, "every other length: -EINVAL");
		for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
			h = a.handle;
			h.bytes[forged[i].at] ^= forged[i].at == 10 ? 3 : 0x80;
			handle_sign(&h);
			ret = OPEN(&h, &m);
			CHECK(ret == forged[i].error, "forged, %s: %d", forged[i].what, ret);
		}
		if (!round)
			CHECK(!OPEN(&a.handle, &cached), "the true one opens");
	}
	CHECK(peerdma_ipc_open(NULL, 0, 0, &m) == -EINVAL, "no handle");
	CHECK(peerdma_ipc_open(&a.handle, sizeof(h), 1, &m) == -EINVAL, "unknown flags");
	CHECK(peerdma_ipc_open(&a.handle, sizeof(h), 0, NULL) == -EINVAL, "nowhere to put it");
	CHECK(OPEN(&s.handle, &m) == -EINVAL, "a signal is no memory");
	CHECK(peerdma_ipc_signal_open(&a.handle, sizeof(h), &signal) == -EINVAL, "memory is no signal");
	CHECK(peerdma_ipc_unexport(&a.handle) == -EINVAL, "another's export is not taken back");
	CHECK(peerdma_ipc_valid(cached), "nothing of this ended what is open");
	peerdma_ipc_close(cached);
	other_end(&o, SIGKILL);
}

/* A process of another user, with and without leave. */
static void users(void)
{
	struct other o, stranger;
	struct other_answer a, b, c;

	if (getuid()) {
		printf("skipped: only root can be another user\n");
		exit(77);
	}
	o = other_make(1000);
	stranger = other_make(1001);
	a = ASK(&o, OTHER_ALLOC, .value = 8192, .fill = 4);
	b = ASK(&stranger, OTHER_OPEN, .handle = a.handle);
	CHECK(!a.ret && b.ret == -EACCES, "another user: %d", b.ret);
	ASK(&o, OTHER_FREE);
	b = ASK(&stranger, OTHER_OPEN, .handle = a.handle);
	CHECK(b.ret == -EACCES, "also of what was freed: it learns no more: %d", b.ret);
	a = ASK(&o, OTHER_ALLOC, .value = 8192, .fill = 6, .flags = PEERDMA_IPC_ANY_USER);
	b = ASK(&stranger, OTHER_OPEN, .handle = a.handle);
	CHECK(!a.ret && !b.ret && b.value == 6, "with leave and the key: %d", b.ret);
	c = a;
	c.handle.bytes[50] ^= 1;
	handle_sign(&c.handle);
	b = ASK(&stranger, OTHER_OPEN, .handle = c.handle);
	CHECK(b.ret == -EKEYREJECTED, "a guess, where it is open: %d", b.ret);
	other_end(&stranger, SIGKILL);
	stranger = other_make(1001);
	b = ASK(&stranger, OTHER_OPEN, .handle = c.handle);
	CHECK(b.ret == -EACCES, "a guess: %d", b.ret);
	a = ASK(&o, OTHER_SIGNAL, .value = 3);
	b = ASK(&stranger, OTHER_OPEN_SIGNAL, .handle = a.handle);
	CHECK(!a.ret && b.ret == -EACCES, "a signal: %d", b.ret);
	a = ASK(&o, OTHER_SIGNAL, .value = 3, .flags = PEERDMA_IPC_ANY_USER);
	b = ASK(&stranger, OTHER_OPEN_SIGNAL, .handle = a.handle);
	CHECK(!a.ret && !b.ret && ASK(&stranger, OTHER_GET).value == 3, "with leave: %d", b.ret);
	ASK(&stranger, OTHER_SET, .value = 8);
	CHECK(!ASK(&o, OTHER_WAIT, .value = 8).ret, "and it works");
	other_end(&stranger, SIGKILL);
	other_end(&o, SIGKILL);
}

int main(int argc, char **argv)
{
	static const struct named_test tests[] = {
		{ "handles", handles }, { "users", users },
	};

	return run_named(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
