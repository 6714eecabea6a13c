// SPDX-License-Identifier: MIT
/* pair.c - see pair.h. */
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>

void pair_cuda(CUresult result, const char *call)
{
	const char *name = "?";

	if (!result)
		return;
	cuGetErrorName(result, &name);
	fprintf(stderr, "%s: %s\n", call, name);
	exit(2);
}

CUdeviceptr gpu_memory(void)
{
	CUdeviceptr p;

	OK(cuMemAlloc(&p, SIZE));
	OK(cuMemsetD8(p, 0, SIZE));
	OK(cuCtxSynchronize());
	return p;
}

void set_sync_memops(CUdeviceptr p)
{
	unsigned int on = 1;

	OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
}

CUstream new_stream(void)
{
	CUstream s;

	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	return s;
}

static bool sees(const char *who, const unsigned char *buf, unsigned char byte)
{
	size_t as_expected = 0;

	for (size_t i = 0; i < SIZE; i++)
		as_expected += buf[i] == byte;
	if (as_expected < SIZE)
		printf("%s saw 0x%02x in %zu of %zu bytes, and 0x%02x in the first\n", who, byte, as_expected,
		       SIZE, buf[0]);
	return as_expected == SIZE;
}

bool device_sees(CUdeviceptr p, unsigned char byte)
{
	static unsigned char buf[SIZE];

	device_read(p, buf, SIZE);
	return sees("the device", buf, byte);
}

bool cuda_sees(CUdeviceptr p, unsigned char byte)
{
	static unsigned char buf[SIZE];

	OK(cuMemcpyDtoH(buf, p, SIZE));
	return sees("CUDA", buf, byte);
}

const void *message(unsigned char byte)
{
	static unsigned char buf[SIZE] __attribute__((aligned(4)));

	memset(buf, byte, SIZE);
	return buf;
}

static void begin(void)
{
	CUresult result = cuInit(0);
	const char *why = "no GPU: load softgpu.ko, or set SOFTGPU_INPROCESS=1";
	CUcontext ctx;

	if (result != CUDA_ERROR_NO_DEVICE) {
		pair_cuda(result, "cuInit(0)");
		OK(cuDevicePrimaryCtxRetain(&ctx, 0));
		OK(cuCtxSetCurrent(ctx));
		if (device_open(&why))
			return;
	}
	printf("SKIP: %s\n", why);
	exit(77);
}

static int end(bool right, bool data_right)
{
	struct rule rules[RULES_MAX];
	int n = device_rules(rules);
	bool broken = pair.rule < n && rules[pair.rule].broken;

	OK(cuDevicePrimaryCtxRelease(0));
	if (!data_right)
		printf("WRONG. %s\n", pair.sentence);
	for (int i = 0; i < n; i++) {
		if (rules[i].broken)
			printf("rule broken: %s\n", rules[i].text);
	}
	if (right != data_right)
		return right ? 3 : 0;
	if (right == broken) {
		printf("the rule was %sbroken: %s\n", broken ? "" : "not ", pair.rule < n ? rules[pair.rule].text : "");
		return 4;
	}
	return data_right ? 0 : 1;
}

int main(int argc, char **argv)
{
	bool right = argc == 2 && !strcmp(argv[1], "right");

	if (!right && (argc != 2 || strcmp(argv[1], "wrong"))) {
		fprintf(stderr, "usage: %s right|wrong\n%s\n", argv[0], pair.sentence);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	begin();
	return end(right, pair.run(right));
}
