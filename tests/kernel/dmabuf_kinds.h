/* SPDX-License-Identifier: MIT */
/* dmabuf_kinds.h - between the tests of softgpu's exports of device memory: calls, importers, and what debugfs tells. */
#pragma once

#include "importer.h"
#include "sgraw.h"

#define LENGTH (3 * PAGE64)
#define DEBUGFS "/sys/kernel/debug/softgpu/"
#define TIMEOUT "/sys/module/softgpu/parameters/dmabuf_timeout_ms"

extern struct gpu g;
extern uint32_t visible;		/* a context of HSA's */

/* 0 or the errno of writing a number. */
int put(const char *path, unsigned long long n);

/* Of the last dma-buf that can be moved. */
enum { NUMBER, SIZE, USERS, PLACED, MOVES, BUSY, EVICTIONS, LATE, IN_SYSTEM, COLUMNS };

unsigned long long field(int column);
bool movable(void);

int export(uint64_t va);
uint64_t alloc(uint32_t ctx);

/* Importers; 0 or an errno. */
int attach(int im, int dmabuf, uint32_t kind);
int map(int im);
void detach(int im);

extern struct importer_map mapped;	/* by the last map() */

/* LENGTH bytes, by every 512th. */
void fill(volatile char *p, int with);
bool filled(const volatile char *p, int with);

/* dmabuf_promises.c */
void promises(void);

/* dmabuf_faults.c; VRAM is in a BAR */
void faults_while_moving(void);
