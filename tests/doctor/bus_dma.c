// SPDX-License-Identifier: MIT
/*
 * bus_dma.c - what the kernel's p2pdma does below a switch, by hand: QEMU's DMA card
 * (edu) carries bytes from one place of a GPU's BAR to another by bus addresses.
 *
 *   bus-dma CARD GPU       PCI addresses; neither may have a driver
 *
 * Exit code 0: they arrived; 1: the card reported success and they did not; 2: an error.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LENGTH		256U
#define TO		4096U		/* offset in the BAR; from 0 */
#define CARD_MEMORY	0x40000U	/* of the card, as its engine addresses it */

enum { SOURCE = 0x80, DESTINATION = 0x88, COUNT = 0x90, COMMAND = 0x98 };
#define RUN		1U
#define TO_BUS		2U

static int fail(const char *what)
{
	perror(what);
	exit(2);
}

static int open_file(const char *pci, const char *file, int flags)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", pci, file);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? fail(path) : fd;
}

static volatile uint8_t *map(const char *pci, const char *resource, size_t size)
{
	uint16_t command;
	void *p;
	int fd = open_file(pci, "enable", O_WRONLY);

	if (write(fd, "1", 1) != 1)
		fail("enable");
	close(fd);
	fd = open_file(pci, "config", O_RDWR);
	if (pread(fd, &command, 2, 4) != 2)
		fail("config");
	command |= 6;			/* memory, bus master */
	if (pwrite(fd, &command, 2, 4) != 2)
		fail("config");
	close(fd);
	fd = open_file(pci, resource, O_RDWR);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		fail(resource);
	return p;
}

/* Of BAR 2. */
static uint64_t bus_address(const char *pci)
{
	char text[1024] = "", *line = text;
	int fd = open_file(pci, "resource", O_RDONLY);

	if (read(fd, text, sizeof(text) - 1) < 0)
		fail("resource");
	close(fd);
	for (int i = 0; i < 2 && line; i++) {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return line ? strtoull(line, NULL, 16) : 0;
}

static void set(volatile uint8_t *card, unsigned int at, uint64_t value)
{
	*(volatile uint64_t *)(card + at) = value;
}

static void transfer(volatile uint8_t *card, uint64_t from, uint64_t to, uint64_t command)
{
	set(card, SOURCE, from);
	set(card, DESTINATION, to);
	set(card, COUNT, LENGTH);
	set(card, COMMAND, command | RUN);
	while (*(volatile uint64_t *)(card + COMMAND) & RUN)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
}

int main(int argc, char **argv)
{
	volatile uint8_t *card, *memory;
	uint64_t address;
	unsigned int wrong = 0;

	if (argc != 3) {
		fputs("Usage: bus-dma CARD GPU\n", stderr);
		return 2;
	}
	card = map(argv[1], "resource0", 4096);
	memory = map(argv[2], "resource2", 2UL * TO);
	address = bus_address(argv[2]);
	for (unsigned int i = 0; i < LENGTH; i++) {
		memory[i] = (uint8_t)(i * 7 + 1);
		memory[TO + i] = 0;
	}
	transfer(card, address, CARD_MEMORY, 0);
	transfer(card, CARD_MEMORY, address + TO, TO_BUS);
	for (unsigned int i = 0; i < LENGTH; i++)
		wrong += memory[TO + i] != (uint8_t)(i * 7 + 1);
	printf("by bus addresses at %#" PRIx64 ": the card reports success, %u of %u bytes differ\n", address, wrong, LENGTH);
	return wrong != 0;
}
