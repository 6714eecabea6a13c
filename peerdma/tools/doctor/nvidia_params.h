/* SPDX-License-Identifier: MIT */
/*
 * nvidia_params.h - what NVIDIA's driver was loaded with.
 */
#pragma once

#include <stdint.h>

#include "doctor.h"

#define NVIDIA_PARAMS	"/proc/driver/nvidia/params"

/*
 * A parameter ("EnableStreamMemOPs"), or a registry key in RegistryDwords ("PeerMappingOverride").
 * ANSWER_NO: it is not there; UNKNOWN: the file cannot be read.
 */
enum answer nvidia_param(struct doctor *d, const char *name, uint64_t *value);
enum answer nvidia_registry(struct doctor *d, const char *key, uint64_t *value);
