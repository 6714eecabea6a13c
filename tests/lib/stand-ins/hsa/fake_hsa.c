// SPDX-License-Identifier: MIT
/* fake_hsa.c - see fake_hsa.h.  Names, numbers and layouts are those of HSA's AMD extensions. */
#include "fake_hsa.h"

enum { DEVICE = 17, BDFID = 0xa006, DOMAIN = 0xa00f };
enum { OWNER = 7, INVALID_ARGUMENT = 0x1001, INVALID_AGENT = 0x1004 };

struct agent {
	uint64_t handle;
};

struct info {
	uint32_t size;
	int type;
	void *agent_base, *host_base;
	size_t length;
	void *userdata;
	struct agent owner;
	uint32_t global_flags;
};

static struct fake_hsa fake;

struct fake_hsa *fake_hsa(void)
{
	return &fake;
}

int hsa_amd_pointer_info(const void *ptr, struct info *info, void *(*alloc)(size_t), uint32_t *n, struct agent **agents);
int hsa_amd_pointer_info(const void *ptr, struct info *info, void *(*alloc)(size_t), uint32_t *n, struct agent **agents)
{
	fake.calls++;
	if (fake.error || info->size < sizeof(*info) || alloc || n || agents)
		return fake.error ? fake.error : INVALID_ARGUMENT;
	if ((uintptr_t)ptr - (uintptr_t)fake.base >= fake.length) {
		info->type = 0;		/* not known; the rest is not written */
		return 0;
	}
	*info = (struct info){ .size = sizeof(*info), .type = fake.type, .agent_base = fake.base, .length = fake.length, .owner = { OWNER } };
	return 0;
}

int hsa_agent_get_info(struct agent agent, int attribute, uint32_t *value);
int hsa_agent_get_info(struct agent agent, int attribute, uint32_t *value)
{
	if (agent.handle != OWNER)
		return INVALID_AGENT;
	switch (attribute) {
	case DEVICE:
		*value = fake.device;
		return 0;
	case BDFID:
		*value = fake.bdf;
		return 0;
	case DOMAIN:
		*value = fake.domain;
		return 0;
	}
	return INVALID_ARGUMENT;
}
