/* A stand-in for NVIDIA's driver, as far as fdiff's calls go: the memory of the device is that of
   the host, kernels are handed to a function of the test, and what happens is written into a log.
   Built as libcuda.so.1 by test_gpu_calls.py. Names, types and codes are those of cuda.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_IMAGE = 200, NOT_SUPPORTED = 801 };
enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76, MEMORY_POOLS = 115 };
typedef int result;
typedef uint64_t address;

/* ------------------------------------------------------------------------------ for the test */

static char events[1 << 16];
static int live, context;

static void note(const char *format, ...) {
    size_t used = strlen(events);
    va_list given;
    va_start(given, format);
    vsnprintf(events + used, sizeof events - used, format, given);
    va_end(given);
}

typedef void (*runner)(const char *kernel, unsigned blocks, unsigned threads, void **arguments);
static runner run;

void stub_runs_kernels_by(runner given) { run = given; }
const char *stub_events(void) { return events; }
void stub_forget(void) { events[0] = 0; }
int stub_live(void) { return live; }

/* ------------------------------------------------------------------------- driver and device */

static result other(void) { return NOT_SUPPORTED; }

result cuInit(unsigned flags) { return SUCCESS; }
result cuDriverGetVersion(int *version) { *version = 12090; return SUCCESS; }

result cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status) {
    char newer[256];
    Dl_info here;
    dladdr((void *)cuInit, &here);
    void *own = dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    snprintf(newer, sizeof newer, "%s_v2", name);
    *found = dlsym(own, newer);
    if (!*found) *found = dlsym(own, name);
    if (!*found) *found = (void *)other;
    if (status) *status = 0;
    return SUCCESS;
}
result cuGetProcAddress(const char *name, void **found, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, found, version, flags, NULL);
}

result cuDeviceGetCount(int *count) { *count = 1; return SUCCESS; }
result cuDeviceGet(int *device, int k) { *device = k; return SUCCESS; }
result cuDeviceGetName(char *name, int size, int device) { strncpy(name, "Stub", size); return SUCCESS; }
result cuDeviceGetUuid_v2(char *uuid, int device) { memset(uuid, 0, 16); return SUCCESS; }
result cuDeviceGetAttribute(int *value, int which, int device) {
    *value = which == CAPABILITY_MAJOR ? 9 : which == CAPABILITY_MINOR ? 0 : which == MEMORY_POOLS;
    return SUCCESS;
}
result cuDevicePrimaryCtxRetain(void **found, int device) { *found = &context; return SUCCESS; }
result cuDevicePrimaryCtxRelease_v2(int device) { return SUCCESS; }

static __thread void *current;
result cuCtxGetCurrent(void **found) { *found = current; return SUCCESS; }
result cuCtxSetCurrent(void *given) { current = given; return SUCCESS; }
result cuCtxGetDevice(int *device) { *device = 0; return SUCCESS; }

/* --------------------------------------------------------------------------- streams, events */

result cuStreamSynchronize(void *stream) { note("wait_on_host\n"); return SUCCESS; }
result cuStreamGetCtx(void *stream, void **found) { *found = &context; return SUCCESS; }
result cuStreamIsCapturing(void *stream, int *capturing) { *capturing = 0; return SUCCESS; }
result cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    note("wait stream %ld\n", (long)stream);
    return SUCCESS;
}
result cuEventCreate(void **event, unsigned flags) { *event = &context; return SUCCESS; }
result cuEventDestroy_v2(void *event) { return SUCCESS; }
result cuEventRecord(void *event, void *stream) { note("record stream %ld\n", (long)stream); return SUCCESS; }

/* ------------------------------------------------------------------------------------ memory */

result cuDeviceGetMemPool(void **pool, int device) { *pool = &context; return SUCCESS; }
result cuDeviceGetDefaultMemPool(void **pool, int device) { *pool = &context; return SUCCESS; }
result cuMemPoolGetAttribute(void *pool, int which, void *value) { *(uint64_t *)value = 0; return SUCCESS; }
result cuMemPoolSetAttribute(void *pool, int which, void *value) { return SUCCESS; }
result cuMemAllocFromPoolAsync(address *found, size_t size, void *pool, void *stream) {
    if (!current) return NOT_SUPPORTED; /* as in a thread that did not make the device current */
    *found = (address)malloc(size);
    live++;
    note("allocate %zu\n", size);
    return SUCCESS;
}
result cuMemFreeAsync(address given, void *stream) { free((void *)given); live--; return SUCCESS; }
result cuMemcpyHtoDAsync_v2(address to, const void *from, size_t size, void *stream) {
    memcpy((void *)to, from, size);
    note("to_device %zu\n", size);
    return SUCCESS;
}
result cuMemcpyDtoHAsync_v2(void *to, address from, size_t size, void *stream) {
    memcpy(to, (void *)from, size);
    note("to_host %zu\n", size);
    return SUCCESS;
}
result cuMemcpyDtoDAsync_v2(address to, address from, size_t size, void *stream) {
    memcpy((void *)to, (void *)from, size);
    note("copy %zu\n", size);
    return SUCCESS;
}
result cuMemsetD8Async(address to, unsigned char value, size_t size, void *stream) {
    memset((void *)to, value, size);
    note("clear %zu\n", size);
    return SUCCESS;
}
result cuMemGetInfo_v2(size_t *rest, size_t *total) { *rest = *total = 1 << 30; return SUCCESS; }
result cuPointerGetAttribute(void *value, int which, address given) { *(int *)value = 0; return SUCCESS; }

/* ------------------------------------------------------------------------------------ graphs */

typedef int (*keeper)(const char *kernel, unsigned blocks, unsigned threads, void **arguments);
typedef void (*replayer)(int launch);
static keeper keep;
static replayer replay;
struct graph { int count, launches[64]; };
static struct graph *recording;
static int graphs;

void stub_records_by(keeper given, replayer again) { keep = given; replay = again; }
int stub_graphs(void) { return graphs; }
result cuStreamCreate(void **stream, unsigned flags) { *stream = (void *)(intptr_t)500; return SUCCESS; }
result cuStreamDestroy_v2(void *stream) { return SUCCESS; }
result cuStreamBeginCapture_v2(void *stream, int mode) {
    if ((intptr_t)stream != 500) return NOT_SUPPORTED; /* as of the default stream */
    recording = calloc(1, sizeof *recording);
    note("record\n");
    return SUCCESS;
}
result cuStreamEndCapture(void *stream, void **graph) { *graph = recording; recording = NULL; return SUCCESS; }
result cuGraphInstantiateWithFlags(void **made, void *graph, uint64_t flags) {
    *made = malloc(sizeof(struct graph));
    memcpy(*made, graph, sizeof(struct graph));
    graphs++;
    return SUCCESS;
}
result cuGraphDestroy(void *graph) { free(graph); return SUCCESS; }
result cuGraphExecDestroy(void *made) { free(made); graphs--; return SUCCESS; }
result cuGraphLaunch(void *made, void *stream) {
    struct graph *graph = made;
    note("graph of %d stream %ld\n", graph->count, (long)stream);
    for (int k = 0; k < graph->count; k++) replay(graph->launches[k]);
    return SUCCESS;
}

/* ----------------------------------------------------------------------------------- kernels */

struct launch { unsigned blocks[3], threads[3], shared; void *stream; };

result cuLibraryLoadData(void **library, const void *code, void *a, void *b, unsigned c, void *d, void *e,
                         unsigned f) {
    *library = &context;
    note("load\n");
    return memcmp(code, "\x7f" "ELF", 4) ? INVALID_IMAGE : SUCCESS;
}
result cuLibraryUnload(void *library) { return SUCCESS; }
result cuLibraryGetKernel(void **kernel, void *library, const char *name) { *kernel = strdup(name); return SUCCESS; }
result cuKernelGetFunction(void **function, void *kernel) { *function = kernel; return SUCCESS; }
result cuLaunchKernelEx(const struct launch *how, void *kernel, void **arguments, void **extra) {
    if (recording && (intptr_t)how->stream == 500) {
        recording->launches[recording->count++] = keep(kernel, how->blocks[0], how->threads[0], arguments);
        return SUCCESS;
    }
    note("launch stream %ld\n", (long)how->stream);
    run(kernel, how->blocks[0], how->threads[0], arguments);
    return SUCCESS;
}
