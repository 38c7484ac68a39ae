/*
 * The CUDA driver, opened at run time: a table of function pointers, so that a fake can stand in.
 *
 * Types are those of cuda.h (CUDA 11.4 and later) by their width: CUresult int, CUdevice int, CUdeviceptr uint64_t, handles void *,
 * CUmemGenericAllocationHandle uint64_t.
 */
#ifndef GPU_CUDA_H
#define GPU_CUDA_H

#include <stddef.h>
#include <stdint.h>

struct cuda_location {
	int type, id; /* type 1: a device */
};

/* CUmemAllocationProp */
struct cuda_memory {
	int type;         /* 1: pinned, the only one */
	int handle_types; /* 1: POSIX file descriptor */
	struct cuda_location location;
	void *win32;
	struct {
		uint8_t compression, rdma;
		uint16_t usage;
		uint8_t reserved[4];
	} flags;
};

/* CUmemAccessDesc */
struct cuda_access {
	struct cuda_location location;
	int flags; /* 3: read and write */
};

#define CUDA_OK 0
#define CUDA_OUT_OF_MEMORY 2
#define CUDA_NOT_READY 600
#define CUDA_NOT_SUPPORTED 801
#define CUDA_RDMA_WITH_VMM 110 /* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
#define CUDA_CAPTURE_RELAXED 2
#define CUDA_CAPTURING 1 /* CU_STREAM_CAPTURE_STATUS_ACTIVE */
/* cuLaunchKernel's `extra`: the kernel's arguments as they lie in memory, and their bytes */
#define CUDA_LAUNCH_BUFFER ((void *)1)
#define CUDA_LAUNCH_BYTES ((void *)2)
#define CUDA_EVENT_DISABLE_TIMING 2
#define CUDA_STREAM_NON_BLOCKING 1
#define CUDA_HOST_PORTABLE 1 /* page-locked for all contexts */

/* field, symbol, arguments; all must be there */
#define CUDA_SYMBOLS(SYM)                                                                      \
	SYM(device_count, cuDeviceGetCount, (int *count))                                      \
	SYM(device_get, cuDeviceGet, (int *device, int ordinal))                               \
	SYM(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, int device))                  \
	SYM(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))   \
	SYM(device_reaches, cuDeviceCanAccessPeer, (int *can, int device, int peer))           \
	SYM(context_retain, cuDevicePrimaryCtxRetain, (void **context, int device))            \
	SYM(context_get, cuCtxGetCurrent, (void **context))                                    \
	SYM(context_set, cuCtxSetCurrent, (void *context))                                     \
	SYM(memory_info, cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))         \
	SYM(reserve, cuMemAddressReserve,                                                      \
	    (uint64_t * addr, size_t bytes, size_t align, uint64_t hint, uint64_t flags))      \
	SYM(unreserve, cuMemAddressFree, (uint64_t addr, size_t bytes))                        \
	SYM(create, cuMemCreate,                                                               \
	    (uint64_t * handle, size_t bytes, const struct cuda_memory *what, uint64_t flags)) \
	SYM(release, cuMemRelease, (uint64_t handle))                                          \
	SYM(map, cuMemMap,                                                                     \
	    (uint64_t addr, size_t bytes, size_t offset, uint64_t handle, uint64_t flags))     \
	SYM(unmap, cuMemUnmap, (uint64_t addr, size_t bytes))                                  \
	SYM(access, cuMemSetAccess,                                                            \
	    (uint64_t addr, size_t bytes, const struct cuda_access *who, size_t count))        \
	SYM(event_create, cuEventCreate, (void **event, unsigned flags))                       \
	SYM(event_destroy, cuEventDestroy_v2, (void *event))                                   \
	SYM(event_record, cuEventRecord, (void *event, void *stream))                          \
	SYM(event_query, cuEventQuery, (void *event))                                          \
	SYM(event_wait, cuEventSynchronize, (void *event))                                     \
	SYM(host_alloc, cuMemHostAlloc, (void **at, size_t bytes, unsigned flags))             \
	SYM(host_free, cuMemFreeHost, (void *at))                                              \
	SYM(copy_down, cuMemcpyDtoHAsync_v2,                                                   \
	    (void *to, uint64_t from, size_t bytes, void *stream))                             \
	SYM(copy, cuMemcpyAsync, (uint64_t to, uint64_t from, size_t bytes, void *stream))     \
	SYM(memory_alloc, cuMemAlloc_v2, (uint64_t * at, size_t bytes))                        \
	SYM(memory_free, cuMemFree_v2, (uint64_t at))                                          \
	SYM(module_load, cuModuleLoadData, (void **module, const void *image))                 \
	SYM(module_unload, cuModuleUnload, (void *module))                                     \
	SYM(module_function, cuModuleGetFunction,                                              \
	    (void **function, void *module, const char *name))                                 \
	SYM(launch, cuLaunchKernel,                                                            \
	    (void *function, unsigned x, unsigned y, unsigned z, unsigned threads_x,           \
	     unsigned threads_y, unsigned threads_z, unsigned shared_bytes, void *stream,      \
	     void **arguments, void **extra))                                                  \
	SYM(stream_create, cuStreamCreate, (void **stream, unsigned flags))                    \
	SYM(stream_destroy, cuStreamDestroy_v2, (void *stream))                                \
	SYM(stream_wait, cuStreamWaitEvent, (void *stream, void *event, unsigned flags))       \
	SYM(stream_capturing, cuStreamIsCapturing, (void *stream, int *status))                \
	SYM(capture_mode, cuThreadExchangeStreamCaptureMode, (int *mode))

#define CUDA_FIELD(field, symbol, arguments) int(*field) arguments;
struct cuda {
	void *library;
	CUDA_SYMBOLS(CUDA_FIELD)
};
#undef CUDA_FIELD

/*
 * Open `library` (NULL: libcuda.so.1).  NULL on success, else what is missing: a name, or the loader's text.  cuInit is the
 * caller's process's affair: it runs when PyTorch initialises CUDA.
 */
const char *cuda_open(struct cuda *c, const char *library);

#endif
