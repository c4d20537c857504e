// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "coherency/device.hpp"

#include <coherdma/experimental.h>
#include <stdexcept>

namespace tools {
namespace {

/// nullptr if libibverbs cannot open it.
ibv_context *open_verbs_device(const std::string &name) {
    ibv_device **list = ibv_get_device_list(nullptr);
    ibv_context *context = nullptr;
    for (ibv_device **device = list; device && *device && !context; ++device) {
        if (name == ibv_get_device_name(*device))
            context = ibv_open_device(*device);
    }
    if (list)
        ibv_free_device_list(list);
    return context;
}

} // namespace

device::device(const std::string &name, rule_scope scope)
    : context_(open_verbs_device(name)) {
    coherdma_open_attr open_attr = {};
    open_attr.flags = COHERDMA_OPEN_QUERY_ONLY;
    if (scope == rule_scope::ALL)
        open_attr.flags |= COHERDMA_OPEN_ALL_RULES;
    open_attr.context = context_.get();
    open_attr.name = name.c_str(); // used if the context is NULL
    device_.reset(coherdma_open_device_ex(&open_attr, sizeof open_attr));
    if (!device_ || coherdma_query_device(device_.get(), &attr_, sizeof attr_) != 0)
        throw std::runtime_error(coherdma_error());
}

std::vector<coherdma_evidence> device::evidence() const {
    std::vector<coherdma_evidence> result;
    coherdma_evidence entry = {};
    while (coherdma_query_evidence(device_.get(), result.size(), &entry, sizeof entry) == 0)
        result.push_back(entry);
    return result;
}

coherdma_probe_result device::probe() const {
    coherdma_probe_result result = {};
    if (!context_)
        throw std::runtime_error(std::string("libibverbs cannot open ") + attr_.name +
                                 ", so it cannot be probed; see: coherdma doctor");
    if (coherdma_probe(context_.get(), nullptr, 0, &result, sizeof result) != 0)
        throw std::runtime_error(std::string("cannot probe ") + attr_.name + ": " +
                                 coherdma_error());
    return result;
}

std::vector<std::string> device_names() {
    const std::unique_ptr<coherdma_port, void (*)(coherdma_port *)> ports(
        coherdma_get_port_list(nullptr, sizeof(coherdma_port)), coherdma_free_port_list);
    if (!ports)
        throw std::runtime_error(coherdma_error());
    std::vector<std::string> names;
    for (const coherdma_port *port = ports.get(); port->device; ++port) {
        if (names.empty() || names.back() != port->device) // sorted by device
            names.emplace_back(port->device);
    }
    return names;
}

} // namespace tools
