/* SPDX-License-Identifier: MIT */
/* softgpu_share.h - between the files of softgpu_share_test. */
#pragma once

#include "importer.h"
#include "peerdma_test_card.h"
#include "sgraw.h"

#define ENOTSUPP	524	/* the kernel's own */
#define MIN(a, b)	((a) < (b) ? (a) : (b))
#define MAX(a, b)	((a) > (b) ? (a) : (b))

/* ---- softgpu_share_util.c; what is named ..._err returns an errno, others end the test ---- */

int dmabuf_err(struct gpu *g, uint64_t va, uint64_t length, int *fd);
int dmabuf_of(struct gpu *g, uint64_t va, uint64_t length);
int import_err(int fd, uint32_t kind, int *importer);
int map_err(int importer, struct importer_map *m);	/* 0 or errno */
uint64_t dma_address(int importer);
/* Of a byte of a range that is mapped already: system memory does not lie together. */
uint64_t dma_address_at(int importer, uint64_t offset);

uint64_t vram_free(struct gpu *g);
uint64_t bar1_used(struct gpu *g);
void put(struct gpu *g, uint64_t va, const void *data, uint64_t length);
void get(struct gpu *g, void *data, uint64_t va, uint64_t length);
/* Whether the card's addresses are the bus's own: then they follow the range's. */
bool untranslated(struct gpu *g);

/* ---- what is tested, a file each ---- */

/* softgpu_share_reach.c: what devices reach by a dma-buf's addresses. */
void dma_reaches(struct gpu *g);
/* softgpu_share_kept.c: what an export keeps, and for how long. */
void exports_keep(struct gpu *g);
void the_module_stays(void);
/* softgpu_share_removal.c */
int removal(const char *address);
