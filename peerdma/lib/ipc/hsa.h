/* SPDX-License-Identifier: MIT */
/*
 * hsa.h - the part of AMD's HSA runtime that shares memory and signals between processes. Names,
 * numbers and layouts are HSA's.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct hsa_handle {
	uint64_t handle;
};

struct hsa_ipc_bytes {
	uint32_t words[8];
};

struct hsa_info {
	uint32_t size;
	int type;
	void *agent_base, *host_base;
	size_t length;
	void *userdata;
	struct hsa_handle owner;
	uint32_t global_flags;
};

enum { HSA_POINTER_HSA = 1, HSA_POINTER_IPC = 4 };
enum {
	HSA_AGENT_BDFID = 0xa006,
	HSA_AGENT_DOMAIN = 0xa00f,
	HSA_AGENT_DEVICE = 17,
	HSA_DEVICE_GPU = 1
};
enum { HSA_SIGNAL_FOR_IPC = 2 };
enum { HSA_OUT_OF_RESOURCES = 0x1008, HSA_NOT_INITIALIZED = 0x100b };

struct hsa_ipc {
	int (*pointer_info)(const void *ptr, struct hsa_info *info, void *(*alloc)(size_t),
			    uint32_t *n, struct hsa_handle **agents);
	int (*agent_info)(struct hsa_handle agent, int attribute, void *value);
	int (*create)(void *ptr, size_t length, struct hsa_ipc_bytes *handle);
	int (*attach)(const struct hsa_ipc_bytes *handle, size_t length, uint32_t n,
		      const struct hsa_handle *agents, void **ptr);
	int (*detach)(void *ptr);
	int (*copy)(void *to, const void *from, size_t length);
	int (*signal_create)(int64_t value, uint32_t n, const struct hsa_handle *consumers,
			     uint64_t attributes, struct hsa_handle *signal);
	int (*signal_export)(struct hsa_handle signal, struct hsa_ipc_bytes *handle);
	int (*signal_attach)(const struct hsa_ipc_bytes *handle, struct hsa_handle *signal);
	int (*signal_destroy)(struct hsa_handle signal);
	int64_t (*signal_load)(struct hsa_handle signal);
	void (*signal_store)(struct hsa_handle signal, int64_t value);
	void (*signal_add)(struct hsa_handle signal, int64_t value);
};

/* NULL: the process has not loaded the HSA runtime, or the runtime lacks a function. */
const struct hsa_ipc *ipc_hsa_api(void);
/* Converts an HSA status to -ENODEV, -EMFILE, -ENFILE, -ENOMEM or -EIO, with text. */
int ipc_hsa_failed(const char *call, int status);
