// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dlsym_verbs TIMES: TIMES times loads libibverbs, opens the first device by functions that it
// looks up, registers memory, ends all and unloads the library.

#define _GNU_SOURCE // dlvsym()

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

#undef ibv_reg_mr

static void *find(void *library, const char *name) {
    void *const function = dlvsym(library, name, "IBVERBS_1.1");
    if (function == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return function;
}

// POSIX has a function's address fit in a void *; ISO C has no such conversion.
#define FIND(name)                                                                                 \
    __typeof__(name) *found_##name;                                                                \
    *(void **)&found_##name = find(library, #name)

static int use_once(void) {
    static char memory[4096];
    void *const library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    FIND(ibv_get_device_list);
    FIND(ibv_free_device_list);
    FIND(ibv_open_device);
    FIND(ibv_close_device);
    FIND(ibv_alloc_pd);
    FIND(ibv_dealloc_pd);
    FIND(ibv_reg_mr);
    FIND(ibv_dereg_mr);
    struct ibv_device **const devices = found_ibv_get_device_list(NULL);
    struct ibv_context *const context =
        devices != NULL && devices[0] != NULL ? found_ibv_open_device(devices[0]) : NULL;
    struct ibv_pd *const pd = context != NULL ? found_ibv_alloc_pd(context) : NULL;
    struct ibv_mr *const mr =
        pd != NULL ? found_ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE) : NULL;
    if (mr == NULL) {
        perror("no MR");
        return 1;
    }
    const int error =
        found_ibv_dereg_mr(mr) | found_ibv_dealloc_pd(pd) | found_ibv_close_device(context);
    found_ibv_free_device_list(devices);
    return error | dlclose(library);
}

int main(int argc, char **argv) {
    const int times = argc == 2 ? atoi(argv[1]) : 1;
    for (int i = 0; i < times; ++i)
        if (use_once() != 0)
            return 1;
    return 0;
}
