// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Each function that creates an object, in all its forms, with the function that deletes the
// object.
#pragma once

#include "fake/rdma.hpp"

namespace fake {

/// What the functions need.
struct fixture {
    rpma_peer *peer = nullptr;
    rpma_srq *srq = nullptr, *srq_without_cq = nullptr;
    rpma_ep *ep = nullptr;
    rpma_conn_cfg *cfg = nullptr;
    rpma_conn_req *req = nullptr; ///< of rpma_conn_req_connect()

    explicit fixture(bool needs_sync = false);
    ~fixture();
    fixture(const fixture &) = delete;
};

/// Of any type.
struct created_object {
    void *pointer = nullptr;

    template <class object_type>
    object_type **as() {
        return reinterpret_cast<object_type **>(&pointer);
    }
};

struct create_case {
    const char *name;
    /// What has no part in the test; may be nullptr.
    void (*prepare)(fixture &fixture);
    int (*create)(fixture &fixture, created_object &object);
    int (*destroy)(created_object &object);
};

extern const std::vector<create_case> create_cases;

/// The case of this name.
const create_case &find_case(const std::string &name);

} // namespace fake
