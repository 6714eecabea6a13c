// SPDX-License-Identifier: MIT
/* entry.c - functions of the driver by name. */
#include "runtime.h"

RT_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr,
						       unsigned int cudaVersion,
						       unsigned long long flags,
						       enum cudaDriverEntryPointQueryResult *driverStatus)
{
	CUdriverProcAddressQueryResult status;
	CUresult result = rt_init();

	if (!result)
		result = cuGetProcAddress(symbol, funcPtr, (int)cudaVersion, flags, &status);
	if (result)
		return rt_done(result);
	if (driverStatus)
		*driverStatus = (enum cudaDriverEntryPointQueryResult)status;
	return cudaSuccess;
}

RT_EXPORT cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **funcPtr,
					      unsigned long long flags,
					      enum cudaDriverEntryPointQueryResult *driverStatus)
{
	int version = 0;

	/* an older driver knows the names of its own version only */
	if (cuDriverGetVersion(&version) || version > CUDART_VERSION)
		version = CUDART_VERSION;
	return cudaGetDriverEntryPointByVersion(symbol, funcPtr, (unsigned int)version, flags,
						driverStatus);
}

RT_EXPORT cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr,
						   unsigned long long flags,
						   enum cudaDriverEntryPointQueryResult *driverStatus)
{
	return cudaGetDriverEntryPoint(symbol, funcPtr,
				       flags ? flags : cudaEnablePerThreadDefaultStream,
				       driverStatus);
}

RT_EXPORT cudaError_t
cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **funcPtr, unsigned int cudaVersion,
				      unsigned long long flags,
				      enum cudaDriverEntryPointQueryResult *driverStatus)
{
	return cudaGetDriverEntryPointByVersion(symbol, funcPtr, cudaVersion,
						flags ? flags : cudaEnablePerThreadDefaultStream,
						driverStatus);
}
