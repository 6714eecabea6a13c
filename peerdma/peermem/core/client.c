// SPDX-License-Identifier: MIT OR GPL-2.0
/* client.c - the clients in the order of registration, and /sys/kernel/mm/memory_peers. */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kernfs.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include "client.h"

static DEFINE_MUTEX(clients_lock);
static LIST_HEAD(clients);
static u64 last_number;
static struct kobject *memory_peers;

static struct peer_client *to_client(struct kobject *kobj)
{
	return container_of(kobj, struct peer_client, kobj);
}

static ssize_t version_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	/* The last byte is a flag, not text. */
	return sysfs_emit(buf, "%.*s\n", IB_PEER_MEMORY_VER_MAX - 1, to_client(kobj)->ops->version);
}

static struct kobj_attribute version_attr = __ATTR_RO(version);

struct count_attribute {
	struct kobj_attribute attr;
	enum peer_count count;
};

static ssize_t count_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	enum peer_count count = container_of(attr, struct count_attribute, attr)->count;

	return sysfs_emit(buf, "%lld\n", atomic64_read(&to_client(kobj)->counts[count]));
}

/* For root: they show what other users do. */
#define COUNT_ATTR(name, value) \
	static struct count_attribute name##_attr = { __ATTR(name, 0400, count_show, NULL), value }
COUNT_ATTR(num_alloc_mrs, PEER_ALLOC_MRS);
COUNT_ATTR(num_dealloc_mrs, PEER_DEALLOC_MRS);
COUNT_ATTR(num_reg_pages, PEER_REG_PAGES);
COUNT_ATTR(num_dereg_pages, PEER_DEREG_PAGES);
COUNT_ATTR(num_reg_bytes, PEER_REG_BYTES);
COUNT_ATTR(num_dereg_bytes, PEER_DEREG_BYTES);
COUNT_ATTR(num_free_callbacks, PEER_FREE_CALLBACKS);

static struct attribute *client_attrs[] = {
	&version_attr.attr,
	&num_alloc_mrs_attr.attr.attr,
	&num_dealloc_mrs_attr.attr.attr,
	&num_reg_pages_attr.attr.attr,
	&num_dereg_pages_attr.attr.attr,
	&num_reg_bytes_attr.attr.attr,
	&num_dereg_bytes_attr.attr.attr,
	&num_free_callbacks_attr.attr.attr,
	NULL
};
ATTRIBUTE_GROUPS(client);

static void client_free(struct kobject *kobj)
{
	struct peer_client *client = to_client(kobj);

	xa_destroy(&client->regions);
	kfree(client);
}

static const struct kobj_type client_type = {
	.release = client_free,
	.sysfs_ops = &kobj_sysfs_ops,
	.default_groups = client_groups,
};

static const char *missing_function(const struct peer_memory_client *ops)
{
	return !ops->acquire ? "acquire" : !ops->get_pages ? "get_pages" :
	       !ops->put_pages ? "put_pages" : !ops->dma_map ? "dma_map" :
	       !ops->dma_unmap ? "dma_unmap" : NULL;
}

/*
 * The last byte of the version marks an extended client. ex_size is checked against PAGE_SIZE so
 * that a pointer in its place, as in AMD's older struct, is never taken for a size.
 */
static bool unmaps_by_itself(const struct peer_memory_client *ops)
{
	const struct peer_memory_client_ex *ex =
		container_of(ops, struct peer_memory_client_ex, client);

	return ops->version[IB_PEER_MEMORY_VER_MAX - 1] &&
	       ex->ex_size >= offsetofend(struct peer_memory_client_ex, flags) &&
	       ex->ex_size <= PAGE_SIZE && ex->flags & PEER_MEM_INVALIDATE_UNMAPS;
}

static struct peer_client *client_named(const char *name)
{
	struct peer_client *client;

	list_for_each_entry(client, &clients, entry)
		if (!strcmp(client->ops->name, name))
			return client;
	return NULL;
}

/* clients_lock held. */
static int client_publish(struct peer_client *client)
{
	const char *name = client->ops->name;
	int err;

	if (client_named(name)) {
		pr_err("%s: a client of that name is registered: load only one of them\n", name);
		err = -EEXIST;
	} else {
		err = kobject_add(&client->kobj, memory_peers, "%s", name);
	}
	if (err)
		return err;
	client->number = ++last_number;
	list_add_tail(&client->entry, &clients);
	return 0;
}

struct peer_client *peer_client_add(const struct peer_memory_client *ops, bool revocable)
{
	size_t length = strnlen(ops->name, sizeof(ops->name));
	struct peer_client *client;
	const char *missing = missing_function(ops);
	int err;

	if (!length || length == sizeof(ops->name)) {
		pr_err("a client's name is empty, or not terminated\n");
		return NULL;
	}
	if (missing) {
		pr_err("%s: the client has no %s\n", ops->name, missing);
		return NULL;
	}
	client = kzalloc(sizeof(*client), GFP_KERNEL);
	if (!client)
		return NULL;
	client->ops = ops;
	client->revocable = revocable;
	client->unmaps = revocable && unmaps_by_itself(ops);
	refcount_set(&client->users, 1);
	init_completion(&client->unused);
	xa_init(&client->regions);
	kobject_init(&client->kobj, &client_type);

	mutex_lock(&clients_lock);
	err = client_publish(client);
	mutex_unlock(&clients_lock);
	if (err) {
		kobject_put(&client->kobj);
		return NULL;
	}
	pr_info("%s: client %.*s, %s\n", ops->name, IB_PEER_MEMORY_VER_MAX - 1, ops->version,
		!revocable ? "not revocable" :
		client->unmaps ? "revocable, unmaps by itself" : "revocable");
	return client;
}

void peer_client_remove(struct peer_client *client)
{
	mutex_lock(&clients_lock);
	list_del(&client->entry);
	kobject_del(&client->kobj);
	mutex_unlock(&clients_lock);
	peer_client_put(client);
	wait_for_completion(&client->unused);
	pr_info("%s: unregistered\n", client->ops->name);
	kobject_put(&client->kobj);
}

struct peer_client *peer_client_after(u64 number)
{
	struct peer_client *client, *found = NULL;

	mutex_lock(&clients_lock);
	list_for_each_entry(client, &clients, entry) {
		/* A client in the list still has its initial user. */
		if (client->number > number) {
			refcount_inc(&client->users);
			found = client;
			break;
		}
	}
	mutex_unlock(&clients_lock);
	return found;
}

bool peer_client_get(struct peer_client *client)
{
	return refcount_inc_not_zero(&client->users);
}

void peer_client_put(struct peer_client *client)
{
	if (refcount_dec_and_test(&client->users))
		complete(&client->unused);
}

bool peer_clients_any(void)
{
	return !list_empty_careful(&clients);
}

/* mm_kobj is not exported any more, so its folder is looked up. */
static struct kobject *find_mm_kobj(void)
{
	struct kernfs_node *node = kernfs_find_and_get(kernel_kobj->sd, "mm");
	struct kobject *kobj = node ? node->priv : NULL;

	/* The folder exists as long as the kernel runs. */
	kernfs_put(node);
	return kobj;
}

int peer_clients_init(void)
{
	struct kobject *mm = find_mm_kobj();

	if (!mm)
		return -ENOENT;
	memory_peers = kobject_create_and_add("memory_peers", mm);
	return memory_peers ? 0 : -ENOMEM;
}

void peer_clients_exit(void)
{
	kobject_put(memory_peers);
}
