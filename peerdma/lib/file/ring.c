// SPDX-License-Identifier: MIT
/* ring.c - see ring.h. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ring.h"

const char *ring_why(int error)
{
	switch (error) {
	case -EOPNOTSUPP:
		return "this libpeerdma was built without liburing";
	case -EPERM:
	case -EACCES:
		return "io_uring is not allowed: by kernel.io_uring_disabled, or by a filter of system calls (seccomp), as in containers";
	case -ENOSYS:
		return "io_uring is not there: the kernel is without it, or a filter of system calls (seccomp) hides it";
	case -ENOMEM:
		return "there is no memory for io_uring, or RLIMIT_MEMLOCK is too small for it";
	case -EMFILE:
	case -ENFILE:
		return "there is no descriptor for io_uring";
	case -EPROTO:
		return "this kernel's io_uring is too old: 5.11 is needed";
	default:
		return "the kernel refuses io_uring";
	}
}

#ifdef HAVE_LIBURING

int ring_open(struct ring *ring, uint32_t entries)
{
	struct io_uring_params params = { 0 };
	int ret;

	ring->fd = OWN_FD_NONE;
	ring->given = calloc(entries, sizeof(*ring->given));
	if (!ring->given)
		return -ENOMEM;
	ret = io_uring_queue_init_params(entries, &ring->uring, &params);
	/* Without EXT_ARG, a wait with a timeout would submit something itself. */
	if (!ret && !(params.features & IORING_FEAT_EXT_ARG)) {
		io_uring_queue_exit(&ring->uring);
		ret = -EPROTO;
	}
	if (ret) {
		free(ring->given);
		ring->given = NULL;
		return ret;
	}
	io_uring_ring_dontfork(&ring->uring);
	ring->fd = own_fd(ring->uring.ring_fd);
	ring->usable = true;
	return 0;
}

void ring_give(struct ring *ring, const struct step *step, void *data)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);
	const struct part *part = &step->part;
	uint64_t left = part->length - step->moved;
	uint32_t length = left < 1U << 30 ? (uint32_t)left : 1U << 30;

	if (part->write)
		io_uring_prep_write(sqe, step->fd, step->memory + step->moved, length,
				    part->offset + step->moved);
	else
		io_uring_prep_read(sqe, step->fd, step->memory + step->moved, length,
				   part->offset + step->moved);
	io_uring_sqe_set_data(sqe, data);
	ring->given[ring->count++] = data;
}

void ring_give_word(struct ring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);

	io_uring_prep_nop(sqe);
	io_uring_sqe_set_data(sqe, NULL);
	ring->given[ring->count++] = NULL;
}

int ring_submit(struct ring *ring)
{
	while (ring->count) {
		int n = io_uring_submit(&ring->uring);

		if (n == -EINTR)
			continue;
		if (n <= 0) {
			__atomic_store_n(&ring->usable, false, __ATOMIC_RELAXED);
			return n ? n : -EIO;
		}
		ring->count -= (uint32_t)n;
		memmove(ring->given, ring->given + n, ring->count * sizeof(*ring->given));
	}
	return 0;
}

bool ring_take(struct ring *ring, void **data, int *result)
{
	struct io_uring_cqe *cqe;

	if (ring->fd.fd < 0 || io_uring_peek_cqe(&ring->uring, &cqe))
		return false;
	*data = io_uring_cqe_get_data(cqe);
	*result = cqe->res;
	io_uring_cqe_seen(&ring->uring, cqe);
	return true;
}

int ring_wait(struct ring *ring, uint32_t n, const struct timespec *timeout)
{
	struct __kernel_timespec t = { 0 };
	struct io_uring_cqe *cqe;

	if (timeout) {
		t.tv_sec = timeout->tv_sec;
		t.tv_nsec = timeout->tv_nsec;
	}
	return io_uring_wait_cqes(&ring->uring, &cqe, n, timeout ? &t : NULL, NULL);
}

void ring_close(struct ring *ring, bool owner)
{
	/* liburing closes the descriptor, whatever it is of by now. */
	if (owner && own_fd_still(&ring->fd))
		io_uring_queue_exit(&ring->uring);
	else
		own_fd_close(&ring->fd);
	ring->fd = OWN_FD_NONE;
	ring->usable = false;
	free(ring->given);
}

#else

int ring_open(struct ring *ring, uint32_t entries)
{
	(void)entries;
	ring->fd = OWN_FD_NONE;
	return -EOPNOTSUPP;
}

void ring_give(struct ring *ring, const struct step *step, void *data)
{
	(void)ring;
	(void)step;
	(void)data;
}

void ring_give_word(struct ring *ring)
{
	(void)ring;
}

int ring_submit(struct ring *ring)
{
	(void)ring;
	return 0;
}

bool ring_take(struct ring *ring, void **data, int *result)
{
	(void)ring;
	(void)data;
	(void)result;
	return false;
}

int ring_wait(struct ring *ring, uint32_t n, const struct timespec *timeout)
{
	(void)ring;
	(void)n;
	(void)timeout;
	return -EOPNOTSUPP;
}

void ring_close(struct ring *ring, bool owner)
{
	(void)ring;
	(void)owner;
}

#endif
