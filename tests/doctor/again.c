// SPDX-License-Identifier: MIT
/*
 * again.c - the peerdma command many times in one process: again REQUESTS ANSWERS, two file descriptors.
 *
 * With AddressSanitizer a process takes 30 ms of processor time to begin, and to look for leaks when it ends; the command
 * itself takes 20.  Tests of the doctor run it a thousand times.
 *
 * A request is a line with the number of words, and the words, each ended by a NUL; the answer is a line with the exit code.
 * Standard output and standard error are files that case.py reads and empties.  Leaks are found when the process ends.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS_MAX	32

int peerdma_main(int argc, char **argv);

static char *read_word(FILE *from)
{
	char *word = NULL;
	size_t room = 0;

	if (getdelim(&word, &room, 0, from) < 0)
		abort();
	return word;
}

int main(int argc, char **argv)
{
	FILE *in = argc == 3 ? fdopen(atoi(argv[1]), "r") : NULL;
	FILE *out = argc == 3 ? fdopen(atoi(argv[2]), "w") : NULL;
	unsigned int count;

	while (in && out && fscanf(in, "%u", &count) == 1 && count < WORDS_MAX &&
	       getc(in) == '\n') {
		/* The command changes the first list: getopt() sorts it. */
		char *words[WORDS_MAX + 1] = { NULL }, *own[WORDS_MAX];
		int code;

		for (unsigned int i = 0; i < count; i++)
			words[i] = own[i] = read_word(in);
		optind = 0;		/* as a new process has it */
		code = peerdma_main((int)count, words);
		fflush(stdout);
		fprintf(out, "%d\n", code);
		fflush(out);
		for (unsigned int i = 0; i < count; i++)
			free(own[i]);
	}
	if (in)
		fclose(in);
	if (out)
		fclose(out);
	return 0;
}
