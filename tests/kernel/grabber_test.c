// SPDX-License-Identifier: MIT
/*
 * grabber_test.c - the frame grabber writes into GPU memory by DMA: through dma-bufs of CUDA and of the bridge, and through
 * page views; and the memory is taken back while frames arrive.
 *
 *	grabber_test [freed | faulty N]
 *
 * Every frame has a checksum of the camera's, so a frame that is not whole, or landed elsewhere, is noticed.  freed: only
 * frees under the stream, ROUNDS times two of them.  faulty: only the Nth grabber, whose camera loses packets or sends others.
 */
#include <dlfcn.h>
#include <sys/syscall.h>

#include "../../peers/grabber/src/stream.h"
#include "peerdma_test_gpu.h"

#define WIDTH		320
#define HEIGHT		180
#define RATE		20
#define BUFFERS		4
#define FRAME_MS	10000	/* for one frame, at most */
#define DMABUF_HANDLE	1	/* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */

static char device[32];
static int rounds = 2;		/* of freeing memory under a stream */

struct place {
	int file;		/* /dev/peerdma, or -1 */
	int fd;			/* of the dma-buf */
	uint32_t handle;
	uint64_t va;
	size_t length;
};

/* ---- memory ---- */

static int (*handle_for_range)(void *handle, unsigned long long ptr, size_t size, int type, unsigned long long flags);

static size_t rounded(size_t length)
{
	return (length + GPU_PAGE - 1) / GPU_PAGE * GPU_PAGE;
}

/* CUDA's dma-buf: the memory stays while it is attached, freed or not. */
static void cuda_place(struct place *p, size_t length)
{
	*p = (struct place){ .file = -1, .fd = -1, .length = rounded(length) };
	p->va = gpu_alloc(p->length);
	MUST(!handle_for_range(&p->fd, p->va, p->length, DMABUF_HANDLE, 0));
}

/* The bridge's: the memory can be freed at any time. */
static void bridge_place(struct place *p, size_t length)
{
	struct peerdma_pin_args a;

	*p = (struct place){ .length = rounded(length) };
	p->file = dev_open();
	p->va = gpu_alloc(p->length);
	WORKS(pin_va(p->file, p->va, p->length, PEERDMA_PIN_DEVICE, &a));
	p->handle = a.handle;
	p->fd = export(p->file, a.handle, 0, 0);
	MUST(p->fd >= 0);
}

static void end_place(struct place *p, bool freed)
{
	close(p->fd);
	if (!freed)
		CHECK(!cu.MemFree(p->va));
	if (p->file >= 0)
		close(p->file);
}

/* What the GPU sees there. */
static bool whole(uint64_t va, size_t length, uint32_t *number)
{
	char *bytes = malloc(length);
	bool right;

	CHECK(!cu.MemcpyDtoH(bytes, va, length));
	right = frame_whole(bytes, length, number);
	free(bytes);
	return right;
}

/* ---- streams ---- */

static void begin_stream(struct stream *s)
{
	EXPECT(stream_open(s, device, WIDTH, HEIGHT, RATE), 0);
}

static void import_places(struct stream *s, struct place places[], void (*make)(struct place *p, size_t length))
{
	EXPECT(stream_buffers(s, V4L2_MEMORY_DMABUF, BUFFERS), 0);
	for (unsigned int i = 0; i < BUFFERS; i++) {
		make(&places[i], s->length);
		EXPECT(stream_queue(s, i, places[i].fd, NULL), 0);
	}
}

/* Takes frames: each is whole, and its number is the sequence number. */
static void take_frames(struct stream *s, struct place places[], int count)
{
	uint32_t number, last = UINT32_MAX;
	struct taken t;

	for (int i = 0; i < count; i++) {
		MUST(!stream_take(s, FRAME_MS, &t));
		CHECK(!t.error);
		CHECK(whole(places[t.index].va, s->picture, &number));
		EXPECT(number, t.sequence);
		CHECK(last == UINT32_MAX || number > last);
		last = number;
		EXPECT(stream_queue(s, t.index, places[t.index].fd, NULL), 0);
	}
}

static void stream_into(void (*make)(struct place *p, size_t length))
{
	long long dmabuf = (long long)grabber_counted("dmabuf_bytes"), host = (long long)grabber_counted("host_bytes"), frames = (long long)grabber_counted("frames");
	struct place places[BUFFERS];
	struct stream s;

	begin_stream(&s);
	import_places(&s, places, make);
	EXPECT(stream_start(&s), 0);
	take_frames(&s, places, 30);
	EXPECT(stream_stop(&s), 0);
	frames = (long long)grabber_counted("frames") - frames;
	CHECK(frames >= 30);
	/* And a part of the frame that was arriving at the end. */
	CHECK((long long)grabber_counted("dmabuf_bytes") - dmabuf >= frames * (long long)s.length);
	CHECK((long long)grabber_counted("dmabuf_bytes") - dmabuf < (frames + 1) * (long long)s.length);
	EXPECT((long long)grabber_counted("host_bytes") - host, 0);
	stream_close(&s);
	for (int i = 0; i < BUFFERS; i++)
		end_place(&places[i], false);
}

static void cuda_memory(void)
{
	stream_into(cuda_place);
}

static void bridge_memory(void)
{
	stream_into(bridge_place);
}

/* Frames after a buffer was freed: until it has come back, and so many of the others are whole. */
static void go_on(struct stream *s, struct place places[], unsigned int gone, unsigned int frames)
{
	unsigned int good = 0;
	bool back = false;
	uint32_t number;
	struct taken t;

	while (!back || good < frames) {
		MUST(!stream_take(s, FRAME_MS, &t));
		if (t.index == gone) {
			CHECK(!back);
			back = true;
			continue;
		}
		/* A frame that was arriving may be torn by the pause. */
		if (!t.error)
			good += CHECK(whole(places[t.index].va, s->picture, &number) && number == t.sequence);
		EXPECT(stream_queue(s, t.index, places[t.index].fd, NULL), 0);
	}
}

/* The memory goes back while frames arrive, and to the next owner: no byte of a frame lands there. */
static void free_two(char *pattern, char *seen)
{
	struct place places[BUFFERS];
	struct stream s;
	uint64_t next;

	begin_stream(&s);
	import_places(&s, places, bridge_place);
	EXPECT(stream_start(&s), 0);
	take_frames(&s, places, 3);
	for (unsigned int gone = 0; gone < 2; gone++) {
		usleep(r(60000));
		CHECK(!cu.MemFree(places[gone].va));
		next = gpu_alloc(places[gone].length);
		CHECK(!cu.MemcpyHtoD(next, pattern, places[gone].length));
		go_on(&s, places, gone, 6);
		CHECK(stream_queue(&s, gone, places[gone].fd, NULL) < 0);
		CHECK(!cu.MemcpyDtoH(seen, next, places[gone].length));
		CHECK(!memcmp(pattern, seen, places[gone].length));
		CHECK(!cu.MemFree(next));
	}
	EXPECT(stream_stop(&s), 0);
	stream_close(&s);
	for (int i = 0; i < BUFFERS; i++)
		end_place(&places[i], i < 2);
}

static void freed(void)
{
	char *pattern = malloc(MIB), *seen = malloc(MIB);

	memset(pattern, 0x5a, MIB);
	for (int i = 0; i < rounds; i++)
		free_two(pattern, seen);
	free(pattern);
	free(seen);
}

/* Freed while they are queued and no stream runs; and before they are queued. */
static void freed_before(void)
{
	struct place places[BUFFERS], gone;
	unsigned int errors = 0;
	struct stream s;
	struct taken t;

	begin_stream(&s);
	import_places(&s, places, bridge_place);
	CHECK(!cu.MemFree(places[1].va));
	EXPECT(stream_start(&s), 0);
	for (int i = 0; i < 8; i++) {
		MUST(!stream_take(&s, FRAME_MS, &t));
		errors += t.error;
		EXPECT(t.error, t.index == 1);
		if (!t.error)
			EXPECT(stream_queue(&s, t.index, places[t.index].fd, NULL), 0);
	}
	EXPECT(errors, 1);
	EXPECT(stream_stop(&s), 0);
	EXPECT(stream_buffers(&s, V4L2_MEMORY_DMABUF, BUFFERS), 0);
	bridge_place(&gone, s.length);
	CHECK(!cu.MemFree(gone.va));
	CHECK(stream_queue(&s, 0, gone.fd, NULL) < 0);
	stream_close(&s);
	end_place(&gone, true);
	for (int i = 0; i < BUFFERS; i++)
		end_place(&places[i], i == 1);
}

/* ---- host memory ---- */

static void host_frames(struct stream *s, void *at[], bool user)
{
	uint32_t number;
	struct taken t;

	for (unsigned int i = 0; i < BUFFERS; i++)
		EXPECT(stream_queue(s, i, -1, user ? at[i] : NULL), 0);
	EXPECT(stream_start(s), 0);
	for (int i = 0; i < 8; i++) {
		MUST(!stream_take(s, FRAME_MS, &t));
		CHECK(!t.error && frame_whole(at[t.index], s->picture, &number) && number == t.sequence);
		EXPECT(stream_queue(s, t.index, -1, user ? at[t.index] : NULL), 0);
	}
	EXPECT(stream_stop(s), 0);
}

static void mapped(void)
{
	void *at[BUFFERS];
	struct stream s;

	begin_stream(&s);
	EXPECT(stream_buffers(&s, V4L2_MEMORY_MMAP, BUFFERS), 0);
	for (unsigned int i = 0; i < BUFFERS; i++) {
		at[i] = stream_map(&s, i);
		MUST(at[i]);
	}
	host_frames(&s, at, false);
	for (unsigned int i = 0; i < BUFFERS; i++)
		munmap(at[i], s.length);
	stream_close(&s);
}

/*
 * Offsets in a page.  At its beginning the controller writes the frame, at an odd address the driver copies it; at 16 it
 * depends on the IOMMU, which may make one piece of the pages.
 */
static void user_pointers(void)
{
	static const size_t offsets[] = { 0, 16, 1 };

	for (unsigned int k = 0; k < sizeof(offsets) / sizeof(offsets[0]); k++) {
		long long copied = (long long)grabber_counted("copied_bytes");
		void *at[BUFFERS];
		char *memory[BUFFERS];
		struct stream s;

		begin_stream(&s);
		EXPECT(stream_buffers(&s, V4L2_MEMORY_USERPTR, BUFFERS), 0);
		for (int i = 0; i < BUFFERS; i++) {
			memory[i] = anonymous(s.length + 2 * PAGE);
			memset(memory[i], 0xee, s.length + 2 * PAGE);
			at[i] = memory[i] + offsets[k];
		}
		host_frames(&s, at, true);
		stream_close(&s);
		for (int i = 0; i < BUFFERS; i++) {
			/* Not a byte in front of the buffer or behind it. */
			for (size_t b = 0; b < offsets[k]; b++)
				CHECK((unsigned char)memory[i][b] == 0xee);
			for (size_t b = s.length + offsets[k]; b < s.length + 2 * PAGE; b++)
				CHECK((unsigned char)memory[i][b] == 0xee);
			munmap(memory[i], s.length + 2 * PAGE);
		}
		copied = (long long)grabber_counted("copied_bytes") - copied;
		CHECK(offsets[k] == 16 || (offsets[k] ? copied > 0 : !copied));
	}
}

/* ---- page views ---- */

static int pages(int fd, uint32_t handle, uint32_t flags)
{
	struct peerdma_pages_args a = { .size = sizeof(a), .handle = handle, .flags = flags };

	return ioctl(fd, PEERDMA_PAGES, &a) ? -1 : a.fd;
}

static char *map_pages(const struct place *p, uint32_t flags)
{
	int fd = pages(p->file, p->handle, flags);
	char *at;

	MUST(fd >= 0);
	at = mmap(NULL, p->length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(at != MAP_FAILED);
	close(fd);
	return at;
}

/* By address: V4L2 keeps the pages as long as it likes, so only a persistent view will do. */
static void page_views(void)
{
	struct place places[BUFFERS];
	uint32_t number;
	struct stream s;
	char *revocable;
	struct taken t;
	void *at[BUFFERS];

	begin_stream(&s);
	EXPECT(stream_buffers(&s, V4L2_MEMORY_USERPTR, BUFFERS), 0);
	for (int i = 0; i < BUFFERS; i++) {
		bridge_place(&places[i], s.length);
		at[i] = map_pages(&places[i], PEERDMA_PAGES_PERSISTENT);
	}
	revocable = map_pages(&places[0], 0);
	CHECK(stream_queue(&s, 0, -1, revocable) < 0);
	munmap(revocable, places[0].length);
	for (unsigned int i = 0; i < BUFFERS; i++)
		EXPECT(stream_queue(&s, i, -1, at[i]), 0);
	EXPECT(stream_start(&s), 0);
	for (int i = 0; i < 12; i++) {
		MUST(!stream_take(&s, FRAME_MS, &t));
		CHECK(!t.error && whole(places[t.index].va, s.picture, &number) && number == t.sequence);
		EXPECT(stream_queue(&s, t.index, -1, at[t.index]), 0);
	}
	/* A free succeeds, and the memory stays what it is until the stream has let go. */
	CHECK(!cu.MemFree(places[2].va));
	for (int i = 0; i < 8; i++) {
		MUST(!stream_take(&s, FRAME_MS, &t));
		CHECK(!t.error && frame_whole(at[t.index], s.picture, &number) && number == t.sequence);
		EXPECT(stream_queue(&s, t.index, -1, at[t.index]), 0);
	}
	EXPECT(stream_stop(&s), 0);
	stream_close(&s);
	for (int i = 0; i < BUFFERS; i++) {
		munmap(at[i], places[i].length);
		end_place(&places[i], i == 2);
	}
}

/* ---- bad input ---- */

static void bad_input(void)
{
	struct v4l2_format f = { .type = V4L2_BUF_TYPE_VIDEO_CAPTURE };
	struct place small, right;
	struct stream s;
	int file;

	begin_stream(&s);
	EXPECT(stream_buffers(&s, V4L2_MEMORY_DMABUF, BUFFERS), 0);
	cuda_place(&small, GPU_PAGE);
	cuda_place(&right, s.length);
	EXPECT(stream_queue(&s, 0, small.fd, NULL), -EFAULT);
	EXPECT(stream_queue(&s, 0, -1, NULL), -EINVAL);
	EXPECT(stream_queue(&s, 0, s.fd, NULL), -EINVAL);
	EXPECT(stream_queue(&s, BUFFERS + 40, right.fd, NULL), -EINVAL);
	/* The format is fixed as long as there are buffers. */
	CHECK(ioctl(s.fd, VIDIOC_G_FMT, &f) == 0 && ioctl(s.fd, VIDIOC_S_FMT, &f) && errno == EBUSY);
	/* One buffer is not enough to begin with; an import twice, as two buffers, is. */
	EXPECT(stream_queue(&s, 0, right.fd, NULL), 0);
	EXPECT(stream_queue(&s, 0, right.fd, NULL), -EINVAL);
	EXPECT(stream_start(&s), 0);
	EXPECT(stream_stop(&s), 0);
	/* Another open file has no say while this one has buffers. */
	file = open(device, O_RDWR | O_CLOEXEC);
	CHECK(file >= 0 && ioctl(file, VIDIOC_STREAMON, &f.type) && errno == EBUSY);
	close(file);
	stream_close(&s);
	end_place(&small, false);
	end_place(&right, false);
}

/* A buffer that is queued with other memory, which is refused: nothing of what it had stays. */
static void queued_in_vain(void)
{
	long long before, after;
	struct place right;
	struct stream s;

	EXPECT(stream_open(&s, device, 1920, 1080, RATE), 0);
	EXPECT(stream_buffers(&s, V4L2_MEMORY_DMABUF, BUFFERS), 0);
	cuda_place(&right, s.length);
	before = line_number("/proc/meminfo", "SUnreclaim:");
	for (int i = 0; i < 3000; i++) {
		EXPECT(stream_queue(&s, 0, right.fd, NULL), 0);
		EXPECT(stream_stop(&s), 0);
		EXPECT(stream_queue(&s, 0, -1, NULL), -EINVAL);
	}
	after = line_number("/proc/meminfo", "SUnreclaim:");
	CHECK(after - before < 8192, "%lld KiB more", after - before);
	stream_close(&s);
	end_place(&right, false);
}

/* ---- ends ---- */

/* A program of its own: CUDA does not work in a forked child. */
static void capture_until_killed(int peer)
{
	struct place places[BUFFERS];
	struct stream s;

	begin_stream(&s);
	import_places(&s, places, bridge_place);
	EXPECT(stream_start(&s), 0);
	take_frames(&s, places, 2);
	say(peer);
	for (;;)
		pause();
}

static int start_capture(int peer, void *unused)
{
	char number[16];

	(void)unused;
	snprintf(number, sizeof(number), "%d", peer);
	fcntl(peer, F_SETFD, 0);
	execl("/proc/self/exe", "grabber_test", "capture", number, (char *)NULL);
	return 1;
}

static void killed(void)
{
	int fd = dev_open();

	for (int round = 0; round < 3; round++) {
		struct process p = begin(start_capture, NULL);

		MUST(hear(p.peer));
		usleep(r(50000));
		kill(p.pid, SIGKILL);
		EXPECT(finish(&p), -SIGKILL);
		CHECK(UNTIL(!live_pins(fd)));
	}
	close(fd);
	check_none_left();
}

static void unbound(void)
{
	struct place places[BUFFERS];
	struct stream s;
	struct taken t;
	char slot[64], path[64], link[256];
	ssize_t n;
	int err;

	begin_stream(&s);
	import_places(&s, places, bridge_place);
	EXPECT(stream_start(&s), 0);
	take_frames(&s, places, 2);
	snprintf(path, sizeof(path), "/sys/class/video4linux/%s/device", device + 5);
	n = readlink(path, link, sizeof(link) - 1);
	MUST(n > 0);
	link[n] = 0;
	snprintf(slot, sizeof(slot), "%s", strrchr(link, '/') + 1);
	/* The module stays as long as a program has it open; the device does not. */
	CHECK(syscall(SYS_delete_module, "peerdma_grabber", O_NONBLOCK) && errno == EWOULDBLOCK);
	must_write(slot, "/sys/bus/pci/drivers/peerdma_grabber/unbind");
	do {
		err = stream_take(&s, FRAME_MS, &t);
	} while (!err);
	CHECK(err == -ENODEV || err == -EINVAL || err == -EIO);
	for (int i = 0; i < BUFFERS; i++)
		CHECK(!cu.MemFree(places[i].va));
	stream_close(&s);
	for (int i = 0; i < BUFFERS; i++)
		end_place(&places[i], true);
	must_write(slot, "/sys/bus/pci/drivers/peerdma_grabber/bind");
	CHECK(UNTIL(grabber_find(0, device)));
}

/* ---- cameras with faults ---- */

/* What is not said to be torn is whole, and after each fault frames come again. */
static void faulty(void)
{
	unsigned int good = 0, torn = 0, gaps = 0;
	struct place places[BUFFERS];
	uint32_t number, next = 0;
	struct stream s;
	struct taken t;

	begin_stream(&s);
	import_places(&s, places, cuda_place);
	EXPECT(stream_start(&s), 0);
	while (good < 40 && good + torn < 1000) {
		MUST(!stream_take(&s, FRAME_MS, &t));
		if (t.error) {
			torn++;
		} else {
			CHECK(whole(places[t.index].va, s.picture, &number));
			EXPECT(number, t.sequence);
			good++;
		}
		gaps += t.sequence != next;
		next = t.sequence + 1;
		EXPECT(stream_queue(&s, t.index, places[t.index].fd, NULL), 0);
	}
	printf("%u frames whole, %u torn, %u gaps\n", good, torn, gaps);
	EXPECT(good, 40);
	CHECK(torn + gaps > 0);
	EXPECT(stream_stop(&s), 0);
	stream_close(&s);
	for (int i = 0; i < BUFFERS; i++)
		end_place(&places[i], false);
}

int main(int argc, char **argv)
{
	const char *why = "";
	void *cuda;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (getenv("ROUNDS"))
		rounds = atoi(getenv("ROUNDS"));
	MUST(memory_open(&why), "%s", why);
	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	MUST(cuda);
	*(void **)&handle_for_range = dlsym(cuda, "cuMemGetHandleForAddressRange");
	MUST(handle_for_range);
	MUST(grabber_find(argc > 2 && !strcmp(argv[1], "faulty") ? (unsigned int)atoi(argv[2]) : 0, device));
	if (argc > 2 && !strcmp(argv[1], "capture"))
		capture_until_killed(atoi(argv[2]));
	if (argc == 2) {
		run("freed while frames arrive", freed);
		return check_end("grabber");
	}
	if (argc > 2) {
		run("a camera with faults", faulty);
		return check_end("grabber");
	}
	run("frames into CUDA's memory", cuda_memory);
	run("frames into memory that can be revoked", bridge_memory);
	run("freed while frames arrive", freed);
	run("freed before", freed_before);
	run("mapped buffers", mapped);
	run("user pointers", user_pointers);
	run("page views", page_views);
	run("bad input", bad_input);
	run("queued in vain", queued_in_vain);
	run("the program is killed", killed);
	run("the grabber goes away", unbound);
	return check_end("grabber");
}
