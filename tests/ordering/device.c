// SPDX-License-Identifier: MIT
/* device.c - see device.h: what both devices have in common. */
#include "device_int.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const struct device *device;
static struct rule before[RULES_MAX];

/* The write under way: it arrives when a program waits for it, so a program that does not is too early on every run. */
static struct {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t waited_for;
	bool is_waited_for;
	uint64_t gpu;
	const void *from;
	size_t length;
} job = { .lock = PTHREAD_MUTEX_INITIALIZER, .waited_for = PTHREAD_COND_INITIALIZER };

bool device_open(const char **why)
{
	const char *inprocess = getenv("SOFTGPU_INPROCESS");

	device = inprocess ? &device_process : &device_fpga;
	*why = device->open();
	return !*why && device->rules(before) > 0;
}

void device_read(uint64_t gpu, void *to, size_t length)
{
	device->read(gpu, to, length);
}

static void *write_main(void *arg)
{
	pthread_mutex_lock(&job.lock);
	while (!job.is_waited_for)
		pthread_cond_wait(&job.waited_for, &job.lock);
	pthread_mutex_unlock(&job.lock);
	device->write(job.gpu, job.from, job.length);
	return NULL;
}

void device_write(uint64_t gpu, const void *from, size_t length)
{
	job.gpu = gpu;
	job.from = from;
	job.length = length;
	job.is_waited_for = false;
	if (pthread_create(&job.thread, NULL, write_main, NULL))
		device_broken("no thread for the device");
}

void device_wait(void)
{
	pthread_mutex_lock(&job.lock);
	job.is_waited_for = true;
	pthread_cond_signal(&job.waited_for);
	pthread_mutex_unlock(&job.lock);
	pthread_join(job.thread, NULL);
}

unsigned int device_patience_ms(void)
{
	return device->patience_ms;
}

int device_rules(struct rule rules[RULES_MAX])
{
	int n = device->rules(rules);

	for (int i = 0; i < n; i++)
		rules[i].broken -= before[i].broken;
	return n;
}

void device_broken(const char *what)
{
	fprintf(stderr, "the device does not work: %s\n", what);
	exit(2);
}
