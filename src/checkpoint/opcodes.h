/*
 * The opcodes of a pickle one after another, without their values: is it a pickle, and which names does it
 * hold?  For what the pickle machine refuses to decode, a real loader may still run up to that byte.
 */
#ifndef CHECKPOINT_OPCODES_H
#define CHECKPOINT_OPCODES_H

#include "base/base.h"

/*
 * Do these bytes begin a pickle, of any protocol?  Of a pickle that goes on behind them the beginning is enough;
 * arguments must be what their opcodes want, so that a text is none.
 */
bool opcodes_is_pickle(const uint8_t *p, size_t n);

/* Does a pickle that begins here end before its STOP? */
bool opcodes_is_cut(const uint8_t *p, size_t n);

/* Does torch.load(weights_only=True) know every opcode up to the STOP (torch/_weights_only_unpickler.py of 2.14)? */
bool opcodes_are_torchs(const uint8_t *p, size_t n);

/*
 * What readers of pickles disagree about, in a sentence, at *at; NULL: nothing.  Frames that an opcode straddles, that
 * begin inside another or end behind the file (Python's two unpicklers differ), and a second PROTO.
 */
const char *opcodes_doubt(const uint8_t *p, size_t n, size_t *at);

/* "module.name" of each GLOBAL, INST and STACK_GLOBAL up to STOP, or to what is not an opcode; NULL: one that is not known. */
typedef enum plim_status opcodes_fn(void *ctx, const char *name, uint64_t offset,
				    struct plim_err *err);
enum plim_status opcodes_name(const uint8_t *p, size_t n, opcodes_fn *hear, void *ctx,
			      struct plim_err *err);

#endif
