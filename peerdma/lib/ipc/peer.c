// SPDX-License-Identifier: MIT
/*
 * peer.c - an exporter, as its importers see it: its shared pages. They stay mapped for as long as
 * this process has something of the exporter open, so that it can always check whether that is
 * live.
 */
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ipc.h"

int ipc_peer_live(const struct ipc_peer *peer, uint32_t slot, uint64_t generation)
{
	/* Once the process has ended the slots do not change any more: its word is read last. */
	bool same = __atomic_load_n(&peer->home->slot[slot], __ATOMIC_ACQUIRE) == generation;

	if (__atomic_load_n(&peer->home->alive, __ATOMIC_ACQUIRE) & FUTEX_OWNER_DIED)
		return -EOWNERDEAD;
	return same ? 0 : -ESTALE;
}

int ipc_fail_live(const struct ipc_peer *peer, int error)
{
	if (error == -EOWNERDEAD)
		return fail(error, "the exporter (pid %u) has ended", peer->pid);
	return fail(error, "the exporter (pid %u) has freed it, or ended the export; get a new handle", peer->pid);
}

int ipc_name_check(struct ipc *ipc, const struct ipc_name *name)
{
	struct ipc_id boot;
	int ret = ipc_boot(ipc, &boot);

	if (ret)
		return ret;
	if (memcmp(&boot, &name->boot, sizeof(boot)))
		return fail(-EREMOTE, "the handle was made on another machine, or before this one was last booted");
	if (__atomic_load_n(&ipc->home, __ATOMIC_ACQUIRE) && !memcmp(&ipc->self, &name->process, sizeof(ipc->self)))
		return fail(-EEXIST, "the handle was made by this process; use the pointer or the signal itself");
	if (name->slot >= IPC_SLOTS)
		return fail(-EINVAL, "the handle was altered on its way: it names export %u of %u", name->slot, IPC_SLOTS);
	return 0;
}

struct ipc_peer *ipc_peer_find(struct ipc *ipc, const struct ipc_id *process)
{
	for (struct ipc_peer *p = ipc->peers; p; p = p->next) {
		if (!memcmp(&p->process, process, sizeof(*process))) {
			p->refs++;
			return p;
		}
	}
	return NULL;
}

int ipc_peer_get(struct ipc *ipc, const struct ipc_name *name, int home_fd, struct ipc_peer **peer)
{
	struct ipc_peer *p = ipc_peer_find(ipc, &name->process);
	void *home;
	int ret;

	*peer = p;
	/* What another user sends is not the peer's, whatever its handle says. */
	if (p && p->uid != name->uid) {
		p->refs--;
		return fail(-EACCES, "the exporter runs as user %u, but the handle is of user %u", p->uid, name->uid);
	}
	if (p)
		return 0;
	ret = ipc_file_map(home_fd, sizeof(struct ipc_home), false, &home);
	if (ret)
		return ret;
	p = calloc(1, sizeof(*p));
	if (!p || memcmp(((struct ipc_home *)home)->magic, IPC_HOME_MAGIC, sizeof(((struct ipc_home *)home)->magic)) ||
	    ((struct ipc_home *)home)->slots != IPC_SLOTS) {
		munmap(home, sizeof(struct ipc_home));
		ret = p ? fail(-EPROTO, "the exporter's pages have another format; use one release of libpeerdma on both sides") :
			  fail(-ENOMEM, "%s", error_words(-ENOMEM));
		free(p);
		return ret;
	}
	p->process = name->process;
	p->boot = name->boot;
	p->pid = name->pid;
	p->uid = name->uid;
	p->refs = 1;
	p->home = home;
	p->next = ipc->peers;
	ipc->peers = p;
	*peer = p;
	return 0;
}

static void end(struct ipc *ipc, struct ipc_peer *peer)
{
	struct ipc_peer **at;

	for (at = &ipc->peers; *at != peer; at = &(*at)->next)
		;
	*at = peer->next;
	pthread_mutex_unlock(&ipc->lock);
	if (peer->arena_registered)
		ipc_cuda_unregister(peer->arena);
	if (peer->arena)
		munmap(peer->arena, IPC_LINES * sizeof(*peer->arena));
	munmap((void *)(uintptr_t)peer->home, sizeof(*peer->home));
	free(peer);
	pthread_mutex_lock(&ipc->lock);
}

void ipc_peers_end(struct ipc *ipc, bool callback)
{
	struct ipc_peer *p = ipc->peers;

	while (p) {
		if (p->refs || (callback && p->arena_registered)) {
			p = p->next;
			continue;
		}
		end(ipc, p);
		p = ipc->peers;
	}
}

void ipc_peer_put(struct ipc *ipc, struct ipc_peer *peer, bool callback)
{
	if (!--peer->refs)
		ipc_peers_end(ipc, callback);
}
