// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Objects that are freed at their end; a failure of that is one of the case.

#pragma once

#include "check.hpp"

#include <utility>

namespace conform {

template <class T, int (*Destroy)(T **)>
class handle {
  public:
    handle() = default;
    handle(handle &&other) noexcept
        : object_(std::exchange(other.object_, nullptr)) {}
    handle &operator=(handle &&other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~handle() { destroy(); }

    [[nodiscard]] T *get() const { return object_; }
    /// For the call that creates or consumes it.
    T **out() { return &object_; }
    void destroy(source_location loc = current_location()) {
        if (object_) {
            expect_return(Destroy(&object_), 0, loc);
            expect_true(object_ == nullptr, "the pointer is not NULL", loc);
        }
        object_ = nullptr;
    }

  private:
    T *object_ = nullptr;
};

using peer_handle = handle<rpma_peer, rpma_peer_delete>;
using mr_handle = handle<rpma_mr_local, rpma_mr_dereg>;
using remote_mr_handle = handle<rpma_mr_remote, rpma_mr_remote_delete>;
using ep_handle = handle<rpma_ep, rpma_ep_shutdown>;
using req_handle = handle<rpma_conn_req, rpma_conn_req_delete>;
using conn_handle = handle<rpma_conn, rpma_conn_delete>;
using srq_handle = handle<rpma_srq, rpma_srq_delete>;

template <class T, int (*Create)(T **), int (*Destroy)(T **)>
class created_object {
  public:
    created_object() {
        require_ok(Create(object_.out()));
        require(object_.get() != nullptr, "no object");
    }
    [[nodiscard]] T *get() const { return object_.get(); }

  private:
    handle<T, Destroy> object_;
};
using peer_cfg_object = created_object<rpma_peer_cfg, rpma_peer_cfg_new, rpma_peer_cfg_delete>;
using conn_cfg_object = created_object<rpma_conn_cfg, rpma_conn_cfg_new, rpma_conn_cfg_delete>;
using srq_cfg_object = created_object<rpma_srq_cfg, rpma_srq_cfg_new, rpma_srq_cfg_delete>;

} // namespace conform
