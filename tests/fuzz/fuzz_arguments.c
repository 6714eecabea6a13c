// SPDX-License-Identifier: MIT
/* fpga-copy's arguments, one a line: understood, or said to be wrong. */
#include <getopt.h>
#include <setjmp.h>

#include "fuzz.h"

/* copy_options.c is compiled with this for exit(). */
void fuzz_exit(int code) __attribute__((noreturn));

#include "../../peers/fpga/src/copy_options.h"
#include "../../peers/fpga/src/gpu.h"
#include "../../peers/fpga/src/util.h"

static jmp_buf ended;

void fuzz_exit(int code)
{
	longjmp(ended, code + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *argv[32] = { "fpga-copy" };
	struct options opt;
	int argc = 1, ended_with;

	for (char *line = strtok(text, "\n"); line && argc < 31; line = strtok(NULL, "\n"))
		argv[argc++] = line;
	optind = 0;
	ended_with = setjmp(ended);
	if (!ended_with) {
		options_parse(argc, argv, &opt);
		MUST(opt.size && opt.src < GPUS_MAX && opt.dst < GPUS_MAX);
		MUST(!opt.revoke || !opt.bounce);
	} else {
		MUST(ended_with == EXIT_OK + 1 || ended_with == EXIT_USAGE + 1);
	}
	free(text);
	return 0;
}
