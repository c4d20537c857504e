// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Registers the drivers for the devices of rdma_rxe and siw when libibverbs loads the plugin.

#include "rxe/objects.hpp"
#include "siw/objects.hpp"

#include <cstdlib>

namespace coherdma::provider {
namespace {

// Matches by driver_id only: a device of another driver may be named rxe0.
constexpr abi::verbs_match_ent rxe_match_table[] = {abi::match_driver_id(RDMA_DRIVER_RXE),
                                                    abi::match_table_end};
constexpr abi::verbs_match_ent siw_match_table[] = {abi::match_driver_id(RDMA_DRIVER_SIW),
                                                    abi::match_table_end};

bool match_device(abi::verbs_sysfs_dev *) noexcept {
    return abi::is_supported();
}

abi::verbs_device *alloc_device(abi::verbs_sysfs_dev *) noexcept {
    return static_cast<abi::verbs_device *>(std::calloc(1, sizeof(abi::verbs_device)));
}

void uninit_device(abi::verbs_device *device) noexcept {
    std::free(device);
}

constexpr abi::verbs_device_ops make_device_ops(const char *name,
                                                const abi::verbs_match_ent *match_table,
                                                std::uint32_t max_abi_version) noexcept {
    abi::verbs_device_ops ops = {};
    ops.name = name;
    ops.match_min_abi_version = 1;
    ops.match_max_abi_version = max_abi_version;
    ops.match_table = match_table;
    ops.match_device = match_device;
    ops.alloc_device = alloc_device;
    ops.uninit_device = uninit_device;
    return ops;
}

constexpr abi::verbs_device_ops rxe_device_ops = [] {
    abi::verbs_device_ops ops = make_device_ops("coherdma-rxe", rxe_match_table, 2);
    ops.alloc_context = rxe::alloc_context;
    ops.import_context = rxe::import_context;
    return ops;
}();

constexpr abi::verbs_device_ops siw_device_ops = [] {
    abi::verbs_device_ops ops = make_device_ops("coherdma-siw", siw_match_table, SIW_ABI_VERSION);
    ops.alloc_context = siw::alloc_context;
    ops.import_context = siw::import_context;
    return ops;
}();

[[gnu::constructor]] void register_drivers() {
    abi::register_driver(rxe_device_ops);
    abi::register_driver(siw_device_ops);
}

} // namespace
} // namespace coherdma::provider
