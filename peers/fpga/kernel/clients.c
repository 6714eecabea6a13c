// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * clients.c - open files of cards, and the DMA done for each:
 * /sys/kernel/debug/peerdma_fpga/clients, tab-separated; its first line names the columns.
 * `peerdma top' reads such a file of every driver whose debugfs folder begins with
 * "peerdma_", since only a device's driver knows its DMA.
 */
#include <linux/cred.h>
#include <linux/debugfs.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "card.h"

/* Guards the list, and each card's users. */
static DEFINE_MUTEX(clients_lock);
static LIST_HEAD(clients);
static struct dentry *dir;

/* Takes `user', or frees it if the card knows this user.  clients_lock held. */
static struct fpga_user *user_enter(struct fpga_card *card, struct fpga_user *user)
{
	struct fpga_user *known;

	list_for_each_entry(known, &card->users, node) {
		if (!uid_eq(known->uid, user->uid))
			continue;
		kfree(user);
		known->files++;
		return known;
	}
	user->files = 1;
	list_add(&user->node, &card->users);
	return user;
}

static void user_leave(struct fpga_user *user)
{
	if (--user->files)
		return;
	list_del(&user->node);
	kfree(user);
}

/* To be called while the card's device exists. */
struct fpga_client *client_new(struct fpga_card *card)
{
	struct fpga_client *client = kzalloc(sizeof(*client), GFP_KERNEL);
	struct fpga_user *user = kzalloc(sizeof(*user), GFP_KERNEL);

	if (!client || !user) {
		kfree(user);
		kfree(client);
		return NULL;
	}
	user->uid = current_uid();
	sema_init(&user->turn, 1);
	client->card = card_get(card);
	client->tgid = task_tgid_nr(current);
	get_task_comm(client->comm, current->group_leader);
	strscpy(client->device, pci_name(card->pdev), sizeof(client->device));
	mutex_lock(&clients_lock);
	client->user = user_enter(card, user);
	list_add_tail(&client->node, &clients);
	mutex_unlock(&clients_lock);
	return client;
}

void client_end(struct fpga_client *client)
{
	mutex_lock(&clients_lock);
	list_del(&client->node);
	user_leave(client->user);
	mutex_unlock(&clients_lock);
	card_put(client->card);
	kfree(client);
}

static int clients_show(struct seq_file *s, void *unused)
{
	struct fpga_client *c;

	seq_puts(s, "pid\tcomm\tdevice\tcopies\tbytes_read\tbytes_written\trevocations\n");
	mutex_lock(&clients_lock);
	list_for_each_entry(c, &clients, node) {
		seq_printf(s, "%d\t", c->tgid);
		seq_escape(s, c->comm, "\t\n\\");
		seq_printf(s, "\t%s\t%lld\t%lld\t%lld\t%lld\n", c->device,
			   atomic64_read(&c->copies), atomic64_read(&c->bytes[CARD_READS]),
			   atomic64_read(&c->bytes[CARD_WRITES]), atomic64_read(&c->revocations));
	}
	mutex_unlock(&clients_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(clients);

void clients_init(void)
{
	dir = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("clients", 0400, dir, NULL, &clients_fops);
}

void clients_exit(void)
{
	debugfs_remove(dir);
}
