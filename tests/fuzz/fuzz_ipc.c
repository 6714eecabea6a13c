// SPDX-License-Identifier: MIT
/* What other processes send to libpeerdma: handles, requests to an exporter, an exporter's replies. */
#include "../../peerdma/lib/ipc/handle.h"
#include "../../peerdma/lib/ipc/message.h"
#include "fuzz.h"

/* Made by a process that knows the format: the checksum is right. */
static void forged(const uint8_t *data, size_t size)
{
	struct peerdma_ipc_handle handle;
	struct ipc_name name, again;

	if (size < sizeof(name))
		return;
	memcpy(&name, data, sizeof(name));
	ipc_handle_make(&name, &handle);
	if (!ipc_handle_parse(&handle, sizeof(handle), IPC_MEMORY, &again)) {
		MUST(again.what == IPC_MEMORY && again.length && again.offset + again.length > again.offset);
		MUST(!memcmp(&again.process, &name.process, sizeof(name.process)) && ipc_key_equal(again.key, name.key));
	}
	if (!ipc_handle_parse(&handle, sizeof(handle), IPC_SIGNAL, &again))
		MUST(again.what == IPC_SIGNAL);
	/* One byte of it altered. */
	handle.bytes[data[0] % sizeof(handle)] ^= (unsigned char)(data[1] ? data[1] : 1);
	MUST(ipc_handle_parse(&handle, sizeof(handle), IPC_MEMORY, &again) == -EINVAL);
}

static void received(const uint8_t *data, size_t size)
{
	struct ipc_request q;
	struct ipc_reply reply;
	int pair[2], fds[IPC_FDS], ret;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return;
	if (!size || size > 4096 || ipc_send(pair[0], data, size, NULL, 0))
		goto out;
	ret = ipc_receive(pair[1], &q, sizeof(q), fds, 1, NULL);
	MUST(ret == (size == sizeof(q) ? (int)size : -EPROTO) && fds[0] < 0);
	/* With descriptors, more of them than the receiver takes: none may be left. */
	if (ipc_send(pair[0], data, size, (const int[]) { pair[0], pair[0], pair[1] }, 1 + data[0] % 3))
		goto out;
	ret = ipc_receive(pair[1], &reply, sizeof(reply), fds, IPC_FDS, NULL);
	MUST(ret == (size == sizeof(reply) ? (int)size : -EPROTO));
	for (int i = 0; i < IPC_FDS; i++) {
		MUST((fds[i] >= 0) == (ret > 0 && i <= data[0] % 3));
		if (fds[i] >= 0)
			close(fds[i]);
	}
	MUST(ipc_receive(pair[1], &q, sizeof(q), fds, 1, NULL) == -EAGAIN);
out:
	close(pair[0]);
	close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ipc_name name;
	void *copy = fuzz_copy(data, size);

	ipc_handle_parse(copy, size, IPC_MEMORY, &name);
	ipc_handle_parse(copy, size, IPC_SIGNAL, &name);
	MUST(size == sizeof(name) || ipc_handle_parse(copy, size, IPC_MEMORY, &name) == -EINVAL);
	forged(copy, size);
	received(copy, size);
	free(copy);
	return 0;
}
