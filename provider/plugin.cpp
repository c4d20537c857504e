// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What libibverbs finds when it loads the plugin: drivers for the devices of
// rdma_rxe and of siw.

#include "rxe/objects.hpp"
#include "siw/objects.hpp"

#include <cstdlib>

namespace coherdma::provider {
namespace {

// By the driver's number alone: a device that is only called rxe0 may be another driver's.
constexpr abi::verbs_match_ent rxe_devices[] = {abi::match_driver(RDMA_DRIVER_RXE), abi::match_end};
constexpr abi::verbs_match_ent siw_devices[] = {abi::match_driver(RDMA_DRIVER_SIW), abi::match_end};

bool match(abi::verbs_sysfs_dev *) noexcept {
    return abi::ready();
}

abi::verbs_device *make(abi::verbs_sysfs_dev *) noexcept {
    return static_cast<abi::verbs_device *>(std::calloc(1, sizeof(abi::verbs_device)));
}

void unmake(abi::verbs_device *device) noexcept {
    std::free(device);
}

constexpr abi::verbs_device_ops driver(const char *name, const abi::verbs_match_ent *devices,
                                       std::uint32_t newest) noexcept {
    abi::verbs_device_ops is = {};
    is.name = name;
    is.match_min_abi_version = 1;
    is.match_max_abi_version = newest;
    is.match_table = devices;
    is.match_device = match;
    is.alloc_device = make;
    is.uninit_device = unmake;
    return is;
}

constexpr abi::verbs_device_ops rxe_driver = [] {
    abi::verbs_device_ops is = driver("coherdma-rxe", rxe_devices, 2);
    is.alloc_context = rxe::open;
    is.import_context = rxe::import;
    return is;
}();

constexpr abi::verbs_device_ops siw_driver = [] {
    abi::verbs_device_ops is = driver("coherdma-siw", siw_devices, SIW_ABI_VERSION);
    is.alloc_context = siw::open;
    is.import_context = siw::import;
    return is;
}();

[[gnu::constructor]] void enlist_drivers() {
    abi::enlist(rxe_driver);
    abi::enlist(siw_driver);
}

} // namespace
} // namespace coherdma::provider
