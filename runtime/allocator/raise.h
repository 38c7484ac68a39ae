/* Throwing PyTorch's C++ exceptions from C. */
#ifndef ALLOCATOR_RAISE_H
#define ALLOCATOR_RAISE_H

/* torch.OutOfMemoryError where its symbols are found, else RuntimeError; without PyTorch it aborts. */
__attribute__((noreturn)) void raise_out_of_memory(const char *text);
/* RuntimeError */
__attribute__((noreturn)) void raise_error(const char *text);

const char *raise_what(void);

#endif
