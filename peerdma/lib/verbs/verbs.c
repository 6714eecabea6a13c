// SPDX-License-Identifier: MIT
/*
 * verbs.c - calls libibverbs, by the libibverbs.so.1 that the process has loaded; a program with a
 * protection domain has loaded it. Names, numbers and types are those of its ABI version 1.1, which
 * does not change.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/component.h"
#include "internal.h"
#include "verbs.h"
#include "verbs_forced.h"
#include "verbs_kernel.h"

/* struct ibv_mr, as programs see it */
struct keys {
	void *context, *pd, *addr;
	size_t length;
	uint32_t handle, lkey, rkey;
};

struct api {
	struct ibv_mr *(*reg)(struct ibv_pd *pd, void *ptr, size_t length, int access);
	int (*dereg)(struct ibv_mr *mr);
	/* Since rdma-core 28; NULL before. */
	struct ibv_mr *(*reg_iova)(struct ibv_pd *pd, void *ptr, size_t length, uint64_t iova,
				   unsigned int access);
	/* Since rdma-core 34; NULL before. */
	struct ibv_mr *(*reg_dmabuf)(struct ibv_pd *pd, uint64_t offset, size_t length,
				     uint64_t iova, int fd, int access);
	void *library;
};

static _Atomic(const struct api *) published;	/* never changes once it is set */

/* Keeps the library loaded, because its functions may be called at any time from now on. */
static const struct api *find(void)
{
	const struct api *found = atomic_load_explicit(&published, memory_order_acquire);
	struct api *api;
	void *library;

	if (found)
		return found;
	library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
	if (!library)
		return NULL;
	api = malloc(sizeof(*api));
	if (api) {
		api->reg = dlsym(library, "ibv_reg_mr");
		api->dereg = dlsym(library, "ibv_dereg_mr");
		api->reg_iova = dlsym(library, "ibv_reg_mr_iova2");
		api->reg_dmabuf = dlsym(library, "ibv_reg_dmabuf_mr");
		api->library = library;
		if (api->reg && api->dereg &&
		    atomic_compare_exchange_strong(&published, &found, api))
			return api;
	}
	free(api);
	dlclose(library);
	return found;
}

int verbs_find(void)
{
	return find() ? 0 : fail(-ENODEV, "libibverbs.so.1: this process has not loaded it; link it, or load it before the call");
}

#define NO_DMABUF_MR "this libibverbs has no ibv_reg_dmabuf_mr (rdma-core 34 has)"

void verbs_describe(struct components *to)
{
	struct peerdma_component c = component(PEERDMA_COMPONENT_VERBS, "libibverbs");

	if (verbs_find()) {
		component_off(&c, peerdma_last_error());
	} else {
		component_file(&c, (const void *)(uintptr_t)find()->reg);
		component_why(&c, "the method is decided per memory region, by pin and device; %s",
			      find()->reg_dmabuf ? "MRs of dma-bufs can be made" : NO_DMABUF_MR);
	}
	components_add(to, &c);
}

static int failed(const char *call, int error)
{
	if (error == ENOMEM)
		return fail(-ENOMEM, "%s: no memory, or the locked-memory limit ('ulimit -l', RLIMIT_MEMLOCK) is used up", call);
	return fail(error > 0 ? -error : -EIO, "%s: %s", call,
		    error_words(error > 0 ? -error : -EIO));
}

static int done(const char *call, struct ibv_mr *mr, struct ibv_mr **out)
{
	int error = errno;

	*out = mr;
	return mr ? 0 : failed(call, error);
}

int verbs_reg(struct ibv_pd *pd, void *ptr, uint64_t length, uint64_t iova, int access,
	      struct ibv_mr **mr)
{
	const struct api *verbs = find();

	errno = 0;
	if (verbs->reg_iova)
		return done("ibv_reg_mr",
			    verbs->reg_iova(pd, ptr, length, iova, (unsigned int)access), mr);
	if (iova == (uintptr_t)ptr)
		return done("ibv_reg_mr", verbs->reg(pd, ptr, length, access), mr);
	return fail(-EOPNOTSUPP, "this libibverbs has no ibv_reg_mr_iova2 (rdma-core 28 has)");
}

int verbs_reg_dmabuf(struct ibv_pd *pd, int fd, uint64_t offset, uint64_t length, uint64_t iova,
		     int access, struct ibv_mr **mr)
{
	const struct api *verbs = find();

	errno = 0;
	if (!verbs->reg_dmabuf)
		return fail(-EOPNOTSUPP, NO_DMABUF_MR);
	*mr = verbs->reg_dmabuf(pd, offset, length, iova, fd, access);
	if (!*mr && errno == EOPNOTSUPP)
		*mr = verbs_kernel_reg_dmabuf(verbs->library, pd, offset, length, iova, fd, access);
	return done("ibv_reg_dmabuf_mr", *mr, mr);
}

int verbs_dereg(struct ibv_mr *mr)
{
	const struct api *verbs = find();
	int error;

	if (!verbs_kernel_dereg(verbs->library, mr, &error))
		error = verbs->dereg(mr);
	return error ? fail(-error, "ibv_dereg_mr: %s", error_words(-error)) : 0;
}

int verbs_reg_is_forced(struct ibv_pd *pd, int access)
{
	const struct api *verbs = find();
	int is = verbs_forced(verbs->reg, verbs->dereg, pd, access);

	return is < 0 ? failed("ibv_reg_mr", -is) : is;
}

uint32_t verbs_lkey(const struct ibv_mr *mr)
{
	return ((const struct keys *)mr)->lkey;
}

uint32_t verbs_rkey(const struct ibv_mr *mr)
{
	return ((const struct keys *)mr)->rkey;
}
