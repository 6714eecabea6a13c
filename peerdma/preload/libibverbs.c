// SPDX-License-Identifier: MIT
/* libibverbs.c - see libibverbs.h. */
#include <dlfcn.h>
#include <pthread.h>

#include "libibverbs.h"

static struct verbs_calls loaded;

/* It stays loaded: its functions may be called at any time from now on. */
static void find(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);

	if (!library)
		return;
	loaded.reg_mr = dlsym(library, "ibv_reg_mr");
	loaded.reg_mr_iova = dlsym(library, "ibv_reg_mr_iova");
	loaded.reg_mr_iova2 = dlsym(library, "ibv_reg_mr_iova2");
	loaded.reg_dmabuf_mr = dlsym(library, "ibv_reg_dmabuf_mr");
	loaded.reg_mr_ex = dlsym(library, "ibv_reg_mr_ex");
	loaded.rereg_mr = dlsym(library, "ibv_rereg_mr");
	loaded.dereg_mr = dlsym(library, "ibv_dereg_mr");
	loaded.dealloc_pd = dlsym(library, "ibv_dealloc_pd");
	loaded.library = library;
}

const struct verbs_calls *verbs_calls(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find);
	return &loaded;
}
