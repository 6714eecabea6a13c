// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "fpga_ioctl.h"
#include "state.h"

#define DEADLINE_S	10

const char *module_names[MODULES] = {
	"softgpu", "nvidia", "amdgpu", "dmabuf_mover", "peerdma", "peerdma_nvidia", "peerdma_amd", "peerdma_fpga",
};

void state_of_tegra(void)
{
	module_names[1] = "nvidia_p2p";
	module_names[5] = "peerdma_tegra";
}

static bool slurp(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, buf, size - 1);
	close(fd);
	buf[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* The number after a word at the start of a line. */
static uint64_t field(const char *text, const char *key)
{
	size_t n = strlen(key);

	for (; text; text = strchr(text, '\n'), text += text != NULL) {
		if (!strncmp(text, key, n) && strchr(":\t ", text[n]))
			return strtoull(text + n + 1, NULL, 0);
	}
	fprintf(stderr, "stress: a file below /sys or /proc has no line \"%s\"\n", key);
	exit(1);
}

static void read_gpus(struct state *s)
{
	char path[64], text[4096];

	for (s->gpus = 0; s->gpus < MAX_GPUS; s->gpus++) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/softgpu/%d/info", s->gpus);
		if (!slurp(path, text, sizeof(text)))
			break;
		s->gpu[s->gpus].pins = field(text, "pins");
		s->gpu[s->gpus].vram_free = field(text, "vram_free");
		s->gpu[s->gpus].clients = field(text, "clients");
		snprintf(path, sizeof(path), "/sys/kernel/debug/softgpu/%d/bar1", s->gpus);
		if (slurp(path, text, sizeof(text)))
			s->gpu[s->gpus].bar1_used = field(text, "used");
	}
}

static void read_cards(struct state *s)
{
	struct fpga_info info;
	char path[32];
	int fd;

	for (s->cards = 0; s->cards < MAX_CARDS; s->cards++) {
		snprintf(path, sizeof(path), "/dev/fpga%d", s->cards);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			break;
		memset(&info, 0, sizeof(info));
		info.size = sizeof(info);
		if (!ioctl(fd, FPGA_INFO, &info)) {
			s->card_pins += info.pins;
			s->card_mappings += info.mappings;
		}
		close(fd);
	}
}

void state_read(struct state *s, bool slow)
{
	char path[64], text[16384];
	int i;

	memset(s, 0, sizeof(*s));
	read_gpus(s);
	if (slurp("/sys/kernel/debug/peerdma/stats", text, sizeof(text))) {
		s->live = field(text, "live");
		s->pins = field(text, "pins");
		s->unpins = field(text, "unpins");
		s->maps = field(text, "maps");
		s->unmaps = field(text, "unmaps");
	}
	read_cards(s);
	if (!slow)
		return;
	for (i = 0; i < MODULES; i++) {
		snprintf(path, sizeof(path), "/sys/module/%s/refcnt", module_names[i]);
		s->refs[i] = slurp(path, text, sizeof(text)) ? atoi(text) : -1;
	}
	/* Brings the counters of all CPUs together. */
	slurp("/proc/sys/vm/stat_refresh", text, sizeof(text));
	if (slurp("/proc/vmstat", text, sizeof(text)))
		s->gup_pins = field(text, "nr_foll_pin_acquired") -
			      field(text, "nr_foll_pin_released");
}

/* What differs, as text; false if nothing does. */
static bool differs(const struct state *s, const struct state *idle, bool slow, char *why, int size)
{
	int i, n = 0;

	*why = 0;
#define SAY(...) do { if (n < size) n += snprintf(why + n, size - n, __VA_ARGS__); } while (0)
	if (s->gpus != idle->gpus || s->cards != idle->cards)
		SAY("%d GPUs and %d cards, not %d and %d; ", s->gpus, s->cards, idle->gpus,
		    idle->cards);
	for (i = 0; i < idle->gpus; i++) {
		if (s->gpu[i].pins)
			SAY("GPU %d has %llu pins; ", i, (unsigned long long)s->gpu[i].pins);
		if (s->gpu[i].clients)
			SAY("GPU %d has %llu open files; ", i, (unsigned long long)s->gpu[i].clients);
		if (s->gpu[i].vram_free != idle->gpu[i].vram_free)
			SAY("%lld bytes of VRAM of GPU %d are missing; ",
			    (long long)(idle->gpu[i].vram_free - s->gpu[i].vram_free), i);
		if (s->gpu[i].bar1_used != idle->gpu[i].bar1_used)
			SAY("%lld bytes of BAR1 of GPU %d are not given back; ",
			    (long long)(s->gpu[i].bar1_used - idle->gpu[i].bar1_used), i);
	}
	if (s->live || s->pins != s->unpins)
		SAY("peerdma: %llu pins are live, %llu were begun and %llu ended; ",
		    (unsigned long long)s->live, (unsigned long long)s->pins,
		    (unsigned long long)s->unpins);
	if (s->maps != s->unmaps)
		SAY("peerdma: %llu mappings were made and %llu taken back; ",
		    (unsigned long long)s->maps, (unsigned long long)s->unmaps);
	if (s->card_pins || s->card_mappings)
		SAY("the cards hold %llu pins and %llu mappings; ", (unsigned long long)s->card_pins,
		    (unsigned long long)s->card_mappings);
	for (i = 0; slow && i < MODULES; i++) {
		if (s->refs[i] != idle->refs[i])
			SAY("%s has %d references, not %d; ", module_names[i], s->refs[i],
			    idle->refs[i]);
	}
	if (slow && s->gup_pins != idle->gup_pins)
		SAY("%lld pages of host memory are pinned; ",
		    (long long)(s->gup_pins - idle->gup_pins));
#undef SAY
	return n > 0;
}

bool state_settled(const struct state *idle, bool slow, char *why, int size)
{
	struct timespec nap = { .tv_nsec = 1000000 };
	time_t end = time(NULL) + DEADLINE_S * patience();
	struct state s;

	for (;;) {
		state_read(&s, slow);
		if (!differs(&s, idle, slow, why, size))
			return true;
		if (time(NULL) > end)
			return false;
		nanosleep(&nap, NULL);
		if (nap.tv_nsec < 50000000)
			nap.tv_nsec *= 2;
	}
}
