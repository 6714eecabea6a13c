// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * callback.c - free callbacks: which threads run one, what clients do in them, and which
 * are armed when a client is unloaded.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include "p2p.h"

static unsigned int callback_ms = 1000;
module_param(callback_ms, uint, 0644);
MODULE_PARM_DESC(callback_ms, "Log free callbacks that take more milliseconds than this; 0: never (default 1000, for emulated machines; the guide allows a few)");

/* On the stack of a thread that runs a callback. */
struct running {
	struct list_head node;
	const struct task_struct *task;
	struct nvp2p_table *table;
};

static LIST_HEAD(running);
static DEFINE_SPINLOCK(running_lock);

bool nvp2p_in_callback(void)
{
	const struct running *r;
	bool is = false;

	/* Only this thread itself adds an entry for this thread. */
	if (list_empty_careful(&running))
		return false;
	spin_lock(&running_lock);
	list_for_each_entry(r, &running, node)
		is |= r->task == current;
	spin_unlock(&running_lock);
	return is;
}

/*
 * Returns the table in whose late callback this thread is, if it is that of `table`, or NULL. The
 * core does not know the pin of such a table any more.
 */
static struct nvp2p_table *late_table(const struct nvidia_p2p_page_table *table)
{
	struct nvp2p_table *found = NULL;
	const struct running *r;

	spin_lock(&running_lock);
	list_for_each_entry(r, &running, node) {
		if (r->task == current && r->table->late_ms && &r->table->table == table)
			found = r->table;
	}
	spin_unlock(&running_lock);
	return found;
}

static s64 call(struct nvp2p_table *t, void (*callback)(void *data))
{
	struct running here = { .task = current, .table = t };
	ktime_t start;
	s64 took;

	spin_lock(&running_lock);
	list_add(&here.node, &running);
	spin_unlock(&running_lock);
	start = ktime_get();
	callback(t->data);
	took = ktime_ms_delta(ktime_get(), start);
	spin_lock(&running_lock);
	list_del(&here.node);
	spin_unlock(&running_lock);
	return took;
}

static void call_client(struct nvp2p_table *t, void (*callback)(void *data))
{
	unsigned int limit = READ_ONCE(callback_ms);
	enum nvp2p_locked locked;
	s64 took;

	locked = nvp2p_lock("a free callback", callback);
	/* With the driver's lock, an earlier put has ended the pin already. */
	if (!t->put) {
		took = call(t, callback);
		if (!READ_ONCE(t->freed))
			nvp2p_mistake(NVP2P_NOT_FREED, callback, "the free callback of %#llx ends without free_page_table",
				      t->pin.va);
		if (limit && took > limit)
			nvp2p_mistake(NVP2P_SLOW, callback, "the free callback of %#llx took %lld ms", t->pin.va, took);
		if (nvp2p_calls_twice()) {
			WRITE_ONCE(t->freed, false);
			call(t, callback);
		}
	}
	nvp2p_unlock(locked);
}

void nvp2p_callback(struct nvp2p_table *t)
{
	void (*callback)(void *data) = READ_ONCE(t->callback);

	if (!callback)
		return;
	if (current->flags & PF_EXITING)
		t->late_ms = nvp2p_late_ms();
	if (!t->late_ms)
		call_client(t, callback);
}

void nvp2p_callback_late(struct nvp2p_table *t)
{
	/* NULL: the client was unloaded meanwhile. */
	void (*callback)(void *data) = READ_ONCE(t->callback);

	if (callback)
		call_client(t, callback);
}

int nvidia_p2p_free_page_table(struct nvidia_p2p_page_table *page_table)
{
	const void *caller = __builtin_return_address(0);
	struct nvp2p_table *held = nvp2p_hold(page_table), *t = held ?: late_table(page_table);
	bool live, again;

	if (!t) {
		/*
		 * Outside of a callback this may be a table that a put has just freed,
		 * which cannot be detected.
		 */
		if (nvp2p_in_callback())
			nvp2p_mistake(NVP2P_FREED_NOTHING, caller, "free_page_table(%s) in a free callback",
				      page_table ? "what is no table" : "NULL");
		return 0;
	}
	live = held && sg_pin_live(&t->pin);
	again = !live && xchg(&t->freed, true);
	if (held)
		sg_pin_unhold(&t->pin);
	if (again)
		nvp2p_mistake(NVP2P_FREED_NOTHING, caller, "free_page_table a second time");
	if (live)
		nvp2p_mistake(NVP2P_FREED_LIVE, caller, "free_page_table of a live pin's table");
	return 0;
}
EXPORT_SYMBOL_GPL(nvidia_p2p_free_page_table);

/* ---- clients that are unloaded ---- */

static LIST_HEAD(armed);
static DEFINE_MUTEX(armed_lock);

void nvp2p_arm(struct nvp2p_table *t)
{
	mutex_lock(&armed_lock);
	list_add(&t->armed, &armed);
	mutex_unlock(&armed_lock);
}

void nvp2p_disarm(struct nvp2p_table *t)
{
	mutex_lock(&armed_lock);
	list_del(&t->armed);
	mutex_unlock(&armed_lock);
}

static u32 disarm_all_of(const struct module *client, const void **code)
{
	struct nvp2p_table *t;
	u32 n = 0;

	mutex_lock(&armed_lock);
	list_for_each_entry(t, &armed, armed) {
		if (!t->callback || !within_module((unsigned long)t->callback, client))
			continue;
		*code = t->callback;
		WRITE_ONCE(t->callback, NULL);
		n++;
	}
	mutex_unlock(&armed_lock);
	return n;
}

/* Called after a client's exit function, before its code is freed. */
static int module_changes(struct notifier_block *nb, unsigned long state, void *module)
{
	const void *code;
	u32 n;

	if (state != MODULE_STATE_GOING)
		return NOTIFY_OK;
	n = disarm_all_of(module, &code);
	if (n)
		nvp2p_mistake(NVP2P_UNLOADED, code, "it is unloaded with %u pins whose free callbacks may still run", n);
	nvp2p_client_gone(module);
	return NOTIFY_OK;
}

static struct notifier_block module_notifier = {
	.notifier_call = module_changes,
};

int nvp2p_callback_init(void)
{
	return register_module_notifier(&module_notifier);
}

void nvp2p_callback_uninit(void)
{
	unregister_module_notifier(&module_notifier);
}
