// SPDX-License-Identifier: MIT
/* mover_buffer.c - a dma-buf of dmabuf_mover.ko, and what it is told and tells: mover_test.h. */
#include "dmabuf_mover.h"
#include "mover_test.h"

int mover;
uint32_t number;
int dmabuf;
char *bytes;

int control(const char *command)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/kernel/debug/dmabuf_mover/%u", number);
	return write_text(path, command);
}

/* The last line of that name; -1: none. */
static long told(const char *name, char *rest, size_t size)
{
	char path[64], line[256];
	long n = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/debug/dmabuf_mover/%u", number);
	f = fopen(path, "r");
	CHECK(f);
	while (f && fgets(line, sizeof(line), f)) {
		size_t l = strlen(name);

		if (strncmp(line, name, l) || line[l] != ' ')
			continue;
		n = atol(line + l);
		if (rest)
			snprintf(rest, size, "%s", line + l + 1);
	}
	if (f)
		fclose(f);
	return n;
}

long status(const char *name)
{
	return told(name, NULL, 0);
}

bool holds_old(void)
{
	char rest[256] = "";

	return told("mapped", rest, sizeof(rest)) >= 0 && strstr(rest, " old\n");
}

void buffer_make(void)
{
	struct mover_create c = { .size = sizeof(c), .length = LENGTH };

	WORKS(ioctl(mover, MOVER_CREATE, &c));
	dmabuf = c.fd;
	number = c.number;
	bytes = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf, 0);
	CHECK(bytes != MAP_FAILED);
	for (size_t i = 0; i < LENGTH; i++)
		bytes[i] = (char)(i * 7 + i / PAGE);
}

void buffer_end(void)
{
	CHECK(status("maps") == status("unmaps"));
	CHECK(status("stale") == 0);
	munmap(bytes, LENGTH);
	close(dmabuf);
}
