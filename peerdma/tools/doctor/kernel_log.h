/* SPDX-License-Identifier: MIT */
/*
 * kernel_log.h - the kernel's messages that concern GPUDirect RDMA, and whom they name.
 */
#pragma once

#include "doctor.h"

#define LOG_LINES_KEPT	2000U
#define LOG_NAMES_MAX	4U		/* devices that one message names */

/* What a kind of message means.  The first one that fits counts. */
struct trouble {
	const char *words;
	/* One of these must be there, too; none: any message with the words */
	const char *also[8];
	enum verdict verdict;
	unsigned int ways;
	const char *subject;		/* of messages that name no device; NULL: they name one */
	bool fault;			/* an IOMMU has blocked an address */
	bool hardware;			/* in a virtual machine its provider has to see to it */
	const char *consequence, *remedy;
};
extern const struct trouble troubles[];	/* ended by one without words */

const struct trouble *trouble_of(const char *line, size_t length);

/* The messages that are known, and nothing else of the log: the others do not go into a bundle either.  0 or -errno. */
int kernel_log(struct doctor *d, const char **data);
/* The PCI functions that a message names, as indexes.  Returns how many. */
unsigned int log_devices(const struct machine *m, const char *line, size_t length,
			 int out[LOG_NAMES_MAX]);
/* The address that an IOMMU has blocked.  false: the message has none. */
bool log_fault(const char *line, size_t length, uint64_t *address);

/* The last message of a module that could not be loaded for its symbols.  false: there is none, or it is loaded now. */
bool log_module_failed(struct doctor *d, const char *module, char out[200]);
/* "AMD SEV SEV-ES SEV-SNP", as a guest's kernel says at boot.  false: it says nothing of the kind. */
bool log_encrypted_guest(struct doctor *d, char out[64]);
