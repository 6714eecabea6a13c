// SPDX-License-Identifier: MIT
/* rules.c - the rules of AMD's interface, as its documents and its clients have them. */
#include "conform.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct amd_rdma_test_call get(const void *va, uint64_t length)
{
	return T(.op = A_GET, .va = (uintptr_t)va, .length = length);
}

static void must_get(const void *va, uint64_t length)
{
	struct amd_rdma_test_call c = get(va, length);

	if (c.ret || !c.has_info)
		exit(2);
}

static int put(void)
{
	return T(.op = A_PUT).ret;
}

/* A failure, in this version's way. */
static void fails(const char *what, struct amd_rdma_test_call c, int want_1, int want_2)
{
	returns(group_name, what, api == 1 ? want_1 : want_2, c.ret);
	if (api == 1)
		judge(!c.has_info && !c.untouched, group_name, "  and *info", "NULL", "%s",
		      c.has_info ? "set" : c.untouched ? "as before" : "NULL");
	else if (!want_2)
		judge(c.untouched, group_name, "  and *info", "as before", "%s", c.untouched ? "as before" : c.has_info ? "set" : "NULL");
	if (c.has_info)
		put();
}

static bool word_is(struct amd_rdma_test_call c, uint64_t at, uint32_t want)
{
	uint32_t word = 0;

	(void)c;
	T(.op = A_PEEK, .va = at, .data = (uintptr_t)&word, .length = 4);
	return word == want;
}

/* ---- get_pages and put_pages ---- */

static void pages(void)
{
	char *p = gpu_alloc(BLOCK);
	struct amd_rdma_test_call c;
	uint64_t segs[2 * 512];
	uint32_t in = 0x5eed0001, out = 0x5eed0002;
	bool small = true;

	c = get(p, BLOCK);
	returns(group_name, "get_pages of an allocation", 0, c.ret);
	judge(c.has_info, group_name, "  and *info", "set", "%s", c.has_info ? "set" : "NULL");
	if (!c.has_info)
		exit(2);
	judge(c.info_va == (uintptr_t)p && c.info_size == BLOCK, group_name, "info: va and size", "as asked for", "%#llx, %#llx",
	      (unsigned long long)c.info_va, (unsigned long long)c.info_size);
	judge(c.info_pid == (uint32_t)getpid(), group_name, "info: pid, where NULL was given", "the caller's", "%u", c.info_pid);
	judge(c.bytes == BLOCK, group_name, "info: the table covers it", "2097152 bytes", "%llu", (unsigned long long)c.bytes);
	if (api == 1) {
		T(.op = A_SEGMENTS, .data = (uintptr_t)segs, .length = 512);
		for (unsigned int i = 0; i < 512 && i < c.segments; i++)
			small &= segs[2 * i + 1] == PAGE;
		judge(small && c.segments == BLOCK / PAGE, group_name, "info: the table's entries", "a page each", "%u", c.segments);
	}
	gpu_copy(p + BLOCK - 4, &in, 4);
	judge(word_is(c, BLOCK - 4, in), group_name, "what hipMemcpy wrote, read at its address", "the same", "%s",
	      word_is(c, BLOCK - 4, in) ? "the same" : "other");
	T(.op = A_POKE, .va = 4096, .data = (uintptr_t)&out, .length = 4);
	gpu_copy(&in, p + 4096, 4);
	judge(in == out, group_name, "what was written there, read by hipMemcpy", "the same", "%#x", in);
	judge(*(volatile uint32_t *)(p + 4096) == out, group_name, "and by the CPU at the GPU's address", "the same", "%#x",
	      *(volatile uint32_t *)(p + 4096));
	returns(group_name, "put_pages", 0, put());
	judge(!T(.op = A_STATE).has_info, group_name, "  and *info", "NULL", "%s", T(.op = A_STATE).has_info ? "set" : "NULL");
	gpu_free(p);
	judge(!T(.op = A_STATE).callbacks, group_name, "the memory is freed after put_pages", "no callback", "%u",
	      T(.op = A_STATE).callbacks);
}

static void parts(void)
{
	char *p = gpu_alloc(BLOCK);
	struct amd_rdma_test_call c = get(p + 3 * PAGE, 2 * PAGE);
	uint32_t in = 0x5eed0003;

	returns(group_name, "get_pages of two pages inside an allocation", 0, c.ret);
	judge(c.bytes == 2 * PAGE, group_name, "  its table", "two pages", "%llu", (unsigned long long)c.bytes);
	gpu_copy(p + 4 * PAGE, &in, 4);
	judge(word_is(c, PAGE, in), group_name, "  its second page", "that one", "%s", word_is(c, PAGE, in) ? "that one" : "another");
	put();
	if (api == 1) {
		fails("an address that is no whole page", get(p + 100, PAGE), -EINVAL, 0);
	} else {
		c = get(p + PAGE + 100, PAGE);
		returns(group_name, "a range that is no whole pages", 0, c.ret);
		judge(c.bytes == 2 * PAGE && c.info_va == (uintptr_t)p + PAGE + 100 && c.info_size == PAGE, group_name,
		      "  is widened, info as asked for", "two pages", "%llu", (unsigned long long)c.bytes);
		put();
	}
	for (int slot = 0; slot < 2; slot++)
		c = T(.op = A_GET, .slot = slot, .va = (uintptr_t)p, .length = BLOCK);
	returns(group_name, "the same range held twice", 0, c.ret);
	T(.op = A_PUT, .slot = 0);
	returns(group_name, "  and let go of one by one", 0, T(.op = A_PUT, .slot = 1).ret);
	gpu_free(p);
}

static void wrong(void)
{
	char *p = gpu_alloc(BLOCK), *q = gpu_alloc(BLOCK), *freed = gpu_alloc(BLOCK), *low = p < q ? p : q;
	char *own = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct amd_rdma_test_call c;

	gpu_free(freed);
	memset(own, 1, BLOCK);
	fails("address 0", get(NULL, PAGE), -EINVAL, 0);
	fails("memory of the process", get(own, PAGE), -EINVAL, 0);
	fails("GPU memory that was freed", get(freed, BLOCK), -EINVAL, 0);
	fails("past an allocation's end", get(low + BLOCK - PAGE, 2 * PAGE), -EINVAL, 0);
	c = get(p, 0);
	returns(group_name, "length 0", -EINVAL, c.ret);
	c = get(p, UINT64_MAX - 8191);
	returns(group_name, "a length that wraps", -EINVAL, c.ret);
	c = T(.op = A_GET, .va = (uintptr_t)p, .length = BLOCK, .flags = W_NULL_INFO);
	returns(group_name, "nowhere for the info to go", -EINVAL, c.ret);
	if (api >= 2) {
		c = T(.op = A_GET, .va = (uintptr_t)p, .length = BLOCK, .flags = W_NULL_DEVICE);
		returns(group_name, "no dma_dev", -EINVAL, c.ret);
	}
	returns(group_name, "put_pages(NULL)", -EINVAL, T(.op = A_PUT, .flags = W_NULL_INFO).ret);
	returns(group_name, "put_pages of NULL", -EINVAL, T(.op = A_PUT, .flags = W_EMPTY).ret);
	must_get(p, BLOCK);
	put();
	returns(group_name, "put_pages of what was put", -EINVAL, T(.op = A_PUT, .flags = W_STALE).ret);
	gpu_free(p);
	gpu_free(q);
}

/* ---- whose ---- */

struct thread {
	_Atomic int tid;
	_Atomic bool done;
};

static void *thread(void *arg)
{
	struct thread *t = arg;

	t->tid = (int)syscall(SYS_gettid);
	while (!t->done)
		nap_ms(1);
	return NULL;
}

static void parent_asks(void *arg)
{
	const char *p = arg;
	struct amd_rdma_test_call c;

	/* In the child: its parent's memory, by its parent's pid, and not by its own. */
	c = T(.op = A_GET, .va = (uintptr_t)p, .length = BLOCK, .pid = getppid());
	returns(group_name, "another process's memory, by its pid", 0, c.ret);
	judge(c.has_info, group_name, "  and *info", "set", "%s", c.has_info ? "set" : "not set");
	if (c.has_info)
		returns(group_name, "  put by a process without a GPU", 0, put());
	fails("the same, pid NULL: the caller's own", get(p, BLOCK), -EINVAL, -ESRCH);
	judge(T(.op = A_IS_GPU, .va = (uintptr_t)p, .pid = getppid()).ret == 1, group_name, "is_gpu_address, by its pid", "1", "%d",
	      T(.op = A_IS_GPU, .va = (uintptr_t)p, .pid = getppid()).ret);
	judge(T(.op = A_IS_GPU, .va = (uintptr_t)p).ret == 0, group_name, "is_gpu_address, pid NULL", "0", "%d",
	      T(.op = A_IS_GPU, .va = (uintptr_t)p).ret);
}

static void whose(void)
{
	char *p = gpu_alloc(BLOCK), *own = malloc(BLOCK);
	struct amd_rdma_test_call c;
	struct thread t = { 0 };
	pthread_t id;
	pid_t pid;

	c = T(.op = A_GET, .va = (uintptr_t)p, .length = BLOCK, .pid = getpid());
	returns(group_name, "the caller's own pid", 0, c.ret);
	judge(c.has_info && c.info_pid == (uint32_t)getpid(), group_name, "  info: pid", "that one", "%u", c.info_pid);
	put();
	if (pthread_create(&id, NULL, thread, &t))
		exit(2);
	while (!t.tid)
		nap_ms(1);
	c = T(.op = A_GET, .va = (uintptr_t)p, .length = BLOCK, .pid = t.tid);
	returns(group_name, "the pid of another thread of it", 0, c.ret);
	judge(c.has_info, group_name, "  and *info", "set", "%s", c.has_info ? "set" : "not set");
	put();
	t.done = true;
	pthread_join(id, NULL);
	if (!in_child(parent_asks, p))
		row(FAIL, group_name, "another process", "an end", "none");
	pid = fork();
	if (!pid)
		_exit(0);
	waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
	fails("the pid of a process that died, not yet reaped",
	      T(.op = A_GET, .va = (uintptr_t)p, .length = BLOCK, .pid = pid), -EINVAL, -ESRCH);
	waitpid(pid, NULL, 0);
	judge(T(.op = A_IS_GPU, .va = (uintptr_t)p + BLOCK - 1).ret == 1, group_name, "is_gpu_address of the last byte", "1", "%d",
	      T(.op = A_IS_GPU, .va = (uintptr_t)p + BLOCK - 1).ret);
	judge(T(.op = A_IS_GPU, .va = (uintptr_t)own).ret == 0, group_name, "is_gpu_address of memory of the process", "0", "%d",
	      T(.op = A_IS_GPU, .va = (uintptr_t)own).ret);
	c = T(.op = A_PAGE_SIZE, .va = (uintptr_t)p, .length = BLOCK);
	judge(!c.ret && c.value == PAGE, group_name, "get_page_size", "0, the system's", "%d, %llu", c.ret, (unsigned long long)c.value);
	gpu_free(p);
}

/* ---- the memory goes ---- */

/* Judges the callback of slot 0, after its memory has gone. */
static void judge_callback(const char *how, uint32_t word, int tid)
{
	struct amd_rdma_test_call c = T(.op = A_STATE);

	judge(c.callbacks == 1 && c.callbacks_done == 1, group_name, how, "one callback, over when it returns", "%u, %u", c.callbacks,
	      c.callbacks_done);
	judge(c.callback_valid, group_name, "  info, table and memory in it", "as before", "%s", c.callback_valid ? "as before" : "not so");
	judge(c.callback_word == word, group_name, "  the memory's first word", "still there", "%#x", c.callback_word);
	if (tid)
		judge((int)c.callback_tid == tid, group_name, "  the thread", "the one that frees", "%s",
		      (int)c.callback_tid == tid ? "that one" : "another");
}

static void write_word(char *p, uint32_t word)
{
	gpu_copy(p, &word, 4);
}

static void dies(void *arg)
{
	char *p = gpu_alloc(BLOCK);

	write_word(p, 0x5eed0011);
	must_get(p, BLOCK);
	if (*(int *)arg)
		raise(SIGKILL);
	_exit(0);
}

static sigjmp_buf bus;

static void on_bus(int sig)
{
	siglongjmp(bus, sig);
}

/* What a read of a byte raises; 0: nothing. */
static int signal_of(const volatile char *p)
{
	int sig;

	signal(SIGBUS, on_bus);
	signal(SIGSEGV, on_bus);
	sig = sigsetjmp(bus, 1);
	if (!sig)
		(void)*p;
	signal(SIGBUS, SIG_DFL);
	signal(SIGSEGV, SIG_DFL);
	return sig;
}

static void goes(void)
{
	int kill_it = 0;
	char *p;

	if (!callbacks) {
		row(NA, group_name, "memory that goes away", "a callback", "this driver never calls back");
		return;
	}
	/* Before this process uses the GPU: a child of one that does cannot. */
	in_child(dies, &kill_it);
	judge_callback("the process exits", 0x5eed0011, 0);
	kill_it = 1;
	in_child(dies, &kill_it);
	judge_callback("the process is killed", 0x5eed0011, 0);

	p = gpu_alloc(BLOCK);
	write_word(p, 0x5eed0010);
	must_get(p, BLOCK);
	gpu_free(p);
	judge_callback("hipFree", 0x5eed0010, (int)syscall(SYS_gettid));
	returns(group_name, "put_pages after its callback", -EINVAL, T(.op = A_PUT, .flags = W_STALE).ret);
	judge(signal_of(p) != 0, group_name, "the CPU, at the address of freed memory", "a signal", "%d", signal_of(p));

	p = gpu_alloc(BLOCK);
	write_word(p, 0x5eed0012);
	T(.op = A_ON_CALLBACK, .value = C_PUT);
	must_get(p, BLOCK);
	gpu_free(p);
	judge_callback("a client that puts in its callback", 0x5eed0012, 0);
	returns(group_name, "  put_pages there", -EINVAL, T(.op = A_STATE).callback_ret);
	T(.op = A_ON_CALLBACK, .value = 0);
}

static void *free_it(void *p)
{
	gpu_free(p);
	return NULL;
}

static void waits(void)
{
	char *p = gpu_alloc(BLOCK), *q;
	struct amd_rdma_test_call c;
	bool shared;
	pthread_t id;

	if (!callbacks) {
		row(NA, group_name, "put_pages during the callback", "waits", "this driver never calls back");
		return;
	}
	T(.op = A_ON_CALLBACK, .value = C_WAIT);
	must_get(p, BLOCK);
	if (pthread_create(&id, NULL, free_it, p))
		exit(2);
	while (!T(.op = A_STATE).callbacks)
		nap_ms(1);
	/* The memory is not given out while a client may still use it. */
	q = gpu_alloc(BLOCK);
	write_word(q, 0x5eed0013);
	c = T(.op = A_GET, .slot = 1, .va = (uintptr_t)q, .length = BLOCK);
	shared = false;
	if (c.has_info) {
		uint64_t a[2], b[2];

		T(.op = A_SEGMENTS, .slot = 0, .data = (uintptr_t)a, .length = 1);
		T(.op = A_SEGMENTS, .slot = 1, .data = (uintptr_t)b, .length = 1);
		shared = a[0] == b[0];
	}
	judge(!shared, group_name, "memory allocated while a callback runs", "other memory", "%s", shared ? "the same" : "other");
	T(.op = A_PUT, .slot = 1);
	T(.op = A_RELEASE);
	pthread_join(id, NULL);
	judge(T(.op = A_STATE).callbacks_done == 1, group_name, "hipFree returns", "after the callback", "%u over",
	      T(.op = A_STATE).callbacks_done);
	T(.op = A_ON_CALLBACK, .value = 0);
	gpu_free(q);
}

static void stays(void)
{
	char *p = gpu_alloc(BLOCK);
	struct amd_rdma_test_call c;
	uint32_t word = 0;

	if (callbacks) {
		row(NA, group_name, "memory that is kept until put_pages", "", "this driver calls back instead");
		return;
	}
	write_word(p, 0x5eed0014);
	must_get(p, BLOCK);
	gpu_free(p);
	c = T(.op = A_STATE);
	judge(!c.callbacks, group_name, "hipFree", "no callback", "%u", c.callbacks);
	T(.op = A_PEEK, .data = (uintptr_t)&word, .length = 4);
	judge(word == 0x5eed0014, group_name, "  what was there", "still there", "%#x", word);
	returns(group_name, "put_pages, after hipFree", 0, put());
}

/* ---- for a device ---- */

static void device(void)
{
	char *p = gpu_alloc(BLOCK);
	struct amd_rdma_test_call c;

	if (api == 1 || !peer) {
		row(NA, group_name, "addresses for a device", "", "%s", api == 1 ? "version 1.0 has none" : "name a PCI device by --peer");
		return;
	}
	c = T(.op = A_GET, .va = (uintptr_t)p, .length = BLOCK, .bdf = peer);
	returns(group_name, "get_pages for a PCI device", 0, c.ret);
	judge(c.bytes == BLOCK, group_name, "  its table covers it", "2097152 bytes", "%llu", (unsigned long long)c.bytes);
	if (c.has_info)
		returns(group_name, "  put_pages", 0, put());
	gpu_free(p);
}

/* ---- the CPU's pool, which is the driver's memory, too ---- */

static void host_pool(void)
{
	char *p = host_alloc(BLOCK);
	struct amd_rdma_test_call c;

	if (!p) {
		row(NA, group_name, "memory of the CPU's pool", "hipHostMalloc", "this HIP has none");
		return;
	}
	memset(p, 1, BLOCK);
	c = T(.op = A_IS_GPU, .va = (uintptr_t)p + 100);
	judge(c.ret == 1, group_name, "is_gpu_address of the CPU's pool", "1", "%d", c.ret);
	c = get(p, BLOCK);
	returns(group_name, "get_pages of it", 0, c.ret);
	judge(c.has_info && c.bytes == BLOCK, group_name, "  its table covers it", "2097152 bytes", "%llu", (unsigned long long)c.bytes);
	if (c.has_info)
		returns(group_name, "  put_pages", 0, put());
	host_free(p);
	c = T(.op = A_IS_GPU, .va = (uintptr_t)p);
	judge(c.ret == 0, group_name, "is_gpu_address once it is freed", "0", "%d", c.ret);
}

const struct group groups[] = {
	{ "get and put", pages }, { "parts", parts }, { "wrong", wrong }, { "whose", whose }, { "goes away", goes },
	{ "waits", waits }, { "stays", stays }, { "device", device }, { "host pool", host_pool }, { 0 },
};
