/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * nvp2p_test.h - between nvp2p_test.ko, a client of nvidia_p2p that does what it
 * is told, and the programs that tell it.
 *
 * The module has slots; each holds what one get_pages gave, and some DMA
 * mappings of it.  Every call of the interface is one operation, with the right
 * arguments or chosen wrong ones; the interface's own return value comes back
 * in `ret`, and the ioctl itself fails only when the operation makes no sense.
 */
#ifndef NVP2P_TEST_H
#define NVP2P_TEST_H

#include <linux/types.h>
#include <linux/ioctl.h>

#define NVP2P_TEST_DEVICE	"nvp2p_test"
#define NVP2P_TEST_SLOTS	64
#define NVP2P_TEST_MAPPINGS	4

enum nvp2p_test_op {
	T_GET = 1,		/* token, va_space, va, length; flags W_* */
	T_GET_PERSISTENT,	/* va, length, value: flags of the call */
	T_PUT,			/* flags: which table pointer */
	T_PUT_PERSISTENT,	/* value: flags of the call */
	T_FREE_PAGE_TABLE,	/* which pointer */
	T_DMA_MAP,		/* mapping, bdf; flags */
	T_DMA_UNMAP,		/* mapping, bdf; flags */
	T_FREE_DMA_MAPPING,
	T_PAGES,		/* data, length entries of u64: physical addresses */
	T_DMA_ADDRESSES,	/* mapping, data, length */
	T_PEEK,			/* data, length bytes, va: offset in the pinned range */
	T_POKE,
	T_STATE,		/* the slot's state */
	T_ON_CALLBACK,		/* value: C_*; what this slot's callback does */
	T_RELEASE,		/* lets a callback go that waits by C_WAIT */
	T_MISC,			/* value: enum nvp2p_test_misc */
	T_RESET,		/* puts everything, forgets everything */
	T_FEATURES,		/* out: value F_*, version and token: the header's versions */
	T_IN_BAR,		/* ret: all pages are within one BAR of a PCI device */
	T_FORGET,		/* the slot's pin has ended otherwise: no call */
	T_TRANSLATE,		/* bdf, va: a bus address; out: value, the physical one; pointer: translated */
};

/* flags: wrong arguments on purpose. */
#define W_NULL_CALLBACK		0x01
#define W_NULL_DATA		0x02
#define W_NULL_TABLE		0x04	/* NULL for the table, or for where it goes */
#define W_STALE_TABLE		0x08	/* the table that the slot had last */
#define W_GARBAGE_TABLE		0x10	/* value: the pointer */
#define W_NULL_MAPPING		0x20
#define W_STALE_MAPPING		0x40
#define W_NULL_PEER		0x80
#define W_CLIENT_LOCK		0x100	/* hold the slot's mutex across the call */
#define W_SMALL_MASK		0x200	/* the peer can address 256 MiB */
#define W_OTHER_PEER		0x800	/* any other PCI device for the peer */
#define W_KEEP			0x400	/* the pin may not have ended: its callback may still come */

/* What the nv-p2p.h that the module was built with has. */
#define F_PERSISTENT		0x01
#define F_NULL_CALLBACK		0x02	/* and it means persistent */
#define F_FORCE_BAR1		0x04
#define F_TABLE_FLAGS		0x08
#define F_DMA			0x10
#define F_MAPPING_PEER		0x20
#define F_RSYNC			0x40
#define F_RSYNC_REGISTERS	0x80

/* What a callback does besides counting. */
#define C_FREE_PAGE_TABLE	0x01	/* and keeps what that returns; it does so anyway, but for C_KEEP_TABLE */
#define C_FREE_DMA_MAPPING	0x02
#define C_PUT			0x04	/* its own pin: forbidden */
#define C_CLIENT_LOCK		0x08	/* takes the slot's mutex */
#define C_WAIT			0x10	/* until T_RELEASE, or ten seconds */
#define C_PEEK			0x20	/* reads the first word through the pinned address */
#define C_DMA_MAP		0x40	/* maps in the callback: forbidden */
#define C_DMA_UNMAP		0x80	/* unmaps its first mapping */
#define C_KEEP_TABLE		0x100	/* does not free its page table: it must */
#define C_FREE_NULL		0x200	/* frees NULL besides */
#define C_FREE_GARBAGE		0x400	/* frees what is no table besides */
#define C_FREE_OTHER		0x800	/* frees the table of the next slot besides, which is pinned */
#define C_PUT_OTHER		0x1000	/* puts the pin of the next slot */
#define C_GET			0x2000	/* pins again what it is told of */
#define C_CLIENT_MUTEX		0x4000	/* takes the slot's mutex, and waits as long as it takes */
#define C_NEXT_MUTEX		0x8000	/* the next slot's */
#define C_FREE_TWICE		0x10000	/* frees its page table a second time */

enum nvp2p_test_misc {
	M_INIT_MAPPING = 1,
	M_DESTROY_MAPPING,
	M_GET_RSYNC,
	M_PUT_RSYNC,
	M_RSYNC_REGISTER,	/* the good driver */
	M_RSYNC_REGISTER_NULL,
	M_RSYNC_REGISTER_VERSION,
	M_RSYNC_REGISTER_NO_GET,
	M_RSYNC_REGISTER_NO_PUT,
	M_RSYNC_REGISTER_NO_WAIT,
	M_RSYNC_UNREGISTER,
};

/* What a call left in the pointer that it was to fill. */
enum nvp2p_test_out { OUT_UNTOUCHED, OUT_NULL, OUT_SET };

struct nvp2p_test_call {
	__u32 op;
	__u32 slot;
	__u32 flags;
	__u32 mapping;
	__u32 bdf;		/* of the peer: domain << 16 | bus << 8 | devfn */
	__u32 va_space;
	__u64 token;
	__u64 va;
	__u64 length;
	__u64 value;
	__u64 data;		/* a user pointer */
	/* out */
	__s32 ret;
	__u32 out;		/* enum nvp2p_test_out */
	__u32 version;		/* of the table or mapping */
	__u32 page_size;
	__u32 entries;
	__u32 table_flags;
	__u8 uuid[16];
	__u32 registers_zero;	/* all request registers are 0 */
	__u32 peer_matches;	/* mapping->pci_dev is the peer */
	/* T_STATE */
	__u32 callbacks;	/* that have begun */
	__u32 callbacks_done;
	__u32 callback_pid;	/* thread */
	__u32 callback_had_mm;
	__s32 callback_ret;	/* of what C_PUT, C_DMA_MAP or C_DMA_UNMAP called */
	__u32 callback_word;	/* C_PEEK */
	__u64 pointer;		/* the table's address */
	__u64 uuid_pointer;	/* where its UUID is */
	__u32 callback_valid;	/* table and mappings said the same in the callback as before */
	__u32 callback_frees;	/* what free_page_table and free_dma_mapping returned, or-ed */
	__u32 stuck;		/* a client's lock was waited for in vain, in callback or call */
	__u32 reserved;
};

#define NVP2P_TEST_CALL		_IOWR('N', 1, struct nvp2p_test_call)

#endif
