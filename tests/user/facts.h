/* SPDX-License-Identifier: MIT */
/*
 * facts.h - what the files of these tests share: what each library says of a GPU, field by field, and how each starts and
 * fails to start, on the stand-in for the driver (device.h), whose facts are known. The first GPU is /dev/softgpu1.
 */
#pragma once

#include "device.h"
#include "hsa_test.h"
#include "nvml.h"

#define LENGTH(array)		(sizeof(array) / sizeof((array)[0]))

/* Each error of the driver, in each library's terms: of open(), and of the first call. */
extern const struct driver_error {
	int error;
	CUresult cuda, open;
	nvmlReturn_t nvml;
	hsa_status_t hsa;
} errors[];
extern const size_t error_count;

/* Texts, and the GPU that CUDA and NVML find by each. */
extern const struct bus_id {
	const char *text;
	CUresult result;
	int device;
} bus_ids[];
extern const size_t bus_id_count;

/* ---- the tests ---- */

void starts(void **state);
