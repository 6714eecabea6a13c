/* SPDX-License-Identifier: MIT */
/*
 * doctor.h - checks, and what they find.
 *
 * A check is a file check_NAME.c with one `struct check`, listed in checks.c.
 * It reads through machine->tree only, and says() what it found: a verdict about
 * a subject, the evidence (file and value), what follows from it for the user,
 * and the one thing to change.  A check that cannot decide reports "cannot tell".
 *
 * The verdict on the machine is about paths (paths.h): which GPU's memory reaches which peer in
 * which way.  So a finding says which devices and ways it bears on.  It counts only if it decides
 * a path that is wanted; one that bears on no path counts by itself.
 */
#pragma once

#include <stdbool.h>

#include "machine/gpus.h"
#include "machine/machine.h"

enum verdict {			/* best first */
	VERDICT_OK,
	VERDICT_UNKNOWN,
	VERDICT_SLOW,
	VERDICT_BROKEN,
};

struct evidence {
	char *source, *value;	/* a file and what stands there; all text is cleaned */
};

/* How a peer can get a GPU's memory. */
enum way {
	WAY_DMABUF,	/* a dma-buf that the peer's driver imports */
	WAY_PEERMEM,	/* ibv_reg_mr() of the GPU's address, by a peer-memory client */
	WAY_NVP2P,	/* nvidia_p2p_get_pages() by the peer's own driver */
	WAY_P2PDMA,	/* the kernel's p2pdma: the memory has struct pages */
	WAY_COHERENT,	/* the processor's link to the GPU is: addresses are the processor's */
	WAY_HOST,	/* host memory, and a copy unless the GPU's memory is host memory */
	WAYS
};
#define WAY(way)	(1U << (way))
#define WAYS_RDMA	(WAY(WAY_DMABUF) | WAY(WAY_PEERMEM))
/* Those that go peer to peer over PCI Express */
#define WAYS_PCI	(WAYS_RDMA | WAY(WAY_NVP2P) | WAY(WAY_P2PDMA))
#define WAYS_ALL	((1U << WAYS) - 1)

/* For a finding: on any path, and on none. */
#define ANY_DEVICE	(-1)
#define NO_DEVICE	(-2)

#define EVIDENCE_MAX 8
struct finding {
	const struct check *check;
	enum verdict verdict;
	unsigned int ways;	/* that it bears on; 0: none, it counts by itself */
	/* on paths that both are on, as ends or as a bridge above one */
	int device, other;
	enum device_kind peer;	/* and to such peers only; DEVICE_OTHER: to any */
	unsigned int vendor;	/* and of that maker's GPUs only; 0: of any */
	bool counts;		/* weigh() says it: the machine's verdict depends on it */
	bool ignored;		/* by --ignore or the configuration */
	char *subject;		/* "GPU0", "GPU0 and NIC1", "this machine" */
	struct evidence evidence[EVIDENCE_MAX];
	unsigned int evidence_count;
	char *consequence;	/* NULL: none worth saying */
	char *remedy;		/* NULL: nothing to do */
	unsigned int order;	/* of being said */
};

/* A transfer that a probe has made, or could not: the memory was not registered for it. */
enum moved_result { MOVED_EQUAL, MOVED_DIFFERS, MOVED_FAILED, MOVED_NOT_COMPARED, MOVED_NOT_TAKEN };
struct moved {
	char *between, *way;		/* "GPU0 and NIC0 (mlx5_0)", "dma-buf" */
	char *operation;		/* "RDMA write to the GPU"; "" none was tried */
	unsigned int bytes;		/* 0: none was tried */
	enum moved_result result;
	char *why;			/* NULL: they are equal */
};

/* Two devices worth a way between them: a GPU and the nearest of each other kind, or the pair asked for. */
struct pair {
	unsigned int a, b;	/* indexes of devices */
	enum path_class path;
	int meet;
	int passed;		/* a peer that is nearer, and cannot work; -1: none */
};

struct path_table;
struct wanted;
struct cufile;

struct doctor {
	struct machine *machine;
	struct tree *tree;		/* machine's */
	bool chosen;			/* a pair was asked for */
	bool probe;			/* data may be moved */
	const struct wanted *wanted;	/* NULL: what the machine is plainly there for */
	struct pair *pairs;
	unsigned int pair_count;
	struct path_table *paths;
	struct gpus gpus;		/* NVML's, valid if gpus_error is 0 */
	int gpus_error;
	struct cufile *cufile;		/* storage.h; NULL: not read yet */
	const struct check *check;	/* the running one */
	struct finding *findings;
	unsigned int count, room;
	struct moved *moved;
	unsigned int moved_count;
	bool no_memory;
};

struct check {
	const char *name;	/* "bar1-size": in JSON */
	const char *title;	/* "Size of BAR1" */
	bool (*applies)(const struct doctor *d);	/* NULL: to every machine */
	void (*run)(struct doctor *d);
};

/* checks.c: in the order of their telling, ended by NULL. */
extern const struct check *const checks[];

struct doctor_options {
	int a, b;			/* indexes of devices; -1: the whole machine */
	bool probe;
	const struct wanted *wanted;	/* wanted.h; NULL: by what is there */
};

/* 0, or -ENOMEM. */
int doctor_run(struct doctor *d, struct machine *m, const struct doctor_options *options);
void doctor_free(struct doctor *d);
/* That of the paths that are wanted, and of broken findings that bear on none. */
enum verdict doctor_verdict(const struct doctor *d);

/* ---- findings.c: for checks ------------------------------------------------ */

const char *verdict_word(enum verdict v);

#define PRINTF(n)	__attribute__((format(printf, n, (n) + 1)))

/* Never NULL.  Out of memory is remembered and ends doctor_run(). */
struct finding *say(struct doctor *d, enum verdict v, const char *subject, ...) PRINTF(3);
/* The same about a device, or a pair, and what it bears on. */
struct finding *say_device(struct doctor *d, enum verdict v, unsigned int device,
			   unsigned int ways);
struct finding *say_pair(struct doctor *d, enum verdict v, const struct pair *p,
			 unsigned int ways);
/* The same about the software of one maker's GPUs. */
struct finding *say_maker(struct doctor *d, enum verdict v, unsigned int vendor, unsigned int ways,
			  const char *subject, ...) PRINTF(5);
void evidence(struct doctor *d, struct finding *f, const char *source, const char *value,
	      ...) PRINTF(4);
void consequence(struct doctor *d, struct finding *f, const char *text, ...) PRINTF(3);
void remedy(struct doctor *d, struct finding *f, const char *text, ...) PRINTF(3);

/*
 * The same, if only the machine's owner can do it: in a virtual machine it is to ask its provider for
 * `ask` ("a GPU whose BARs all have addresses"); NULL: there is nothing to ask for.
 */
void remedy_owner(struct doctor *d, struct finding *f, const char *ask, const char *text, ...)
	PRINTF(4);

/* Evidence that a file says what it says, or why it cannot be read. */
void evidence_file(struct doctor *d, struct finding *f, const char *path);
/* The same of a device's file in sysfs. */
void evidence_device(struct doctor *d, struct finding *f, const struct device *device,
		     const char *file);

/* Is it printed?  all: --all */
bool finding_is_shown(const struct finding *f, bool all);

/* NULL: neither is one */
const struct device *pair_gpu(const struct doctor *d, const struct pair *p);
/* The device has a label; if the user named a pair, it is one of the two. */
bool device_concerned(const struct doctor *d, unsigned int i);
/* Has the GPU memory for peers?  Not if it is a virtual machine's. */
bool path_of_gpu(const struct doctor *d, unsigned int device);
bool any_gpu_of(const struct doctor *d, unsigned int vendor);
/* A GPU that is concerned, of that maker (0: of any), and whose memory is there */
bool is_gpu_with(const struct doctor *d, unsigned int i, unsigned int vendor,
		 enum gpu_memory memory);
bool any_gpu_with(const struct doctor *d, unsigned int vendor, enum gpu_memory memory);
/* One whose memory is not the processor's own */
bool any_gpu_apart(const struct doctor *d, unsigned int vendor);
/* Neither is a GPU, or it has its memory behind a BAR: what they do to each other goes peer to peer over PCI. */
bool pair_is_pci(const struct doctor *d, const struct pair *p);
bool any_of_kind(const struct doctor *d, enum device_kind kind);
#define VENDOR_NVIDIA	0x10deU
#define VENDOR_AMD	0x1002U

/* software.c: what several checks ask of the system. */
enum answer { ANSWER_NO, ANSWER_YES, ANSWER_UNKNOWN };

struct driver_release {
	bool known, opened;
	unsigned int major, minor, patch;
	char text[32];
};
#define NVIDIA_VERSION	"/proc/driver/nvidia/version"
void nvidia_release(struct doctor *d, struct driver_release *out);

#define DRIVER_ROOT	"/run/nvidia/driver"
/* NVIDIA's driver is not installed on this machine: a container of its GPU operator has it, there. */
bool driver_in_container(struct doctor *d);
/* Also one that is built into the kernel. */
bool module_loaded(struct doctor *d, const char *name);
/* Of a fixed list of symbols: software.c has it. */
enum answer kernel_symbol(struct doctor *d, const char *name);
/* Has the module, which is loaded, a function that registers dma-bufs for an RDMA device? */
enum answer driver_imports_dmabuf(struct doctor *d, const char *driver);
const char *answer_word(enum answer a);		/* "yes" */
/* 'y', 'm', 'n', or '?': the kernel's configuration is nowhere.  file: where it stands. */
char kernel_config(struct doctor *d, const char *name, char file[128]);
void evidence_config(struct doctor *d, struct finding *f, const char *name, char has,
		     const char *file);
/* The running kernel is at least this one. */
enum answer kernel_at_least(const struct doctor *d, unsigned int major, unsigned int minor);
/* A kernel that has what CONFIG_DMABUF_MOVE_NOTIFY chose before there was no such option any more. */
bool always_moves(const struct doctor *d);

/* ---- moved.c: for probes ---------------------------------------------------- */

void moved(struct doctor *d, const char *between, const char *way, const char *operation,
	   unsigned int bytes, enum moved_result result, const char *why);
void moved_compared(struct doctor *d, const char *between, const char *way, const char *operation,
		    unsigned int bytes, unsigned int wrong, unsigned int first);
void moved_free(struct doctor *d);
void moved_text(const struct doctor *d);
struct json_object;
void moved_json(const struct doctor *d, struct json_object *array);

/* ---- render.c --------------------------------------------------------------- */

struct tool;
/* wrap.c: "label     text" in lines of the terminal's width. */
void render_wrapped(const struct tool *tool, const char *label, const char *text);
void render_text(const struct doctor *d, const struct tool *tool, bool all);
int render_json(const struct doctor *d);	/* the exit code of printing */
/* render_paths.c: what works, first. */
void render_headline(const struct doctor *d);
void render_paths(const struct doctor *d, const struct tool *tool, bool all);
void render_paths_json(const struct doctor *d, struct json_object *o);
