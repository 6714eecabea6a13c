/* SPDX-License-Identifier: MIT */
/* nvml_int.h - what the files of softgpu's libnvidia-ml share. */
#ifndef SGU_NVML_INT_H
#define SGU_NVML_INT_H

#include "nvml.h"
#include "transport.h"

#define NVML_EXPORT __attribute__((visibility("default")))

/* inprocess.c: before each sgu_open(). */
void nvml_follow_cuda(void);

/* NVML_SUCCESS between nvmlInit and nvmlShutdown; then also the number of GPUs. */
nvmlReturn_t nvml_enter(int *gpus);

/* The device's facts as they are now. */
nvmlReturn_t nvml_info(nvmlDevice_t device, struct softgpu_info *info);

nvmlReturn_t nvml_result(int err);

/* The handle of a GPU number; the same in every session. */
nvmlDevice_t nvml_device(int gpu);
int nvml_gpu(nvmlDevice_t device);

/* Copies text with its NUL, or NVML_ERROR_INSUFFICIENT_SIZE. */
nvmlReturn_t nvml_text(char *to, unsigned int length, const char *text);

#endif
