/* SPDX-License-Identifier: MIT */
/*
 * softgpu_cuda_version.h - which CUDA these headers are: 13.3, unless a program or the folder that
 * it takes them from defines this as 12090, for the interface of CUDA 12.
 */
#ifndef SOFTGPU_CUDA_VERSION
#define SOFTGPU_CUDA_VERSION 13030
#endif
