/* SPDX-License-Identifier: MIT */
/* There are no listeners: they would be other modules. */
#include "kernel.h"

struct notifier_block;
struct srcu_notifier_head {
	int none;
};

#define SRCU_NOTIFIER_HEAD_STATIC(name)	static struct srcu_notifier_head name

static inline int srcu_notifier_chain_register(struct srcu_notifier_head *head, struct notifier_block *nb)
{
	(void)head;
	(void)nb;
	return 0;
}

static inline int srcu_notifier_chain_unregister(struct srcu_notifier_head *head, struct notifier_block *nb)
{
	return srcu_notifier_chain_register(head, nb);
}

static inline int srcu_notifier_call_chain(struct srcu_notifier_head *head, unsigned long value, void *priv)
{
	(void)head;
	(void)value;
	(void)priv;
	return 0;
}
