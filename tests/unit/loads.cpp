// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Loads drivers as libibverbs does, and asks for the devices; says nothing.
//
// loads [FILE...]

#include <cstdio>
#include <dlfcn.h>
#include <infiniband/verbs.h>

int main(int count, char **words) {
    // Before they are looked for: libibverbs would load none without a device.
    for (int each = 1; each < count; ++each)
        if (dlopen(words[each], RTLD_NOW) == nullptr) {
            std::fprintf(stderr, "loads: %s\n", dlerror());
            return 1;
        }
    ibv_device **const devices = ibv_get_device_list(nullptr);
    if (devices != nullptr)
        ibv_free_device_list(devices);
    return 0;
}
