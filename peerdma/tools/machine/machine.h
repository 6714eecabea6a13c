/* SPDX-License-Identifier: MIT */
/*
 * machine.h - the facts of a machine that decide how devices reach each other.
 *
 * Facts that are not known say so: zero is never used for "could not be read".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../../path/rules.h"
#include "base/pci.h"
#include "tree.h"

#define PCI_DEVICES	"/sys/bus/pci/devices/"
#define RDMA_DEVICES	"/sys/class/infiniband"
#define RDMA_VERBS	"/sys/class/infiniband_verbs"

enum device_kind {
	/* Of no interest here: USB, disks of other kinds, a BMC's display... */
	DEVICE_OTHER,
	DEVICE_BRIDGE,
	DEVICE_GPU,
	DEVICE_NIC,
	DEVICE_NVME,
	DEVICE_CARD,		/* FPGA, capture card, accelerator */
};

enum port_type {		/* PCI Express capability, bits 7:4 */
	PORT_ENDPOINT = 0,
	PORT_ROOT = 4,
	PORT_UPSTREAM = 5,
	PORT_DOWNSTREAM = 6,
	PORT_IN_PROCESSOR = 9,	/* a device of the processor's package */
	PORT_UNKNOWN = -1,
};

struct link {
	/* false: the device is on no PCI Express link, or it is not reported */
	bool known;
	unsigned int speed, max_speed;	/* MT/s: 2500, 5000, 8000, 16000... */
	unsigned int width, max_width;	/* lanes; 0: down */
};

enum acs_state {
	ACS_UNKNOWN,		/* its config space beyond 64 bytes could not be read */
	ACS_NONE,		/* has no such capability: redirects nothing */
	ACS_OFF,		/* has it, and redirects nothing */
	ACS_REDIRECT,		/* PEERDMA_ACS_REDIRECT: sends peer-to-peer traffic upstream */
};

enum iommu_mode {
	IOMMU_UNKNOWN,
	IOMMU_OFF,
	IOMMU_PASSTHROUGH,
	IOMMU_TRANSLATING,
};

/* Where a GPU's memory is, for others. */
enum gpu_memory {
	MEMORY_BEHIND_BAR,	/* behind a BAR of the GPU */
	MEMORY_COHERENT,	/* at the end of a coherent link, with addresses of the processor */
	MEMORY_UNIFIED,		/* it is the processor's memory */
};

enum rdma_state {
	RDMA_NONE,		/* it is not made for RDMA, and has no RDMA device */
	RDMA_LACKS,		/* it is made for it, and has none: its driver is missing */
	RDMA_HAS,
};

enum port_state { PORTS_UNKNOWN, PORTS_DOWN, PORTS_ACTIVE };	/* the best of its ports */

struct device {
	char name[PCI_NAME_MAX];
	char host[24];		/* the host bridge: "pci0000:00" */
	int parent;		/* index of the bridge above; -1: a host bridge */
	unsigned int depth;	/* bridges above */
	enum device_kind kind;
	unsigned int number;	/* among those of its kind */
	char label[16];		/* "GPU0"; "" for what is in no matrix */
	bool shown;		/* it has a label, or something below it has */
	unsigned int vendor, device, class;	/* class: 24 bits */
	unsigned int subvendor, subdevice;	/* 0: none, a bridge, or not known */
	bool numa_known;
	int numa;
	int group;		/* IOMMU group; -1: none */
	enum iommu_mode iommu;
	char driver[32];	/* "" none */
	char known_as[64];	/* "mlx5_0, eth0", "nvme0"; "" nothing */
	/* Its memory or its RDMA device is a program's: no figure of it is hardware's */
	bool software;
	char title[96];		/* the maker's and the device's name as far as known */
	enum port_type port;
	enum acs_state acs;
	uint16_t acs_control;
	bool ats;		/* it asks the IOMMU for translations itself, and it is turned on */
	struct link link;
	bool has_bars;
	struct pci_resources bars;
	unsigned int rebar_bar;		/* valid if rebar_sizes is not 0 */
	uint64_t rebar_sizes;		/* bit n: can be 2^n bytes */
	bool virtual_function;
	enum gpu_memory memory;		/* of a GPU */
	int memory_node;		/* NUMA node of coherent memory; -1: none, or not known */
	enum rdma_state rdma;
	enum port_state ports;
	int minor;		/* NVIDIA's driver's number: /dev/nvidiaN; -1: not known */
	/* false: it is the host's, and this container was not given it; or another job's (`refused`) */
	bool given;
	char refused[32];	/* the node that the process's device cgroup forbids; "" none */
};

enum confidential {
	NOT_CONFIDENTIAL,
	CONFIDENTIAL_GUEST,	/* hides its memory from its host */
	CONFIDENTIAL_SNP_HOST,	/* runs such guests by SEV-SNP: its IOMMU must translate */
};

/* An RDMA device, and the PCI function that it is in, or that it is a part of (a scalable function). */
struct rdma_name {
	char name[64], part[64];	/* part: "mlx5_core.sf.4"; "" the function itself */
	int function;			/* -1: none that is known */
	/* N of its node /dev/infiniband/uverbsN, which is any number; -1: not known */
	int uverbs;
	/* false: this container, or this job, was not given its node */
	bool given;
};

enum arch { ARCH_UNKNOWN, ARCH_X86, ARCH_ARM64, ARCH_POWER };

struct machine {
	struct tree *tree;
	struct device *devices;		/* by address */
	unsigned int count;
	/* Those with a label: GPUs, then network adapters, drives, cards */
	unsigned int *shown;
	unsigned int shown_count;
	bool virtual;			/* a hypervisor runs it */
	bool container;			/* seen from inside: what is missing may be the host's */
	char vendor[64], product[64];	/* as the firmware says; "" not known */
	char release[64];		/* of the kernel; "" not known */
	enum arch arch;
	/* x86: "GenuineIntel"; POWER: "POWER8E (raw), ..."; "" not known */
	char cpu_vendor[32];
	int cpu_family, cpu_model;	/* -1 not known */
	int cpu_part;			/* of ARM64; -1 not known */
	unsigned int nodes;		/* NUMA; 0 not known */
	bool iommu_present;		/* the kernel uses one */
	bool tegra;
	bool wsl;			/* Windows' subsystem for Linux */
	enum confidential confidential;
	char confidential_source[64], confidential_value[32];
	struct rdma_name *rdma;		/* by name */
	unsigned int rdma_count;
};

enum path_class { PATH_SELF, PATH_PIX, PATH_PXB, PATH_PHB, PATH_NODE, PATH_SYS, PATH_UNKNOWN };

/* More are in no real machine, and would take minutes. */
#define DEVICES_MAX	8192U
#define SHOWN_MAX	512U

/*
 * 0 or -ENOMEM; -ENOENT: /sys/bus/pci cannot be read; -E2BIG: it has more than DEVICES_MAX
 * functions.  What can be known without PCI is filled in all the same.
 */
int machine_read(struct machine *m, struct tree *tree);
const char *machine_why(int error);	/* of the last two, for people */
void machine_free(struct machine *m);

/* find.c: by label ("GPU0", any case), PCI address, or a name it is known as ("mlx5_0").  -1: none. */
int machine_find(const struct machine *m, const char *name);
int machine_index(const struct machine *m, const char *address);	/* by PCI address only */

/* path.c: the way between two devices, and the bridge where their ways meet (-1: a host bridge or farther up). */
enum path_class path_between(const struct machine *m, unsigned int a, unsigned int b, int *meet);
const char *path_name(enum path_class c);
const char *path_words(enum path_class c);
/* The bridges between a device and where the ways meet, that one left out.  Returns how many, `max` at most. */
unsigned int path_bridges(const struct machine *m, unsigned int device, int meet, int *out,
			  unsigned int max);

/*
 * reach.c: what peerdma.ko decides about a client that is to reach a provider's memory, by the
 * same rules.  What could not be read is tried both ways.
 */
struct reach {
	bool known;			/* else `reason' depends on what could not be read */
	enum peerdma_path_reason reason;
	enum peerdma_path_reason pages;		/* the same by way of struct pages of p2pdma */
	struct peerdma_path_facts facts;
	int provider_bridge, client_bridge;	/* the functions that stand for them; -1: none */
	/* A function on the way whose ACS could not be read; -1: none */
	int unread;
	/* What the ports redirect, the client does not send: its requests are translated (ATS), and those pass */
	bool passes_translated;
};
void machine_reach(const struct machine *m, unsigned int provider, unsigned int client,
		   struct reach *out);

/* pci_config.c: subsystem, port, acs and resizable BAR, of a device's config space; any bytes. */
void pci_config_parse(struct device *d, const uint8_t *config, size_t length);
void pci_config_anonymous(uint8_t *config, size_t length);	/* without its serial number */

/* system.c: all of a machine but its devices. */
void system_read(struct machine *m);

/* gpu_memory.c: memory and memory_node. */
void gpu_memory_read(struct tree *t, struct device *d);

/* rdma_device.c: rdma and ports of all devices, and the list of RDMA devices.  0 or -ENOMEM. */
int rdma_read(struct machine *m);
/* By name; NULL: there is none. */
struct rdma_name *rdma_find(const struct machine *m, const char *name);
enum port_state rdma_ports(struct tree *t, const char *device);

/* nvidia_proc.c: "Model" or "Device Minor" of NVIDIA's GPU, as its driver says.  false: it does not. */
bool nvidia_information(struct tree *t, const struct device *d, const char *key, char *out,
			size_t size);

/* given.c: minor, given and refused; of RDMA devices, given. */
bool in_container(struct tree *t);
void given_read(struct machine *m);

/* device_kind.c */
void device_kind(struct device *d);
bool device_is_softgpu(const struct device *d);
/* Its driver is one that hands it to a virtual machine, or to a program that drives it. */
bool device_is_handed_on(const struct device *d);
const char *device_kind_label(enum device_kind kind);

/* names.c: fills the titles from pci.ids.  0 or -ENOMEM; without the file the numbers are the title. */
int names_read(struct machine *m);

/* "16 GT/s x16", "down" */
const char *link_text(unsigned int speed, unsigned int width, char buf[32]);
/* Its link leads up, towards the processor: a device's, or a switch's uplink.  That of other ports leads down. */
bool link_is_upward(const struct device *d);
/* The device's link runs slower or narrower than both its ends could. */
bool link_is_slow(const struct machine *m, const struct device *d, unsigned int *speed,
		  unsigned int *width);
