/* SPDX-License-Identifier: MIT */
/* nvp2p_rules.h - the cases of nvp2p_rules, and words for the test client's operations. */
#ifndef NVP2P_RULES_H
#define NVP2P_RULES_H

#include "nvp2p_test.h"
#include "peers.h"
#include "sgraw.h"

/* The kernel's own: not supported.  No program sees it but through the test client. */
#define ENOTSUPP	524

/* A case runs in a process of its own, with a context on GPU 0; all must be given back at its end. */
struct test_case {
	const char *rule;
	void (*run)(struct gpu *g);
};
extern const struct test_case pin_cases[], callback_cases[], sharing_cases[], dma_cases[];

/* Opens the test client, before all of the following. */
bool t_open(void);
void t_close(void);
/* Does an operation; ends the test if the operation itself makes no sense. */
void t_call(struct nvp2p_test_call *c);
#define T(...) ({								\
	struct nvp2p_test_call c_ = { __VA_ARGS__ };				\
	t_call(&c_);								\
	c_;									\
})

/* get_pages of [va, va + len) into a slot. */
static inline struct nvp2p_test_call t_get(int slot, uint64_t va, uint64_t len)
{
	return T(.op = T_GET, .slot = slot, .va = va, .length = len);
}

static inline int t_put(int slot)
{
	return T(.op = T_PUT, .slot = slot).ret;
}

static inline struct nvp2p_test_call t_state(int slot)
{
	return T(.op = T_STATE, .slot = slot);
}

static inline void t_on_callback(int slot, uint32_t what)
{
	T(.op = T_ON_CALLBACK, .slot = slot, .value = what);
}

void t_pages(int slot, uint64_t *pages, int n);

/* What must hold of a get that failed: this errno, and the pointer NULL or untouched. */
#define MUST_FAIL(call, err, left) do {						\
	struct nvp2p_test_call r_ = call;					\
	check_at(__LINE__, r_.ret == -(err), #call, "returns %d, not %d", r_.ret, -(err));	\
	check_at(__LINE__, r_.out == (left), #call, "leaves the pointer %s, not %s",	\
		 out_names[r_.out], out_names[left]);				\
} while (0)
extern const char *const out_names[];

/* Allocates or ends the test. */
uint64_t need_alloc(struct gpu *g, uint64_t len);
void nap_ms(int ms);

#endif
