// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// loads [FILE...]: loads providers as libibverbs does, and lists the devices without printing.

#include <cstdio>
#include <dlfcn.h>
#include <infiniband/verbs.h>

int main(int argc, char **argv) {
    // Explicitly, since libibverbs loads no provider without a device.
    for (int i = 1; i < argc; ++i)
        if (dlopen(argv[i], RTLD_NOW) == nullptr) {
            std::fprintf(stderr, "loads: %s\n", dlerror());
            return 1;
        }
    ibv_device **const devices = ibv_get_device_list(nullptr);
    if (devices != nullptr)
        ibv_free_device_list(devices);
    return 0;
}
