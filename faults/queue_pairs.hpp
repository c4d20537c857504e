// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The queue pairs of this process as a scenario names them: by their number, or by their peer.
#pragma once

#include "interposer/observer.hpp"

#include <cstdint>
#include <infiniband/verbs.h>
#include <map>
#include <mutex>
#include <rdma/rdma_cma.h>
#include <set>
#include <string>

namespace coherdma::faults {

/// Thread-safe. A QP is known by its handle, which another one may have later, and by the number of
/// its object.
class queue_pairs {
  public:
    struct identity {
        std::uint64_t number = 0; ///< from 1, in the order of creation; 0: it is not known
        std::string path_peer;    ///< the address of the path; "": it is not known
        std::string cm_peer;      ///< the address that rdma_cm has; "": it is not known
    };

    /// Its number: it exists, but is not added yet.
    std::uint64_t announce(const interposer::object &qp);
    void add(const interposer::object &qp);
    void remove(const interposer::object &qp);
    /// RoCE: the program, or librdmacm, has set the path to the peer.
    void set_peer(const void *qp, const ibv_ah_attr &path);
    /// It is reset: it has no peer.
    void clear_peer(const void *qp);
    /// iWARP: the kernel alone knows the path. The id of rdma_cm that has the QP knows the peer.
    void add_cm_id(const rdma_cm_id *id);
    void remove_cm_id(const rdma_cm_id *id);

    identity find(const void *qp);

  private:
    struct known_qp {
        std::uint64_t object_number = 0;
        identity named;
    };
    std::uint64_t take_number(std::uint64_t object_number);

    std::mutex mutex_; ///< protects the following
    std::uint64_t last_number_ = 0;
    std::map<std::uint64_t, std::uint64_t> announced_; ///< numbers, by those of their objects
    std::map<const void *, known_qp> qps_;
    std::set<const rdma_cm_id *> cm_ids_;
};

} // namespace coherdma::faults
