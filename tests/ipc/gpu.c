// SPDX-License-Identifier: MIT
/*
 * gpu.c - device memory between two processes, by a provider's own IPC (gpu_cuda.c, gpu_hsa.c).
 * With HOOKS defined, libpeerdma-hooks intercepts frees, so that a free ends exports without
 * peerdma_ipc_unexport().
 *
 * usage: ipc_gpu_*
 */
#include <sys/prctl.h>
#include <sys/socket.h>

#include "../lib/checks.h"
#include "gpu.h"
#include "peerdma_ipc.h"

#define LENGTH	(3UL << 20)
#define OFFSET	4096
#define PART	(LENGTH - OFFSET)
#define OPEN(handle, memory) peerdma_ipc_open(handle, sizeof(struct peerdma_ipc_handle), 0, memory)

enum op { EXPORT_MEMORY, EXPORT_SMALL, END, FREE_BEHIND, FILL, LOOK, SIGNAL, SET, WAIT, DIE };

struct ask {
	int op;
	int kind;
	uint64_t value;
	uint8_t fill;
};

struct answer {
	int ret;
	struct peerdma_ipc_handle handle;
	char text[300];
};

static char *bytes;

/* ---- the exporter ---- */

static void serve(int sock)
{
	struct peerdma_ipc_signal *signal = NULL;
	struct peerdma_ipc_handle small_handle;
	char *p = NULL, *small = NULL;
	uint64_t small_length = 0;
	struct answer a;
	struct ask q;

	if (!gpu_begin())
		_exit(77);
	bytes = malloc(LENGTH);
	while (read(sock, &q, sizeof(q)) == sizeof(q)) {
		memset(&a, 0, sizeof(a));
		switch ((enum op)q.op) {
		case EXPORT_MEMORY:
			p = gpu_alloc(q.kind, LENGTH);
			if (!p) {
				a.ret = -ENXIO;
				break;
			}
			memset(bytes, q.fill, LENGTH);
			gpu_put(p, bytes, LENGTH);
			a.ret = peerdma_ipc_export(p + OFFSET, PART, (unsigned int)q.value, &a.handle);
			snprintf(a.text, sizeof(a.text), "%.299s", peerdma_last_error());
			break;
		case EXPORT_SMALL:	/* in the place of the one before */
			if (small) {
				peerdma_ipc_unexport(&small_handle);
				gpu_free(q.kind, small, small_length);
			}
			small_length = q.value;
			small = gpu_alloc(q.kind, small_length);
			memset(bytes, q.fill, small_length);
			gpu_put(small, bytes, small_length);
			if (q.fill == 1) {	/* the first one, for any user */
				a.ret = peerdma_ipc_export(small, small_length, PEERDMA_IPC_I_UNEXPORT | PEERDMA_IPC_ANY_USER, &a.handle);
				if (a.ret != -EOPNOTSUPP || !strstr(peerdma_last_error(), "2 MiB"))
					break;
			}
			a.ret = peerdma_ipc_export(small, small_length, PEERDMA_IPC_I_UNEXPORT, &a.handle);
			small_handle = a.handle;
			break;
		case END:
			a.ret = peerdma_ipc_unexport(&a.handle);
			break;
		case FREE_BEHIND:
			gpu_free(q.kind, p, LENGTH);
			/* What comes next gets the same address, most often. */
			p = gpu_alloc(q.kind, LENGTH);
			memset(bytes, q.fill, LENGTH);
			gpu_put(p, bytes, LENGTH);
			break;
		case FILL:
			memset(bytes, q.fill, LENGTH);
			gpu_put(p, bytes, LENGTH);
			break;
		case LOOK:
			gpu_get(bytes, p, LENGTH);
			for (size_t i = OFFSET; i < OFFSET + q.value; i++)
				a.ret |= (uint8_t)bytes[i] != q.fill;
			break;
		case SIGNAL:
			a.ret = peerdma_ipc_signal_create(q.value, (unsigned int)q.kind, &signal);
			if (!a.ret)
				a.ret = peerdma_ipc_signal_export(signal, &a.handle);
			break;
		case SET:
			a.ret = peerdma_ipc_signal_set(signal, q.value);
			break;
		case WAIT:
			a.ret = peerdma_ipc_signal_wait(signal, PEERDMA_IPC_EQ, q.value, 5000000000, NULL);
			break;
		case DIE:
			kill(getpid(), SIGKILL);
		}
		if (write(sock, &a, sizeof(a)) != sizeof(a))
			break;
	}
	_exit(0);
}

struct exporter {
	pid_t pid;
	int sock;
};

static struct exporter begin(void)
{
	struct exporter e;
	int pair[2];

	MUST(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	fflush(NULL);
	e.pid = fork();
	if (!e.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		serve(pair[1]);
	}
	close(pair[1]);
	e.sock = pair[0];
	return e;
}

static struct answer ask(struct exporter *e, struct ask q)
{
	struct answer a = { .ret = -EPIPE };

	if (write(e->sock, &q, sizeof(q)) != sizeof(q) || read(e->sock, &a, sizeof(a)) != sizeof(a))
		a.ret = -EPIPE;
	return a;
}

#define ASK(e, ...) ask(e, (struct ask) { .op = __VA_ARGS__ })

/* ---- the importer ---- */

static int transfer(struct peerdma_ipc_memory *m, void *local, uint64_t length, uint32_t flags)
{
	struct peerdma_ipc_transfer t = { .size = sizeof(t), .flags = flags, .memory = m, .local = local, .length = length };

	return peerdma_ipc_copy(&t, 1, NULL, 0);
}

static bool reads_as(struct peerdma_ipc_memory *m, uint8_t value)
{
	uint8_t *b = calloc(1, PART);
	size_t i = 0;

	gpu_get(b, m->ptr, PART);
	while (i < PART && b[i] == value)
		i++;
	free(b);
	return i == PART;
}

static bool is_pool(int kind)
{
	return !strcmp(gpu_provider[kind], "cuda-pool");
}

static void several(struct peerdma_ipc_memory *m, struct exporter *e, int kind)
{
	struct peerdma_ipc_transfer t[8];
	struct peerdma_ipc_signal *done = NULL;
	char *local = malloc(PART);

	memset(t, 0, sizeof(t));
	memset(local, 0x55, PART);
	CHECK(!peerdma_ipc_signal_create(0, 0, &done), "a signal");
	for (int i = 0; i < 8; i++) {
		t[i] = (struct peerdma_ipc_transfer) {
			.size = sizeof(t[0]), .memory = m, .local = local + i * 4096, .offset = (uint64_t)i * 4096, .length = 4096,
		};
	}
	CHECK(!peerdma_ipc_copy(t, 8, done, 3), "eight copies, with a signal");
	CHECK(!peerdma_ipc_signal_wait(done, PEERDMA_IPC_EQ, 3, 10000000000, NULL), "it was set");
	for (int i = 0; i < 8; i++) {
		if (t[i].error || t[i].path < PEERDMA_IPC_PATH_CUDA)
			CHECK(0, "copy %d: %d, path %u", i, t[i].error, t[i].path);
	}
	CHECK(!ASK(e, LOOK, .kind = kind, .fill = 0x55, .value = 8 * 4096).ret, "all arrived");
	CHECK(!peerdma_ipc_signal_close(done), "closed");
	free(local);
}

/* Where copies lie: at odd places, of odd lengths; as rows, forwards and backwards; and one behind the other. */
enum shape { ODD, ROWS, BACK, JOINED, SHAPES };

static void place(enum shape shape, size_t i, size_t *there, size_t *here, size_t *length)
{
	size_t n = shape == BACK ? 199 - i : i;

	*length = shape == JOINED ? 8192 : 3000;
	*there = n * 8192;
	*here = shape == JOINED ? n * 8192 : n * 5000 + 1;
	if (shape == ODD) {
		*there = i * 8192 + i * i % 61;
		*here = *there - (i % 2 ? 0 : *there % 16);
		*length = i % 3 ? 1 + i * i % 8000 : 16 * i;
	}
}

/* Device memory at both ends: by engines, or by a kernel where the GPU runs any: whether it did. */
static bool within(struct peerdma_ipc_memory *m, int kind, uint32_t flags, enum shape shape)
{
	struct peerdma_ipc_transfer t[200];
	char *local = malloc(PART), *there = malloc(PART), *device = gpu_alloc(kind, PART);
	unsigned int paths[PEERDMA_IPC_PATHS] = { 0 };
	size_t bad = 0;

	for (size_t i = 0; i < PART; i++)
		local[i] = (char)(i * 7 + (i >> 8));
	gpu_put(device, local, PART);
	memset(there, 0, PART);
	gpu_put(m->ptr, there, PART);
	memset(t, 0, sizeof(t));
	for (size_t i = 0; i < 200; i++) {
		size_t offset, from, length;

		place(shape, i, &offset, &from, &length);
		t[i] = (struct peerdma_ipc_transfer) {
			.size = sizeof(t[0]), .flags = flags, .memory = m, .offset = offset, .local = device + from, .length = length,
		};
		memcpy(there + offset, local + from, length);
	}
	CHECK(!peerdma_ipc_copy(t, 200, NULL, 0), "200 copies within the GPU: %s", peerdma_last_error());
	for (int i = 0; i < 200; i++) {
		bad += t[i].error != 0;
		paths[t[i].path]++;
	}
	gpu_get(local, m->ptr, PART);
	CHECK(!bad && !memcmp(local, there, PART), "each byte in its place, none beside: %u by engines, %u by the kernel, %u by HSA",
	      paths[PEERDMA_IPC_PATH_CUDA], paths[PEERDMA_IPC_PATH_KERNEL], paths[PEERDMA_IPC_PATH_HSA]);
	/* And back, aligned: larger than a turn of the grid. */
	memset(local, 0, PART);
	gpu_put(device, local, PART);
	t[0] = (struct peerdma_ipc_transfer) {
		.size = sizeof(t[0]), .flags = flags | PEERDMA_IPC_READ, .memory = m, .local = device, .length = PART - 3,
	};
	CHECK(!peerdma_ipc_copy(t, 1, NULL, 0), "all of it, read");
	gpu_get(local, device, PART);
	CHECK(!memcmp(local, there, PART - 3) && !local[PART - 2], "as it is there, and no more");
	memset(local, 9, PART);		/* as it was */
	gpu_put(m->ptr, local, PART);
	gpu_free(kind, device, PART);
	free(local);
	free(there);
	return paths[PEERDMA_IPC_PATH_KERNEL];
}

/* One small copy after another, at odd places, of odd lengths, to and fro; with pauses in which a kernel that waits for them ends. */
static void one_by_one(struct peerdma_ipc_memory *m, int kind, bool kernels)
{
	char *local = malloc(PART), *there = malloc(PART), *device = gpu_alloc(kind, PART);
	static const size_t lengths[] = { 24591, 24592, 32769, 65535, 65536 };
	unsigned int paths[PEERDMA_IPC_PATHS] = { 0 };
	size_t bad = 0;

	for (size_t i = 0; i < PART; i++)
		local[i] = (char)(i * 11 + (i >> 8));
	memset(there, 0, PART);
	gpu_put(m->ptr, there, PART);
	gpu_put(device, local, PART);
	for (size_t i = 0; i < 1000; i++) {
		size_t offset = i % 3 ? i * 977 % (PART / 2) : i * 4096 % (PART / 2);
		size_t length = i % 50 == 0 ? lengths[i / 50 % 5] : i % 5 ? 1 + i * i % 700 : 16 * (i % 600) + i % 16;
		struct peerdma_ipc_transfer t = {
			.size = sizeof(t), .flags = PEERDMA_IPC_POLL | (i % 2 ? PEERDMA_IPC_READ : 0), .memory = m, .offset = offset,
			.local = device + offset + (i % 4 == 3 ? 5 : i % 8 == 1 ? 8 : 0), .length = length,
		};

		/* It ends after 500 us without a command. */
		if (i % 4 == 1)
			usleep(i % 200 == 1 ? 20000 : 400 + i % 200);
		bad += peerdma_ipc_copy(&t, 1, NULL, 0) || t.error;
		paths[t.path]++;
		memcpy(i % 2 ? local + ((char *)t.local - device) : there + offset, i % 2 ? there + offset : local + ((char *)t.local - device),
		       length);
	}
	for (int i = 0; i < 2; i++) {
		char *is = malloc(PART);

		gpu_get(is, i ? m->ptr : device, PART);
		bad += !!memcmp(is, i ? there : local, PART);
		free(is);
	}
	/* Memory that there was not when the kernel began. */
	for (int i = 0; i < 20; i++) {
		char *fresh = gpu_alloc(kind, 4096), is[64];
		struct peerdma_ipc_transfer t = {
			.size = sizeof(t), .flags = PEERDMA_IPC_POLL | PEERDMA_IPC_READ, .memory = m, .offset = (uint64_t)i * 64, .local = fresh,
			.length = sizeof(is),
		};

		bad += peerdma_ipc_copy(&t, 1, NULL, 0) || t.error;
		paths[t.path]++;
		gpu_get(is, fresh, sizeof(is));
		bad += !!memcmp(is, there + i * 64, sizeof(is));
		gpu_free(kind, fresh, 4096);
	}
	CHECK(!bad && (paths[PEERDMA_IPC_PATH_POLL] || !kernels), "1,020 small copies to and fro: %u by engines, %u by the kernel that waits for them, %u by HSA", paths[PEERDMA_IPC_PATH_CUDA],
	      paths[PEERDMA_IPC_PATH_POLL], paths[PEERDMA_IPC_PATH_HSA]);
	memset(local, 9, PART);		/* as it was */
	gpu_put(m->ptr, local, PART);
	gpu_free(kind, device, PART);
	free(local);
	free(there);
}

/* Small allocations that follow one another: on NVIDIA's GPUs in the same place of a block, which importers share. */
static void small(struct exporter *e, int kind)
{
	struct peerdma_ipc_memory *old = NULL, *m = NULL;
	struct answer a = ASK(e, EXPORT_SMALL, .kind = kind, .fill = 1, .value = 4096);
	uint8_t byte = 0;
	int ret;

	CHECK(!a.ret && !OPEN(&a.handle, &old), "4 KiB, not for any user, opened");
	a = ASK(e, EXPORT_SMALL, .kind = kind, .fill = 2, .value = 65536);
	CHECK(!a.ret && !peerdma_ipc_valid(old), "another one is there");
	ret = OPEN(&a.handle, &m);
	CHECK(!ret || ret == -EADDRINUSE, "opened, or the first is in the way: %d", ret);
	if (!ret)
		peerdma_ipc_close(m);
	CHECK(!peerdma_ipc_close(old) && !OPEN(&a.handle, &m) && m->length == 65536, "which is closed");
	gpu_get(&byte, (char *)m->ptr + 65535, 1);
	CHECK(byte == 2, "every byte is the second's");
	old = m;
	a = ASK(e, EXPORT_SMALL, .kind = kind, .fill = 3, .value = 65536);
	CHECK(!a.ret && !OPEN(&a.handle, &m), "of the same size: opened beside the old one");
	gpu_get(&byte, m->ptr, 1);
	CHECK(byte == 3 && peerdma_ipc_valid(m) && !peerdma_ipc_valid(old), "the new one, and the old one is known to have ended");
	CHECK(!peerdma_ipc_close(old) && !peerdma_ipc_close(m), "closed");
}

static void one_kind(int kind)
{
	struct exporter e = begin();
	struct answer a = ASK(&e, EXPORT_MEMORY, .kind = kind, .fill = 7);
	struct peerdma_ipc_memory *m = NULL, *again = NULL;
	struct peerdma_ipc_info info = { .size = sizeof(info) };
	struct peerdma_ipc_counters c = { .size = sizeof(c) };
	struct peerdma_ipc_handle first;
	char *local = malloc(PART);

	if (!gpu_begin()) {
		printf("skipped: this machine has no such GPU\n");
		exit(77);
	}
	if (a.ret == -ENXIO) {
		printf("# kind %d: not on this machine\n", kind);
		goto out;
	}
	if (!gpu_shared()) {
		/* A GPU inside the process is reached by no other. */
		a = ASK(&e, EXPORT_MEMORY, .kind = kind, .fill = 7, .value = PEERDMA_IPC_I_UNEXPORT);
		if (a.ret) {
			printf("# not exported: %d, %s\n", a.ret, a.text);
			CHECK(a.ret == -EOPNOTSUPP && strstr(a.text, "inside a process"));
		} else {
			CHECK(OPEN(&a.handle, &m) == -EIO, "exported as a descriptor, and not opened");
		}
		goto out;
	}
#ifdef HOOKS
	CHECK(!a.ret, "exported, and frees are seen: %d %s", a.ret, a.text);
#else
	CHECK(a.ret == -EOPNOTSUPP && strstr(a.text, "PEERDMA_IPC_I_UNEXPORT"), "frees are not seen: %d, %s", a.ret, a.text);
	a = ASK(&e, EXPORT_MEMORY, .kind = kind, .fill = 7, .value = PEERDMA_IPC_I_UNEXPORT);
	CHECK(!a.ret, "with a promise: %d %s", a.ret, a.text);
#endif
	first = a.handle;
	if (gpu_no_context(true)) {
		CHECK(OPEN(&a.handle, &m) == -ENODEV, "without a context");
		gpu_no_context(false);
	}
	CHECK(!OPEN(&a.handle, &m), "opened");
	CHECK(m->length == PART && reads_as(m, 7), "every byte is the exporter's");
	CHECK(!OPEN(&a.handle, &again) && again == m, "a second time: the same");
	peerdma_ipc_counters(&c);
	CHECK(c.hits >= 1, "by a lookup");
	peerdma_ipc_close(again);
	CHECK(!peerdma_ipc_query((char *)m->ptr + 10, &info) && !strcmp(info.provider, gpu_provider[kind]) && info.pid == e.pid &&
	      info.offset == OFFSET + 10 && info.live, "whose it is: %s", info.provider);
	CHECK(peerdma_ipc_export(m->ptr, 10, PEERDMA_IPC_I_UNEXPORT, &first) == -EEXIST, "an import is not exported");
	memset(local, 0, PART);
	CHECK(!transfer(m, local, PART, PEERDMA_IPC_READ) && local[0] == 7 && local[PART - 1] == 7, "copied from it");
	memset(local, 9, PART);
	CHECK(!transfer(m, local, PART, 0) && !ASK(&e, LOOK, .kind = kind, .fill = 9, .value = PART).ret, "copied to it");
	several(m, &e, kind);
	for (enum shape shape = ODD; shape < SHAPES; shape++)
		within(m, kind, 0, shape);
	one_by_one(m, kind, within(m, kind, PEERDMA_IPC_KERNEL, ODD));
	if (gpu_new_context()) {
		/* Memory of a pool is the process's, but softgpu ends it with a context. */
		CHECK(!OPEN(&a.handle, &again) && (is_pool(kind) || (again != m) == !strcmp(gpu_provider[kind], "cuda")),
		      "in another context: another mapping, if mappings are a context's");
		CHECK(!transfer(again, local, 100, PEERDMA_IPC_READ) && local[0] == 9, "which works");
		peerdma_ipc_close(m);
		m = again;
	}

	ASK(&e, FILL, .kind = kind, .fill = 4);
#ifdef HOOKS
	ASK(&e, FREE_BEHIND, .kind = kind, .fill = 66);
	CHECK(!peerdma_ipc_valid(m), "freed: importers know");
	CHECK(reads_as(m, 4) || (is_pool(kind) && reads_as(m, 66)), "what is open has the old bytes, and not those of the next allocation; a "
	      "pool may have given the memory to that");
	CHECK(OPEN(&a.handle, &again) == -ESTALE, "and the handle opens nothing");
	CHECK(transfer(m, local, 10, PEERDMA_IPC_READ) == -ESTALE, "nor is it copied");
	CHECK(!peerdma_ipc_close(m), "closed");
	a = ASK(&e, EXPORT_MEMORY, .kind = kind, .fill = 5);
#else
	CHECK(!peerdma_ipc_close(m), "closed");
	a = ASK(&e, EXPORT_MEMORY, .kind = kind, .fill = 5, .value = PEERDMA_IPC_I_UNEXPORT);
#endif
	CHECK(!a.ret && !OPEN(&a.handle, &m) && reads_as(m, 5), "the next one");
	if (!strcmp(gpu_provider[kind], "cuda"))
		small(&e, kind);
	ASK(&e, DIE);
	for (int i = 0; i < 500 && peerdma_ipc_valid(m); i++)
		usleep(10000);
	CHECK(!peerdma_ipc_valid(m), "the exporter was killed");
	CHECK(reads_as(m, 5), "what is open has its bytes");
	CHECK(transfer(m, local, 10, 0) == -EOWNERDEAD, "not copied to any more");
	CHECK(OPEN(&a.handle, &again) == -EOWNERDEAD, "nor opened");
	CHECK(!peerdma_ipc_close(m) && !peerdma_ipc_trim(), "closed");
	c.size = sizeof(c);
	peerdma_ipc_counters(&c);
	CHECK(!c.imports, "nothing is left: %llu", (unsigned long long)c.imports);
out:
	free(local);
	close(e.sock);
	waitpid(e.pid, NULL, 0);
}

/* Signals that are HSA's. */
static void hsa_signals(void)
{
	struct exporter e = begin();
	struct answer a = ASK(&e, SIGNAL, .kind = PEERDMA_IPC_HSA, .value = 5);
	struct peerdma_ipc_signal *s = NULL;

	if (!gpu_begin()) {
		printf("skipped: this machine has no such GPU\n");
		exit(77);
	}
	if (a.ret == -ENODEV) {
		close(e.sock);
		waitpid(e.pid, NULL, 0);
		return;
	}
	CHECK(!a.ret && !peerdma_ipc_signal_open(&a.handle, sizeof(a.handle), &s), "an HSA signal, opened");
	CHECK(peerdma_ipc_signal_hsa(s) && peerdma_ipc_signal_get(s) == 5, "its value");
	CHECK(!ASK(&e, SET, .value = 6).ret && !peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 6, 5000000000, NULL), "set by the other");
	CHECK(!peerdma_ipc_signal_add(s, 2) && !ASK(&e, WAIT, .value = 8).ret, "and by this one");
	CHECK(peerdma_ipc_signal_wait(s, PEERDMA_IPC_LT, 3, 30000000, NULL) == -EAGAIN, "a timeout");
	CHECK(peerdma_ipc_signal_stream_set(s, NULL, 1) == -EOPNOTSUPP, "no stream sets it");
	ASK(&e, DIE);
	CHECK(peerdma_ipc_signal_wait(s, PEERDMA_IPC_EQ, 1, 5000000000, NULL) == -EOWNERDEAD, "its creator was killed");
	CHECK(!peerdma_ipc_signal_close(s), "closed");
	close(e.sock);
	waitpid(e.pid, NULL, 0);
}

/* A process that used a GPU is not to be forked: each part is a child of one that has not, and forks before it does. */
int main(void)
{
	int bad = 0;

	for (int part = -1; part < 0 || gpu_provider[part]; part++) {
		int status = 0;
		pid_t pid;

		fflush(NULL);
		pid = fork();
		if (!pid) {
			if (part < 0)
				hsa_signals();
			else
				one_kind(part);
			exit(check_counts.failures ? 1 : 0);
		}
		waitpid(pid, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
			return 77;
		bad |= status;
	}
	return bad ? 1 : 0;
}
