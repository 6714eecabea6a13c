/* SPDX-License-Identifier: MIT */
/* importer.h - peerdma_importer.ko's calls for a program: -1 and errno where they fail. */
#pragma once

#include "peerdma_importer.h"
#include "vmtest.h"

static inline int importer_open(void)
{
	int im = open("/dev/peerdma_importer", O_RDWR | O_CLOEXEC);

	MUST(im >= 0);
	return im;
}

static inline int importer_attach(int im, int dmabuf, uint32_t kind)
{
	struct importer_attach a = { .fd = dmabuf, .kind = kind };

	return ioctl(im, IMPORTER_ATTACH, &a);
}

static inline int importer_map(int im, struct importer_map *m)
{
	return ioctl(im, IMPORTER_MAP, m);
}

static inline int importer_unmap(int im)
{
	return ioctl(im, IMPORTER_UNMAP);
}

static inline int importer_detach(int im)
{
	return ioctl(im, IMPORTER_DETACH);
}

static inline struct importer_state importer_state(int im)
{
	struct importer_state s = { 0 };

	WORKS(ioctl(im, IMPORTER_STATE, &s));
	return s;
}

/* The kernel's view; iomem: of a BAR. */
static inline int importer_view(int im, int dmabuf, bool *iomem)
{
	struct importer_view v = { .fd = dmabuf };
	int ret = ioctl(im, IMPORTER_VMAP, &v);

	*iomem = v.iomem;
	return ret;
}

static inline uint8_t importer_peek(int im, uint64_t offset)
{
	struct importer_peek p = { .offset = offset };

	WORKS(ioctl(im, IMPORTER_PEEK, &p));
	return (uint8_t)p.value;
}

static inline void importer_poke(int im, uint64_t offset, uint8_t value)
{
	struct importer_peek p = { .offset = offset, .value = value, .write = 1 };

	WORKS(ioctl(im, IMPORTER_PEEK, &p));
}

/* Importers of this kernel promise to unmap soon after they are told to. */
static inline bool importers_promise(void)
{
	int im = importer_open();
	bool yes = ioctl(im, IMPORTER_PROMISES) == 1;

	close(im);
	return yes;
}

/* A new importer that has it mapped, for both directions. */
static inline int importer_up(int dmabuf, uint32_t kind, struct importer_map *m)
{
	int im = importer_open();

	*m = (struct importer_map){ 0 };
	WORKS(importer_attach(im, dmabuf, kind));
	WORKS(importer_map(im, m));
	return im;
}
