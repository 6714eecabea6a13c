// SPDX-License-Identifier: MIT
/* stream.c - signals that CUDA's streams wait for and set, in host memory that CUDA has registered. */
#include "../base/memory.h"
#include "signal.h"

/* The signal's page, or the arena that it is in, is the GPU's too from here on. */
static int registered(struct peerdma_ipc_signal *s)
{
	struct ipc *ipc = s->ipc;
	bool *flag = s->own_page ? &s->registered : s->exporter ? &s->exporter->arena_registered : &ipc->arena_registered;
	void *addr = s->own_page ? s->shared : s->exporter ? s->exporter->arena : ipc->arena;
	size_t length = s->own_page ? memory_rounded(sizeof(*s->shared)) : IPC_ARENA_SIGNALS * sizeof(*s->shared);
	bool is;
	int ret;

	pthread_mutex_lock(&ipc->lock);
	is = *flag;
	pthread_mutex_unlock(&ipc->lock);
	if (is)
		return 0;
	ret = ipc_cuda_register(addr, length);
	if (ret)
		return ret;
	pthread_mutex_lock(&ipc->lock);
	*flag = true;
	pthread_mutex_unlock(&ipc->lock);
	return 0;
}

static int prepare(struct peerdma_ipc_signal *s, const char *call)
{
	int ret = ipc_signal_usable(s, call), was;

	if (ret)
		return ret;
	if (!s->shared)
		return fail(-EOPNOTSUPP, "%s: this is an HSA signal; create one without PEERDMA_IPC_HSA for CUDA's streams", call);
	was = cancel_off();
	ret = registered(s);
	cancel_back(was);
	return ret ? fail(ret, "%s: %s", call, peerdma_last_error()) : 0;
}

EXPORT int peerdma_ipc_signal_stream_wait(struct peerdma_ipc_signal *signal, void *stream,
					  enum peerdma_ipc_condition condition, uint64_t value)
{
	static const char call[] = "peerdma_ipc_signal_stream_wait";
	int ret;

	if ((unsigned int)condition > PEERDMA_IPC_GE)
		return fail(-EINVAL, "%s: condition %d; use those of enum peerdma_ipc_condition", call, (int)condition);
	if (condition != PEERDMA_IPC_EQ && condition != PEERDMA_IPC_GE)
		return fail(-EOPNOTSUPP, "%s: CUDA's streams wait for EQ and GE only", call);
	ret = prepare(signal, call);
	if (ret)
		return ret;
	ret = ipc_cuda_stream_wait(stream, &signal->shared->value, value, condition == PEERDMA_IPC_GE);
	return ret ? fail(ret, "%s: %s", call, peerdma_last_error()) : 0;
}

EXPORT int peerdma_ipc_signal_stream_set(struct peerdma_ipc_signal *signal, void *stream, uint64_t value)
{
	static const char call[] = "peerdma_ipc_signal_stream_set";
	int ret = prepare(signal, call);

	if (ret)
		return ret;
	/* From now on waiters look; those that sleep already are woken to do so. */
	if (!__atomic_exchange_n(&signal->shared->polled, 1, __ATOMIC_SEQ_CST))
		ipc_signal_changed(signal->shared);
	ret = ipc_cuda_stream_write(stream, &signal->shared->value, value);
	return ret ? fail(ret, "%s: %s", call, peerdma_last_error()) : 0;
}
