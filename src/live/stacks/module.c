/* Names that a mapped ELF file exports, by its hash table, read from memory: nothing depends on the file being there still. */
#include "parts.h"

#include <elf.h>

#define SEGMENTS 64u
#define DYNAMICS 256u
#define CHAIN 4096u

struct exports {
	struct pages *p;
	uint64_t bias;
	uint64_t symbols, names, hash; /* hash: of GNU's kind */
};

static uint32_t gnu_hash(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (unsigned char)*name;
	return h;
}

/* The loader of glibc puts addresses there, that of musl leaves what the file has. */
static uint64_t relocated(uint64_t value, uint64_t bias)
{
	return value < bias ? value + bias : value;
}

static bool read_dynamic(struct exports *e, uint64_t at)
{
	for (unsigned i = 0; i < DYNAMICS; i++) {
		Elf64_Dyn d;

		if (!pages_read(e->p, at + i * sizeof(d), &d, sizeof(d)) || d.d_tag == DT_NULL)
			break;
		if (d.d_tag == DT_SYMTAB)
			e->symbols = relocated(d.d_un.d_ptr, e->bias);
		else if (d.d_tag == DT_STRTAB)
			e->names = relocated(d.d_un.d_ptr, e->bias);
		else if (d.d_tag == DT_GNU_HASH)
			e->hash = relocated(d.d_un.d_ptr, e->bias);
	}
	return e->symbols && e->names && e->hash;
}

static bool open_exports(struct pages *p, uint64_t base, struct exports *e)
{
	Elf64_Ehdr head;
	uint64_t dynamic = 0;
	bool based = false;

	*e = (struct exports){ .p = p };
	if (!pages_read(p, base, &head, sizeof(head)) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_phentsize != sizeof(Elf64_Phdr) ||
	    head.e_phnum > SEGMENTS || head.e_phoff > 1 << 20)
		return false;
	for (unsigned i = 0; i < head.e_phnum; i++) {
		Elf64_Phdr h;

		if (!pages_read(p, base + head.e_phoff + i * sizeof(h), &h, sizeof(h)))
			return false;
		if (h.p_type == PT_LOAD && !based) {
			e->bias = base - (h.p_vaddr - h.p_offset);
			based = true;
		}
		if (h.p_type == PT_DYNAMIC)
			dynamic = h.p_vaddr;
	}
	return based && dynamic && read_dynamic(e, dynamic + e->bias);
}

static bool module_is_named(const struct exports *e, const Elf64_Sym *s, const char *name)
{
	char its[64];
	size_t n = strlen(name) + 1;

	return n <= sizeof(its) && pages_read(e->p, e->names + s->st_name, its, n) &&
	       !memcmp(its, name, n);
}

uint64_t module_symbol(struct pages *p, uint64_t base, const char *name)
{
	uint32_t head[4], want = gnu_hash(name), at, its;
	struct exports e;
	uint64_t buckets, chains;

	/* head: buckets, the first symbol that is in the table, words of the filter */
	if (!open_exports(p, base, &e) || !pages_read(p, e.hash, head, sizeof(head)) || !head[0])
		return 0;
	buckets = e.hash + sizeof(head) + head[2] * UINT64_C(8);
	chains = buckets + head[0] * UINT64_C(4);
	if (!pages_read(p, buckets + want % head[0] * UINT64_C(4), &at, sizeof(at)))
		return 0;
	for (unsigned i = 0; i < CHAIN && at >= head[1]; i++, at++) {
		Elf64_Sym s;

		if (!pages_read(p, chains + (at - head[1]) * UINT64_C(4), &its, sizeof(its)))
			return 0;
		if ((its | 1) == (want | 1) &&
		    pages_read(p, e.symbols + at * UINT64_C(24), &s, sizeof(s)) && s.st_shndx &&
		    module_is_named(&e, &s, name))
			return s.st_value + e.bias;
		if (its & 1)
			break;
	}
	return 0;
}
