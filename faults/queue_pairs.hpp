// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The queue pairs of this process as a scenario names them: by their number, or by their peer.
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>
#include <map>
#include <mutex>
#include <rdma/rdma_cma.h>
#include <set>
#include <string>

namespace coherdma::faults {

/// Thread-safe.
class queue_pairs {
  public:
    struct identity {
        std::uint64_t number = 0; ///< from 1, in the order of creation; 0: it is not known
        std::string peer;         ///< its address; "": it is not known
    };

    /// Of the next one that is added.
    std::uint64_t next_number();
    void add(const void *qp);
    void remove(const void *qp);
    /// RoCE: the program, or librdmacm, has set the path to the peer.
    void set_peer(const void *qp, const ibv_ah_attr &path);
    /// iWARP: the kernel alone knows the path. The id of rdma_cm that has the QP knows the peer.
    void add_cm_id(const rdma_cm_id *id);
    void remove_cm_id(const rdma_cm_id *id);

    identity find(const void *qp);

  private:
    std::mutex mutex_; ///< protects the following
    std::uint64_t last_number_ = 0;
    std::map<const void *, identity> qps_;
    std::set<const rdma_cm_id *> cm_ids_;
};

} // namespace coherdma::faults
