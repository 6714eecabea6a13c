// SPDX-License-Identifier: MIT
/*
 * methods.c - copies of whole lines by the streaming instructions of each processor.
 *
 * To a view: one store per line if the CPU can (AVX-512, MOVDIR64B), so that no interrupt can split
 * the line. Otherwise the stores of a line follow each other directly, so that its write-combining
 * buffer is full before the CPU needs the buffer for another line.
 *
 * From a view: streaming loads fetch a line once and serve its parts from a buffer. The buffer may
 * hold old data of the line, hence the fence in copy.c.
 */
#include <stdint.h>
#include <string.h>

#include "copy.h"

static void plain_to(char *view, const char *from, size_t lines)
{
	for (size_t i = 0; i < lines * LINE; i += sizeof(uint64_t)) {
		uint64_t value;

		memcpy(&value, from + i, sizeof(value));
		*(volatile uint64_t *)(void *)(view + i) = value;
	}
}

static void plain_from(char *to, const char *view, size_t lines)
{
	for (size_t i = 0; i < lines * LINE; i += sizeof(uint64_t)) {
		uint64_t value = *(const volatile uint64_t *)(const void *)(view + i);

		memcpy(to + i, &value, sizeof(value));
	}
}

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

static bool has_avx512(void)
{
	return __builtin_cpu_supports("avx512f");
}

static bool has_avx2(void)
{
	return __builtin_cpu_supports("avx2");
}

static bool has_movdir64b(void)
{
	unsigned int a, b, c, d;

	/* Reads use AVX2, which every CPU with MOVDIR64B has. */
	return has_avx2() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && c & 1U << 28;
}

static bool has_sse41(void)
{
	return __builtin_cpu_supports("sse4.1");
}

__attribute__((target("avx512f")))
static void avx512_to(char *view, const char *from, size_t lines)
{
	for (; lines--; view += LINE, from += LINE)
		_mm512_stream_si512((__m512i *)(void *)view, _mm512_loadu_si512(from));
}

__attribute__((target("avx512f")))
static void avx512_from(char *to, const char *view, size_t lines)
{
	for (; lines--; view += LINE, to += LINE)
		_mm512_storeu_si512(to, _mm512_stream_load_si512((void *)(uintptr_t)view));
}

__attribute__((target("avx2")))
static void avx2_to(char *view, const char *from, size_t lines)
{
	for (; lines--; view += LINE, from += LINE) {
		__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)from);
		__m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(from + 32));

		_mm256_stream_si256((__m256i *)(void *)view, a);
		_mm256_stream_si256((__m256i *)(void *)(view + 32), b);
	}
}

__attribute__((target("avx2")))
static void avx2_from(char *to, const char *view, size_t lines)
{
	for (; lines--; view += LINE, to += LINE) {
		__m256i a = _mm256_stream_load_si256((__m256i *)(uintptr_t)view);
		__m256i b = _mm256_stream_load_si256((__m256i *)(uintptr_t)(view + 32));

		_mm256_storeu_si256((__m256i *)(void *)to, a);
		_mm256_storeu_si256((__m256i *)(void *)(to + 32), b);
	}
}

/* The source need not be aligned, and the store is one transaction for every memory type. */
static void movdir64b_to(char *view, const char *from, size_t lines)
{
	for (; lines--; view += LINE, from += LINE)
		__asm__ volatile(".byte 0x66, 0x0f, 0x38, 0xf8, 0x02"	/* movdir64b (%rdx), %rax */
				 : "=m"(*(char (*)[LINE])view)
				 : "a"(view), "d"(from), "m"(*(const char (*)[LINE])from));
}

static void sse2_to(char *view, const char *from, size_t lines)
{
	for (; lines--; view += LINE, from += LINE) {
		__m128i part[4];

		for (int i = 0; i < 4; i++)
			part[i] = _mm_loadu_si128((const __m128i *)(const void *)from + i);
		for (int i = 0; i < 4; i++)
			_mm_stream_si128((__m128i *)(void *)view + i, part[i]);
	}
}

__attribute__((target("sse4.1")))
static void sse41_from(char *to, const char *view, size_t lines)
{
	for (; lines--; view += LINE, to += LINE) {
		__m128i part[4];

		for (int i = 0; i < 4; i++)
			part[i] = _mm_stream_load_si128((__m128i *)(uintptr_t)view + i);
		for (int i = 0; i < 4; i++)
			_mm_storeu_si128((__m128i *)(void *)to + i, part[i]);
	}
}

static void sse2_from(char *to, const char *view, size_t lines)
{
	if (has_sse41())
		sse41_from(to, view, lines);
	else
		plain_from(to, view, lines);
}

const struct copy_method copy_methods[] = {
	{ "avx512", has_avx512, avx512_to, avx512_from },
	{ "movdir64b", has_movdir64b, movdir64b_to, avx2_from },
	{ "avx2", has_avx2, avx2_to, avx2_from },
	{ "sse2", NULL, sse2_to, sse2_from },
	{ "plain", NULL, plain_to, plain_from },
	{ 0 },
};

#elif defined(__aarch64__)

#include <arm_neon.h>

/* Non-temporal stores of register pairs; four registers are a line. */
static void neon_to(char *view, const char *from, size_t lines)
{
	for (; lines--; view += LINE, from += LINE) {
		uint8x16_t a = vld1q_u8((const uint8_t *)from),
			   b = vld1q_u8((const uint8_t *)from + 16);
		uint8x16_t c = vld1q_u8((const uint8_t *)from + 32),
			   d = vld1q_u8((const uint8_t *)from + 48);

		__asm__ volatile("stnp %q1, %q2, [%0]\n\tstnp %q3, %q4, [%0, #32]"
				 :: "r"(view), "w"(a), "w"(b), "w"(c), "w"(d) : "memory");
	}
}

static void neon_from(char *to, const char *view, size_t lines)
{
	for (; lines--; view += LINE, to += LINE) {
		uint8x16_t a, b, c, d;

		__asm__ volatile("ldnp %q0, %q1, [%4]\n\tldnp %q2, %q3, [%4, #32]"
				 : "=&w"(a), "=&w"(b), "=&w"(c), "=&w"(d) : "r"(view) : "memory");
		vst1q_u8((uint8_t *)to, a);
		vst1q_u8((uint8_t *)to + 16, b);
		vst1q_u8((uint8_t *)to + 32, c);
		vst1q_u8((uint8_t *)to + 48, d);
	}
}

const struct copy_method copy_methods[] = {
	{ "neon", NULL, neon_to, neon_from },
	{ "plain", NULL, plain_to, plain_from },
	{ 0 },
};

#else

const struct copy_method copy_methods[] = {
	{ "plain", NULL, plain_to, plain_from },
	{ 0 },
};

#endif
