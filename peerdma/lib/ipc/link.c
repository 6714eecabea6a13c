// SPDX-License-Identifier: MIT
/*
 * link.c - connections to an exporter that keep its signals open.
 *
 * Only one thread at a time sends a request on a link. If an answer did not come, no further
 * request is sent on the link. So an answer always belongs to the last request. A link opens at
 * most IPC_OPENS signals in its life. So its messages, including those that close signals, always
 * fit into the socket's buffer, even if the exporter is stopped.
 */
#include <stdlib.h>
#include <unistd.h>

#include "ipc.h"

struct ipc_link *ipc_link_get(struct ipc_exporter *exporter, uint32_t uid, unsigned int *number)
{
	struct ipc_link *link;

	for (link = exporter ? exporter->links : NULL; link; link = link->next) {
		if (!link->busy && link->asked < IPC_OPENS && own_fd_still(&link->conn))
			break;
	}
	if (!link) {
		link = calloc(1, sizeof(*link));
		if (!link) {
			fail(-ENOMEM, "%s", error_words(-ENOMEM));
			return NULL;
		}
		link->conn = OWN_FD_NONE;
		link->uid = uid;
	}
	link->busy = true;
	link->open++;
	*number = link->asked++;
	return link;
}

void ipc_link_keep(struct ipc_exporter *exporter, struct ipc_link *link)
{
	link->busy = false;
	if (link->asked > 1)
		return;
	link->next = exporter->links;
	exporter->links = link;
}

void ipc_link_drop(struct ipc *ipc, struct ipc_link *link, struct ipc_exporter *exporter,
		   unsigned int number, bool failed)
{
	struct ipc_request q = { .magic = IPC_MESSAGE_MAGIC,
				 .op = IPC_OP_CLOSE_SIGNAL,
				 .open = number };
	struct ipc_link **at;

	/*
	 * Messages arrive in order, so this also ends an open whose answer is pending. Sending
	 * fails only if the exporter has ended, or the program has closed the socket.
	 */
	if (own_fd_still(&link->conn))
		ipc_send(link->conn.fd, &q, sizeof(q), NULL, 0);
	if (failed)
		link->asked = IPC_OPENS;
	link->busy = link->busy && !failed;
	if (--link->open)
		return;
	for (at = exporter ? &exporter->links : NULL; at && *at && *at != link; at = &(*at)->next)
		;
	if (at && *at)
		*at = link->next;
	pthread_mutex_unlock(&ipc->lock);
	ipc_hang_up(&link->conn, link->uid);
	free(link);
	pthread_mutex_lock(&ipc->lock);
}
