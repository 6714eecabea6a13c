// SPDX-License-Identifier: MIT
/* fake_fabric.c - see fake_fabric.h. Its functions go by the versions that libfabric's have. */
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_ext.h>

#include "fake_fabric.h"

#define VERSIONED(function, symbol) __asm__(".symver " #function "," symbol)

static struct fake_fabric fake;

struct fake_fabric *fake_fabric(void);
struct fake_fabric *fake_fabric(void)
{
	return &fake;
}

static void notify(struct fid_mem_monitor *monitor, const void *addr, size_t length)
{
	fake.notified++;
	fake.addr = addr;
	fake.length = length;
}

static struct fi_ops_mem_notify import_ops = { .size = sizeof(import_ops), .notify = notify };

static int bind_monitor(struct fid *fid, struct fid *monitor, uint64_t flags)
{
	fake.binds++;
	if (fake.bind_error || flags || monitor->fclass != FI_CLASS_MEM_MONITOR)
		return fake.bind_error ? fake.bind_error : -22;
	fake.monitor = (struct fid_mem_monitor *)monitor;
	fake.monitor->import_ops = &import_ops;
	return 0;
}

static int end(struct fid *fid)
{
	fake.closes++;
	return 0;
}

static struct fi_ops cache_ops = { .size = sizeof(cache_ops), .bind = bind_monitor, .close = end };
static struct fid cache = { .ops = &cache_ops };

int fi_open(uint32_t version, const char *name, void *attr, size_t attr_len, uint64_t flags, struct fid **fid, void *context)
{
	fake.opens++;
	fake.version = version;
	strncpy(fake.name, name, sizeof(fake.name) - 1);
	if (fake.open_error || attr || attr_len || flags || context)
		return fake.open_error ? fake.open_error : -22;
	*fid = &cache;
	return 0;
}

static int was_called(const char *name, void *a, void *b, void *c, uint64_t flags)
{
	fake.called = name;
	fake.arguments[0] = a;
	fake.arguments[1] = b;
	fake.arguments[2] = c;
	fake.flags = flags;
	return 7;
}

int fabric_1_0(void *attr, void *fabric, void *context);
VERSIONED(fabric_1_0, "fi_fabric@FABRIC_1.0");
int fabric_1_0(void *attr, void *fabric, void *context)
{
	return was_called("fi_fabric@FABRIC_1.0", attr, fabric, context, 0);
}

int fabric_1_1(void *attr, void *fabric, void *context);
VERSIONED(fabric_1_1, "fi_fabric@@FABRIC_1.1");
int fabric_1_1(void *attr, void *fabric, void *context)
{
	return was_called("fi_fabric@FABRIC_1.1", attr, fabric, context, 0);
}

int fabric2_1_8(void *info, void *fabric, uint64_t flags, void *context);
VERSIONED(fabric2_1_8, "fi_fabric2@@FABRIC_1.8");
int fabric2_1_8(void *info, void *fabric, uint64_t flags, void *context)
{
	return was_called("fi_fabric2@FABRIC_1.8", info, fabric, context, flags);
}
