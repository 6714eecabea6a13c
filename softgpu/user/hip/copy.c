// SPDX-License-Identifier: MIT
/* copy.c - copies and fills. */
#include <stddef.h>

#include "hip_int.h"

/* ---- the work itself ---- */

hipError_t hip_copy_run(const struct hip_copy *c)
{
	hipError_t error = hipSuccess;

	for (size_t row = 0; row < c->height && !error; row++)
		error = hip_of_status(hsa_memory_copy(c->dst + row * c->dst_pitch,
						      c->src + row * c->src_pitch, c->width));
	return error;
}

/*
 * Writes bytes of one word, which have the same place in each word. By HSA, because the CPU's
 * access to memory that is not there would end the process.
 */
static hipError_t fill_part(char *dst, size_t size, uint32_t value)
{
	const char *bytes = (const char *)&value + (uintptr_t)dst % 4;

	return size ? hip_of_status(hsa_memory_copy(dst, bytes, size)) : hipSuccess;
}

/* HSA fills words. A value that is not one byte four times begins at a multiple of its size. */
static hipError_t fill_row(char *dst, size_t size, uint32_t value)
{
	size_t head = -(uintptr_t)dst % 4, words;
	hipError_t error;

	if (head > size)
		head = size;
	words = (size - head) / 4;
	error = fill_part(dst, head, value);
	dst += head;
	if (!error && words)
		error = hip_of_status(hsa_amd_memory_fill(dst, value, words));
	return error ? error : fill_part(dst + words * 4, (size - head) % 4, value);
}

hipError_t hip_fill_run(const struct hip_fill *f)
{
	hipError_t error = hipSuccess;

	for (size_t row = 0; row < f->height && !error; row++)
		error = fill_row(f->dst + row * f->pitch, f->width, f->value);
	return error;
}

static hipError_t run_copy(struct hip_work *work)
{
	return hip_copy_run(&work->copy);
}

static hipError_t run_fill(struct hip_work *work)
{
	return hip_fill_run(&work->fill);
}

/* ---- checks ---- */

/* The bytes from the first to behind the last one. False: more than there are. */
static bool span(size_t pitch, size_t width, size_t height, size_t *size)
{
	if (height > 1 && pitch > (SIZE_MAX - width) / (height - 1))
		return false;
	*size = height ? pitch * (height - 1) + width : 0;
	return true;
}

/*
 * Whether the range is within one allocation, or within mappings side by side. True also if `ptr`
 * is in none.
 */
static bool fits(const char *ptr, size_t size)
{
	struct hip_memory m = hip_memory_at(ptr);
	size_t left;

	if (!m.known || m.registered)
		return true;
	do {
		left = m.size - (size_t)(ptr - m.base);
		if (size <= left)
			return true;
		size -= left;
		ptr += left;
		m = hip_memory_at(ptr);
	} while (m.mapped);
	return false;
}

static hipError_t check_side(const void *ptr, size_t pitch, size_t width, size_t height)
{
	size_t size;

	if (height > 1 && pitch < width)
		return hipErrorInvalidPitchValue;
	return ptr && span(pitch, width, height, &size) && fits(ptr, size) ? hipSuccess :
									     hipErrorInvalidValue;
}

static hipError_t check_copy(const struct hip_copy *c, hipMemcpyKind kind)
{
	hipError_t error = hip_enter();

	if (error)
		return error;
	/* The addresses show the direction of the copy. */
	if ((unsigned int)kind > hipMemcpyDefault && kind != hipMemcpyDeviceToDeviceNoCU)
		return hipErrorInvalidValue;
	if (!c->width || !c->height)
		return hipSuccess;
	error = check_side(c->dst, c->dst_pitch, c->width, c->height);
	return error ? error : check_side(c->src, c->src_pitch, c->width, c->height);
}

/* ---- copies ---- */

static struct hip_copy plain(void *dst, const void *src, size_t size)
{
	return (struct hip_copy){ .dst = dst, .src = src, .width = size, .height = 1 };
}

/* The work of the default stream that comes before is waited for, so the caller makes the copy. */
static hipError_t copy(const struct hip_copy *c, hipMemcpyKind kind)
{
	hipError_t error = check_copy(c, kind);

	if (!error)
		error = hip_work_wait_default();
	if (error || !c->width || !c->height)
		return hip_done(error);
	return hip_done(hip_copy_run(c));
}

static hipError_t queue(hipStream_t stream, const struct hip_work *work, bool wait)
{
	struct ihipStream_t *s = hip_stream_get(stream);
	hipError_t error;

	if (!s)
		return hipErrorInvalidHandle;
	error = hip_work_queue(s, work);
	if (!error && wait)
		error = hip_work_wait(s);
	hip_stream_put(s);
	return error;
}

static hipError_t copy_async(const struct hip_copy *c, hipMemcpyKind kind, hipStream_t stream,
			     bool wait)
{
	struct hip_work work = { .run = run_copy };
	hipError_t error = check_copy(c, kind);

	if (error || !c->width || !c->height)
		return hip_done(error);
	work.copy = *c;
	/* Programs may use such memory as soon as the call returns. */
	wait = wait || !hip_memory_at(c->dst).known || !hip_memory_at(c->src).known;
	return hip_done(queue(stream, &work, wait));
}

HIP_EXPORT hipError_t hipMemcpy(void *dst, const void *src, size_t size, hipMemcpyKind kind)
{
	struct hip_copy c = plain(dst, src, size);

	return copy(&c, kind);
}

HIP_EXPORT hipError_t hipMemcpyAsync(void *dst, const void *src, size_t size, hipMemcpyKind kind,
				     hipStream_t stream)
{
	struct hip_copy c = plain(dst, src, size);

	return copy_async(&c, kind, stream, false);
}

HIP_EXPORT hipError_t hipMemcpyWithStream(void *dst, const void *src, size_t size,
					  hipMemcpyKind kind, hipStream_t stream)
{
	struct hip_copy c = plain(dst, src, size);

	return copy_async(&c, kind, stream, true);
}

HIP_EXPORT hipError_t hipMemcpyHtoD(hipDeviceptr_t dst, const void *src, size_t size)
{
	return hipMemcpy(dst, src, size, hipMemcpyHostToDevice);
}

HIP_EXPORT hipError_t hipMemcpyDtoH(void *dst, hipDeviceptr_t src, size_t size)
{
	return hipMemcpy(dst, src, size, hipMemcpyDeviceToHost);
}

HIP_EXPORT hipError_t hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, size_t size)
{
	return hipMemcpy(dst, src, size, hipMemcpyDeviceToDevice);
}

HIP_EXPORT hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t dst, const void *src, size_t size,
					 hipStream_t stream)
{
	return hipMemcpyAsync(dst, src, size, hipMemcpyHostToDevice, stream);
}

HIP_EXPORT hipError_t hipMemcpyDtoHAsync(void *dst, hipDeviceptr_t src, size_t size,
					 hipStream_t stream)
{
	return hipMemcpyAsync(dst, src, size, hipMemcpyDeviceToHost, stream);
}

HIP_EXPORT hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t dst, hipDeviceptr_t src, size_t size,
					 hipStream_t stream)
{
	return hipMemcpyAsync(dst, src, size, hipMemcpyDeviceToDevice, stream);
}

static hipError_t check_devices(int dst, int src)
{
	hipError_t error = hip_enter();

	return error || (hip_device_ok(dst) && hip_device_ok(src)) ? error : hipErrorInvalidDevice;
}

HIP_EXPORT hipError_t hipMemcpyPeer(void *dst, int dst_device, const void *src, int src_device,
				    size_t size)
{
	hipError_t error = check_devices(dst_device, src_device);

	return error ? hip_done(error) : hipMemcpy(dst, src, size, hipMemcpyDefault);
}

HIP_EXPORT hipError_t hipMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device,
					 size_t size, hipStream_t stream)
{
	hipError_t error = check_devices(dst_device, src_device);

	return error ? hip_done(error) : hipMemcpyAsync(dst, src, size, hipMemcpyDefault, stream);
}

HIP_EXPORT hipError_t hipMemcpy2D(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
				  size_t width, size_t height, hipMemcpyKind kind)
{
	struct hip_copy c = { dst, src, dst_pitch, src_pitch, width, height };

	return copy(&c, kind);
}

HIP_EXPORT hipError_t hipMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src,
				       size_t src_pitch, size_t width, size_t height,
				       hipMemcpyKind kind, hipStream_t stream)
{
	struct hip_copy c = { dst, src, dst_pitch, src_pitch, width, height };

	return copy_async(&c, kind, stream, false);
}

/* ---- fills ---- */

static hipError_t check_fill(const struct hip_fill *f)
{
	hipError_t error = hip_enter();

	return error || !f->width || !f->height ?
		       error :
		       check_side(f->dst, f->pitch, f->width, f->height);
}

static hipError_t fill(const struct hip_fill *f)
{
	hipError_t error = check_fill(f);

	if (!error)
		error = hip_work_wait_default();
	return hip_done(error ? error : hip_fill_run(f));
}

static hipError_t fill_async(const struct hip_fill *f, hipStream_t stream)
{
	struct hip_work work = { .run = run_fill };
	hipError_t error = check_fill(f);

	if (error || !f->width || !f->height)
		return hip_done(error);
	work.fill = *f;
	return hip_done(queue(stream, &work, false));
}

/* count elements of `size' bytes. A fill that is too long has no width, and a dst of NULL. */
static struct hip_fill elements(void *dst, uint32_t value, size_t count, size_t size)
{
	static const uint32_t times[] = { [1] = 0x01010101, [2] = 0x00010001, [4] = 1 };
	uint32_t mask = size == 4 ? UINT32_MAX : (1u << 8 * size) - 1;
	bool bad = count > SIZE_MAX / size || (uintptr_t)dst % size;

	return (struct hip_fill){ .dst = bad ? NULL : dst,
				  .width = bad ? size : count * size,
				  .height = 1,
				  .value = (value & mask) * times[size] };
}

#define FILL(name, type, bytes)							\
	HIP_EXPORT hipError_t name(hipDeviceptr_t dst, type value, size_t count)	\
	{									\
		struct hip_fill f = elements(dst, (uint32_t)value, count, bytes);	\
										\
		return fill(&f);						\
	}									\
	HIP_EXPORT hipError_t name##Async(hipDeviceptr_t dst, type value, size_t count,	\
					  hipStream_t stream)			\
	{									\
		struct hip_fill f = elements(dst, (uint32_t)value, count, bytes);	\
										\
		return fill_async(&f, stream);					\
	}

FILL(hipMemset, int, 1)
FILL(hipMemsetD8, unsigned char, 1)
FILL(hipMemsetD16, unsigned short, 2)
FILL(hipMemsetD32, int, 4)

HIP_EXPORT hipError_t hipMemset2D(void *dst, size_t pitch, int value, size_t width, size_t height)
{
	struct hip_fill f = elements(dst, (uint32_t)value, width, 1);

	f.pitch = pitch;
	f.height = height;
	return fill(&f);
}

HIP_EXPORT hipError_t hipMemset2DAsync(void *dst, size_t pitch, int value, size_t width,
				       size_t height, hipStream_t stream)
{
	struct hip_fill f = elements(dst, (uint32_t)value, width, 1);

	f.pitch = pitch;
	f.height = height;
	return fill_async(&f, stream);
}
