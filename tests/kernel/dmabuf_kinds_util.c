// SPDX-License-Identifier: MIT
/* dmabuf_kinds_util.c - see dmabuf_kinds.h. */
#include "dmabuf_kinds.h"

struct gpu g;
uint32_t visible;

int put(const char *path, unsigned long long n)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", n);
	return write_text(path, text);
}

/* The last dma-buf that can be moved: a column of its line; 0 and none: no line. */
static unsigned long long last(int column, bool *any)
{
	unsigned long long v[COLUMNS] = { 0 }, w[COLUMNS];
	char line[256], in[16];
	FILE *f = fopen(DEBUGFS "dmabufs", "r");

	MUST(f);
	*any = false;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llu %llu %llu %llu %llu %llu %llu %llu %15s", w, w + 1, w + 2, w + 3, w + 4,
			   w + 5, w + 6, w + 7, in) != COLUMNS)
			continue;
		w[IN_SYSTEM] = !strcmp(in, "system");
		memcpy(v, w, sizeof(v));
		*any = true;
	}
	fclose(f);
	return v[column];
}

unsigned long long field(int column)
{
	bool any;
	unsigned long long v = last(column, &any);

	CHECK(any, "no dma-buf that can be moved");
	return v;
}

bool movable(void)
{
	bool any;

	last(NUMBER, &any);
	return any;
}

int export(uint64_t va)
{
	int fd;

	EXPECT(sg_dmabuf(g.fd, va, LENGTH, &fd), 0);
	return fd;
}

uint64_t alloc(uint32_t ctx)
{
	return sg_need_alloc(g.fd, ctx, LENGTH);
}

int attach(int im, int dmabuf, uint32_t kind)
{
	return importer_attach(im, dmabuf, kind) ? errno : 0;
}

struct importer_map mapped;

int map(int im)
{
	int err = importer_map(im, &mapped) ? errno : 0;

	CHECK(err || mapped.length == LENGTH, "%llu bytes", (unsigned long long)mapped.length);
	return err;
}

void detach(int im)
{
	MUST(!importer_detach(im));
}

void fill(volatile char *p, int with)
{
	for (size_t i = 0; i < LENGTH; i += 512)
		p[i] = (char)(with + i / 512);
}

bool filled(const volatile char *p, int with)
{
	for (size_t i = 0; i < LENGTH; i += 512)
		if (p[i] != (char)(with + i / 512))
			return false;
	return true;
}
