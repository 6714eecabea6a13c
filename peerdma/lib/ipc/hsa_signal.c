// SPDX-License-Identifier: MIT
/* hsa_signal.c - signals whose value is that of an HSA signal. */
#include <string.h>

#include "hsa.h"
#include "ipc.h"

static struct hsa_handle at(uint64_t handle)
{
	return (struct hsa_handle) { handle };
}

int ipc_hsa_signal_make(uint64_t value, uint64_t *handle, uint8_t blob[64])
{
	const struct hsa_ipc *hsa = ipc_hsa_api();
	struct hsa_ipc_bytes bytes;
	struct hsa_handle signal;
	int r;

	if (!hsa)
		return fail(-ENODEV, "this process has not loaded libhsa-runtime64.so.1; call hsa_init() first");
	r = hsa->signal_create((int64_t)value, 0, NULL, HSA_SIGNAL_FOR_IPC, &signal);
	if (r)
		return ipc_hsa_failed("hsa_amd_signal_create", r);
	r = hsa->signal_export(signal, &bytes);
	if (r) {
		hsa->signal_destroy(signal);
		return ipc_hsa_failed("hsa_amd_ipc_signal_create", r);
	}
	memcpy(blob, &bytes, sizeof(bytes));
	*handle = signal.handle;
	return 0;
}

int ipc_hsa_signal_open(const uint8_t blob[64], uint64_t *handle)
{
	const struct hsa_ipc *hsa = ipc_hsa_api();
	struct hsa_ipc_bytes bytes;
	struct hsa_handle signal;
	int r;

	if (!hsa)
		return fail(-ENODEV, "it is HSA's signal, and this process has not loaded libhsa-runtime64.so.1; call hsa_init() first");
	memcpy(&bytes, blob, sizeof(bytes));
	r = hsa->signal_attach(&bytes, &signal);
	if (r)
		return ipc_hsa_failed("hsa_amd_ipc_signal_attach", r);
	*handle = signal.handle;
	return 0;
}

void ipc_hsa_signal_end(uint64_t handle)
{
	const struct hsa_ipc *hsa = ipc_hsa_api();

	if (hsa)
		hsa->signal_destroy(at(handle));
}

uint64_t ipc_hsa_signal_get(uint64_t handle)
{
	const struct hsa_ipc *hsa = ipc_hsa_api();

	return hsa ? (uint64_t)hsa->signal_load(at(handle)) : 0;
}

void ipc_hsa_signal_set(uint64_t handle, uint64_t value)
{
	ipc_hsa_api()->signal_store(at(handle), (int64_t)value);
}

void ipc_hsa_signal_add(uint64_t handle, uint64_t value)
{
	ipc_hsa_api()->signal_add(at(handle), (int64_t)value);
}
