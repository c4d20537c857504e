// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// EPs, single and in connected pairs.

#pragma once

#include "test_ia.hpp"

namespace conform {

/// Attributes that any provider takes.
DAT_EP_ATTR minimal_ep_attr();

/// A function that changes a field; limits are the IA's attributes.
#define SET(field, value)                                                                          \
    [](auto &object, [[maybe_unused]] const DAT_IA_ATTR &limits) {                                 \
        object.field = (value);                                                                    \
    }

/// An EP with EVDs of its own.
struct test_ep {
    unique_evd recv_evd, request_evd, connect_evd;
    unique_ep handle;

    test_ep(const test_ia &ia, DAT_PZ_HANDLE pz, const DAT_EP_ATTR *attr = nullptr,
            DAT_CNO_HANDLE recv_cno = nullptr, source_location loc = current_location());
    /// One that takes its receives from an SRQ.
    test_ep(const test_ia &ia, DAT_PZ_HANDLE pz, DAT_SRQ_HANDLE srq,
            const DAT_EP_ATTR *attr = nullptr, source_location loc = current_location());

    operator DAT_EP_HANDLE() const { return handle; }
    DAT_EP_STATE get_state(source_location loc = current_location()) const;
    void expect_state(DAT_EP_STATE expected, source_location loc = current_location()) const;
};

DAT_RETURN post_recv(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET local, DAT_UINT64 cookie);
DAT_RETURN post_send(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET local, DAT_UINT64 cookie,
                     DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG);
DAT_RETURN post_rdma_write(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET local, DAT_RMR_TRIPLET remote,
                           DAT_UINT64 cookie,
                           DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG);
DAT_RETURN post_rdma_read(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET local, DAT_RMR_TRIPLET remote,
                          DAT_UINT64 cookie,
                          DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG);

/// The next event is the completion of a DTO, whose fields are returned.
DAT_DTO_COMPLETION_EVENT_DATA next_completion(DAT_EVD_HANDLE evd,
                                              source_location loc = current_location());
/// The next completion is this one, with success. (`operation` has a case of its own.)
void expect_completion(DAT_EVD_HANDLE evd, DAT_EP_HANDLE ep, DAT_UINT64 cookie, std::size_t length,
                       source_location loc = current_location());

/// A port that has not been used in this process.
DAT_CONN_QUAL unused_port();
/// Where the IA itself is, as dat_ep_connect takes it.
class ia_address {
  public:
    explicit ia_address(const sockaddr_in &address);
    explicit ia_address(const std::string &address); ///< of IPv4 or IPv6
    DAT_IA_ADDRESS_PTR ptr() { return reinterpret_cast<DAT_IA_ADDRESS_PTR>(&storage_); }

  private:
    sockaddr_storage storage_{};
};

/// Private data of a connection.
using byte_view = std::span<const std::byte>;
std::vector<std::byte> make_pattern(std::size_t count, unsigned seed = 1);

DAT_RETURN connect_ep(DAT_EP_HANDLE ep, ia_address address, DAT_CONN_QUAL port,
                      byte_view private_data = {},
                      DAT_TIMEOUT timeout = dat_timeout(std::chrono::seconds(10)));

/// Two EPs of one IA, a PSP to connect them, and an LMR that both use.
struct ep_pair {
    test_ia ia;
    unique_pz pz;
    test_lmr lmr;
    unique_cno cno; ///< used by some cases only
    unique_evd cr_evd;
    DAT_CONN_QUAL port;
    unique_psp psp;
    test_ep active, passive;

    static constexpr std::size_t size = 256 * 1024;

    explicit ep_pair(const DAT_EP_ATTR *attr = nullptr, source_location loc = current_location());

    /// Connects them. The active side sends first, as iWARP wants it, and the passive side answers;
    /// both messages have come when it returns.
    void connect(source_location loc = current_location());
    /// The same without the messages.
    void connect_without_messages(source_location loc = current_location());
    /// The next CR, after request_connection.
    DAT_CR_HANDLE next_cr(source_location loc = current_location());
    /// Disconnects from the active side and waits until both know.
    void disconnect(source_location loc = current_location());

    DAT_RETURN
    request_connection(byte_view private_data = {}); ///< dat_ep_connect of `active` to the listener
};

/// Waits until the EP is in that state; false after event_timeout.
bool wait_for_state(DAT_EP_HANDLE ep, DAT_EP_STATE expected,
                    source_location loc = current_location());

} // namespace conform
