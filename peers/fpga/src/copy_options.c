// SPDX-License-Identifier: MIT
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "copy_options.h"
#include "gpu.h"
#include "util.h"

#define DEFAULT_FILE	"/usr/share/common-licenses/GPL-3"

static const char usage_text[] =
"usage: fpga-copy [options]\n"
"Copies GPU memory through FPGA cards into GPU memory, by DMA, and validates the result.\n"
"\n"
"  --gpu-src N, --gpu-dst N   which GPU's memory (default 0, both); amd:N is HIP's,\n"
"                             tegra:N cudaHostAlloc's on a Tegra (tegra-wc:N: write-combined),\n"
"                             dmabuf:N and amd-dmabuf:N by a dma-buf\n"
"  --host-src, --host-dst     host memory instead; --host is both\n"
"  --size SIZE                default 64K; K, M and G are known\n"
"  --cards LIST               all (default), or as in 0,2: they work in parallel\n"
"  --file [PATH]              carries this file from host memory into the destination and\n"
"                             compares its SHA-256 (default " DEFAULT_FILE ")\n"
"  --bounce                   the same job through a buffer in host memory\n"
"  --revoke                   frees the destination under the copy: the DMA must stop\n"
"  --seed N                   of the pattern that is copied (default 1)\n"
"  --list                     shows the cards\n"
"  --json                     the result for programs\n"
"  --help\n"
"\n"
"exit code: 0 the result is right; 1 it is wrong; 2 usage; 3 a GPU, a card or a\n"
"driver is missing; 4 the copy failed.\n"
"One transfer of a card takes 100 ms and carries 4092 bytes: 20 KB/s a card.\n";

static int parse_gpu(const char *given, const struct gpu_make **make)
{
	const char *text = given;
	char *end;
	long index;

	*make = gpu_make(given, &text);
	if (!*make)
		*make = &make_nvidia;
	index = strtol(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || index < 0 || index >= GPUS_MAX) {
		fprintf(stderr, "fpga-copy: '%s' is no GPU: give its index, 0 to %d\n", given,
			GPUS_MAX - 1);
		exit(EXIT_USAGE);
	}
	return (int)index;
}

void options_parse(int argc, char **argv, struct options *opt)
{
	enum { GPU_SRC = 1, GPU_DST, HOST_SRC, HOST_DST, HOST_BOTH, SIZE, CARDS, FILE_, BOUNCE,
	       REVOKE, SEED, LIST, JSON, HELP };
	static const struct option longs[] = {
		{ "gpu-src", required_argument, NULL, GPU_SRC },
		{ "gpu-dst", required_argument, NULL, GPU_DST },
		{ "host-src", no_argument, NULL, HOST_SRC },
		{ "host-dst", no_argument, NULL, HOST_DST },
		{ "host", no_argument, NULL, HOST_BOTH },
		{ "size", required_argument, NULL, SIZE },
		{ "cards", required_argument, NULL, CARDS },
		{ "file", optional_argument, NULL, FILE_ },
		{ "bounce", no_argument, NULL, BOUNCE },
		{ "revoke", no_argument, NULL, REVOKE },
		{ "seed", required_argument, NULL, SEED },
		{ "list", no_argument, NULL, LIST },
		{ "json", no_argument, NULL, JSON },
		{ "help", no_argument, NULL, HELP },
		{ 0 }
	};
	const char *conflict = NULL;
	char *end;
	int c;

	*opt = (struct options){
		.size = 64 << 10, .seed = 1, .cards = "all", .src_make = &make_nvidia, .dst_make = &make_nvidia,
	};
	argv[0] = (char *)"fpga-copy";	/* so that getopt's messages begin as all others do */
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case GPU_SRC:
			opt->src = parse_gpu(optarg, &opt->src_make);
			break;
		case GPU_DST:
			opt->dst = parse_gpu(optarg, &opt->dst_make);
			break;
		case HOST_SRC:
			opt->src = HOST;
			break;
		case HOST_DST:
			opt->dst = HOST;
			break;
		case HOST_BOTH:
			opt->src = opt->dst = HOST;
			break;
		case SIZE:
			if (!parse_size(optarg, &opt->size)) {
				fprintf(stderr, "fpga-copy: '%s' is no size: give for example 64K\n",
					optarg);
				exit(EXIT_USAGE);
			}
			break;
		case CARDS:
			opt->cards = optarg;
			break;
		case FILE_:
			/* getopt_long() takes an optional argument only behind "=". */
			if (!optarg && optind < argc && *argv[optind] != '-')
				optarg = argv[optind++];
			opt->file = optarg ? optarg : DEFAULT_FILE;
			break;
		case BOUNCE:
			opt->bounce = true;
			break;
		case REVOKE:
			opt->revoke = true;
			break;
		case SEED:
			errno = 0;
			opt->seed = strtoull(optarg, &end, 0);
			if (*optarg < '0' || *optarg > '9' || *end || errno) {
				fprintf(stderr, "fpga-copy: '%s' is no seed: give a number\n", optarg);
				exit(EXIT_USAGE);
			}
			break;
		case LIST:
			opt->list = true;
			break;
		case JSON:
			opt->json = true;
			break;
		case HELP:
			fputs(usage_text, stdout);
			exit(EXIT_OK);
		default:
			fprintf(stderr, "fpga-copy --help tells more\n");
			exit(EXIT_USAGE);
		}
	}
	if (optind < argc)
		conflict = "there are no arguments besides options";
	else if (opt->revoke && (opt->bounce || opt->file || opt->dst == HOST))
		conflict = "--revoke frees a GPU's memory: not with --bounce, --file or --host-dst";
	else if (opt->bounce && opt->src == HOST && opt->dst == HOST)
		conflict = "--bounce needs a GPU at one end";
	else if (opt->file && opt->src > 0)
		conflict = "--file comes from host memory: not with --gpu-src";
	if (conflict) {
		fprintf(stderr, "fpga-copy: %s\n", conflict);
		exit(EXIT_USAGE);
	}
	if (opt->file)
		opt->src = HOST;
}
