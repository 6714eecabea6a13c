// SPDX-License-Identifier: MIT
/*
 * The ioctls of /dev/softgpuN as a program makes them: file.c of the module is compiled
 * over kernel.h, on the core.  Structs of any size at an address that may end or vanish;
 * from the process that opened the file, from another, and after exec.
 *
 * The core's own arguments are the business of `calls`.  Here nothing is written beyond
 * the caller's struct, what the header says must be refused is, and a call that could
 * not give its answer back has not been made.
 */
#include "util.h"

#include "clients/clients.h"

#include "kernel/kernel.h"

/* ---- what else of the kernel a character device needs ---- */

typedef int vm_fault_t;
typedef unsigned short umode_t;
struct module;
struct inode {
	int minor;
};
struct vm_area_struct;
struct vm_fault;
struct vm_operations_struct {
	vm_fault_t (*fault)(struct vm_fault *vmf);
};
struct vm_area_struct {
	unsigned long vm_flags, vm_pgoff;
	const struct vm_operations_struct *vm_ops;
};
struct file_operations {
	struct module *owner;
	int (*open)(struct inode *inode, struct file *filp);
	int (*release)(struct inode *inode, struct file *filp);
	long (*unlocked_ioctl)(struct file *filp, unsigned int cmd, unsigned long arg);
	long (*compat_ioctl)(struct file *filp, unsigned int cmd, unsigned long arg);
	int (*mmap)(struct file *filp, struct vm_area_struct *vma);
};
struct class {
	char *(*devnode)(struct device *dev, umode_t *mode);
};
struct cdev {
	struct module *owner;
};
struct pid {
	int refs;
};
struct mm_struct {
	int refs;
};
struct task {
	struct pid *pid;
	struct mm_struct *mm;
};
static struct task task, *const current = &task;

#define VM_READ		1ul
#define VM_WRITE	2ul
#define VM_EXEC		4ul
#define VM_SHARED	8ul
#define VM_MAYWRITE	0x20ul
#define VM_MAYEXEC	0x40ul
#define VM_PFNMAP	0x400ul
#define VM_IO		0x4000ul
#define VM_DONTCOPY	0x20000ul
#define VM_DONTEXPAND	0x40000ul
#define VM_DONTDUMP	0x4000000ul
#define KBUILD_MODNAME	"softgpu"
#define THIS_MODULE	NULL
#define MINOR(dev)	((u32)((dev) & 0xff))
#define DEFINE_MUTEX(name)	struct mutex name
#define LIST_HEAD(name)		struct list_head name = { &(name), &(name) }
#define PTR_ERR_OR_ZERO(p)	(IS_ERR(p) ? PTR_ERR(p) : 0)
#define compat_ptr_ioctl	NULL

static inline u32 iminor(const struct inode *inode)
{
	return (u32)inode->minor;
}

/* Everybody is the same user. */
#define from_kuid(ns, uid)	(uid)
#define current_euid()	0u

static inline struct pid *get_pid(struct pid *pid)
{
	pid->refs++;
	return pid;
}

static inline void put_pid(struct pid *pid)
{
	MUST(pid->refs-- > 0);
}

static inline struct pid *task_tgid(const struct task *t)
{
	return t->pid;
}

static inline void mmgrab(struct mm_struct *mm)
{
	mm->refs++;
}

static inline void mmdrop(struct mm_struct *mm)
{
	MUST(mm->refs-- > 0);
}

static inline void *kzalloc(size_t size, int flags)
{
	return memory_short ? NULL : calloc(1, size);
}

static inline void kfree(void *p)
{
	free(p);
}

static inline void list_add(struct list_head *link, struct list_head *head)
{
	link->next = head->next;
	link->prev = head;
	head->next->prev = link;
	head->next = link;
}

static inline void list_del(struct list_head *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
}

#define list_empty(head)	((head)->next == (head))
#define nonseekable_open(inode, filp)	0
#define kasprintf(flags, fmt, name)	((char *)NULL)
#define device_create(class, parent, dev, data, fmt, index)	((void)(parent), (struct device *)(class))
#define device_destroy(class, dev)	((void)(dev))
#define alloc_chrdev_region(first, minor, count, name)	(*(first) = 0)
#define unregister_chrdev_region(first, count)	((void)0)
#define class_destroy(class)	((void)0)
#define cdev_init(cdev, ops)	((void)(ops))
#define cdev_add(cdev, first, count)	0
#define cdev_del(cdev)	((void)0)

/* compat.h is for kernels. */
#define SOFTGPU_COMPAT_H
#define SOFTGPU_DEVNODE_CONST
static struct class the_class;
#define softgpu_class_create(name)	(&the_class)
#define softgpu_vm_flags(vma, set, clear)	((vma)->vm_flags = ((vma)->vm_flags | (set)) & ~(clear))

/* In place of softgpu/kernel/charge.h: there is no cgroup here, so no call is repeated. */
#define SOFTGPU_CHARGE_H
struct softgpu_room {
	bool begun;
};
static int rooms;		/* that have begun and not ended */

static void softgpu_room_begin(struct softgpu_room *room)
{
	room->begun = true;
	rooms++;
}

static void softgpu_room_end(struct softgpu_room *room)
{
	MUST(room->begun);
	room->begun = false;
	rooms--;
}

static bool softgpu_room_make(struct softgpu_room *room)
{
	MUST(room->begun);
	return false;
}

#include "../../softgpu/kernel/file.c"

u8 *user_memory;
size_t user_size;
int user_accesses;
bool memory_short;
struct sg *softgpu_sg;

static int no_host(void *cookie, void *local, u64 addr, u64 len, bool to_process)
{
	return -EFAULT;
}

const struct sg_host_ops softgpu_host_ops = { .copy = no_host };

int softgpu_host_init(struct softgpu_host *host)
{
	if (memory_short)
		return -ENOMEM;
	host->mm = current->mm;
	mmgrab(host->mm);
	return 0;
}

void softgpu_host_uninit(struct softgpu_host *host)
{
	mmdrop(host->mm);
}

bool softgpu_device_ready(u32 index)
{
	return index < 2;
}

static const u8 *struct_given;

int softgpu_dmabuf_call(struct sg_client *client, const struct softgpu_dmabuf *a, s32 *ufd)
{
	MUST((const u8 *)ufd == struct_given + offsetof(struct softgpu_dmabuf, fd));
	return a->flags ? -EINVAL : 0;
}

/* ---- the target ---- */

#define MEMORY	8192u
#define FILES	3u

static struct file open_files[FILES];
static struct pid pids[2];
static struct mm_struct mms[3];

static void open_or_close(u32 i, u32 index)
{
	struct inode inode = { (int)index };
	struct file *f = &open_files[i];
	bool taken = false;
	u32 k;

	for (k = 0; k < FILES; k++) {
		const struct softgpu_file *other = open_files[k].private_data;

		taken |= other && other->process == task.pid && other->host.mm != task.mm;
	}
	if (!f->private_data)
		MUST(file_open(&inode, f) || !taken);
	else if (file_release(&inode, f) == 0)
		f->private_data = NULL;
}

/* Changes with all that a call makes. */
static u64 things_made(void)
{
	const struct sg_proc *proc;
	u64 sum = softgpu_sg->next_buffer_id + softgpu_sg->next_share_id;

	sg_list_for_each(proc, &softgpu_sg->procs, struct sg_proc, link)
		sum += proc->handles.next + proc->window.free_len;
	return sum;
}

/* A struct that is as the header asks, so that it may be answered. */
static bool malformed(u32 nr, const u8 *arg, u32 given)
{
	u32 least, known = call_size(nr, &least), i;

	if (!known || given < least || given > 4096)
		return true;
	for (i = known; i < given; i++) {
		if (arg[i])
			return true;
	}
	return false;
}

static void one_call(const u8 *head, const u8 *bytes, size_t length)
{
	static u8 before[MEMORY];
	u32 nr = head[0] % 0x70, given = 0;
	struct file *f = &open_files[head[3] / 0x40 % FILES];
	unsigned int cmd = head[0] >= 0xf0 ? head[0] : SOFTGPU_IOC(nr);
	const struct softgpu_file *owner = f->private_data;
	size_t at = head[2];
	int accesses;
	u64 made;
	long ret;

	if (!owner)
		return;
	/* They would wait for a minute, or until an event comes: slow, not wrong. */
	if (nr == _IOC_NR(SOFTGPU_WATCH) || nr == _IOC_NR(SOFTGPU_VALUE) || nr == _IOC_NR(SOFTGPU_HOST_FUNC) ||
	    nr == _IOC_NR(SOFTGPU_HOST_FUNC_NEXT))
		return;
	memset(user_memory, 0, MEMORY);
	memcpy(user_memory + at, bytes, length);
	user_size = head[3] < 0xc0 ? MEMORY : at + head[3] % 0x40 * 4;
	user_accesses = head[4] < 0x80 ? 1000 : head[4] % 8;
	memcpy(before, user_memory, MEMORY);
	memcpy(&given, user_memory + at, sizeof(given));
	struct_given = user_memory + at;
	accesses = user_accesses;
	made = things_made();

	ret = file_ioctl(f, cmd, (unsigned long)(user_memory + at));

	MUST(ret <= 0 && ret >= -4095);
	MUST(!rooms);
	if (owner->process != task.pid || owner->host.mm != task.mm)
		MUST(ret == -EPERM);
	if (!ret)
		MUST(cmd == SOFTGPU_IOC(nr) && !malformed(nr, before + at, given));
	/* Three accesses: the fourth, which gives the answer, comes when all is done. */
	if (ret == -EFAULT && accesses != 3)
		MUST(things_made() == made);
	MUST(!memcmp(user_memory, before, at + 4));
	MUST(given >= MEMORY - at || !memcmp(user_memory + at + given, before + at + given, MEMORY - at - given));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct machine m;
	u32 i;

	machine_up(&m, 2, 8 * PAGE, 6 * PAGE, PAGE);
	softgpu_sg = m.sg;
	user_memory = malloc(MEMORY);
	MUST(user_memory);
	task = (struct task){ &pids[0], &mms[0] };
	memory_short = false;
	open_or_close(0, 0);
	while (size >= 5) {
		size_t length = data[1] % 128;

		if (length > size - 5)
			length = size - 5;
		switch (data[0] >= 0xe0 ? data[0] % 16 : 0) {
		case 1:
			open_or_close(data[2] % FILES, data[3] % 3);
			break;
		case 2:
			/* Another process, or the same after exec. */
			task.pid = &pids[data[2] % 2];
			task.mm = data[3] % 8 ? &mms[data[3] % 3] : NULL;
			break;
		case 3:
			memory_short = data[2] % 2;
			break;
		default:
			one_call(data, data + 5, length);
		}
		data += 5 + length;
		size -= 5 + length;
	}
	for (i = 0; i < FILES; i++) {
		if (open_files[i].private_data)
			open_or_close(i, 0);
	}
	MUST(list_empty(&files) && !files_lock.locked);
	MUST(!pids[0].refs && !pids[1].refs && !mms[0].refs && !mms[1].refs && !mms[2].refs);
	free(user_memory);
	machine_down(&m);
	return 0;
}
