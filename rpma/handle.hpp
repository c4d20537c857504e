// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Owners of objects of libibverbs and librdmacm.
#pragma once

#include "log.hpp"

#include <coherdma/coherdma.h>
#include <infiniband/verbs.h>
#include <librpma.h>
#include <memory>
#include <rdma/rdma_cma.h>

namespace coherdma::rpma {

/// Keeps errno, for the program: objects are destroyed after a failure.
class errno_guard {
  public:
    errno_guard() noexcept
        : errno_(errno) {}
    errno_guard(const errno_guard &) = delete;
    ~errno_guard() { errno = errno_; }

  private:
    const int errno_;
};

template <auto destroy>
struct deleter {
    template <class object_type>
    void operator()(object_type *object) const noexcept {
        const errno_guard guard;
        destroy(object);
    }
};
template <class object_type, auto destroy>
using unique_handle = std::unique_ptr<object_type, deleter<destroy>>;

using unique_addrinfo = unique_handle<rdma_addrinfo, rdma_freeaddrinfo>;
using unique_channel = unique_handle<ibv_comp_channel, ibv_destroy_comp_channel>;
using unique_event_channel = unique_handle<rdma_event_channel, rdma_destroy_event_channel>;
/// Acknowledged at the end.
using unique_event = unique_handle<rdma_cm_event, rdma_ack_cm_event>;
using unique_id = unique_handle<rdma_cm_id, rdma_destroy_id>;
using unique_mr = unique_handle<ibv_mr, ibv_dereg_mr>;

/// The result of several steps that are all taken: the error of the first one that failed.
class first_error {
  public:
    void add(int ret) noexcept {
        if (ret_ == 0)
            ret_ = ret;
    }
    int get() const noexcept { return ret_; }

  private:
    int ret_ = 0;
};

/// Destroys what the handle owns, if anything. function: of libibverbs, which returns an errno
/// value.
template <class handle, class destroy_function>
int destroy_verbs(handle &object, destroy_function *function, const char *name) noexcept {
    if (object == nullptr)
        return 0;
    if (const int error = function(object.release())) {
        RPMA_LOG_ERRNO(error, "%s", name);
        return RPMA_E_PROVIDER;
    }
    return 0;
}

/// After a failure of a function that waits for an event of librdmacm: the RPMA_E_* value.
inline int to_event_error(const char *function) noexcept {
    // EAGAIN: the program has made the channel's file non-blocking.
    if (errno == EAGAIN || errno == ENODATA)
        return RPMA_E_NO_EVENT;
    RPMA_LOG_ERRNO(errno, "%s", function);
    return RPMA_E_PROVIDER;
}

/// The same for an id of librdmacm.
inline int destroy_id(unique_id &id) noexcept {
    if (id != nullptr && rdma_destroy_id(id.release()) != 0) {
        RPMA_LOG_ERRNO(errno, "rdma_destroy_id");
        return RPMA_E_PROVIDER;
    }
    return 0;
}

} // namespace coherdma::rpma
