// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What libibverbs finds when it loads the plugin: a driver for the devices of rdma_rxe.

#include "rxe/objects.hpp"

#include <cstdlib>

namespace coherdma::provider {
namespace {

// By the driver's number alone: a device that is only called rxe0 may be another driver's.
constexpr abi::verbs_match_ent rxe_devices[] = {abi::match_driver(RDMA_DRIVER_RXE), abi::match_end};

bool match(abi::verbs_sysfs_dev *) noexcept {
    return abi::ready();
}

abi::verbs_device *make(abi::verbs_sysfs_dev *) noexcept {
    return static_cast<abi::verbs_device *>(std::calloc(1, sizeof(abi::verbs_device)));
}

void unmake(abi::verbs_device *device) noexcept {
    std::free(device);
}

constexpr abi::verbs_device_ops rxe_driver = [] {
    abi::verbs_device_ops is = {};
    is.name = "coherdma-rxe";
    is.match_min_abi_version = 1;
    is.match_max_abi_version = 2;
    is.match_table = rxe_devices;
    is.match_device = match;
    is.alloc_device = make;
    is.uninit_device = unmake;
    is.alloc_context = rxe::open;
    is.import_context = rxe::import;
    return is;
}();

[[gnu::constructor]] void enlist_drivers() {
    abi::enlist(rxe_driver);
}

} // namespace
} // namespace coherdma::provider
