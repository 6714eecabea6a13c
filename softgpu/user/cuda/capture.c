// SPDX-License-Identifier: MIT
/* capture.c - queries of stream capture, which never happens: there are no graphs. */
#include "internal.h"

SGU_EXPORT CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	struct sgu_queue queue;
	CUresult result = sgu_queue_get(hStream, &queue);

	if (result)
		return result;
	sgu_queue_put(&queue);
	if (!captureStatus)
		return CUDA_ERROR_INVALID_VALUE;
	*captureStatus = CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

/* The other answers are for a stream that is captured. */
SGU_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream hStream,
					      CUstreamCaptureStatus *captureStatus_out,
					      cuuint64_t *id_out, CUgraph *graph_out,
					      const CUgraphNode **dependencies_out,
					      const CUgraphEdgeData **edgeData_out,
					      size_t *numDependencies_out)
{
	(void)id_out, (void)graph_out, (void)dependencies_out, (void)edgeData_out;
	(void)numDependencies_out;
	return cuStreamIsCapturing(hStream, captureStatus_out);
}

SGU_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream hStream,
					      CUstreamCaptureStatus *captureStatus_out,
					      cuuint64_t *id_out, CUgraph *graph_out,
					      const CUgraphNode **dependencies_out,
					      size_t *numDependencies_out)
{
	return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out,
					 dependencies_out, NULL, numDependencies_out);
}

SGU_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	static _Thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
	CUstreamCaptureMode wanted;
	CUresult result = sgu_enter_named();

	if (result)
		return result;
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	wanted = *mode;
	*mode = current;
	current = wanted;
	return CUDA_SUCCESS;
}
