/* SPDX-License-Identifier: MIT */
/* softgpu_share.h - between the files of softgpu_share_test. */
#ifndef SOFTGPU_SHARE_H
#define SOFTGPU_SHARE_H

#include "peerdma_importer.h"
#include "sgraw.h"

#define ENOTSUPP	524	/* the kernel's own */
#define STATIC_PARAMETER	"/sys/module/softgpu/parameters/dmabuf_static"
#define MMAP_PARAMETER	"/sys/module/softgpu/parameters/dmabuf_mmap"

#define MIN(a, b)	((a) < (b) ? (a) : (b))
#define MAX(a, b)	((a) > (b) ? (a) : (b))

/* ---- softgpu_share_util.c; what is named ..._err returns an errno, others end the test ---- */

int export_err(struct gpu *g, uint64_t va, uint64_t length, int *fd);
int export(struct gpu *g, uint64_t va, uint64_t length);
int import_err(int fd, uint32_t kind, int *importer);
int map(int importer, struct importer_map *m);	/* 0 or errno */
uint64_t dma_address(int importer);
/* Of a byte of a range that is mapped already: system memory does not lie together. */
uint64_t dma_address_at(int importer, uint64_t offset);

/* QEMU's edu card, by hand. */
#define CARD_MEMORY	0x40000
#define CARD_MOST	4092
void card_up(void);
void card_dma(uint64_t from, uint64_t to, uint32_t length, uint32_t direction);

uint64_t vram_free(struct gpu *g);
uint64_t bar1_used(struct gpu *g);
uint64_t need_alloc(struct gpu *g, uint64_t length);
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
/* softgpu_share_removal.c, softgpu_share_processes.c */
int removal(const char *address);
int several_at_once(void);

#endif
