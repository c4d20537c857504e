// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What this device takes, and another does not.

#include "rules.hpp"

#include "reports/text.hpp"

namespace coherdma::check {
namespace {

using reports::count_of;

void add(const known_object &object, const device_limits &limits, const device_limit &limit,
         const std::string &text, const std::string &call, findings &result) {
    result.push_back(make_finding(finding_kind::DEVICE_LIMIT, object,
                                  text + " " + limits.name + " (" + limit.source + ")", call));
}

} // namespace

void check_limits_of_object(const known_object &object, const device_limits &limits,
                            findings &result) {
    const char *const call = "it is created";
    if (object.kind == object_kind::SRQ && limits.srqs.max == 0)
        add(object, limits, limits.srqs, "an SRQ is created, which does not exist with", call,
            result);
    if (object.kind != object_kind::QP)
        return;
    const ibv_qp_type type = static_cast<const known_qp &>(object).type;
    if (limits.connected_qps.max == 0 && (type == IBV_QPT_RC || type == IBV_QPT_UC))
        add(object, limits, limits.connected_qps,
            std::string(type == IBV_QPT_RC ? "an RC" : "a UC") +
                " QP is created, and only UD and SRD QPs exist with",
            call, result);
}

void check_limits_of_send(const known_qp &qp, const posted_request &request, const ibv_send_wr &wr,
                          const device_limits &limits, findings &result) {
    const std::string call = describe_request(request) + ", is posted";
    const auto num_sges = static_cast<std::size_t>(wr.num_sge);
    const bool is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
    std::size_t length = 0;
    for (std::size_t i = 0; i < num_sges && is_inline; ++i)
        length += wr.sg_list[i].length;
    if (!is_inline && num_sges > limits.send_sges.max)
        add(qp, limits, limits.send_sges,
            "a send has " + count_of(num_sges, "SGE") + ", and at most " +
                std::to_string(limits.send_sges.max) + " are possible with",
            call, result);
    if (length > limits.inline_bytes.max)
        add(qp, limits, limits.inline_bytes,
            "a send has " + count_of(length, "byte") + " of inline data, and at most " +
                std::to_string(limits.inline_bytes.max) + " are possible with",
            call, result);
    if (!request.is_signaled && limits.unsignaled_sends.max == 0)
        add(qp, limits, limits.unsignaled_sends, "a send is not signaled, which is refused with",
            call, result);
}

void check_limits_of_modify(const known_qp &qp, const ibv_qp_attr &attr, int mask,
                            const device_limits &limits, const ibv_device_attr &device,
                            findings &result) {
    const auto check = [&](int flag, const char *name, std::size_t value, int device_max) {
        // What the device has said, the program has asked for: it does so with any device.
        if ((mask & flag) == 0 || value <= limits.rd_atomics.max ||
            value == static_cast<std::size_t>(device_max))
            return;
        add(qp, limits, limits.rd_atomics,
            std::string(name) + " is set to " + std::to_string(value) + ", and at most " +
                std::to_string(limits.rd_atomics.max) + " is possible with",
            "it is modified", result);
    };
    check(IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", attr.max_rd_atomic, device.max_qp_init_rd_atom);
    check(IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", attr.max_dest_rd_atomic,
          device.max_qp_rd_atom);
}

} // namespace coherdma::check
