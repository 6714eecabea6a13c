// SPDX-License-Identifier: MIT
/* The guest's network: what ifconfig and an administrator's editor would do. */
#define _GNU_SOURCE
#include "init.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PREFIX_MASK	0xffffff00

static int set_address(int fd, const char *device, unsigned int request, struct in_addr address)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = address };
	struct ifreq ifr = { 0 };

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", device);
	memcpy(&ifr.ifr_addr, &in, sizeof(in));
	return ioctl(fd, request, &ifr);
}

static int set_up(int fd, const char *device)
{
	struct ifreq ifr = { .ifr_flags = IFF_UP };

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", device);
	return ioctl(fd, SIOCSIFFLAGS, &ifr);
}

static int adapter_up(int fd, const char *device, const char *text)
{
	struct in_addr mask = { htonl(PREFIX_MASK) }, address;

	if (!inet_aton(text, &address)) {
		errno = EINVAL;
		return -1;
	}
	if (set_address(fd, device, SIOCSIFADDR, address) || set_address(fd, device, SIOCSIFNETMASK, mask))
		return -1;
	return set_up(fd, device);
}

/* All adapters are on one wire: only the one that has an address may answer for it. */
static void answer_for_oneself(void)
{
	FILE *file = fopen("/proc/sys/net/ipv4/conf/all/arp_ignore", "w");

	if (!file || fputs("1\n", file) < 0 || fclose(file))
		fail("cannot set arp_ignore: %s", strerror(errno));
}

static void add_names(const struct orders *o)
{
	FILE *file = fopen("/etc/hosts", "a");

	for (int i = 0; file && i < o->namec; i++)
		fprintf(file, "%s\n", o->names[i]);
	if (!file || fclose(file))
		fail("cannot write /etc/hosts: %s", strerror(errno));
}

void network_up(const struct orders *o)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	/* A kernel may have been built without a network: an error only with adapters. */
	set_up(fd, "lo");
	for (int i = 0; i < o->addressc; i++) {
		char device[IFNAMSIZ];

		snprintf(device, sizeof(device), "eth%d", i);
		if (adapter_up(fd, device, o->addresses[i]))
			fail("the network adapter %s cannot have the address %s: %s", device, o->addresses[i], strerror(errno));
	}
	close(fd);
	if (o->addressc)
		answer_for_oneself();
	if (o->namec)
		add_names(o);
}
