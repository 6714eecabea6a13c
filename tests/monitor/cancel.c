// SPDX-License-Identifier: MIT
/*
 * cancel.c - glibc's munmap() may be cancelled asynchronously. A thread that is must not stay in a subscriber, whose
 * peerdma_monitor_unsubscribe() would wait for it without end. Once in some thousand times the signal is on its way
 * just when the thread enters, so there are many.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "peerdma.h"
#include "peerdma_monitor.h"

#define PAGE 4096

static atomic_int entered, left;

static void slow(void *arg, const struct peerdma_hook_event *event)
{
	entered++;
	for (volatile int i = 0; i < 20000; i++)
		;
	left++;
}

static void *unmap(void *arg)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;)
		munmap(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), PAGE);
	return arg;
}

int main(void)
{
	if (peerdma_monitor_subscribe(PEERDMA_MEMORY_HOST, slow, NULL)) {
		printf("not ok - %s\n", peerdma_last_error());
		return 1;
	}
	for (int i = 0; i < 1000; i++) {
		pthread_t thread;
		int before = entered;

		if (pthread_create(&thread, NULL, unmap, NULL))
			return 2;
		while (entered < before + 2)
			usleep(10);
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
	printf("%s - threads that are cancelled leave the subscriber\n", entered == left ? "ok" : "not ok");
	fflush(stdout);
	alarm(10);
	peerdma_monitor_unsubscribe(PEERDMA_MEMORY_HOST, slow, NULL);
	printf("ok - and no thread waits for them\n");
	return entered != left;
}
