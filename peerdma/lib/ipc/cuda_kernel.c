// SPDX-License-Identifier: MIT
/*
 * cuda_kernel.c - makes several copies by one launch of a kernel.
 *
 * The list of copies is the kernel's parameter, so the list needs no allocation and no copy. Each
 * row of the grid makes one copy. If both addresses are multiples of 16, each thread copies 16
 * bytes at a time. Otherwise, and at the end of the range, threads copy single bytes.
 *
 * A kernel that accesses memory outside its context's reach destroys the context, with all data of
 * the program in it. A copy engine can copy any memory of CUDA. So the kernel gets only memory that
 * is known to be in reach.
 */
#include "cuda.h"
#include "ipc.h"

#define THREADS		512U
#define UNIT		16U
#define BLOCKS_MOST	256U /* a few for each multiprocessor, for any number of copies */

/* A kernel's parameters may have 4 KiB. */
_Static_assert(sizeof(struct ipc_copies) == 3072, "as in the text below");

static const char ptx[] =
	".version 6.0\n"
	".target sm_50\n"
	".address_size 64\n"
	".visible .entry peerdma_ipc_copies(.param .align 8 .b8 copies[3072])\n"
	"{\n"
	".reg .pred %p;\n"
	".reg .b16 %byte;\n"
	".reg .b32 %row, %block, %blocks, %threads, %thread, %x, %w<4>;\n"
	".reg .b64 %copy, %to, %from, %n, %at, %step, %a, %b, %units;\n"
	"mov.u32 %row, %ctaid.y;\n"
	"mul.wide.u32 %a, %row, 24;\n"
	"mov.b64 %copy, copies;\n"
	"add.u64 %copy, %copy, %a;\n"
	"ld.param.u64 %to, [%copy];\n"
	"ld.param.u64 %from, [%copy+8];\n"
	"ld.param.u64 %n, [%copy+16];\n"
	"cvta.to.global.u64 %to, %to;\n"
	"cvta.to.global.u64 %from, %from;\n"
	"mov.u32 %block, %ctaid.x;\n"
	"mov.u32 %blocks, %nctaid.x;\n"
	"mov.u32 %threads, %ntid.x;\n"
	"mov.u32 %thread, %tid.x;\n"
	"mad.lo.u32 %x, %block, %threads, %thread;\n"
	"cvt.u64.u32 %at, %x;\n"
	"mul.lo.u32 %x, %blocks, %threads;\n"
	"cvt.u64.u32 %step, %x;\n"
	"mov.u64 %units, 0;\n"
	"or.b64 %a, %to, %from;\n"
	"and.b64 %a, %a, 15;\n"
	"setp.ne.u64 %p, %a, 0;\n"
	"@%p bra bytes;\n"
	"shr.u64 %units, %n, 4;\n"
	"mov.u64 %b, %at;\n"
	"unit:\n"
	"setp.ge.u64 %p, %b, %units;\n"
	"@%p bra bytes;\n"
	"shl.b64 %a, %b, 4;\n"
	"add.u64 %copy, %from, %a;\n"
	"ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%copy];\n"
	"add.u64 %copy, %to, %a;\n"
	"st.global.v4.b32 [%copy], {%w0, %w1, %w2, %w3};\n"
	"add.u64 %b, %b, %step;\n"
	"bra unit;\n"
	"bytes:\n"
	"shl.b64 %a, %units, 4;\n"
	"add.u64 %b, %a, %at;\n"
	"byte:\n"
	"setp.ge.u64 %p, %b, %n;\n"
	"@%p bra done;\n"
	"add.u64 %copy, %from, %b;\n"
	"ld.global.u8 %byte, [%copy];\n"
	"add.u64 %copy, %to, %b;\n"
	"st.global.u8 [%copy], %byte;\n"
	"add.u64 %b, %b, %step;\n"
	"bra byte;\n"
	"done:\n"
	"ret;\n"
	"}\n";

static bool query_context(struct ipc_reach *r)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();

	if (!r->looked)
		r->here = cuda && !ipc_cuda_context(&r->context) &&
			  !cuda->ctx_current(&r->current) && !cuda->ctx_device(&r->device);
	r->looked = true;
	return r->here;
}

/*
 * Memory of cuMemAlloc() belongs to one context. Memory of cuMemCreate() and of pools belongs to a
 * GPU, and all contexts of that GPU reach it.
 */
static bool reaches(const struct ipc_reach *r, const struct peerdma_memory *memory, uint64_t addr)
{
	void *context = NULL;

	if (memory->flags & (PEERDMA_MEMORY_VMM | PEERDMA_MEMORY_POOL))
		return memory->device == r->device;
	return !ipc_cuda_api()->pointer_attribute(&context, ATTRIBUTE_CONTEXT, addr) &&
	       context == r->current;
}

bool ipc_cuda_kernel_reaches_mapping(struct ipc_reach *r, const struct ipc_mapping *m)
{
	return query_context(r) &&
	       (m->provider->id == IPC_CUDA ? m->context == r->context :
					      ipc_cuda_vmm_reached(m, r->device));
}

bool ipc_cuda_kernel_reaches(struct ipc_reach *r, struct ipc_reached *last, const void *ptr,
			     uint64_t length)
{
	struct peerdma_memory memory = { .size = sizeof(memory) };
	uint64_t addr = (uintptr_t)ptr;

	if (!query_context(r))
		return false;
	/*
	 * Consecutive transfers usually use one buffer. The program may not free it during the
	 * call.
	 */
	if (addr - last->base < last->length)
		return length <= last->base + last->length - addr;
	if (peerdma_query(NULL, ptr, &memory) || memory.kind != PEERDMA_KIND_DEVICE ||
	    memory.flags & PEERDMA_MEMORY_HSA || !reaches(r, &memory, addr))
		return false;
	last->base = memory.base;
	last->length = memory.length;
	return length <= memory.base + memory.length - addr;
}

/*
 * Whether an error is temporary: out of memory, or the program records a graph, during which no
 * module can be loaded.
 */
bool ipc_cuda_passing(CUresult r)
{
	return r == CUDA_ERROR_OUT_OF_MEMORY ||
	       (r >= CUDA_ERROR_CAPTURE_FIRST && r <= CUDA_ERROR_CAPTURE_LAST);
}

/* Returns NULL if this GPU or libcuda cannot run the kernel. *later: the cause is temporary. */
void *ipc_cuda_kernel_load(void **module, bool *later)
{
	const struct cuda_ipc *cuda = ipc_cuda_api();
	void *function = NULL;
	CUresult r;

	*module = NULL;
	*later = false;
	if (!cuda->module_load || !cuda->module_unload || !cuda->module_function || !cuda->launch)
		return NULL;
	r = cuda->module_load(module, ptx);
	*later = ipc_cuda_passing(r);
	if (r)
		return NULL;
	if (cuda->module_function(&function, *module, "peerdma_ipc_copies")) {
		cuda->module_unload(*module);
		return NULL;
	}
	return function;
}

int ipc_cuda_kernel(void *stream, void *function, const struct ipc_copies *copies, unsigned int n)
{
	unsigned int blocks = 1, most = BLOCKS_MOST / n ? BLOCKS_MOST / n : 1;
	void *arguments[] = { (void *)(uintptr_t)copies };
	CUresult r;

	if (most < 8)
		most = 8;
	for (unsigned int i = 0; i < n; i++) {
		uint64_t wanted = (copies->copy[i].length + THREADS * UNIT - 1) / (THREADS * UNIT);

		if (wanted > blocks)
			blocks = wanted < most ? (unsigned int)wanted : most;
	}
	r = ipc_cuda_api()->launch(function, blocks, n, 1, THREADS, 1, 1, 0, stream, arguments,
				   NULL);
	return r ? fail(-EIO, "cuLaunchKernel failed with CUDA error %d", r) : 0;
}
