// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "emulate.hpp"
#include "objects.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace coherdma::provider {
namespace {

void close(ibv_context *context) noexcept {
    abi::close_context(context);
}

int query_device(ibv_context *context, const ibv_query_device_ex_input *input,
                 ibv_device_attr_ex *attributes, std::size_t size) noexcept {
    abi::message<abi::response::query_device> response = {};
    std::size_t length = response.size;
    if (const int error =
            library().query_device_any(context, input, attributes, size, &response, &length))
        return error;
    std::uint64_t version; // of what would be firmware, first in the response
    std::memcpy(&version, response.head, sizeof(version));
    std::snprintf(attributes->orig_attr.fw_ver, sizeof(attributes->orig_attr.fw_ver), "%u.%u.%u",
                  static_cast<unsigned>(version >> 32) & 0xffff,
                  static_cast<unsigned>(version >> 16) & 0xffff,
                  static_cast<unsigned>(version) & 0xffff);
    return 0;
}

int query_port(ibv_context *context, std::uint8_t port, ibv_port_attr *attributes) noexcept {
    abi::message<abi::command::query_port> command = {};
    return library().query_port(context, port, attributes, &command, command.size);
}

verbs_context *ready(ibv_context *context, rdma_driver_id driver, abi::operations able,
                     int error) noexcept {
    if (error == 0)
        error = emulate(context, driver, able);
    if (error != 0) {
        abi::close_context(context);
        errno = error;
        return nullptr;
    }
    abi::set_operations(context, able);
    abi::say(abi::level::info, "%s is served by coherdma", context->device->name);
    return abi::in_front(context);
}

} // namespace

verbs_context *serve(ibv_context *context, rdma_driver_id driver,
                     const abi::operations &able) noexcept {
    abi::message<abi::command::get_context> command = {};
    // siw insists on room for its number; rdma_rxe does not mind.
    abi::message<abi::response::get_context, std::uint64_t> response = {};
    const int error = library().get_context(abi::in_front(context), &command, command.size,
                                            &response, response.size);
    return ready(context, driver, able, error);
}

// These kernel drivers do not tell how many completion vectors there are, but have one for each
// processor that there could be.
verbs_context *serve_imported(ibv_context *context, rdma_driver_id driver,
                              const abi::operations &able) noexcept {
    int error = library().query_context(context, nullptr);
    if (error == EOPNOTSUPP) {
        context->num_comp_vectors = static_cast<int>(sysconf(_SC_NPROCESSORS_CONF));
        error = 0;
    }
    return ready(context, driver, able, error);
}

void fill_context(abi::operations &able) noexcept {
    able.free_context = close;
    able.query_device_ex = query_device;
    able.query_port = query_port;
}

} // namespace coherdma::provider
