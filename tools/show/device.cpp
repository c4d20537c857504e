// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "show/device.hpp"

#include <stdexcept>

namespace tools {
namespace {

ibv_context *open_by_verbs(const std::string &name) {
    ibv_device **list = ibv_get_device_list(nullptr);
    ibv_context *context = nullptr;
    for (ibv_device **each = list; each && *each && !context; ++each) {
        if (name == ibv_get_device_name(*each))
            context = ibv_open_device(*each);
    }
    if (list)
        ibv_free_device_list(list);
    return context;
}

} // namespace

device::device(const std::string &name, bool all_rules)
    : context(open_by_verbs(name)) {
    coherdma_open_attr wanted = {};
    wanted.flags = COHERDMA_OPEN_QUERY_ONLY;
    if (all_rules)
        wanted.flags |= COHERDMA_OPEN_ALL_RULES;
    wanted.context = context.get();
    wanted.name = name.c_str();
    opened.reset(coherdma_open(&wanted, sizeof wanted));
    if (!opened || coherdma_query_device(opened.get(), &attr, sizeof attr) != 0)
        throw std::runtime_error(coherdma_error());
}

std::vector<coherdma_evidence> device::evidence() const {
    std::vector<coherdma_evidence> all;
    coherdma_evidence next = {};
    while (coherdma_query_evidence(opened.get(), all.size(), &next, sizeof next) == 0)
        all.push_back(next);
    return all;
}

coherdma_probe_result device::probe() const {
    coherdma_probe_result result = {};
    if (!context)
        throw std::runtime_error(std::string("verbs cannot open ") + attr.name +
                                 ", so it cannot be tried; coherdma doctor may say why");
    if (coherdma_probe(context.get(), nullptr, 0, &result, sizeof result) != 0)
        throw std::runtime_error(std::string("cannot try ") + attr.name + ": " + coherdma_error());
    return result;
}

std::vector<std::string> device_names() {
    std::size_t count = 0;
    const std::unique_ptr<char *, void (*)(char **)> list(coherdma_list_devices(&count),
                                                          coherdma_free_list);
    if (!list)
        throw std::runtime_error(coherdma_error());
    return {list.get(), list.get() + count};
}

} // namespace tools
