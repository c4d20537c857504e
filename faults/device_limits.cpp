// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "device_limits.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

namespace coherdma::faults {
namespace {

using interposer::object_kind;

struct limit {
    const char *name;
    /// Sets it to the value if it is higher. False: it is not.
    bool (*lower)(ibv_device_attr &, std::uint64_t value);
    object_kind counted = {}; ///< of a number of objects; CONTEXT: it is of none
};

template <auto member>
bool lower_member(ibv_device_attr &attr, std::uint64_t value) {
    if (static_cast<std::uint64_t>(attr.*member) <= value)
        return false;
    attr.*member = static_cast<std::remove_reference_t<decltype(attr.*member)>>(value);
    return true;
}

constexpr std::array LIMITS = {
    limit{.name = "max_qp",
          .lower = lower_member<&ibv_device_attr::max_qp>,
          .counted = object_kind::QP},
    limit{.name = "max_cq",
          .lower = lower_member<&ibv_device_attr::max_cq>,
          .counted = object_kind::CQ},
    limit{.name = "max_srq",
          .lower = lower_member<&ibv_device_attr::max_srq>,
          .counted = object_kind::SRQ},
    limit{.name = "max_mr",
          .lower = lower_member<&ibv_device_attr::max_mr>,
          .counted = object_kind::MR},
    limit{.name = "max_mr_size", .lower = lower_member<&ibv_device_attr::max_mr_size>},
    limit{.name = "max_qp_wr", .lower = lower_member<&ibv_device_attr::max_qp_wr>},
    limit{.name = "max_sge", .lower = lower_member<&ibv_device_attr::max_sge>},
    limit{.name = "max_cqe", .lower = lower_member<&ibv_device_attr::max_cqe>},
    limit{.name = "max_srq_wr", .lower = lower_member<&ibv_device_attr::max_srq_wr>},
    limit{.name = "max_srq_sge", .lower = lower_member<&ibv_device_attr::max_srq_sge>},
};

const limit *find_limit(std::string_view name) noexcept {
    const auto *const match = std::find_if(LIMITS.begin(), LIMITS.end(),
                                           [=](const limit &each) { return each.name == name; });
    return match != LIMITS.end() ? match : nullptr;
}

} // namespace

std::vector<std::string> all_limit_names() {
    std::vector<std::string> names;
    for (const limit &each : LIMITS)
        names.emplace_back(each.name);
    return names;
}

bool is_limit(std::string_view name) noexcept {
    return find_limit(name) != nullptr;
}

device_limits::device_limits(const std::vector<fault> &scenario) {
    for (const fault &each : scenario)
        if (each.effect == action::LIMIT)
            limits_.push_back(&each);
}

std::vector<const fault *> device_limits::lower(ibv_device_attr &attr) const {
    std::vector<const fault *> lowered;
    for (const fault *const each : limits_)
        if (find_limit(each->limit)->lower(attr, each->value))
            lowered.push_back(each);
    return lowered;
}

device_limits::refusal device_limits::check_value(std::string_view name,
                                                  std::uint64_t asked) const {
    for (const fault *const each : limits_)
        if (each->limit == name && asked > each->value)
            return {.cause = each, .error = EINVAL, .asked = asked};
    return {};
}

device_limits::refusal device_limits::check_count(object_kind kind) {
    const std::lock_guard guard(mutex_);
    for (const fault *const each : limits_)
        if (find_limit(each->limit)->counted == kind && counts_[kind] >= each->value)
            return {.cause = each, .error = ENOMEM, .asked = counts_[kind] + 1};
    return {};
}

device_limits::refusal device_limits::check(const interposer::queue_request &asked) {
    std::vector<std::pair<const char *, std::uint64_t>> values;
    if (asked.kind == object_kind::CQ)
        values = {{"max_cqe", asked.max_entries}};
    else if (asked.kind == object_kind::SRQ)
        values = {{"max_srq_wr", asked.max_entries}, {"max_srq_sge", asked.max_sge}};
    else if (asked.cap != nullptr)
        values = {{"max_qp_wr", std::max(asked.cap->max_send_wr, asked.cap->max_recv_wr)},
                  {"max_sge", std::max(asked.cap->max_send_sge, asked.cap->max_recv_sge)}};
    else
        return {}; // a WQ
    for (const auto &[name, value] : values)
        if (const refusal refused = check_value(name, value); refused.cause != nullptr)
            return refused;
    return check_count(asked.kind);
}

device_limits::refusal device_limits::check(const interposer::registration &asked) {
    const refusal refused = check_value("max_mr_size", asked.length);
    return refused.cause != nullptr ? refused : check_count(object_kind::MR);
}

void device_limits::add(object_kind kind) {
    const std::lock_guard guard(mutex_);
    ++counts_[kind];
}

void device_limits::remove(object_kind kind) {
    const std::lock_guard guard(mutex_);
    --counts_[kind];
}

} // namespace coherdma::faults
