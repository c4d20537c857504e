// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How both drivers make what has rings: memory for the object, the kernel's command, with an answer
// of the driver's own, and at last what the driver does with that: complete(). It takes the object
// or, if it cannot, has the kernel destroy its own again and sets errno.
#pragma once

#include "objects.hpp"

#include <cerrno>
#include <cstdint>

namespace coherdma::provider {

/// Sets errno. For who returns nullptr.
inline std::nullptr_t failed(int error) noexcept {
    errno = error;
    return nullptr;
}

template <class queue, class answer, auto complete>
ibv_cq *create_cq(ibv_context *context, int entries, ibv_comp_channel *channel,
                  int vector) noexcept {
    fresh<queue> own;
    if (!own)
        return nullptr;
    own->polling.init(false);
    abi::message<abi::command::create_cq> command = {};
    abi::message<abi::response::create_cq, answer> response = {};
    if (const int error = library().create_cq(context, entries, channel, vector, &own->verbs.cq,
                                              &command, command.size, &response, response.size))
        return failed(error);
    queue *const made = complete(own, context, response.driver);
    return made != nullptr ? &made->verbs.cq : nullptr;
}

/// extend() gives it the functions to poll it by parts.
template <class queue, class answer, auto complete>
ibv_cq_ex *create_cq_ex(ibv_context *context, ibv_cq_init_attr_ex *wanted) noexcept {
    bool alone;
    if (const int error = wish_of(*wanted, alone))
        return failed(error);
    fresh<queue> own;
    if (!own)
        return nullptr;
    own->polling.init(alone);
    abi::message<abi::command::create_cq_ex> command = {};
    abi::message<abi::response::create_cq_ex, answer> response = {};
    if (const int error = library().create_cq_ex(context, wanted, &own->verbs, &command,
                                                 command.size, &response, response.size, 0))
        return failed(error);
    queue *const made = complete(own, context, response.driver);
    if (made == nullptr)
        return nullptr;
    extend(*made);
    return &made->verbs.cq_ex;
}

template <class pair, class answer, auto complete>
ibv_qp *create_qp(ibv_pd *domain, ibv_qp_init_attr *attributes) noexcept {
    fresh<pair> own;
    if (!own)
        return nullptr;
    abi::message<abi::command::create_qp> command = {};
    abi::message<abi::response::create_qp, answer> response = {};
    if (const int error = library().create_qp(domain, &own->verbs.qp, attributes, &command,
                                              command.size, &response, response.size))
        return failed(error);
    pair *const made = complete(own, *attributes, response.driver, alone(domain));
    return made != nullptr ? &made->verbs.qp : nullptr;
}

/// able() says which of the operations that are asked for such a pair has; extend() gives it the
/// functions for them.
template <class pair, class answer, auto complete, auto able>
ibv_qp *create_qp_ex(ibv_context *context, ibv_qp_init_attr_ex *attributes) noexcept {
    // Of flags the kernel knows whether it can them.
    constexpr unsigned known =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    const bool by_parts = (attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    const std::uint64_t operations = by_parts ? attributes->send_ops_flags : 0;
    if ((attributes->comp_mask & IBV_QP_INIT_ATTR_PD) == 0)
        return failed(EINVAL);
    if ((attributes->comp_mask & ~known) != 0 ||
        (operations & ~able(context, attributes->qp_type, operations)) != 0)
        return failed(EOPNOTSUPP);
    fresh<pair> own;
    if (!own)
        return nullptr;
    abi::message<abi::command::create_qp_ex> command = {};
    abi::message<abi::response::create_qp_ex, answer> response = {};
    if (const int error = library().create_qp_ex2(context, &own->verbs, attributes, &command,
                                                  command.size, &response, response.size))
        return failed(error);
    pair *const made = complete(own, *attributes, response.driver, alone(attributes->pd));
    if (made == nullptr)
        return nullptr;
    if (by_parts)
        extend(*made, operations);
    return &made->verbs.qp;
}

template <class shared, class answer, auto complete>
ibv_srq *create_srq(ibv_pd *domain, ibv_srq_init_attr *attributes) noexcept {
    fresh<shared> own;
    if (!own)
        return nullptr;
    abi::message<abi::command::create_srq> command = {};
    abi::message<abi::response::create_srq, answer> response = {};
    if (const int error = library().create_srq(domain, &own->verbs.srq, attributes, &command,
                                               command.size, &response, response.size))
        return failed(error);
    return complete(own, domain, response.driver, attributes->attr);
}

template <class shared, class answer, auto complete>
ibv_srq *create_srq_ex(ibv_context *context, ibv_srq_init_attr_ex *attributes) noexcept {
    if ((attributes->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0)
        return failed(EINVAL);
    fresh<shared> own;
    if (!own)
        return nullptr;
    abi::message<abi::command::create_srq_ex> command = {};
    abi::message<abi::response::create_srq, answer> response = {};
    if (const int error = library().create_srq_ex(context, &own->verbs, attributes, &command,
                                                  command.size, &response, response.size))
        return failed(error);
    return complete(own, attributes->pd, response.driver, attributes->attr);
}

} // namespace coherdma::provider
