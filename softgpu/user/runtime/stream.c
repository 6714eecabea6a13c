// SPDX-License-Identifier: MIT
/* stream.c - streams and events. */
#include "runtime.h"

SAME(cudaStreamCreate, (cudaStream_t *pStream), cuStreamCreate, (pStream, CU_STREAM_DEFAULT))
SAME(cudaStreamCreateWithFlags, (cudaStream_t *pStream, unsigned int flags), cuStreamCreate,
     (pStream, flags))
SAME(cudaStreamCreateWithPriority, (cudaStream_t *pStream, unsigned int flags, int priority),
     cuStreamCreateWithPriority, (pStream, flags, priority))
SAME(cudaStreamDestroy, (cudaStream_t stream), cuStreamDestroy, (stream))
SAME(cudaStreamQuery, (cudaStream_t stream), cuStreamQuery, (stream))
SAME(cudaStreamSynchronize, (cudaStream_t stream), cuStreamSynchronize, (stream))
SAME(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
     cuStreamWaitEvent, (stream, event, flags))
SAME(cudaStreamGetFlags, (cudaStream_t hStream, unsigned int *flags), cuStreamGetFlags,
     (hStream, flags))
SAME(cudaStreamGetPriority, (cudaStream_t hStream, int *priority), cuStreamGetPriority,
     (hStream, priority))
SAME(cudaEventCreate, (cudaEvent_t *event), cuEventCreate, (event, CU_EVENT_DEFAULT))
SAME(cudaEventCreateWithFlags, (cudaEvent_t *event, unsigned int flags), cuEventCreate,
     (event, flags))
SAME(cudaEventDestroy, (cudaEvent_t event), cuEventDestroy, (event))
SAME(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), cuEventRecord, (event, stream))
SAME(cudaEventQuery, (cudaEvent_t event), cuEventQuery, (event))
SAME(cudaEventSynchronize, (cudaEvent_t event), cuEventSynchronize, (event))
SAME(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end),
     cuEventElapsedTime, (ms, start, end))
SAME(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
     cuEventRecordWithFlags, (event, stream, flags))
SAME(cudaStreamGetId, (cudaStream_t hStream, unsigned long long *streamId), cuStreamGetId,
     (hStream, streamId))
SAME(cudaStreamGetDevice, (cudaStream_t hStream, int *device), cuStreamGetDevice, (hStream, device))
