// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include <infiniband/verbs.h>

// Opens the device.
int main(void) {
    int count = 0;
    struct ibv_device **devices = ibv_get_device_list(&count);
    struct ibv_context *context = count == 1 ? ibv_open_device(devices[0]) : NULL;

    if (!context)
        return 1;
    ibv_close_device(context);
    ibv_free_device_list(devices);
    return 0;
}
