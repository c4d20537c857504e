// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The macros of <dat2/dat_ib_extensions.h>, and dat_ia_open: what arrives of a call, written in C
// and in C++, at the function below it.

#include "dat2/calls.h"
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

extern "C" {
#include <cmocka.h>
}

struct dat2_things dat2_things;

namespace {

struct call {
    DAT_EXTENDED_OP operation;
    std::uint64_t handle;
    std::vector<std::uint64_t> arguments;
};
std::vector<call> seen;
DAT_BOOLEAN wanted_safety;

std::uint64_t number(const void *address) {
    return reinterpret_cast<std::uintptr_t>(address);
}

// What a provider reads from the list: Pointer, Cookie, 64 bits (q), 32 bits (d).
const std::map<int, std::string> takes = {
    {DAT_IB_FETCH_AND_ADD_OP, "qPCPd"},
    {DAT_IB_CMP_AND_SWAP_OP, "qqPCPd"},
    {DAT_IB_RDMA_WRITE_IMMED_OP, "dPCPdd"},
    {DAT_IB_UD_SEND_OP, "dPPCd"},
    {DAT_IB_UD_CM_FREE_OP, "C"},
    {DAT_IB_UD_AH_FREE_OP, "P"},
    {DAT_IB_QUERY_COUNTERS_OP, "dPd"},
    {DAT_IB_PRINT_COUNTERS_OP, "dd"},
    {DAT_IB_START_COUNTERS_OP, "d"},
    {DAT_IB_STOP_COUNTERS_OP, "d"},
    {DAT_IB_OPEN_QUERY_OP, "PPqPqP"},
    {DAT_IB_CLOSE_QUERY_OP, ""},
    {DAT_IB_COLLECTIVE_CREATE_MEMBER_OP, "PPP"},
    {DAT_IB_COLLECTIVE_FREE_MEMBER_OP, "P"},
    {DAT_IB_COLLECTIVE_CREATE_GROUP_OP, "PdddPPC"},
    {DAT_IB_COLLECTIVE_FREE_GROUP_OP, ""},
    {DAT_IB_COLLECTIVE_SET_CLOCK_OP, "qC"},
    {DAT_IB_COLLECTIVE_READ_CLOCK_OP, "P"},
    {DAT_IB_COLLECTIVE_BROADCAST_OP, "PddCd"},
    {DAT_IB_COLLECTIVE_BARRIER_OP, "Cd"},
    {DAT_IB_COLLECTIVE_SCATTER_OP, "PdPddCd"},
    {DAT_IB_COLLECTIVE_SCATTERV_OP, "PPPPddCd"},
    {DAT_IB_COLLECTIVE_GATHER_OP, "PdPddCd"},
    {DAT_IB_COLLECTIVE_GATHERV_OP, "PdPPPdCd"},
    {DAT_IB_COLLECTIVE_ALLGATHER_OP, "PdPdCd"},
    {DAT_IB_COLLECTIVE_ALLGATHERV_OP, "PdPPPCd"},
    {DAT_IB_COLLECTIVE_ALLTOALL_OP, "PdPdCd"},
    {DAT_IB_COLLECTIVE_ALLTOALLV_OP, "PPPPPPCd"},
    {DAT_IB_COLLECTIVE_REDUCE_OP, "PdPddddCd"},
    {DAT_IB_COLLECTIVE_ALLREDUCE_OP, "PdPdddCd"},
    {DAT_IB_COLLECTIVE_REDUCE_SCATTER_OP, "PdPPddCd"},
    {DAT_IB_COLLECTIVE_SCAN_OP, "PdPdddCd"},
};

// In the order of calls.c.
std::vector<call> expected() {
    const struct dat2_things &it = dat2_things;
    const std::uint64_t handle = number(&it.object), local = number(&it.local),
                        remote = number(&it.remote), peer = number(&it.peer), out = number(&it.out),
                        sent = number(it.sent), received = number(it.received),
                        sizes = number(it.sizes), places = number(it.places),
                        member = number(&it.member), cookie = 0xc00c1e;
    return {
        {DAT_IB_FETCH_AND_ADD_OP, handle, {0x10, local, cookie, remote, 1}},
        {DAT_IB_CMP_AND_SWAP_OP, handle, {0x11, 0x12, local, cookie, remote, 0}},
        {DAT_IB_RDMA_WRITE_IMMED_OP, handle, {1, local, cookie, remote, 0x7777, 10}},
        {DAT_IB_UD_SEND_OP, handle, {1, local, peer, cookie, 4}},
        {-1, handle, {1, local, cookie, 0}}, // dat_ep_post_recv
        {DAT_IB_UD_CM_FREE_OP, handle, {cookie}},
        {DAT_IB_UD_CM_FREE_OP, handle, {cookie}},
        {DAT_IB_UD_AH_FREE_OP, handle, {peer}},
        {DAT_IB_QUERY_COUNTERS_OP, handle, {24, out, 1}},
        {DAT_IB_QUERY_COUNTERS_OP, handle, {0, out, 0}},
        {DAT_IB_PRINT_COUNTERS_OP, handle, {0, 1}},
        {DAT_IB_PRINT_COUNTERS_OP, handle, {85, 0}},
        {DAT_IB_START_COUNTERS_OP, handle, {1}},
        {DAT_IB_STOP_COUNTERS_OP, handle, {2}},
        {DAT_IB_OPEN_QUERY_OP,
         0,
         {number(it.name), number(&it.ia), 0x3fffffffff, number(&it.ia_attr), 0x7fffffff,
          number(&it.provider_attr)}},
        {DAT_IB_CLOSE_QUERY_OP, handle, {}},
        {DAT_IB_COLLECTIVE_CREATE_MEMBER_OP, handle, {received, member, number(&it.size)}},
        {DAT_IB_COLLECTIVE_FREE_MEMBER_OP, handle, {sent}},
        {DAT_IB_COLLECTIVE_CREATE_GROUP_OP,
         handle,
         {member, 5, 3, 0x99, number(&it.group), number(it.ia), cookie}},
        {DAT_IB_COLLECTIVE_FREE_GROUP_OP, handle, {}},
        {DAT_IB_COLLECTIVE_SET_CLOCK_OP, handle, {0x123, cookie}},
        {DAT_IB_COLLECTIVE_READ_CLOCK_OP, handle, {out}},
        {DAT_IB_COLLECTIVE_BROADCAST_OP, handle, {sent, 8, 3, cookie, 1}},
        {DAT_IB_COLLECTIVE_BARRIER_OP, handle, {cookie, 1}},
        {DAT_IB_COLLECTIVE_SCATTER_OP, handle, {sent, 8, received, 4, 3, cookie, 1}},
        {DAT_IB_COLLECTIVE_SCATTERV_OP, handle, {sent, sizes, places, received, 4, 3, cookie, 1}},
        {DAT_IB_COLLECTIVE_GATHER_OP, handle, {sent, 4, received, 8, 3, cookie, 1}},
        {DAT_IB_COLLECTIVE_GATHERV_OP, handle, {sent, 4, received, sizes, places, 3, cookie, 1}},
        {DAT_IB_COLLECTIVE_ALLGATHER_OP, handle, {sent, 4, received, 8, cookie, 1}},
        {DAT_IB_COLLECTIVE_ALLGATHERV_OP, handle, {sent, 4, received, sizes, places, cookie, 1}},
        {DAT_IB_COLLECTIVE_ALLTOALL_OP, handle, {sent, 8, received, 8, cookie, 1}},
        {DAT_IB_COLLECTIVE_ALLTOALLV_OP,
         handle,
         {sent, sizes, places, received, sizes, places, cookie, 1}},
        {DAT_IB_COLLECTIVE_REDUCE_OP, handle, {sent, 8, received, 8, 2, 6, 3, cookie, 1}},
        {DAT_IB_COLLECTIVE_ALLREDUCE_OP, handle, {sent, 8, received, 8, 2, 6, cookie, 1}},
        {DAT_IB_COLLECTIVE_REDUCE_SCATTER_OP, handle, {sent, 8, received, sizes, 2, 6, cookie, 1}},
        {DAT_IB_COLLECTIVE_SCAN_OP, handle, {sent, 8, received, 8, 2, 6, cookie, 1}},
    };
}

void arrives(void (*calls)(), DAT_BOOLEAN safety) {
    dat2_things.ia = &dat2_things.peer;
    seen.clear();
    calls();
    assert_int_equal(wanted_safety, safety);
    const std::vector<call> want = expected();
    assert_int_equal(seen.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
        if (seen[i].operation != want[i].operation || seen[i].handle != want[i].handle ||
            seen[i].arguments != want[i].arguments)
            fail_msg("call %zu, of operation %d (here %d), is not as written", i, want[i].operation,
                     seen[i].operation);
}

void from_c(void **) {
    arrives(dat2_calls_in_c, DAT_FALSE);
}
void from_cxx(void **) {
    arrives(dat2_calls_in_cxx, DAT_TRUE);
}

void every_operation_is_tried(void **) {
    for (const auto &[operation, letters] : takes) {
        bool found = false;
        for (const call &each : expected())
            found |= each.operation == operation && each.arguments.size() == letters.size();
        if (!found)
            fail_msg("operation %d is not among the calls", operation);
    }
    assert_int_equal(takes.size(), DAT_IB_UD_AH_FREE_OP + 1 + 2); // and the two queries
}

void words(void **) {
    const char *text = nullptr;
    assert_int_equal(dat_strerror_extension(DAT_IB_ERR, &text), DAT_SUCCESS);
    assert_string_equal(text, "DAT_IB_ERR");
    assert_int_equal(dat_strerror_extension(DAT_IB_COLLECTIVE_ERR, &text), DAT_SUCCESS);
    assert_string_equal(text, "DAT_IB_COLLECTIVE_ERR");
    const auto other = static_cast<DAT_IB_RETURN>(DAT_CLASS_ERROR | DAT_QUEUE_FULL);
    assert_int_equal(dat_strerror_extension(other, &text), DAT_SUCCESS);
    assert_string_equal(text, "asked dat_strerror");
    assert_int_equal(dat_strerror_ext_status(DAT_OP_SUCCESS, &text), DAT_SUCCESS);
    assert_string_equal(text, " ");
    assert_int_equal(dat_strerror_ext_status(DAT_IB_OP_ERR, &text), DAT_SUCCESS);
    assert_string_equal(text, "DAT_IB_OP_ERR");
    assert_int_equal(dat_strerror_ext_status(DAT_IB_COLL_COMP_ERR, &text), DAT_SUCCESS);
    assert_string_equal(text, "DAT_IB_COLL_COMP_ERR");
    const DAT_RETURN refused = dat_strerror_ext_status(static_cast<DAT_IB_STATUS>(77), &text);
    assert_int_equal(DAT_GET_TYPE(refused), DAT_INVALID_PARAMETER);
    assert_true(refused & DAT_CLASS_ERROR);
}

} // namespace

// In place of libdat2.

DAT_RETURN dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, ...) {
    call now = {operation, number(handle), {}};
    va_list list;
    va_start(list, operation);
    for (const char letter : takes.at(operation)) {
        if (letter == 'P')
            now.arguments.push_back(number(va_arg(list, void *)));
        else if (letter == 'C')
            now.arguments.push_back(va_arg(list, DAT_CONTEXT).as_64);
        else if (letter == 'q')
            now.arguments.push_back(va_arg(list, DAT_UINT64));
        else
            now.arguments.push_back(va_arg(list, DAT_UINT32));
    }
    va_end(list);
    seen.push_back(now);
    return DAT_SUCCESS;
}

DAT_RETURN dat_ep_post_recv(DAT_EP_HANDLE ep, DAT_COUNT segments, DAT_LMR_TRIPLET *local,
                            DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags) {
    const auto count = static_cast<std::uint64_t>(segments);
    seen.push_back({-1, number(ep), {count, number(local), cookie.as_64, flags}});
    return DAT_SUCCESS;
}

DAT_RETURN dat_ia_openv(const DAT_NAME_PTR name, DAT_COUNT length, DAT_EVD_HANDLE *evd,
                        DAT_IA_HANDLE *ia, DAT_UINT32 major, DAT_UINT32 minor, DAT_BOOLEAN safety) {
    assert_ptr_equal(name, dat2_things.name);
    assert_int_equal(length, 8);
    assert_ptr_equal(evd, &dat2_things.evd);
    assert_ptr_equal(ia, &dat2_things.ia);
    assert_int_equal(major, 2);
    assert_int_equal(minor, 0);
    wanted_safety = safety;
    return DAT_SUCCESS;
}

DAT_RETURN dat_strerror(DAT_RETURN value, const char **major, const char **minor) {
    assert_int_equal(value, DAT_CLASS_ERROR | DAT_QUEUE_FULL);
    *major = "asked dat_strerror";
    *minor = "";
    return DAT_SUCCESS;
}

int main() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_c),
        cmocka_unit_test(from_cxx),
        cmocka_unit_test(every_operation_is_tried),
        cmocka_unit_test(words),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
