// SPDX-License-Identifier: MIT
/*
 * bench-ipc-copy - copies to another process's GPU memory: peerdma_ipc_copy() beside CUDA's own
 * calls on the pointer that was opened, in turns.
 *
 * A process allocates on the last GPU and exports; another, on GPU 0, copies from its own memory
 * there.  With one GPU both are on it.  The exporter's process does nothing meanwhile.
 *
 * bench-ipc-copy within ...: the same within one process, on its own memory.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comparison.h"
#include "gpu_need.h"
#include "peerdma.h"
#include "peerdma_ipc.h"

#define MEMORY		(256UL << 20)
#define MOST		64
#define STREAMS		8

/* Where the parts of a list lie: at twice their length from each other, or shuffled, differently on both sides. */
enum layout { APART, SHUFFLED };

static CUdeviceptr here, there;
static struct peerdma_ipc_memory *memory;	/* NULL: within this process */
static CUstream streams[STREAMS];
static size_t here_at[MOST], there_at[MOST];

static struct {
	typeof(cuStreamCreate) *stream_create;
	typeof(cuStreamSynchronize) *stream_synchronize;
	typeof(cuMemcpyBatchAsync_v2) *batch;
	typeof(cuMemcpy2DAsync) *copy_2d;
	typeof(cuMemHostAlloc) *host_alloc;
	/* softgpu runs no kernels. */
	CUresult (*module_load)(void **module, const void *image);
	CUresult (*module_function)(void **function, void *module, const char *name);
	CUresult (*launch)(void *function, unsigned int blocks_x, unsigned int blocks_y, unsigned int blocks_z, unsigned int threads_x,
			   unsigned int threads_y, unsigned int threads_z, unsigned int shared, void *stream, void **arguments, void **extra);
} more;

static void load(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	gpu_need(false, 77);
	more.stream_create = dlsym(lib, "cuStreamCreate");
	more.stream_synchronize = dlsym(lib, "cuStreamSynchronize");
	more.batch = dlsym(lib, "cuMemcpyBatchAsync_v2");
	more.copy_2d = dlsym(lib, "cuMemcpy2DAsync_v2");
	more.host_alloc = dlsym(lib, "cuMemHostAlloc");
	more.module_load = dlsym(lib, "cuModuleLoadData");
	more.module_function = dlsym(lib, "cuModuleGetFunction");
	more.launch = dlsym(lib, "cuLaunchKernel");
	for (int i = 0; i < STREAMS; i++)
		gpu_check(more.stream_create(&streams[i], 1), "cuStreamCreate");
}

/* ---- the ways ---- */

static void complete(int n)
{
	for (int i = 0; i < n; i++)
		gpu_check(more.stream_synchronize(streams[i]), "cuStreamSynchronize");
}

static void raw(size_t length, int count, int over)
{
	for (int i = 0; i < count; i++)
		gpu_check(gpu.copy_dtod(there + there_at[i], here + here_at[i], length, streams[i % over]), "cuMemcpyDtoDAsync");
	complete(over < count ? over : count);
}

static void raw_one(size_t length, int count)
{
	raw(length, count, 1);
}

static void raw_two(size_t length, int count)
{
	raw(length, count, 2);
}

static void raw_four(size_t length, int count)
{
	raw(length, count, 4);
}

static void raw_batch(size_t length, int count)
{
	CUdeviceptr to[MOST], from[MOST];
	size_t lengths[MOST], first = 0;
	CUmemcpyAttributes how = { .srcAccessOrder = 1 };	/* in the stream's order */

	for (int i = 0; i < count; i++) {
		to[i] = there + there_at[i];
		from[i] = here + here_at[i];
		lengths[i] = length;
	}
	gpu_check(more.batch(to, from, lengths, (size_t)count, &how, &first, 1, streams[0]), "cuMemcpyBatchAsync");
	complete(1);
}

static void raw_2d(size_t length, int count)
{
	CUDA_MEMCPY2D rows = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = here, .srcPitch = here_at[1], .dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = there, .dstPitch = there_at[1], .WidthInBytes = length, .Height = (size_t)count,
	};

	gpu_check(more.copy_2d(&rows, streams[0]), "cuMemcpy2DAsync");
	complete(1);
}

static void copy(size_t length, int count, uint32_t flags, unsigned int paths[PEERDMA_IPC_PATHS])
{
	struct peerdma_ipc_transfer t[MOST];

	for (int i = 0; i < count; i++)
		t[i] = (struct peerdma_ipc_transfer) {
			.size = sizeof(t[0]), .flags = flags, .memory = memory, .offset = there_at[i] + (memory ? 0 : there),
			.local = (void *)(uintptr_t)(here + here_at[i]), .length = length,
		};
	if (peerdma_ipc_copy(t, (size_t)count, NULL, 0)) {
		fprintf(stderr, "bench-ipc-copy: %s\n", peerdma_last_error());
		exit(1);
	}
	for (int i = 0; i < count; i++)
		paths[t[i].path]++;
}

static unsigned int by_engine[PEERDMA_IPC_PATHS], by_kernel[PEERDMA_IPC_PATHS], by_poll[PEERDMA_IPC_PATHS];

static void ours(size_t length, int count)
{
	copy(length, count, 0, by_engine);
}

static void ours_kernel(size_t length, int count)
{
	copy(length, count, PEERDMA_IPC_KERNEL, by_kernel);
}

static void ours_poll(size_t length, int count)
{
	copy(length, count, PEERDMA_IPC_POLL, by_poll);
}

/*
 * The least that a running kernel can do: it looks at one word, copies eight bytes from and to places that it knows, and
 * writes that it did.  It never ends by itself: 2^64 - 1 tells it to.
 */
static const char bare_text[] =
	".version 6.0\n.target sm_50\n.address_size 64\n"
	".visible .entry bare(.param .u64 p_words, .param .u64 p_to, .param .u64 p_from)\n"
	"{\n"
	".reg .pred %p;\n"
	".reg .b64 %words, %to, %from, %turn, %seen, %value;\n"
	"ld.param.u64 %words, [p_words];\n"
	"ld.param.u64 %to, [p_to];\n"
	"ld.param.u64 %from, [p_from];\n"
	"mov.u64 %turn, 0;\n"
	"look:\n"
	"ld.volatile.global.u64 %seen, [%words];\n"
	"setp.eq.u64 %p, %seen, %turn;\n"
	"@%p bra look;\n"
	"setp.eq.u64 %p, %seen, 0xffffffffffffffff;\n"
	"@%p bra end;\n"
	"mov.u64 %turn, %seen;\n"
	"ld.volatile.global.u64 %value, [%from];\n"
	"st.volatile.global.u64 [%to], %value;\n"
	"membar.sys;\n"
	"st.volatile.global.u64 [%words+64], %turn;\n"
	"bra look;\n"
	"end:\n"
	"ret;\n"
	"}\n";

static uint64_t *bare_words, bare_turn;

static void bare(size_t length, int count)
{
	(void)length;
	(void)count;
	__atomic_store_n(&bare_words[0], ++bare_turn, __ATOMIC_RELEASE);
	while (__atomic_load_n(&bare_words[8], __ATOMIC_ACQUIRE) != bare_turn)
		;
}

/* The kernel, or NULL: softgpu runs none. */
static void *bare_function(void)
{
	static void *function, *module;
	static bool tried;

	if (!tried && more.module_load && more.module_function && more.launch &&
	    !more.module_load(&module, bare_text))
		gpu_check(more.module_function(&function, module, "bare"), "cuModuleGetFunction");
	tried = true;
	return function;
}

/* Beside nothing else: what waits for the whole GPU would wait for it. */
static void bare_start(void)
{
	void *arguments[] = { &bare_words, &there, &here };

	if (!bare_words)
		gpu_check(more.host_alloc((void **)&bare_words, 4096, 3), "cuMemHostAlloc");
	memset(bare_words, 0, 4096);
	bare_turn = 0;
	gpu_check(more.launch(bare_function(), 1, 1, 1, 1, 1, 1, 0, streams[STREAMS - 1], arguments, NULL), "cuLaunchKernel");
	bare(8, 1);			/* it runs */
}

static void bare_end(void)
{
	__atomic_store_n(&bare_words[0], ~0ULL, __ATOMIC_RELEASE);
	gpu_check(more.stream_synchronize(streams[STREAMS - 1]), "cuStreamSynchronize");
}

static const struct way {
	const char *name;
	void (*copy)(size_t length, int count);
} ways[] = {
	{ "peerdma_ipc_copy", ours }, { "its kernel", ours_kernel },
	{ "its waiting kernel", ours_poll }, { "a bare one", bare }, { "CUDA, one stream", raw_one }, { "CUDA, two streams", raw_two },
	{ "CUDA, four streams", raw_four }, { "CUDA, a batch", raw_batch }, { "CUDA, a 2D copy", raw_2d },
};
#define WAYS ((int)(sizeof(ways) / sizeof(ways[0])))

static const struct row {
	size_t length;
	int count;
	enum layout layout;
} rows[] = {
	{ 8, 1, 0 }, { 4096, 1, 0 }, { 4096, 64, APART }, { 4096, 64, SHUFFLED }, { 65536, 1, 0 }, { 65536, 4, APART }, { 65536, 16, APART },
	{ 65536, 64, APART }, { 65536, 64, SHUFFLED }, { 1 << 20, 1, 0 }, { 1 << 20, 64, APART }, { 1 << 20, 64, SHUFFLED },
	{ 4 << 20, 1, 0 }, { 4 << 20, 16, APART }, { 4 << 20, 16, SHUFFLED }, { 16 << 20, 1, 0 }, { 64 << 20, 1, 0 }, { MEMORY, 1, 0 },
};

#define ROWS ((int)(sizeof(rows) / sizeof(rows[0])))

static void lay_out(const struct row *row)
{
	uint64_t random = 1;

	for (int i = 0; i < row->count; i++)
		here_at[i] = there_at[i] = 2 * row->length * i;
	for (int i = row->count - 1; row->layout == SHUFFLED && i > 0; i--) {
		size_t *sides[] = { here_at, there_at };

		for (int side = 0; side < 2; side++) {
			size_t was = sides[side][i], other;

			random = random * 6364136223846793005ULL + 1442695040888963407ULL;
			other = (random >> 33) % ((size_t)i + 1);
			sides[side][i] = sides[side][other];
			sides[side][other] = was;
		}
	}
}

static bool can(const struct way *way, const struct row *row)
{
	if (way->copy == ours_poll)
		return row->count == 1 && row->length <= 65536;
	if (way->copy == bare)
		return row->length == 8 && bare_function();
	if (way->copy == raw_batch)
		return more.batch && row->count > 1;
	if (way->copy == raw_2d)
		return more.copy_2d && row->count > 1 && row->layout == APART;
	return row->count > 1 || (way->copy != raw_two && way->copy != raw_four);
}

static double measure(int r, int w)
{
	const struct row *row = &rows[r];
	double bytes = (double)row->length * row->count, begin, took;
	int times = bytes < 1 << 20 ? 50 : 5;

	if (!can(&ways[w], row))
		return NAN;
	lay_out(row);
	if (ways[w].copy == bare)
		bare_start();
	begin = now_ns();
	for (int i = 0; i < times; i++)
		ways[w].copy(row->length, row->count);
	took = now_ns() - begin;
	if (ways[w].copy == bare)
		bare_end();
	/* Not beside the kernel that still waits. */
	if (ways[w].copy == ours_poll)
		usleep(6000);
	return took / times / 1e3;
}

static void exporter(int to, int until)
{
	struct peerdma_ipc_handle handle;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	gpu_need(true, 77);
	there = gpu_need_memory(MEMORY);
	if (peerdma_ipc_export((void *)(uintptr_t)there, MEMORY, PEERDMA_IPC_I_UNEXPORT, &handle)) {
		fprintf(stderr, "bench-ipc-copy: %s\n", peerdma_last_error());
		_exit(1);
	}
	if (write(to, &handle, sizeof(handle)) == sizeof(handle) && read(until, &byte, 1) < 0)
		_exit(1);
	_exit(0);
}

/* Opens another process's memory; that process ends when *until is closed. */
static void open_other(pid_t *other, int *until_end)
{
	struct peerdma_ipc_handle handle;
	int there_from[2], until[2], status = 0;
	pid_t pid;

	if (pipe(there_from) || pipe(until))
		exit(1);
	pid = fork();
	if (!pid) {
		close(until[1]);
		exporter(there_from[1], until[0]);
	}
	close(there_from[1]);
	close(until[0]);
	if (read(there_from[0], &handle, sizeof(handle)) != sizeof(handle)) {
		waitpid(pid, &status, 0);
		exit(WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : 1);
	}
	load();
	here = gpu_need_memory(MEMORY);
	if (peerdma_ipc_open(&handle, sizeof(handle), 0, &memory)) {
		fprintf(stderr, "bench-ipc-copy: %s\n", peerdma_last_error());
		exit(1);
	}
	there = (CUdeviceptr)memory->ptr;
	*other = pid;
	*until_end = until[1];
}

int main(int argc, char **argv)
{
	static char texts[ROWS][32];
	static const char *row_names[ROWS], *way_names[WAYS];
	struct comparison c = {
		.program = "bench-ipc-copy", .what = "us per list of copies", .rounds = 21, .measure = measure, .rows = row_names,
		.row_count = ROWS, .subjects = way_names, .subject_count = WAYS,
	};
	bool within = argc > 1 && !strcmp(argv[1], "within");
	int until = -1;
	pid_t other = 0;

	if (within)
		c.what = "us per list of copies, within one process";
	comparison_options(&c, argc - within, argv + within);
	if (within) {
		load();
		here = gpu_need_memory(MEMORY);
		there = gpu_need_memory(MEMORY);
	} else {
		open_other(&other, &until);
	}
	for (int i = 0; i < ROWS; i++) {
		snprintf(texts[i], sizeof(texts[i]), "%zu x %d%s", rows[i].length, rows[i].count, rows[i].count == 1 ? "" :
			 rows[i].layout == APART ? " apart" : " shuffled");
		row_names[i] = texts[i];
	}
	for (int i = 0; i < WAYS; i++)
		way_names[i] = ways[i].name;
	comparison_run(&c);
	comparison_print(&c);
	if (!c.json)
		printf("its kernel made %u of %u copies, its waiting kernel %u of %u; engines the others\n",
		       by_kernel[PEERDMA_IPC_PATH_KERNEL], by_kernel[PEERDMA_IPC_PATH_KERNEL] + by_kernel[PEERDMA_IPC_PATH_CUDA],
		       by_poll[PEERDMA_IPC_PATH_POLL], by_poll[PEERDMA_IPC_PATH_POLL] + by_poll[PEERDMA_IPC_PATH_CUDA]);
	if (!within) {
		peerdma_ipc_close(memory);
		close(until);
		waitpid(other, NULL, 0);
	}
	return 0;
}
