// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace coherdma::provider {
namespace {

/// Queries the kernel, and converts the firmware version of its response to text.
int query_device_ex(ibv_context *context, const ibv_query_device_ex_input *input,
                    ibv_device_attr_ex *attr, std::size_t size) noexcept {
    abi::message<abi::response::query_device> response = {};
    std::size_t length = response.size;
    if (const int error =
            libibverbs().ibv_cmd_query_device_any(context, input, attr, size, &response, &length))
        return error;
    std::uint64_t version; // the response begins with raw_fw_ver
    std::memcpy(&version, response.core_payload, sizeof(version));
    std::snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver), "%u.%u.%u",
                  static_cast<unsigned>(version >> 32) & 0xffff,
                  static_cast<unsigned>(version >> 16) & 0xffff,
                  static_cast<unsigned>(version) & 0xffff);
    return 0;
}

int query_port(ibv_context *context, std::uint8_t port_num, ibv_port_attr *attr) noexcept {
    abi::message<abi::command::query_port> command = {};
    return libibverbs().ibv_cmd_query_port(context, port_num, attr, &command, command.size);
}

/// Sets the operations. error: the result of the kernel's command; if it is not 0, frees the
/// context, sets errno and returns nullptr.
verbs_context *finish_context(ibv_context *context, const abi::verbs_context_ops &ops,
                              int error) noexcept {
    if (error != 0) {
        abi::uninit_and_free_context(context);
        return fail_with(error);
    }
    abi::set_ops(context, ops);
    abi::verbs_log(abi::log_level::info, "%s is served by coherdma", context->device->name);
    return abi::to_verbs_context(context);
}

} // namespace

/// Has the kernel open the context, and sets its operations. nullptr: errno is set.
verbs_context *init_context(ibv_context *context, const abi::verbs_context_ops &ops) noexcept {
    if (context == nullptr)
        return nullptr;
    abi::message<abi::command::get_context> command = {};
    // siw requires room for its device id; rdma_rxe ignores it.
    abi::message<abi::response::get_context, std::uint64_t> response = {};
    const int error = libibverbs().ibv_cmd_get_context(abi::to_verbs_context(context), &command,
                                                       command.size, &response, response.size);
    return finish_context(context, ops, error);
}

/// For a context that another process opened. rdma_rxe and siw do not answer query_context(). Their
/// number of completion vectors is the number of possible CPUs.
verbs_context *init_imported_context(ibv_context *context,
                                     const abi::verbs_context_ops &ops) noexcept {
    if (context == nullptr)
        return nullptr;
    int error = libibverbs().ibv_cmd_query_context(context, nullptr);
    if (error == EOPNOTSUPP) {
        context->num_comp_vectors = static_cast<int>(sysconf(_SC_NPROCESSORS_CONF));
        error = 0;
    }
    return finish_context(context, ops, error);
}

void fill_context_ops(abi::verbs_context_ops &ops) noexcept {
    ops.query_device_ex = query_device_ex;
    ops.query_port = query_port;
}

} // namespace coherdma::provider
