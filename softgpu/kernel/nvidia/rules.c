// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * rules.c - logs mistakes of clients, each once per client, with the rule that it breaks.
 *
 * A client is a kernel module; an address in its code gives its name.  Most mistakes have
 * no effect on a quiet machine, but hang or crash a busy one with NVIDIA's driver.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitops.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include "p2p.h"

struct rule {
	bool notice;
	const char *section;	/* of NVIDIA's guide, "GPUDirect RDMA", release 12.3 */
	const char *text;
};

/*
 * Errors: mistakes that hang or crash some release of NVIDIA's driver.  Notices: the rest,
 * which correct clients may do knowingly, or which only costs time.
 */
static const struct rule rules[] = {
	[NVP2P_UNALIGNED] = { false, "12.2",
		"addresses and lengths are multiples of 64 KiB; the client rounds both: EINVAL" },
	[NVP2P_IN_CALLBACK] = { false, "11.3 and 13.3",
		"only free_page_table and free_dma_mapping are for callbacks; NVIDIA's driver holds its lock and may deadlock" },
	[NVP2P_PUT_ELSEWHERE] = { true, "12.3",
		"the driver looks at the calling process's pins only: it returns 0, and the pin stays until its memory is freed" },
	[NVP2P_PUT_TOKEN] = { true, "13.3",
		"the token is not of the context whose memory is pinned: it returns 0, and the pin stays until its memory is freed" },
	[NVP2P_PUT_PERSISTENT] = { false, "10",
		"only put_pages_persistent ends a persistent pin: put_pages returns 0, and the pin stays" },
	[NVP2P_NOT_FREED] = { false, "11.3",
		"a callback frees its page table by free_page_table; with drivers that leave that to the client, the table leaks" },
	[NVP2P_FREED_LIVE] = { false, "13.3",
		"it is for the free callback of the same table; this table is pinned, and some drivers would free it now: ignored" },
	[NVP2P_FREED_NOTHING] = { false, "11.3",
		"this is not a page table; some drivers would read it: ignored" },
	[NVP2P_SLOW] = { true, "11.3",
		"a callback may block for a few milliseconds only: the whole driver waits for it" },
	[NVP2P_OTHER_PEER] = { false, "13.3",
		"unmap a mapping for the device that it was made for: it is unmapped all the same, and the driver warns" },
	[NVP2P_UNLOADED] = { false, "12.3",
		"a client puts its pins before it is unloaded, each in the process that owns the memory; NVIDIA's driver would call unloaded code" },
	[NVP2P_DEADLOCK] = { false, "11.3",
		"the client's callback takes a lock that the client holds across calls, or waits for a call: NVIDIA's driver hangs" },
};

#define CLIENTS	32

static struct client {
	char name[MODULE_NAME_LEN];	/* empty: free */
	unsigned long told;		/* rules that were logged, a bit each */
} clients[CLIENTS];
static DEFINE_SPINLOCK(clients_lock);

/* "sym+0x1/0x2 [module]": gets the module's name, or "unknown". */
static void name_of(const void *code, char name[MODULE_NAME_LEN])
{
	char symbol[KSYM_SYMBOL_LEN], *module, *end;

	sprint_symbol(symbol, (unsigned long)code);
	module = strrchr(symbol, '[');
	end = module ? strchr(module, ']') : NULL;
	if (end) {
		*end = 0;
		strscpy(name, module + 1, MODULE_NAME_LEN);
	} else {
		strscpy(name, "unknown", MODULE_NAME_LEN);
	}
}

/* If the table is full, the last entry stands for all further clients. */
static struct client *client_locked(const char *name)
{
	struct client *c;

	for (c = clients; c < clients + CLIENTS - 1 && c->name[0]; c++)
		if (!strcmp(c->name, name))
			break;
	if (!c->name[0])
		strscpy(c->name, name, MODULE_NAME_LEN);
	return c;
}

static bool is_new(const char *name, enum nvp2p_rule rule)
{
	bool told;

	spin_lock(&clients_lock);
	told = __test_and_set_bit(rule, &client_locked(name)->told);
	spin_unlock(&clients_lock);
	return !told;
}

#define MISTAKE	"client %s: %pV: %s (GPUDirect RDMA guide, %s). Not repeated.\n"

void nvp2p_mistake(enum nvp2p_rule rule, const void *code, const char *fmt, ...)
{
	const struct rule *r = &rules[rule];
	char name[MODULE_NAME_LEN];
	struct va_format what;
	va_list args;

	name_of(code, name);
	if (!is_new(name, rule))
		return;
	va_start(args, fmt);
	what.fmt = fmt;
	what.va = &args;
	if (r->notice)
		pr_notice(MISTAKE, name, &what, r->text, r->section);
	else
		pr_err(MISTAKE, name, &what, r->text, r->section);
	va_end(args);
}

/* A module that is loaded again counts as a new client. */
void nvp2p_client_gone(const struct module *client)
{
	struct client *c;

	spin_lock(&clients_lock);
	for (c = clients; c < clients + CLIENTS; c++)
		if (!strcmp(c->name, client->name))
			c->told = 0;
	spin_unlock(&clients_lock);
}
