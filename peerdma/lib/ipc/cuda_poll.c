// SPDX-License-Identifier: MIT
/*
 * cuda_poll.c - small copies by a kernel that is already running.
 *
 * Most of a small copy's time is spent starting a kernel or an engine, and waiting for its
 * completion. This kernel polls a page of host memory for the next command, makes the copy, and
 * reports the completion in the same page.
 *
 * A program may wait for the whole GPU, by cuCtxSynchronize() or cuMemFree(). So the kernel ends
 * after IDLE_NS without a command, and after MOST_NS in any case. The next copy launches it again.
 * If the kernel ended before it saw a command, no kernel executes that command: the copy is made as
 * without PEERDMA_IPC_POLL, and later launches begin with later commands.
 *
 * Commands are sent only to a running kernel. A launched kernel may not run yet, because the
 * program's kernels may occupy the whole GPU, and may even wait for this copy.
 *
 * Each context makes one such copy at a time. A second thread does not wait: its copy is made as
 * without the flag.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "cuda.h"
#include "cuda_poll.h"
#include "ipc.h"

#define PAGE		4096U
#define IDLE_NS		500000ULL
#define MOST_NS		5000000ULL
#define THREADS		512U
#define CONTEXTS	16		/* contexts of a process that may have a polling kernel */
#define LOOKS		4096 /* at the page, between two checks whether the stream failed */
#define BEGIN_NS	100000ULL /* limit for the start of a kernel, which usually takes 5 us */

static struct poller {
	bool used;
	uint64_t context;		/* its id, which CUDA never reuses */
	pthread_mutex_t busy;		/* protects the fields below */
	bool tried;
	void *stream, *function;
	struct ipc_poll_page *page;	/* NULL: this GPU cannot run the kernel */
	CUdeviceptr device;		/* the page's address on the GPU */
	uint64_t turn, launches;	/* numbers of the last command and the last launch */
} pollers[CONTEXTS];
static uint64_t made_in;		/* process_id() of the process that made them */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * Loads are volatile, because a multiprocessor may cache a line for the whole life of the kernel.
 * After the barrier, the first thread of the block makes the stores of all threads visible to the
 * system, then writes the completion. The kernel also counts its polls and ends at a limit, in case
 * the GPU's clock stands still.
 */
static const char ptx[] =
	".version 6.0\n"
	".target sm_50\n"
	".address_size 64\n"
	".visible .entry peerdma_ipc_poll(.param .u64 p_page, .param .u64 p_turn, .param .u64 p_launch, .param .u64 p_idle, .param .u64 p_most)\n"
	"{\n"
	".shared .align 8 .b64 said[4];\n"	/* to, from, length; whether there is a command */
	".reg .pred %p, %q, %first;\n"
	".reg .b16 %byte;\n"
	".reg .b32 %thread, %threads, %lane, %looks, %w<4>, %x<4>, %y<4>, %z<4>;\n"
	".reg .b64 %page, %turn, %tag, %idle, %most, %start, %last, %now, %word, %command, %a, %b, %to, %from, %n, %at, %step, %units, %three;\n"
	"mov.u32 %thread, %tid.x;\n"
	"mov.u32 %threads, %ntid.x;\n"
	"ld.param.u64 %page, [p_page];\n"
	"ld.param.u64 %turn, [p_turn];\n"
	"ld.param.u64 %idle, [p_idle];\n"
	"ld.param.u64 %most, [p_most];\n"
	"cvta.to.global.u64 %page, %page;\n"
	"setp.eq.u32 %first, %thread, 0;\n"
	"mov.u64 %start, %globaltimer;\n"
	"mov.u64 %last, %start;\n"
	"ld.param.u64 %a, [p_launch];\n"
	"@%first st.volatile.global.u64 [%page+80], %a;\n"
	"next:\n"
	"setp.ge.u32 %p, %thread, 32;\n"
	"@%p bra wait;\n"
	/*
	 * Three threads of the first warp read one word each, in parallel. The other threads read
	 * the first word.
	 */
	"setp.lt.u32 %p, %thread, 3;\n"
	"selp.u32 %lane, %thread, 0, %p;\n"
	"mul.wide.u32 %word, %lane, 8;\n"
	"add.u64 %word, %page, %word;\n"
	"and.b64 %tag, %turn, 127;\n"
	"mov.u32 %looks, 0;\n"
	"bar.warp.sync 0xffffffff;\n"
	"poll:\n"
	"ld.volatile.global.u64 %command, [%word];\n"
	"shr.u64 %a, %command, 57;\n"
	"setp.eq.u64 %p, %a, %tag;\n"
	"vote.sync.all.pred %q, %p, 0xffffffff;\n"
	"@%q bra have;\n"
	"mov.u64 %now, %globaltimer;\n"
	"sub.u64 %a, %now, %last;\n"
	"setp.gt.u64 %p, %a, %idle;\n"
	"sub.u64 %a, %now, %start;\n"
	"setp.gt.or.u64 %p, %a, %most, %p;\n"
	"add.u32 %looks, %looks, 1;\n"
	"setp.gt.or.u32 %p, %looks, 65536, %p;\n"
	"vote.sync.any.pred %q, %p, 0xffffffff;\n"
	"@!%q bra poll;\n"
	"mov.u64 %a, 0;\n"
	"@%first st.volatile.shared.u64 [said+24], %a;\n"
	"bra.uni wait;\n"
	"have:\n"
	"shl.b64 %a, %command, 7;\n"
	"shr.u64 %a, %a, 7;\n"
	"mov.u64 %b, said;\n"
	"mul.wide.u32 %word, %lane, 8;\n"
	"add.u64 %b, %b, %word;\n"
	"setp.lt.u32 %p, %thread, 3;\n"
	"@%p st.volatile.shared.u64 [%b], %a;\n"
	"mov.u64 %a, 1;\n"
	"@%first st.volatile.shared.u64 [said+24], %a;\n"
	"mov.u64 %last, %globaltimer;\n"
	"wait:\n"
	"bar.sync 0;\n"
	"ld.volatile.shared.u64 %a, [said+24];\n"
	"setp.eq.u64 %p, %a, 0;\n"
	"@%p bra leave;\n"
	"ld.volatile.shared.u64 %to, [said];\n"
	"ld.volatile.shared.u64 %from, [said+8];\n"
	"ld.volatile.shared.u64 %n, [said+16];\n"
	"cvta.to.global.u64 %to, %to;\n"
	"cvta.to.global.u64 %from, %from;\n"
	"cvt.u64.u32 %at, %thread;\n"
	"cvt.u64.u32 %step, %threads;\n"
	"mov.u64 %units, 0;\n"
	"or.b64 %a, %to, %from;\n"
	"and.b64 %b, %a, 7;\n"
	"setp.ne.u64 %p, %b, 0;\n"
	"@%p bra bytes;\n"
	"and.b64 %b, %a, 15;\n"
	"setp.ne.u64 %p, %b, 0;\n"
	"setp.lt.or.u64 %p, %n, 16, %p;\n"
	"@%p bra eights;\n"
	"shr.u64 %units, %n, 4;\n"
	"mul.lo.u64 %three, %step, 3;\n"
	/* Four units per iteration while at least four are left. */
	"four:\n"
	"add.u64 %a, %at, %three;\n"
	"setp.ge.u64 %p, %a, %units;\n"
	"@%p bra unit;\n"
	"shl.b64 %a, %at, 4;\n"
	"shl.b64 %b, %step, 4;\n"
	"add.u64 %word, %from, %a;\n"
	"ld.volatile.global.v4.b32 {%w0, %w1, %w2, %w3}, [%word];\n"
	"add.u64 %word, %word, %b;\n"
	"ld.volatile.global.v4.b32 {%x0, %x1, %x2, %x3}, [%word];\n"
	"add.u64 %word, %word, %b;\n"
	"ld.volatile.global.v4.b32 {%y0, %y1, %y2, %y3}, [%word];\n"
	"add.u64 %word, %word, %b;\n"
	"ld.volatile.global.v4.b32 {%z0, %z1, %z2, %z3}, [%word];\n"
	"add.u64 %word, %to, %a;\n"
	"st.global.v4.b32 [%word], {%w0, %w1, %w2, %w3};\n"
	"add.u64 %word, %word, %b;\n"
	"st.global.v4.b32 [%word], {%x0, %x1, %x2, %x3};\n"
	"add.u64 %word, %word, %b;\n"
	"st.global.v4.b32 [%word], {%y0, %y1, %y2, %y3};\n"
	"add.u64 %word, %word, %b;\n"
	"st.global.v4.b32 [%word], {%z0, %z1, %z2, %z3};\n"
	"shl.b64 %a, %step, 2;\n"
	"add.u64 %at, %at, %a;\n"
	"bra four;\n"
	"unit:\n"
	"setp.ge.u64 %p, %at, %units;\n"
	"@%p bra rest;\n"
	"shl.b64 %a, %at, 4;\n"
	"add.u64 %word, %from, %a;\n"
	"ld.volatile.global.v4.b32 {%w0, %w1, %w2, %w3}, [%word];\n"
	"add.u64 %word, %to, %a;\n"
	"st.global.v4.b32 [%word], {%w0, %w1, %w2, %w3};\n"
	"add.u64 %at, %at, %step;\n"
	"bra unit;\n"
	"rest:\n"
	"shl.b64 %units, %units, 1;\n"
	"bra bytes;\n"
	/* Words of eight bytes are stored whole, never in parts. */
	"eights:\n"
	"shr.u64 %units, %n, 3;\n"
	"eight:\n"
	"setp.ge.u64 %p, %at, %units;\n"
	"@%p bra bytes;\n"
	"shl.b64 %a, %at, 3;\n"
	"add.u64 %word, %from, %a;\n"
	"ld.volatile.global.u64 %b, [%word];\n"
	"add.u64 %word, %to, %a;\n"
	"st.volatile.global.u64 [%word], %b;\n"
	"add.u64 %at, %at, %step;\n"
	"bra eight;\n"
	"bytes:\n"
	"shl.b64 %at, %units, 3;\n"
	"cvt.u64.u32 %a, %thread;\n"
	"add.u64 %at, %at, %a;\n"
	"byte:\n"
	"setp.ge.u64 %p, %at, %n;\n"
	"@%p bra copied;\n"
	"add.u64 %word, %from, %at;\n"
	"ld.volatile.global.u8 %byte, [%word];\n"
	"add.u64 %word, %to, %at;\n"
	"st.global.u8 [%word], %byte;\n"
	"add.u64 %at, %at, %step;\n"
	"bra byte;\n"
	"copied:\n"
	"bar.sync 0;\n"
	"@!%first bra following;\n"
	"membar.sys;\n"
	"st.volatile.global.u64 [%page+64], %turn;\n"
	"following:\n"
	"add.u64 %turn, %turn, 1;\n"
	"bra next;\n"
	"leave:\n"
	"@!%first bra end;\n"
	"membar.sys;\n"
	"ld.param.u64 %a, [p_launch];\n"
	"st.volatile.global.u64 [%page+72], %a;\n"
	"end:\n"
	"ret;\n"
	"}\n";

_Static_assert(offsetof(struct ipc_poll_page, done) == 64 &&
		       offsetof(struct ipc_poll_page, gone) == 72 &&
		       offsetof(struct ipc_poll_page, begun) == 80,
	       "as in the text above");

/* Returns the context's poller, or a new one. NULL: all are in use. */
static struct poller *find(uint64_t context)
{
	struct poller *found = NULL;

	pthread_mutex_lock(&lock);
	if (made_in != process_id()) {
		memset(pollers, 0, sizeof(pollers));
		made_in = process_id();
	}
	for (int i = 0; i < CONTEXTS && !found; i++) {
		if (!pollers[i].used) {
			pollers[i].used = true;
			pollers[i].context = context;
			pthread_mutex_init(&pollers[i].busy, NULL);
		}
		if (pollers[i].context == context)
			found = &pollers[i];
	}
	pthread_mutex_unlock(&lock);
	return found;
}

/* Before CUDA 12 contexts have no id, and a later context may get the same address. */
static bool functions(const struct cuda_ipc *cuda)
{
	return cuda->ctx_id && cuda->module_load && cuda->module_unload && cuda->module_function &&
	       cuda->launch && cuda->stream_create && cuda->stream_query && cuda->host_register &&
	       cuda->host_device_pointer && cuda->host_unregister;
}

/* Caller holds busy. The objects made here are destroyed with the context. 0 or CUDA's error. */
static CUresult make(struct poller *p)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();
	void *module = NULL, *page;
	CUresult r = cuda->module_load(&module, ptx);

	if (r)
		return r;
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	r = page == MAP_FAILED ?
		    CUDA_ERROR_OUT_OF_MEMORY :
		    cuda->host_register(page, PAGE, CUDA_HOST_PORTABLE | CUDA_HOST_DEVICEMAP);
	if (r)
		goto unmap;
	r = cuda->host_device_pointer(&p->device, page, 0);
	if (!r)
		r = cuda->module_function(&p->function, module, "peerdma_ipc_poll");
	if (!r)
		r = cuda->stream_create(&p->stream, CUDA_STREAM_NON_BLOCKING);
	if (!r) {
		p->page = page;
		return 0;
	}
	cuda->host_unregister(page);
unmap:
	if (page != MAP_FAILED)
		munmap(page, PAGE);
	cuda->module_unload(module);
	return r;
}

static uint64_t load_acquire(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Caller holds busy. Launches a kernel that begins with the next command. 0 or CUDA's error. */
static CUresult launch(struct poller *p)
{
	uint64_t turn = p->turn + 1, id = p->launches + 1, idle = IDLE_NS, most = MOST_NS;
	void *arguments[] = { &p->device, &turn, &id, &idle, &most };
	CUresult r = ipc_cuda_api()->launch(p->function, 1, 1, 1, THREADS, 1, 1, 0, p->stream,
					    arguments, NULL);

	if (!r)
		p->launches = id;
	return r;
}

/*
 * Caller holds busy. Launches the kernel again if it has ended. Returns whether it is polling, or
 * was polling a moment ago.
 */
static bool ensure_running(struct poller *p)
{
	uint64_t end;
	CUresult r;

	if (load_acquire(&p->page->gone) == p->launches) {
		r = launch(p);
		if (r && !ipc_cuda_passing(r))
			p->page = NULL;
		if (r)
			return false;
		for (end = now_ns() + BEGIN_NS;
		     load_acquire(&p->page->begun) != p->launches && now_ns() < end;)
			ipc_relax();
	}
	return load_acquire(&p->page->begun) == p->launches;
}

/* Caller holds busy. Waits for the last command: 0 or -errno. */
static int finish(struct poller *p)
{
	for (unsigned int looks = 1;; looks++) {
		CUresult r = looks % LOOKS ? CUDA_ERROR_NOT_READY :
					     ipc_cuda_api()->stream_query(p->stream);
		/* Read `gone` before `done`: an ended kernel writes no more completions. */
		bool gone = load_acquire(&p->page->gone) == p->launches;

		if (load_acquire(&p->page->done) == p->turn)
			return 0;
		if (gone)
			return -EOPNOTSUPP;
		if (r != CUDA_ERROR_NOT_READY &&
		    (r < CUDA_ERROR_CAPTURE_FIRST || r > CUDA_ERROR_CAPTURE_LAST)) {
			p->page = NULL;		/* not unmapped: the GPU may still use it */
			return fail(-EIO,
				    "the kernel that copies ended with CUDA error %d and no answer",
				    r);
		}
		ipc_relax();
	}
}

static void send_command(struct poller *p, uint64_t to, uint64_t from, uint64_t length)
{
	uint64_t tag = (++p->turn & POLL_TURNS) << POLL_SHIFT;

	__atomic_store_n(&p->page->command[POLL_TO], tag | to, __ATOMIC_RELAXED);
	__atomic_store_n(&p->page->command[POLL_FROM], tag | from, __ATOMIC_RELAXED);
	__atomic_store_n(&p->page->command[POLL_LENGTH], tag | length, __ATOMIC_RELEASE);
}

int ipc_cuda_poll(uint64_t context, uint64_t to, uint64_t from, uint64_t length)
{
	struct poller *p = find(context);
	int ret = -EOPNOTSUPP;

	if (!p || (to | from | length) >> POLL_SHIFT || pthread_mutex_trylock(&p->busy))
		return -EOPNOTSUPP;
	if (!p->tried)
		p->tried = !functions(ipc_cuda_api()) || !ipc_cuda_passing(make(p));
	if (p->page && ensure_running(p)) {
		send_command(p, to, from, length);
		ret = finish(p);
	}
	pthread_mutex_unlock(&p->busy);
	return ret;
}
