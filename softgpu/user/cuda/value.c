// SPDX-License-Identifier: MIT
/* value.c - words in memory that streams write and wait for: single operations and batches. */
#include "copy.h"

#define BATCH_MAX	255	/* NVIDIA's driver refuses 256 */

/* Converts one operation to the driver's struct. */
static CUresult operation(enum softgpu_value_op op, CUdeviceptr va, uint64_t value, uint32_t width,
			  struct softgpu_value *to)
{
	*to = (struct softgpu_value) {
		.size = sizeof(*to), .op = op, .va = va, .value = value, .width = width,
	};
	return va % width ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult wait_operation(CUdeviceptr va, uint64_t value, uint32_t width, unsigned int flags,
			       struct softgpu_value *to)
{
	static const enum softgpu_value_op ops[] = {
		[CU_STREAM_WAIT_VALUE_GEQ] = SOFTGPU_VALUE_GEQ,
		[CU_STREAM_WAIT_VALUE_EQ] = SOFTGPU_VALUE_EQ,
		[CU_STREAM_WAIT_VALUE_AND] = SOFTGPU_VALUE_AND,
		[CU_STREAM_WAIT_VALUE_NOR] = SOFTGPU_VALUE_NOR,
	};

	if (flags & ~(unsigned int)(CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH))
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & CU_STREAM_WAIT_VALUE_FLUSH)
		return CUDA_ERROR_NOT_SUPPORTED;
	return operation(ops[flags], va, value, width, to);
}

/* CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER was for the first version of these functions. */
static CUresult write_operation(CUdeviceptr va, uint64_t value, uint32_t width, unsigned int flags,
				struct softgpu_value *to)
{
	if (flags != CU_STREAM_WRITE_VALUE_DEFAULT)
		return CUDA_ERROR_INVALID_VALUE;
	return operation(SOFTGPU_VALUE_WRITE, va, value, width, to);
}

/*
 * Whether the stream's GPU can reach the word: it must be in memory that CUDA knows and that does
 * not migrate.
 */
static CUresult check_word(const struct sgu_queue *queue, const struct softgpu_value *op)
{
	const struct sgu_end end = { .va = op->va, .device = true };
	unsigned int access = op->op == SOFTGPU_VALUE_WRITE ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE :
							      CU_MEM_ACCESS_FLAGS_PROT_READ;
	struct softgpu_query q;
	CUresult result = sgu_check_end(&end, op->width, 1, access, &q);

	if (!result && (q.kind == SOFTGPU_KIND_MANAGED ||
			(sgu_is_vram(&q) && sgu_gpu_of_index(q.gpu) != queue->gpu)))
		result = CUDA_ERROR_INVALID_VALUE;
	return result;
}

static CUresult queue_operation(const struct sgu_queue *queue, struct softgpu_value *op)
{
	op->ctx = queue->kctx;
	op->stream = queue->stream;
	return sgu_result_enoent(sgu_call(queue->gpu, SOFTGPU_VALUE, op),
				 CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

static CUresult one(CUstream stream, CUdeviceptr va, uint64_t value, uint32_t width,
		    unsigned int flags, bool write)
{
	struct softgpu_value op;
	struct sgu_queue queue;
	CUresult result = sgu_queue_get(stream, &queue);

	if (result)
		return result;
	result = write ? write_operation(va, value, width, flags, &op) :
			 wait_operation(va, value, width, flags, &op);
	if (!result)
		result = check_word(&queue, &op);
	if (!result)
		result = queue_operation(&queue, &op);
	sgu_queue_put(&queue);
	return result;
}

#define ONE(name, type, writes)								\
	SGU_EXPORT CUresult name(CUstream stream, CUdeviceptr addr, type value,		\
				 unsigned int flags)					\
	{										\
		return one(stream, addr, value, sizeof(type), flags, writes);		\
	}
ONE(cuStreamWaitValue32_v2, cuuint32_t, false)
ONE(cuStreamWaitValue64_v2, cuuint64_t, false)
ONE(cuStreamWriteValue32_v2, cuuint32_t, true)
ONE(cuStreamWriteValue64_v2, cuuint64_t, true)

/* A barrier does nothing: each operation completes before the next begins. */
static CUresult batch_operation(const CUstreamBatchMemOpParams *p, struct softgpu_value *op,
				bool *nothing)
{
	*nothing = false;
	switch (p->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		return wait_operation(p->waitValue.address, p->waitValue.value, 4,
				      p->waitValue.flags, op);
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return wait_operation(p->waitValue.address, p->waitValue.value64, 8,
				      p->waitValue.flags, op);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		return write_operation(p->writeValue.address, p->writeValue.value, 4,
				       p->writeValue.flags, op);
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return write_operation(p->writeValue.address, p->writeValue.value64, 8,
				       p->writeValue.flags, op);
	case CU_STREAM_MEM_OP_BARRIER:
		*nothing = true;
		return p->memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU ?
		       CUDA_ERROR_INVALID_VALUE :
										    CUDA_SUCCESS;
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* Called twice: first checks all operations, then queues them. */
static CUresult batch(const struct sgu_queue *queue, const CUstreamBatchMemOpParams *params,
		      unsigned int count, bool look)
{
	CUresult result = CUDA_SUCCESS;
	struct softgpu_value op;
	bool nothing;

	for (unsigned int i = 0; i < count && !result; i++) {
		result = batch_operation(&params[i], &op, &nothing);
		if (!result && !nothing)
			result = look ? check_word(queue, &op) : queue_operation(queue, &op);
	}
	return result;
}

SGU_EXPORT CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
					  CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	struct sgu_queue queue;
	CUresult result = sgu_queue_get(stream, &queue);

	if (result)
		return result;
	if (flags || count > BATCH_MAX || (count && !paramArray))
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = batch(&queue, paramArray, count, true);
	if (!result)
		result = batch(&queue, paramArray, count, false);
	sgu_queue_put(&queue);
	return result;
}

/*
 * The first version of these functions, under the plain names. cuGetProcAddress() returns it for
 * CUDA before 11.7. NVIDIA's current driver does not support it, as
 * CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1 (0) shows.
 */
static CUresult refuse(CUstream stream, const void *what, unsigned int flags)
{
	CUresult result = sgu_enter();

	(void)stream;
	(void)what;
	(void)flags;
	return result ? result : CUDA_ERROR_NOT_SUPPORTED;
}

#define FIRST(name, type)								\
	SGU_EXPORT CUresult name(CUstream stream, CUdeviceptr addr, type value,		\
				 unsigned int flags);					\
	SGU_EXPORT CUresult name(CUstream stream, CUdeviceptr addr, type value,		\
				 unsigned int flags)					\
	{										\
		(void)addr;								\
		return refuse(stream, &value, flags);					\
	}

#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64
#undef cuStreamBatchMemOp
FIRST(cuStreamWaitValue32, cuuint32_t)
FIRST(cuStreamWaitValue64, cuuint64_t)
FIRST(cuStreamWriteValue32, cuuint32_t)
FIRST(cuStreamWriteValue64, cuuint64_t)

SGU_EXPORT CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count,
				       CUstreamBatchMemOpParams *paramArray, unsigned int flags);
SGU_EXPORT CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count,
				       CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	(void)count;
	return refuse(stream, paramArray, flags);
}
