/* SPDX-License-Identifier: MIT */
/* nvml_int.h - declarations shared by the files of softgpu's libnvidia-ml. */
#pragma once

#include "nvml.h"
#include "transport.h"

#define NVML_EXPORT __attribute__((visibility("default")))

/* inprocess.c: call before each sgu_open(). */
void nvml_follow_cuda(void);

/* NVML_SUCCESS between nvmlInit() and nvmlShutdown(), with the number of GPUs. */
nvmlReturn_t nvml_enter(int *gpus);

/* Returns the current properties of the device. */
nvmlReturn_t nvml_info(nvmlDevice_t device, struct softgpu_info *info);

nvmlReturn_t nvml_result(int err);

/* The handle of a GPU number, which is the same in every session. */
nvmlDevice_t nvml_device(int gpu);
int nvml_gpu(nvmlDevice_t device);

/* Copies the text with its NUL. NVML_ERROR_INSUFFICIENT_SIZE: it does not fit. */
nvmlReturn_t nvml_text(char *to, unsigned int length, const char *text);
