// SPDX-License-Identifier: MIT
/* handle.c - registered files. */
#include "cufile_int.h"

static CUfileOpError error_of_open(int error)
{
	switch (error) {
	case -ENOTSUP:
		return CU_FILE_INVALID_FILE_TYPE;
	case -EBADF:
	case -EINVAL:
		return CU_FILE_INVALID_VALUE;
	case -EMFILE:
		return CU_FILE_GETNEWFD_FAILED;
	case -ENOMEM:
		return CU_FILE_NOMEM_ERROR;
	default:
		return CU_FILE_INTERNAL_ERROR;
	}
}

/* Enters the handle, unless the descriptor is registered already. */
static CUfileOpError enter(struct handle *h)
{
	CUfileOpError error = CU_FILE_SUCCESS;

	lock();
	for (const struct handle *other = state.handles; other; other = other->next) {
		if (other->fd == h->fd)
			error = CU_FILE_HANDLE_ALREADY_REGISTERED;
	}
	if (!error) {
		h->next = state.handles;
		state.handles = h;
	}
	unlock();
	return error;
}

static CUfileOpError reg(CUfileHandle_t *fh, const CUfileDescr_t *descr)
{
	CUfileOpError error;
	struct handle *h;
	int ret;

	if (!fh || !descr)
		return CU_FILE_INVALID_VALUE;
	if (descr->type != CU_FILE_HANDLE_TYPE_OPAQUE_FD)
		return CU_FILE_IO_NOT_SUPPORTED;
	error = driver_use();
	if (error)
		return error;
	h = calloc(1, sizeof(*h));
	if (!h)
		return CU_FILE_NOMEM_ERROR;
	h->fd = descr->handle.fd;
	h->cached = -1;
	ret = peerdma_file_open(state.cache, h->fd,
				parameter_bool(CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE)
					? 0
					: PEERDMA_FILE_DIRECT_ONLY,
				&h->file);
	error = ret ? error_of_open(ret) : enter(h);
	if (error) {
		peerdma_file_close(h->file);
		free(h);
		return error;
	}
	*fh = h;
	return CU_FILE_SUCCESS;
}

EXPORT CUfileError_t cuFileHandleRegister(CUfileHandle_t *fh, CUfileDescr_t *descr)
{
	CUfileOpError error = reg(fh, descr);

	stats_count(COUNT_HANDLE, !error);
	return status(error);
}

/* Lock.  The place that points to the handle, or NULL: there is no such handle. */
static struct handle **find(CUfileHandle_t fh)
{
	struct handle **h = &state.handles;

	while (*h && *h != fh)
		h = &(*h)->next;
	return *h ? h : NULL;
}

struct handle *handle_get(CUfileHandle_t fh)
{
	struct handle **at, *h = NULL;

	lock();
	at = find(fh);
	if (at) {
		h = *at;
		h->users++;
	}
	unlock();
	return h;
}

void handle_put(struct handle *h)
{
	bool last;

	lock();
	last = !--h->users && h->gone;
	unlock();
	if (last) {
		peerdma_file_close(h->file);
		if (h->cached >= 0)
			close(h->cached);
		free(h);
	}
}

EXPORT void cuFileHandleDeregister(CUfileHandle_t fh)
{
	struct handle **at, *h;

	lock();
	at = find(fh);
	h = at ? *at : NULL;
	if (h) {
		*at = h->next;
		h->gone = true;
		h->users++;
	}
	unlock();
	stats_count(COUNT_HANDLE_END, h);
	if (h)
		handle_put(h);
}
