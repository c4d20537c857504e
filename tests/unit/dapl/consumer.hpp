// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Programs that use uDAPL, as tests need them: an IA, endpoints, connections, memory.
#pragma once

#include "fabric.hpp"
#include "registry.hpp"

#include <arpa/inet.h>
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>

extern "C" {
#include <cmocka.h>
}
#undef fail // faults and the fabric have functions of this name

namespace played {

/// All tables have the same functions.
const DAT_PROVIDER &dat();

/// Before and after each test: the fabric is as it was made, and nothing of verbs is left.
int fresh(void **);
int gone(void **);
/// Once, first: the names "ib" and "iw" for the two devices.
void register_names();

constexpr DAT_RETURN error(DAT_UINT32 type, DAT_UINT32 subtype = DAT_NO_SUBTYPE) {
    return DAT_CLASS_ERROR | type | subtype;
}

/// The subtype names the nth argument, counted from 1.
constexpr DAT_RETURN wrong_argument(DAT_UINT32 nth) {
    return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + nth - 1);
}
constexpr DAT_RETURN no_handle(DAT_UINT32 which) {
    return error(DAT_INVALID_HANDLE, which);
}
constexpr DAT_RETURN wrong_state(DAT_UINT32 which) {
    return error(DAT_INVALID_STATE, which);
}

constexpr DAT_TIMEOUT soon = 5000000; ///< microseconds: it comes, but not at once

union place {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
};
place at(const char *address, std::uint16_t port = 0);

constexpr DAT_EVD_FLAGS operator|(DAT_EVD_FLAGS one, DAT_EVD_FLAGS other) {
    return static_cast<DAT_EVD_FLAGS>(static_cast<unsigned>(one) | static_cast<unsigned>(other));
}
constexpr DAT_MEM_PRIV_FLAGS operator|(DAT_MEM_PRIV_FLAGS one, DAT_MEM_PRIV_FLAGS other) {
    return static_cast<DAT_MEM_PRIV_FLAGS>(static_cast<unsigned>(one) |
                                           static_cast<unsigned>(other));
}
constexpr DAT_COMPLETION_FLAGS operator|(DAT_COMPLETION_FLAGS one, DAT_COMPLETION_FLAGS other) {
    return static_cast<DAT_COMPLETION_FLAGS>(static_cast<unsigned>(one) |
                                             static_cast<unsigned>(other));
}

/// An IA, open until it ends, and what every test needs of it.
class adapter {
  public:
    explicit adapter(const char *name = "ib");
    ~adapter();
    adapter(const adapter &) = delete;
    adapter &operator=(const adapter &) = delete;
    void close(DAT_CLOSE_FLAGS flags = DAT_CLOSE_ABRUPT_FLAG);

    DAT_EVD_HANDLE evd(DAT_EVD_FLAGS flags, DAT_COUNT length = 64,
                       DAT_CNO_HANDLE cno = DAT_HANDLE_NULL) const;
    DAT_CNO_HANDLE cno() const;
    DAT_PZ_HANDLE zone() const;
    DAT_SRQ_HANDLE srq(DAT_COUNT dtos = 16) const;

    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    const char *address; ///< where its peers call it
};

/// Registered memory.
struct memory {
    explicit memory(const adapter &of, std::size_t size = 4096,
                    DAT_MEM_PRIV_FLAGS privileges = DAT_MEM_PRIV_ALL_FLAG,
                    DAT_VA_TYPE va = DAT_VA_TYPE_VA, DAT_PZ_HANDLE pz = DAT_HANDLE_NULL);
    void free();
    DAT_LMR_TRIPLET part(std::size_t offset, std::size_t length) const;
    DAT_RMR_TRIPLET remote(std::size_t offset, std::size_t length) const;
    void fill(unsigned seed);

    alignas(64) std::vector<unsigned char> bytes;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT lmr_context = 0;
    DAT_RMR_CONTEXT rmr_context = 0;
    DAT_VADDR begin = 0;
};

/// An endpoint with an EVD for each of its streams.
struct end {
    explicit end(const adapter &of, const DAT_EP_ATTR *attr = nullptr,
                 DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL);
    void free();
    DAT_EP_STATE state() const;

    const adapter &on;
    DAT_EVD_HANDLE receives, requests, connections;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
};

/// The next event; it must be of this number, and come soon.
DAT_EVENT next(DAT_EVD_HANDLE evd, DAT_UINT32 number);
/// There is no event now, nor in some milliseconds.
void none(DAT_EVD_HANDLE evd);

/// Asks the other side, and has the request at a PSP of its own.
DAT_CR_HANDLE ask(const end &active, const adapter &passive, DAT_EVD_HANDLE requests,
                  const void *data = nullptr, DAT_COUNT size = 0);
/// Both are connected when it returns.
void connect(const end &active, const end &passive);
/// Both have heard that they are not any more.
void disconnect(const end &one, const end &other);

/// The pair of verbs below an endpoint: the one that was made last for this handle.
ibv_qp *pair_of(DAT_EP_HANDLE ep);

DAT_DTO_COOKIE cookie(std::uint64_t word);

/// Until condition, but not for ever.
bool eventually(const std::function<bool()> &condition);

} // namespace played
