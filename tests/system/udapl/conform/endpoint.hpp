// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Endpoints, alone and in connected pairs.

#pragma once

#include "adapter.hpp"

namespace conform {

/// Attributes that any provider takes.
DAT_EP_ATTR modest();

/// A function that changes a field; limits are the IA's attributes.
#define SET(field, value)                                                                          \
    [](auto &object, [[maybe_unused]] const DAT_IA_ATTR &limits) {                                 \
        object.field = (value);                                                                    \
    }

/// An EP with EVDs of its own.
struct endpoint {
    unique_evd received, requested, connection;
    unique_ep handle;

    endpoint(const adapter &ia, DAT_PZ_HANDLE zone, const DAT_EP_ATTR *attributes = nullptr,
             DAT_CNO_HANDLE of_receives = nullptr, source_location loc = current_location());
    /// One that takes its receives from an SRQ.
    endpoint(const adapter &ia, DAT_PZ_HANDLE zone, DAT_SRQ_HANDLE queue,
             const DAT_EP_ATTR *attributes = nullptr, source_location loc = current_location());

    operator DAT_EP_HANDLE() const { return handle; }
    DAT_EP_STATE state(source_location loc = current_location()) const;
    void is_in(DAT_EP_STATE state, source_location loc = current_location()) const;
};

DAT_RETURN post_receive(DAT_EP_HANDLE to, DAT_LMR_TRIPLET piece, DAT_UINT64 cookie);
DAT_RETURN post_send(DAT_EP_HANDLE to, DAT_LMR_TRIPLET piece, DAT_UINT64 cookie,
                     DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG);
DAT_RETURN post_write(DAT_EP_HANDLE to, DAT_LMR_TRIPLET piece, DAT_RMR_TRIPLET target,
                      DAT_UINT64 cookie, DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG);
DAT_RETURN post_read(DAT_EP_HANDLE to, DAT_LMR_TRIPLET piece, DAT_RMR_TRIPLET target,
                     DAT_UINT64 cookie, DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG);

/// The next event is the completion of a DTO, whose fields are returned.
DAT_DTO_COMPLETION_EVENT_DATA completion(DAT_EVD_HANDLE from,
                                         source_location loc = current_location());
/// And it is that one, done. (Its `operation` is a case of its own.)
void completed(DAT_EVD_HANDLE from, DAT_EP_HANDLE of, DAT_UINT64 cookie, std::size_t length,
               source_location loc = current_location());

/// A port that has not been used in this process.
DAT_CONN_QUAL fresh_port();
/// Where the IA itself is, as dat_ep_connect takes it.
class destination {
  public:
    explicit destination(const sockaddr_in &address);
    explicit destination(const std::string &address); ///< of IPv4 or IPv6
    DAT_IA_ADDRESS_PTR get() { return reinterpret_cast<DAT_IA_ADDRESS_PTR>(&storage_); }

  private:
    sockaddr_storage storage_{};
};

/// What is said with a connection.
using words = std::span<const std::byte>;
std::vector<std::byte> some_bytes(std::size_t count, unsigned seed = 1);

DAT_RETURN connect(DAT_EP_HANDLE from, destination to, DAT_CONN_QUAL port, words data = {},
                   DAT_TIMEOUT timeout = dat_timeout(std::chrono::seconds(10)));

/// Two endpoints of one IA, a listener between them, and memory that both use.
struct couple {
    adapter ia;
    unique_pz zone;
    region memory;
    unique_cno notifier; ///< for who wants one
    unique_evd arrivals;
    DAT_CONN_QUAL port;
    unique_psp listener;
    endpoint active, passive;

    static constexpr std::size_t size = 256 * 1024;

    explicit couple(const DAT_EP_ATTR *attributes = nullptr,
                    source_location loc = current_location());

    /// Connects them. The active side sends first, as iWARP wants it, and the passive side answers;
    /// both messages have come when it returns.
    void join(source_location loc = current_location());
    /// The same without an event.
    void join_silently(source_location loc = current_location());
    /// The next request, after `active` was told to connect.
    DAT_CR_HANDLE request(source_location loc = current_location());
    /// Disconnects from the active side and waits until both know.
    void part(source_location loc = current_location());

    DAT_RETURN call(words data = {}); ///< dat_ep_connect of `active` to the listener
};

/// Until the endpoint is in that state, or not in time.
bool reaches(DAT_EP_HANDLE one, DAT_EP_STATE state, source_location loc = current_location());

} // namespace conform
