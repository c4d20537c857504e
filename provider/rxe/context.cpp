// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace coherdma::provider::rxe {
namespace {

using abi::library;

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

abi::operations all_operations() noexcept {
    abi::operations able = {};
    fill_context(able);
    fill_domain(able);
    fill_handle(able);
    fill_multicast(able);
    fill_pair(able);
    fill_post(able);
    fill_queue(able);
    fill_region(able);
    fill_shared(able);
    fill_window(able);
    return able;
}

} // namespace

void fill_context(abi::operations &able) noexcept {
    able.free_context = close;
    able.query_device_ex = query_device;
    able.query_port = query_port;
}

verbs_context *open(ibv_device *device, int fd, void *) noexcept {
    auto *const own = abi::open_context<context>(device, fd, RDMA_DRIVER_RXE);
    if (own == nullptr)
        return nullptr;
    abi::message<abi::command::get_context> command = {};
    abi::message<abi::response::get_context> response = {};
    verbs_context *const front = abi::in_front(&own->verbs);
    if (const int error =
            library().get_context(front, &command, command.size, &response, response.size)) {
        abi::close_context(&own->verbs);
        errno = error;
        return nullptr;
    }
    abi::set_operations(&own->verbs, all_operations());
    abi::say(abi::level::info, "%s is served by coherdma", device->name);
    return front;
}

} // namespace coherdma::provider::rxe
