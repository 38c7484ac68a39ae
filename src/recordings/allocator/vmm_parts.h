/* Between the files of the allocator over virtual memory. */
#ifndef ALLOCATOR_VMM_PARTS_H
#define ALLOCATOR_VMM_PARTS_H

#include "vmm.h"

/* Where a request could lie. */
struct vmm_place {
	uint32_t region, node; /* that the place begins in */
	uint64_t addr;
	uint64_t need_bytes; /* to be mapped first; UINT64_MAX: it cannot lie there */
};

static inline int vmm_is_vacant(const struct vmm_node *b)
{
	return b->state == VMM_FREE || b->state == VMM_UNMAPPED;
}

/* Is it searched by address? */
static inline int vmm_has_places(const struct vmm_region *r)
{
	return r->kind == VMM_PLANNED || r->kind == VMM_MIRROR;
}

enum plim_status vmm_node_room(struct vmm *a, size_t n);
enum plim_status vmm_file(struct vmm *a, uint32_t n);
void vmm_unfile(struct vmm *a, uint32_t n);
uint32_t vmm_cut(struct vmm *a, uint32_t n, uint64_t at);
enum plim_status vmm_settle(struct vmm *a, uint32_t n, enum vmm_state state);

/*
 * Map what a place of `bytes` lacks, with memory that is free elsewhere or new.  True: look for a place again (the one found is
 * mapped now, or others may have taken it during a wait); false: out of memory, or, unless `any`, what plans have free is to be
 * looked through first.
 */
int vmm_make_room(struct vmm *a, const struct vmm_place *p, uint64_t bytes, int any);

/* All free memory goes back to the driver, after a wait. */
void vmm_give_back(struct vmm *a);

/* Is something of [addr, addr + bytes) in VMM_LEFT? */
int vmm_is_left(struct vmm *a, uint32_t region, uint64_t addr, uint64_t bytes);

/* Addresses that were left are had again, and nodes may have joined others; false: none are due. */
int vmm_look(struct vmm *a);

/* A block was freed: when, for its handles. */
void vmm_note_free(struct vmm *a, const struct vmm_node *b);

void vmm_unmap_all(struct vmm *a, struct vmm_region *r);

/* What expandable segments would do with the same requests; counts.expandable_bytes follows. */
void vmm_beside_init(struct vmm *a, struct vmm_lane *l);
/* Its block, or VMM_NONE. */
uint32_t vmm_beside_malloc(struct vmm *a, struct vmm_lane *l, uint64_t bytes);
void vmm_beside_free(struct vmm *a, struct vmm_lane *l, uint32_t block);
void vmm_beside_empty(struct vmm *a);

#endif
