// SPDX-License-Identifier: MIT
/* main.c - options. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "smi.h"

struct options {
	const char *ids, *display, *gpu_fields, *app_fields, *file, *loop, *format;
	const char *detail;	/* the word: -q, --query */
	struct smi_format csv;
};

/* ---- which GPUs ---- */

static bool by_index(const char *id, nvmlDevice_t *device)
{
	nvmlReturn_t (*get)(unsigned int index, nvmlDevice_t *device);
	char *end;
	unsigned long n = strtoul(id, &end, 0);

	*(void **)&get = smi_call("nvmlDeviceGetHandleByIndex_v2");
	return get && end != id && !*end && n < SMI_GPUS && !get((unsigned int)n, device);
}

static bool by_text(const char *call, const char *id, nvmlDevice_t *device)
{
	nvmlReturn_t (*get)(const char *text, nvmlDevice_t *device);

	*(void **)&get = smi_call(call);
	return get && !get(id, device);
}

static bool add(struct smi *smi, const char *id)
{
	nvmlReturn_t (*index)(nvmlDevice_t device, unsigned int *index);
	struct smi_gpu *gpu = &smi->gpus[smi->count];

	*(void **)&index = smi_call("nvmlDeviceGetIndex");
	if (!index || smi->count == SMI_GPUS)
		return false;
	if (!by_index(id, &gpu->device) &&
	    !by_text("nvmlDeviceGetHandleByUUID", id, &gpu->device) &&
	    !by_text("nvmlDeviceGetHandleByPciBusId_v2", id, &gpu->device))
		return false;
	if (index(gpu->device, &gpu->index))
		return false;
	for (unsigned int i = 0; i < smi->count; i++)
		if (smi->gpus[i].index == gpu->index)
			return true;
	smi->count++;
	return true;
}

static int no_devices(void)
{
	puts("No devices were found");
	return SMI_NOT_FOUND;
}

static int select_gpus(struct smi *smi, const char *ids)
{
	nvmlReturn_t (*count)(unsigned int *count);
	char copy[4096], text[16];
	nvmlReturn_t result;

	*(void **)&count = smi_call("nvmlDeviceGetCount_v2");
	result = count ? count(&smi->total) : NVML_ERROR_FUNCTION_NOT_FOUND;
	if (result)
		return smi_fail("The GPUs cannot be counted", result);
	for (unsigned int i = 0; !ids && i < smi->total; i++) {
		snprintf(text, sizeof(text), "%u", i);
		add(smi, text);
	}
	if (ids && !*ids) {
		puts("Failed to parse device string on command line");
		return SMI_OTHER;
	}
	if (ids) {
		/* as in NVIDIA's command, GPUs that do not exist are left out */
		snprintf(copy, sizeof(copy), "%s", ids);
		for (char *id = strtok(copy, ","); id; id = strtok(NULL, ","))
			add(smi, id);
	}
	return smi->count ? SMI_OK : no_devices();
}

/* ---- options ---- */

static int parse_format(const char *words, struct smi_format *format)
{
	char copy[256];

	snprintf(copy, sizeof(copy), "%s", words);
	for (char *word = strtok(copy, ", "); word; word = strtok(NULL, ", ")) {
		if (!strcmp(word, "noheader"))
			format->noheader = true;
		else if (!strcmp(word, "nounits"))
			format->nounits = true;
		else if (strcmp(word, "csv")) {	/* the only one, also without the word */
			puts("Format modifier is not recognized.");
			return SMI_ARGUMENT;
		}
	}
	return SMI_OK;
}

struct option {
	const char *brief, *full;
	size_t to;		/* the member of struct options */
	bool may_lack;		/* its value */
};

#define TO(member) .to = offsetof(struct options, member)

static const struct option with_value[] = {
	{ "-i", "--id", TO(ids) }, { "-d", "--display", TO(display) },
	{ "-f", "--filename", TO(file) }, { "-l", "--loop", TO(loop), .may_lack = true },
	{ NULL, "--query-gpu", TO(gpu_fields) }, { NULL, "--query-compute-apps", TO(app_fields) },
	{ NULL, "--format", TO(format) },
};

/* Whether the word is this option; then *value is what stands behind "=", or NULL. */
static bool names(const char *word, const char *name, const char **value)
{
	size_t length = name ? strlen(name) : 0;

	if (!length || strncmp(word, name, length) || (word[length] && word[length] != '='))
		return false;
	*value = word[length] ? word + length + 1 : NULL;
	return true;
}

static const struct option *option(const char *word, const char **value)
{
	for (size_t k = 0; k < sizeof(with_value) / sizeof(with_value[0]); k++) {
		const struct option *its = &with_value[k];

		if (names(word, its->brief, value) || names(word, its->full, value))
			return its;
	}
	return NULL;
}

static bool is(const char *word, const char *brief, const char *full)
{
	return (brief && !strcmp(word, brief)) || !strcmp(word, full);
}

static int refuse(const char *word, const char *what, int ret)
{
	printf("ERROR: Option %s is %s. Please run 'nvidia-smi -h' for help.\n\n", word, what);
	return ret;
}

static int not_recognized(const char *word)
{
	printf("ERROR: Option %s is not recognized. Please run 'nvidia-smi -h'.\n\n", word);
	return SMI_OTHER;
}

static int parse(char **argv, struct options *o)
{
	const char *format = NULL;

	for (; *argv; argv++) {
		const char *word = *argv, *value;
		const struct option *its = option(word, &value);

		if (its) {
			if (!value && argv[1] && !(its->may_lack && argv[1][0] == '-'))
				value = *++argv;
			if (!value && !its->may_lack)
				return refuse(word, "missing its value", SMI_OTHER);
			*(const char **)((char *)o + its->to) = value ? value : "";
			format = its->to == offsetof(struct options, format) ? word : format;
		} else if (is(word, "-q", "--query")) {
			o->detail = word;
		} else {
			return not_recognized(word);
		}
	}
	if (format && !o->gpu_fields && !o->app_fields)
		return not_recognized(format);
	return o->format ? parse_format(o->format, &o->csv) : SMI_OK;
}

/* Options that NVIDIA's command does not take together. */
static int check(const struct options *o)
{
	if (o->detail && (o->gpu_fields || o->app_fields))
		return refuse(o->detail, "not recognized", SMI_ARGUMENT);
	if (!o->display || o->detail)
		return SMI_OK;
	puts("Invalid combination of input arguments. Specify -q/--query and -d/--display to run a filtered query. "
	     " Please run 'nvidia-smi -h' for help.\n");
	return SMI_ARGUMENT;
}

/* ---- what to print ---- */

static int print(const struct smi *smi, const struct options *o)
{
	if (o->gpu_fields)
		return smi_csv_gpus(smi, o->gpu_fields, o->csv);
	if (o->app_fields)
		return smi_csv_apps(smi, o->app_fields, o->csv);
	if (o->detail)
		return smi_detail(smi, o->display);
	return smi_summary(smi);
}

static int query(char **argv)
{
	struct smi smi = { 0 };
	struct options o = { 0 };
	unsigned int seconds;
	int ret = parse(argv, &o);

	if (!ret)
		ret = check(&o);
	if (!ret)
		ret = select_gpus(&smi, o.ids);
	if (!ret && o.file && !freopen(o.file, "we", stdout)) {
		fprintf(stderr, "%s cannot be written\n", o.file);
		ret = SMI_ARGUMENT;
	}
	if (ret)
		return ret;
	seconds = o.loop ? (unsigned int)strtoul(o.loop, NULL, 10) : 0;
	if (o.loop && !seconds)
		seconds = 5;
	for (;;) {
		ret = print(&smi, &o);
		fflush(stdout);
		if (ret || !seconds)
			return ret;
		sleep(seconds);
	}
}

/* ---- commands ---- */

static int list_gpus(char **argv)
{
	struct smi smi = { 0 };
	int ret = select_gpus(&smi, NULL);

	(void)argv;
	return ret ? ret : smi_list(&smi);
}

static int version(char **argv)
{
	(void)argv;
	return smi_version();
}

static bool one_of(const char *const words[], const char *word)
{
	while (*words && strcmp(*words, word))
		words++;
	return *words;
}

/* topo and nvlink: their only option, by its names, and -i. */
static int subcommand(char **argv, const char *const options[], const char *usage,
		      int (*run)(const struct smi *smi))
{
	const char *ids = NULL, *value;
	struct smi smi = { 0 };
	bool wanted = false;
	int ret;

	for (argv++; *argv; argv++) {
		if (one_of(options, *argv)) {
			wanted = true;
		} else if ((names(*argv, "-i", &value) || names(*argv, "--id", &value)) &&
			   (value || argv[1])) {
			ids = value ? value : *++argv;
		} else {
			printf("Option \"%s\" is not recognized.\n", *argv);
			return SMI_ARGUMENT;
		}
	}
	if (!wanted) {
		puts(usage);
		return SMI_OK;
	}
	ret = select_gpus(&smi, ids);
	return ret ? ret : run(&smi);
}

static int topo(char **argv)
{
	static const char *const options[] = { "-m", "-mp", "--matrix", NULL };

	return subcommand(argv, options, "nvidia-smi topo -m [-i GPU,...]: how the GPUs reach each other",
			  smi_topo);
}

static int nvlink(char **argv)
{
	static const char *const options[] = { "-s", "--status", NULL };

	return subcommand(argv, options, "nvidia-smi nvlink -s [-i GPU,...]: the NVLinks of the GPUs",
			  smi_nvlink);
}

static int help(char **argv)
{
	(void)argv;
	return smi_help();
}

static int help_fields(char **argv)
{
	(void)argv;
	return smi_help_fields(smi_fields);
}

static int help_app_fields(char **argv)
{
	(void)argv;
	return smi_help_fields(smi_app_fields);
}

static const struct command {
	const char *brief, *full;
	int (*run)(char **argv);
	bool library;		/* needs it */
	bool first;		/* must be the first word, and takes more of them */
} commands[] = {
	{ "-h", "--help", .run = help },
	{ NULL, "--help-query-gpu", .run = help_fields },
	{ NULL, "--help-query-compute-apps", .run = help_app_fields },
	{ NULL, "--version", .run = version, .library = true },
	{ "-L", "--list-gpus", .run = list_gpus, .library = true },
	{ NULL, "topo", .run = topo, .library = true, .first = true },
	{ NULL, "nvlink", .run = nvlink, .library = true, .first = true },
}, no_command = { .run = query, .library = true, .first = true };

static const struct command *command(char **argv)
{
	for (size_t k = 0; k < sizeof(commands) / sizeof(commands[0]); k++)
		for (char **word = argv; *word && !(commands[k].first && word > argv); word++)
			if (is(*word, commands[k].brief, commands[k].full))
				return &commands[k];
	return &no_command;
}

static int run(const struct command *c, char **argv)
{
	int ret;

	for (char **word = argv; *word && !c->first; word++)
		if (!is(*word, c->brief, c->full))
			return refuse(*word, "not valid for this command", SMI_ARGUMENT);
	ret = c->library ? smi_open() : SMI_OK;
	if (ret)
		return ret;
	ret = c->run(argv);
	if (c->library)
		smi_close();
	return ret;
}

int main(int argc, char **argv)
{
	int ret;

	(void)argc;
	/* Otherwise the library's first file becomes stdout, if the caller has closed that. */
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
			return SMI_OTHER;
	ret = run(command(argv + 1), argv + 1);
	if (fflush(stdout) || ferror(stdout))
		return SMI_OTHER;
	return ret;
}
