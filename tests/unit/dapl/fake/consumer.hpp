// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Fixtures of a uDAPL consumer: an IA, EPs, connections, memory; and cmocka.
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
#undef fail // a member of faults has this name

namespace fake {

/// The function table of the provider.
const DAT_PROVIDER &dat();

/// Setup and teardown of each test: resets the fabric; asserts that no verbs object is left. A
/// failed assertion leaves the test by longjmp, without destructors: its objects are not waited
/// for, and do not count as leaks of later tests.
int reset_fabric(void **);
int assert_no_leaks(void **);
inline bool test_has_returned = false;
template <CMUnitTestFunction test>
CMUnitTest make_test(const char *name) {
    const auto call_test = [](void **state) {
        test_has_returned = false;
        test(state);
        test_has_returned = true;
    };
    return {name, call_test, reset_fabric, assert_no_leaks, nullptr};
}
#define TEST(name) fake::make_test<name>(#name)
/// The IA handle that the registry gives to the consumer: of the first IA that asks for it.
inline const DAT_IA_HANDLE first_registry_ia = reinterpret_cast<DAT_IA_HANDLE>(1);
/// Registers the IA names "roce" and "iwarp" of the two devices.
void register_names();
/// Runs the tests; returns the exit status.
template <std::size_t count>
int run_cases(const CMUnitTest (&tests)[count]) {
    register_names();
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

inline void assert_success(DAT_RETURN result) {
    assert_int_equal(result, DAT_SUCCESS);
}

constexpr DAT_RETURN dat_error(DAT_UINT32 type, DAT_UINT32 subtype = DAT_NO_SUBTYPE) {
    return DAT_CLASS_ERROR | type | subtype;
}

/// DAT_INVALID_PARAMETER for the nth parameter, counted from 1.
constexpr DAT_RETURN invalid_parameter(DAT_UINT32 nth) {
    return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + nth - 1);
}
constexpr DAT_RETURN invalid_handle(DAT_UINT32 subtype) {
    return dat_error(DAT_INVALID_HANDLE, subtype);
}
constexpr DAT_RETURN invalid_state(DAT_UINT32 subtype) {
    return dat_error(DAT_INVALID_STATE, subtype);
}

constexpr DAT_TIMEOUT event_timeout_us = 120000000; ///< a longer wait counts as a hang

union socket_address {
    sockaddr sa;
    sockaddr_in sin;
    sockaddr_in6 sin6;
};
socket_address parse_address(const char *address, std::uint16_t port = 0);

constexpr DAT_EVD_FLAGS operator|(DAT_EVD_FLAGS a, DAT_EVD_FLAGS b) {
    return static_cast<DAT_EVD_FLAGS>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr DAT_MEM_PRIV_FLAGS operator|(DAT_MEM_PRIV_FLAGS a, DAT_MEM_PRIV_FLAGS b) {
    return static_cast<DAT_MEM_PRIV_FLAGS>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr DAT_COMPLETION_FLAGS operator|(DAT_COMPLETION_FLAGS a, DAT_COMPLETION_FLAGS b) {
    return static_cast<DAT_COMPLETION_FLAGS>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

/// An open IA with a PZ. The destructor closes it gracefully, so all other objects must be freed.
class ia_fixture {
  public:
    explicit ia_fixture(const char *name = "roce");
    ~ia_fixture();
    ia_fixture(const ia_fixture &) = delete;
    ia_fixture &operator=(const ia_fixture &) = delete;
    void close(DAT_CLOSE_FLAGS flags = DAT_CLOSE_ABRUPT_FLAG);

    DAT_EVD_HANDLE create_evd(DAT_EVD_FLAGS flags, DAT_COUNT length = 64,
                              DAT_CNO_HANDLE cno = DAT_HANDLE_NULL) const;
    DAT_CNO_HANDLE create_cno() const;
    DAT_PZ_HANDLE create_pz() const;
    DAT_SRQ_HANDLE create_srq(DAT_COUNT dtos = 16) const;

    DAT_IA_HANDLE handle = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    const char *address; ///< of the network interface
};

/// Closes the IA before the destructor does.
void close(ia_fixture &ia);
/// Frees the objects in this order, then closes the IA.
template <class... Object>
void free_all(ia_fixture &ia, Object &...objects) {
    (objects.free(), ...);
    close(ia);
}

/// Registered memory. The destructor frees the LMR, unless the IA is closed.
struct memory {
    explicit memory(const ia_fixture &owner, std::size_t size = 4096,
                    DAT_MEM_PRIV_FLAGS privileges = DAT_MEM_PRIV_ALL_FLAG,
                    DAT_VA_TYPE va = DAT_VA_TYPE_VA, DAT_PZ_HANDLE pz = DAT_HANDLE_NULL);
    ~memory();
    memory(const memory &) = delete;
    memory &operator=(const memory &) = delete;
    void free();
    DAT_LMR_TRIPLET lmr_triplet(std::size_t offset, std::size_t length) const;
    DAT_RMR_TRIPLET rmr_triplet(std::size_t offset, std::size_t length) const;
    void fill(unsigned seed);

    const ia_fixture &ia;
    alignas(64) std::vector<unsigned char> bytes;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT lmr_context = 0;
    DAT_RMR_CONTEXT rmr_context = 0;
    DAT_VADDR registered_address = 0;
};

/// An EP with an EVD for each stream. The destructor frees them, unless the IA is closed.
struct ep_fixture {
    explicit ep_fixture(const ia_fixture &owner, const DAT_EP_ATTR *attr = nullptr,
                        DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL);
    ~ep_fixture();
    ep_fixture(const ep_fixture &) = delete;
    ep_fixture &operator=(const ep_fixture &) = delete;
    void free();
    DAT_EP_STATE state() const;

    const ia_fixture &ia;
    DAT_EVD_HANDLE recv_evd, request_evd, connect_evd;
    DAT_EP_HANDLE handle = DAT_HANDLE_NULL;
};

/// Posts a software event with this pointer.
DAT_RETURN post_event(DAT_EVD_HANDLE evd, std::uintptr_t pointer = 0);
/// Waits for the next event, which must have this number.
DAT_EVENT wait_event(DAT_EVD_HANDLE evd, DAT_UINT32 number);
/// Asserts that no event arrives within some milliseconds.
void assert_no_event(DAT_EVD_HANDLE evd);

/// Connects the EP to a temporary PSP. Returns the CR.
DAT_CR_HANDLE request_connection(const ep_fixture &active, const ia_fixture &passive,
                                 DAT_EVD_HANDLE requests, const void *data = nullptr,
                                 DAT_COUNT size = 0);
/// Connects two EPs and waits for both events.
void connect(const ep_fixture &active, const ep_fixture &passive);
/// Disconnects and waits for both events.
void disconnect(const ep_fixture &ep, const ep_fixture &peer_ep);

/// The EP's QP: the one created last for this handle.
ibv_qp *qp_of(DAT_EP_HANDLE ep);

DAT_DTO_COOKIE cookie(std::uint64_t value);

/// Waits for the condition. False: timeout.
bool wait_until(const std::function<bool()> &condition);

} // namespace fake
