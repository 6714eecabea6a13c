// SPDX-License-Identifier: MIT
/*
 * inprocess_pin.c - softgpu_inprocess.h: pins of the GPU in this process, as a
 * personality offers them to others.
 *
 * A pin is the caller's until it is unpinned and the core's until it has ended, in
 * either order: the last one frees it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inprocess.h"
#include "internal.h"
#include "sg.h"
#include "softgpu_inprocess.h"
#include "vram.h"

struct view {
	struct view *next;
	char *base;
};

struct softgpu_pin {
	struct sg_pin pin;
	void (*revoked)(void *arg);
	void *arg;
	uint64_t length;
	_Atomic int users;		/* the caller, and the core */
	pthread_mutex_t lock;		/* of what follows */
	struct view *views;
	bool gone;			/* no view reaches the memory any more */
};

static struct softgpu_pin *outer(struct sg_pin *pin)
{
	return (struct softgpu_pin *)((char *)pin - offsetof(struct softgpu_pin, pin));
}

static void drop(struct softgpu_pin *p)
{
	if (atomic_fetch_sub(&p->users, 1) > 1)
		return;
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* ---- what the core calls ---- */

static void on_revoke(struct sg_pin *pin)
{
	struct softgpu_pin *p = outer(pin);

	p->revoked(p->arg);
}

/* Something that faults takes the views' place: nothing else may come to be at their addresses. */
static void on_unmap(struct sg_pin *pin)
{
	struct softgpu_pin *p = outer(pin);

	pthread_mutex_lock(&p->lock);
	p->gone = true;
	for (struct view *v = p->views; v; v = v->next)
		sgu_vram_hide(v->base, p->length);
	pthread_mutex_unlock(&p->lock);
}

static void on_free(struct sg_pin *pin)
{
	drop(outer(pin));
}

static const struct sg_pin_ops ops = { .callback = on_revoke, .unmap = on_unmap, .free = on_free };

/* ---- the calls ---- */

SGU_EXPORT void softgpu_inprocess_begin(void)
{
	sgu_want_inprocess();
}

SGU_EXPORT int softgpu_inprocess_begun(void)
{
	return sgu_wants_inprocess();
}

SGU_EXPORT int softgpu_inprocess_pin(uint64_t va, uint64_t length, unsigned int flags, void (*revoked)(void *arg), void *arg,
				     struct softgpu_pin **out)
{
	struct sg_pin_who who = { .proc_key = softgpu_inprocess_key() };
	struct sg *core = softgpu_inprocess_core();
	struct softgpu_pin *p;
	int err;

	if (!core)
		return -ENODEV;
	if (flags & ~SOFTGPU_PIN_PERSISTENT || !length || (va | length) & (SG_PAGE_SIZE - 1) || !revoked)
		return -EINVAL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->revoked = revoked;
	p->arg = arg;
	p->length = length;
	p->users = 2;
	pthread_mutex_init(&p->lock, NULL);
	err = sg_pin_get(core, &p->pin, &ops, &who, va, length, flags & SOFTGPU_PIN_PERSISTENT);
	if (err) {
		p->users = 1;
		drop(p);
		return err;
	}
	*out = p;
	return 0;
}

SGU_EXPORT void softgpu_inprocess_unpin(struct softgpu_pin *p)
{
	struct view *v;

	/* Its end, here or by its callback, has hidden what views there are. */
	sg_pin_put(softgpu_inprocess_core(), &p->pin, p->pin.persistent);
	while ((v = p->views)) {
		p->views = v->next;
		munmap(v->base, p->length);
		free(v);
	}
	drop(p);
}

/* Lock.  Pages that lie side by side in VRAM are one mapping. */
static int map_pages(struct softgpu_pin *p, char *base, int prot)
{
	unsigned int gpu = sg_pin_gpu_index(&p->pin);
	uint32_t n = p->pin.npages, first = 0;
	int err = 0;

	for (uint32_t i = 1; i <= n && !err; i++) {
		uint64_t from = sg_pin_page(&p->pin, first);

		if (i < n && sg_pin_page(&p->pin, i) == from + (uint64_t)(i - first) * SG_PAGE_SIZE)
			continue;
		err = sgu_vram_map(gpu, from, (uint64_t)(i - first) * SG_PAGE_SIZE, prot, base + first * SG_PAGE_SIZE);
		first = i;
	}
	return err;
}

/* Something that faults, over whatever is there, or (NULL) anywhere. */
static void *nothing_at(void *base, uint64_t length)
{
	return mmap(base, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (base ? MAP_FIXED : 0), -1, 0);
}

SGU_EXPORT int softgpu_inprocess_view_at(struct softgpu_pin *p, int writable, void *base)
{
	struct view *v = malloc(sizeof(*v));
	int err;

	if (!v)
		return -ENOMEM;
	pthread_mutex_lock(&p->lock);
	err = p->gone ? -ESTALE : map_pages(p, base, writable ? PROT_READ | PROT_WRITE : PROT_READ);
	if (!err) {
		madvise(base, p->length, MADV_DONTFORK);
		v->base = base;
		v->next = p->views;
		p->views = v;
	}
	pthread_mutex_unlock(&p->lock);
	if (err) {
		nothing_at(base, p->length);
		free(v);
	}
	return err;
}

SGU_EXPORT int softgpu_inprocess_view(struct softgpu_pin *p, int writable, void **view)
{
	void *base = nothing_at(NULL, p->length);
	int err;

	if (base == MAP_FAILED)
		return -ENOMEM;
	err = softgpu_inprocess_view_at(p, writable, base);
	if (err)
		munmap(base, p->length);
	else
		*view = base;
	return err;
}

SGU_EXPORT void softgpu_inprocess_view_end(struct softgpu_pin *p, void *view)
{
	struct view **link, *v = NULL;

	pthread_mutex_lock(&p->lock);
	for (link = &p->views; *link; link = &(*link)->next) {
		if ((*link)->base == view) {
			v = *link;
			*link = v->next;
			munmap(v->base, p->length);
			break;
		}
	}
	pthread_mutex_unlock(&p->lock);
	free(v);
}
