// SPDX-License-Identifier: MIT
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "util.h"

#define LARGEST_FILE	(256u << 20)	/* at 40 KB/s a card this takes two hours: surely a mistake */

void why_set(struct why *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why->text, sizeof(why->text), fmt, ap);
	va_end(ap);
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void sleep_ms(unsigned int ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

bool parse_size(const char *text, uint64_t *size)
{
	static const char units[] = "KMG";
	const char *unit;
	char *end;
	unsigned int shift = 0;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*size = strtoull(text, &end, 0);
	if (errno)
		return false;
	if (*end) {
		unit = strchr(units, *end);
		if (!unit || end[1])
			return false;
		shift = 10 * (unsigned int)(unit - units + 1);
	}
	if (!*size || *size > UINT64_MAX >> (shift + 1))
		return false;
	*size <<= shift;
	return true;
}

void pattern_fill(void *buf, size_t length, uint64_t seed)
{
	uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
	unsigned char *p = buf;

	for (size_t i = 0; i < length; i++) {
		/* xorshift64; its top byte has no short period */
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		p[i] = (unsigned char)(state >> 56);
	}
}

size_t first_difference(const void *a, const void *b, size_t length)
{
	const unsigned char *p = a, *q = b;

	for (size_t i = 0; i < length; i++)
		if (p[i] != q[i])
			return i;
	return length;
}

void digest(const void *buf, size_t length, char hex[DIGEST_HEX])
{
	struct sha256_ctx ctx;
	uint8_t sum[SHA256_DIGEST_SIZE];

	sha256_init(&ctx);
	sha256_update(&ctx, length, buf);
	sha256_digest(&ctx, sizeof(sum), sum);
	for (size_t i = 0; i < sizeof(sum); i++)
		sprintf(hex + 2 * i, "%02x", sum[i]);
}

void *read_file(const char *path, size_t *length, struct why *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned char *buf = NULL;
	struct stat st;
	size_t have = 0;

	if (fd < 0 || fstat(fd, &st)) {
		why_set(why, "%s: %s", path, strerror(errno));
		goto fail;
	}
	if (!S_ISREG(st.st_mode) || !st.st_size || st.st_size > LARGEST_FILE) {
		why_set(why, "%s: need a regular file of 1 byte to %u MiB", path,
			LARGEST_FILE >> 20);
		goto fail;
	}
	buf = malloc((size_t)st.st_size);
	if (!buf) {
		why_set(why, "%s: no memory for its %lld bytes", path, (long long)st.st_size);
		goto fail;
	}
	while (have < (size_t)st.st_size) {
		ssize_t n = read(fd, buf + have, (size_t)st.st_size - have);

		if (n <= 0) {
			why_set(why, "%s: %s", path, n ? strerror(errno) : "it became shorter");
			goto fail;
		}
		have += (size_t)n;
	}
	close(fd);
	*length = have;
	return buf;
fail:
	free(buf);
	if (fd >= 0)
		close(fd);
	return NULL;
}

void *buffer_alloc(size_t length)
{
	void *buf = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return buf == MAP_FAILED ? NULL : buf;
}

void buffer_free(void *buf, size_t length)
{
	if (buf)
		munmap(buf, length);
}

bool parse_count(const char *text, unsigned int most, unsigned int *count)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	*count = (unsigned int)value;
	return end != text && !*end && value >= 1 && value <= most;
}
