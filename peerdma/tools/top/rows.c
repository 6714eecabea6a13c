// SPDX-License-Identifier: MIT
/*
 * rows.c - what a look is made of.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "top.h"

/* Room for one more, the new one empty. */
static void *more(void *array, size_t *count, size_t size)
{
	void **to = array;
	char *bigger = *count & (*count - 1) ? *to : realloc(*to, (*count ? *count * 2 : 1) * size);

	if (!bigger)
		return NULL;
	*to = bigger;
	return memset(bigger + (*count)++ * size, 0, size);
}

struct top_process *top_process(struct top_sample *s, uint64_t pid, const char *comm)
{
	struct top_process *p;

	for (size_t i = 0; i < s->process_count; i++) {
		if (s->processes[i].pid == pid)
			return &s->processes[i];
	}
	p = more(&s->processes, &s->process_count, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	p->comm = strdup(comm);
	if (!p->comm)
		s->process_count--;
	return p->comm ? p : NULL;
}

struct top_device *top_device(struct top_sample *s, const char *name)
{
	struct top_device *d;

	for (size_t i = 0; i < s->device_count; i++) {
		if (!strcmp(s->devices[i].name, name))
			return &s->devices[i];
	}
	d = more(&s->devices, &s->device_count, sizeof(*d));
	if (d)
		snprintf(d->name, sizeof(d->name), "%s", name);
	return d;
}

int top_missing(struct top_sample *s, const char *fmt, ...)
{
	char **to = more(&s->missing, &s->missing_count, sizeof(*to));
	va_list args;
	int ret;

	if (!to)
		return -ENOMEM;
	va_start(args, fmt);
	ret = vasprintf(to, fmt, args);
	va_end(args);
	if (ret < 0)
		s->missing_count--;
	return ret < 0 ? -ENOMEM : 0;
}

bool top_sees_something(const struct top_sample *s)
{
	return s->has_module || s->has_pins || s->gpu_count || s->device_count || s->process_count;
}

void top_free(struct top_sample *s)
{
	for (size_t i = 0; i < s->process_count; i++)
		free(s->processes[i].comm);
	for (size_t i = 0; i < s->gpu_count; i++) {
		free(s->gpus[i].name);
		free(s->gpus[i].uuid);
	}
	for (size_t i = 0; i < s->missing_count; i++)
		free(s->missing[i]);
	free(s->processes);
	free(s->devices);
	free(s->gpus);
	free(s->missing);
	memset(s, 0, sizeof(*s));
}
