// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The macros of <dat2/dat_ib_extensions.h> and dat_ia_open, in C and in C++: all arguments reach
// the function.

#include "../cmocka.hpp"
#include "headers/calls.h"
#include <cstdint>
#include <map>
#include <string>
#include <vector>

struct call_arguments call_arguments;

namespace {

struct call {
    DAT_EXTENDED_OP operation;
    std::uint64_t handle;
    std::vector<std::uint64_t> arguments;
};
std::vector<call> received_calls;
DAT_BOOLEAN received_thread_safety;

std::uint64_t to_number(const void *address) {
    return reinterpret_cast<std::uintptr_t>(address);
}

// Argument types of each operation: P pointer, C cookie, q 64 bits, d 32 bits.
const std::map<int, std::string> argument_types = {
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
std::vector<call> expected_calls() {
    const struct call_arguments &args = call_arguments;
    const std::uint64_t handle = to_number(&args.object), local = to_number(&args.local),
                        remote = to_number(&args.remote), ah = to_number(&args.ah),
                        result = to_number(&args.result), send_buffer = to_number(args.send_buffer),
                        recv_buffer = to_number(args.recv_buffer), sizes = to_number(args.sizes),
                        displacements = to_number(args.displacements),
                        member = to_number(&args.member), cookie = 0xc00c1e;
    return {
        {DAT_IB_FETCH_AND_ADD_OP, handle, {0x10, local, cookie, remote, 1}},
        {DAT_IB_CMP_AND_SWAP_OP, handle, {0x11, 0x12, local, cookie, remote, 0}},
        {DAT_IB_RDMA_WRITE_IMMED_OP, handle, {1, local, cookie, remote, 0x7777, 10}},
        {DAT_IB_UD_SEND_OP, handle, {1, local, ah, cookie, 4}},
        {-1, handle, {1, local, cookie, 0}}, // dat_ep_post_recv
        {DAT_IB_UD_CM_FREE_OP, handle, {cookie}},
        {DAT_IB_UD_CM_FREE_OP, handle, {cookie}},
        {DAT_IB_UD_AH_FREE_OP, handle, {ah}},
        {DAT_IB_QUERY_COUNTERS_OP, handle, {24, result, 1}},
        {DAT_IB_QUERY_COUNTERS_OP, handle, {0, result, 0}},
        {DAT_IB_PRINT_COUNTERS_OP, handle, {0, 1}},
        {DAT_IB_PRINT_COUNTERS_OP, handle, {85, 0}},
        {DAT_IB_START_COUNTERS_OP, handle, {1}},
        {DAT_IB_STOP_COUNTERS_OP, handle, {2}},
        {DAT_IB_OPEN_QUERY_OP,
         0,
         {to_number(args.name), to_number(&args.ia), 0x3fffffffff, to_number(&args.ia_attr),
          0x7fffffff, to_number(&args.provider_attr)}},
        {DAT_IB_CLOSE_QUERY_OP, handle, {}},
        {DAT_IB_COLLECTIVE_CREATE_MEMBER_OP, handle, {recv_buffer, member, to_number(&args.size)}},
        {DAT_IB_COLLECTIVE_FREE_MEMBER_OP, handle, {send_buffer}},
        {DAT_IB_COLLECTIVE_CREATE_GROUP_OP,
         handle,
         {member, 5, 3, 0x99, to_number(&args.group), to_number(args.ia), cookie}},
        {DAT_IB_COLLECTIVE_FREE_GROUP_OP, handle, {}},
        {DAT_IB_COLLECTIVE_SET_CLOCK_OP, handle, {0x123, cookie}},
        {DAT_IB_COLLECTIVE_READ_CLOCK_OP, handle, {result}},
        {DAT_IB_COLLECTIVE_BROADCAST_OP, handle, {send_buffer, 8, 3, cookie, 1}},
        {DAT_IB_COLLECTIVE_BARRIER_OP, handle, {cookie, 1}},
        {DAT_IB_COLLECTIVE_SCATTER_OP, handle, {send_buffer, 8, recv_buffer, 4, 3, cookie, 1}},
        {DAT_IB_COLLECTIVE_SCATTERV_OP,
         handle,
         {send_buffer, sizes, displacements, recv_buffer, 4, 3, cookie, 1}},
        {DAT_IB_COLLECTIVE_GATHER_OP, handle, {send_buffer, 4, recv_buffer, 8, 3, cookie, 1}},
        {DAT_IB_COLLECTIVE_GATHERV_OP,
         handle,
         {send_buffer, 4, recv_buffer, sizes, displacements, 3, cookie, 1}},
        {DAT_IB_COLLECTIVE_ALLGATHER_OP, handle, {send_buffer, 4, recv_buffer, 8, cookie, 1}},
        {DAT_IB_COLLECTIVE_ALLGATHERV_OP,
         handle,
         {send_buffer, 4, recv_buffer, sizes, displacements, cookie, 1}},
        {DAT_IB_COLLECTIVE_ALLTOALL_OP, handle, {send_buffer, 8, recv_buffer, 8, cookie, 1}},
        {DAT_IB_COLLECTIVE_ALLTOALLV_OP,
         handle,
         {send_buffer, sizes, displacements, recv_buffer, sizes, displacements, cookie, 1}},
        {DAT_IB_COLLECTIVE_REDUCE_OP, handle, {send_buffer, 8, recv_buffer, 8, 2, 6, 3, cookie, 1}},
        {DAT_IB_COLLECTIVE_ALLREDUCE_OP, handle, {send_buffer, 8, recv_buffer, 8, 2, 6, cookie, 1}},
        {DAT_IB_COLLECTIVE_REDUCE_SCATTER_OP,
         handle,
         {send_buffer, 8, recv_buffer, sizes, 2, 6, cookie, 1}},
        {DAT_IB_COLLECTIVE_SCAN_OP, handle, {send_buffer, 8, recv_buffer, 8, 2, 6, cookie, 1}},
    };
}

void assert_arguments(void (*calls)(), DAT_BOOLEAN thread_safety) {
    call_arguments.ia = &call_arguments.ah;
    received_calls.clear();
    calls();
    assert_int_equal(received_thread_safety, thread_safety);
    const std::vector<call> expected = expected_calls();
    assert_int_equal(received_calls.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        if (received_calls[i].operation != expected[i].operation ||
            received_calls[i].handle != expected[i].handle ||
            received_calls[i].arguments != expected[i].arguments)
            fail_msg("call %zu: operation %d or its arguments differ (received operation %d)", i,
                     expected[i].operation, received_calls[i].operation);
}

void c_macros_pass_all_arguments(void **) {
    assert_arguments(dat2_calls_in_c, DAT_FALSE);
}
void cxx_macros_pass_all_arguments(void **) {
    assert_arguments(dat2_calls_in_cxx, DAT_TRUE);
}

void all_operations_are_covered(void **) {
    for (const auto &[operation, types] : argument_types) {
        bool is_covered = false;
        for (const call &expected : expected_calls())
            is_covered |=
                expected.operation == operation && expected.arguments.size() == types.size();
        if (!is_covered)
            fail_msg("operation %d is not among the calls", operation);
    }
    assert_int_equal(argument_types.size(),
                     DAT_IB_UD_AH_FREE_OP + 1 + 2); // the two query operations are numbered apart
}

void strerror_extension_names_values(void **) {
    const char *text = nullptr;
    assert_int_equal(dat_strerror_extension(DAT_IB_ERR, &text), DAT_SUCCESS);
    assert_string_equal(text, "DAT_IB_ERR");
    assert_int_equal(dat_strerror_extension(DAT_IB_COLLECTIVE_ERR, &text), DAT_SUCCESS);
    assert_string_equal(text, "DAT_IB_COLLECTIVE_ERR");
    const auto other = static_cast<DAT_IB_RETURN>(DAT_CLASS_ERROR | DAT_QUEUE_FULL);
    assert_int_equal(dat_strerror_extension(other, &text), DAT_SUCCESS);
    assert_string_equal(text, "from dat_strerror");
    assert_int_equal(dat_strerror_ext_status(DAT_OP_SUCCESS, &text), DAT_SUCCESS);
    assert_string_equal(text, " ");
    assert_int_equal(dat_strerror_ext_status(DAT_IB_OP_ERR, &text), DAT_SUCCESS);
    assert_string_equal(text, "DAT_IB_OP_ERR");
    assert_int_equal(dat_strerror_ext_status(DAT_IB_COLL_COMP_ERR, &text), DAT_SUCCESS);
    assert_string_equal(text, "DAT_IB_COLL_COMP_ERR");
    const DAT_RETURN status = dat_strerror_ext_status(static_cast<DAT_IB_STATUS>(77), &text);
    assert_int_equal(DAT_GET_TYPE(status), DAT_INVALID_PARAMETER);
    assert_true(status & DAT_CLASS_ERROR);
}

} // namespace

// These replace the functions of libdat2.

/// Replaces the registry's function, which the header's macros call: records the arguments, whose
/// types are P (pointer), C (context), q (64 bits), and others (32 bits).
DAT_RETURN dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, ...) {
    call current = {operation, to_number(handle), {}};
    va_list list;
    va_start(list, operation);
    for (const char type : argument_types.find(operation)->second) {
        if (type == 'P')
            current.arguments.push_back(to_number(va_arg(list, void *)));
        else if (type == 'C')
            current.arguments.push_back(va_arg(list, DAT_CONTEXT).as_64);
        else if (type == 'q')
            current.arguments.push_back(va_arg(list, DAT_UINT64));
        else
            current.arguments.push_back(va_arg(list, DAT_UINT32));
    }
    va_end(list);
    received_calls.push_back(current);
    return DAT_SUCCESS;
}

DAT_RETURN dat_ep_post_recv(DAT_EP_HANDLE ep, DAT_COUNT segments, DAT_LMR_TRIPLET *local,
                            DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags) {
    const auto count = static_cast<std::uint64_t>(segments);
    received_calls.push_back({-1, to_number(ep), {count, to_number(local), cookie.as_64, flags}});
    return DAT_SUCCESS;
}

DAT_RETURN dat_ia_openv(const DAT_NAME_PTR name, DAT_COUNT length, DAT_EVD_HANDLE *evd,
                        DAT_IA_HANDLE *ia, DAT_UINT32 major, DAT_UINT32 minor,
                        DAT_BOOLEAN thread_safety) {
    assert_ptr_equal(name, call_arguments.name);
    assert_int_equal(length, 8);
    assert_ptr_equal(evd, &call_arguments.evd);
    assert_ptr_equal(ia, &call_arguments.ia);
    assert_int_equal(major, 2);
    assert_int_equal(minor, 0);
    received_thread_safety = thread_safety;
    return DAT_SUCCESS;
}

DAT_RETURN dat_strerror(DAT_RETURN value, const char **major, const char **minor) {
    assert_int_equal(value, DAT_CLASS_ERROR | DAT_QUEUE_FULL);
    *major = "from dat_strerror";
    *minor = "";
    return DAT_SUCCESS;
}

int main() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c_macros_pass_all_arguments),
        cmocka_unit_test(cxx_macros_pass_all_arguments),
        cmocka_unit_test(all_operations_are_covered),
        cmocka_unit_test(strerror_extension_names_values),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
