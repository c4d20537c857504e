// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libcoherdma's flushes on a device: prints "right" or "wrong" for each thing that is said of them,
// and what it saw. Two reliable queue pairs of one process talk to each other. Compiled with any
// rdma-core, so that of the same program only the library differs.
//
// flush DEVICE GID_INDEX [TRIAL...]

#include "verbs_pair.hpp"

#include <array>
#include <coherdma/coherdma.h>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace {

using namespace carry;

// What <infiniband/verbs.h> has from rdma-core 45 on.
constexpr unsigned flush_access = 1 << 8;
constexpr std::uint64_t flush_operation = std::uint64_t{1} << 11;
constexpr unsigned flush_done = 8;

constexpr unsigned landed = IBV_ACCESS_LOCAL_WRITE;
constexpr unsigned written = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr unsigned flushed = written | flush_access;
constexpr unsigned pair_flushed = end::pair_access | flush_access;
constexpr std::uint32_t length = sizeof(end::memory);
// An emulated machine on a busy one may be slow.
constexpr std::uint8_t acknowledged = 17; // within half a second, or sent again
constexpr std::uint64_t told = 77, untold = 78;
constexpr milliseconds a_while{20000}, a_moment{200};

void join(const end &from, const end &to, unsigned access = end::pair_access) {
    connect(from, to, access, acknowledged);
}

struct opened {
    owned<coherdma_remote, coherdma_close_remote> remote;
    std::string_view way;
    explicit opened(const end &by) {
        remote = check(decltype(remote)(coherdma_open_remote(by.qp.get())), "open a remote");
        coherdma_remote_attr ways{};
        check(coherdma_query_remote(remote.get(), &ways, sizeof ways), "ask for the ways");
        way = coherdma_way_name(ways.flush);
    }
};

std::uint64_t address(const end &of, std::size_t at = 0) {
    return reinterpret_cast<std::uintptr_t>(of.memory.data() + at);
}

void fill(end &from, unsigned round) {
    for (std::size_t at = 0; at < length; ++at)
        from.memory[at] = std::byte(at * 7 + round * 13 + at / 256);
}

void write_all(const end &from, const end &to) {
    ibv_sge data = from.piece(length);
    ibv_send_wr request = from.request(IBV_WR_RDMA_WRITE), *bad = nullptr;
    request.send_flags = 0;
    request.sg_list = &data;
    request.num_sge = 1;
    request.wr.rdma.remote_addr = address(to);
    request.wr.rdma.rkey = to.mr->rkey;
    check(ibv_post_send(from.qp.get(), &request, &bad), "post a Write");
}

// What the completion of a flush says.
struct ending {
    bool any = false;
    unsigned opcode = 0;
    ibv_wc_status status = IBV_WC_SUCCESS;
    std::uint64_t id = 0;
};
ending next(const end &of, milliseconds within) {
    const auto found = of.completion(within);
    if (!found)
        return {};
    return {true, static_cast<unsigned>(found->opcode), found->status, found->wr_id};
}

ending one_flush(const end &from, const opened &by, const end &to, std::uint64_t at,
                 std::uint64_t bytes, const ibv_sge *scratch) {
    check(coherdma_post_flush(by.remote.get(), at, bytes, to.mr->rkey, scratch,
                              COHERDMA_COMPLETION_ALWAYS, told),
          "post a flush");
    return next(from, a_while);
}

outcome refused(const opened &by, std::string_view way, const ending &is, ibv_wc_status status) {
    const char *const said = is.any ? ibv_wc_status_str(is.status) : "no completion";
    return {by.way == way && is.any && is.status == status && is.id == told,
            text(by.way, ", ", said)};
}

// Memory that may be flushed and not be read: so it was no Read.
outcome native(const device &on) {
    constexpr unsigned rounds = 200;
    end from(on, true, flush_operation);
    const end to(on, false, 0, flushed);
    join(from, to, written | flush_access);
    const opened by(from);
    if (by.way != "native")
        return {false, std::string(by.way)};
    for (unsigned round = 0; round < rounds; ++round) {
        fill(from, round);
        write_all(from, to);
        check(coherdma_post_flush(by.remote.get(), address(to), length, to.mr->rkey, nullptr,
                                  COHERDMA_COMPLETION_ON_ERROR, untold),
              "post a flush");
        const ending is = one_flush(from, by, to, address(to, 1), length - 2, nullptr);
        if (!is.any || is.status != IBV_WC_SUCCESS || is.id != told || is.opcode != flush_done)
            return {false, text("in round ", round, ": ",
                                is.any ? ibv_wc_status_str(is.status) : "no completion",
                                ", opcode ", is.opcode, ", id ", is.id)};
        if (to.memory != from.memory)
            return {false, text("in round ", round, " what was written is not there")};
    }
    if (next(from, a_moment).any)
        return {false, "a completion that nobody asked for"};
    return {true, text(by.way, ", ", rounds, " times")};
}

// It may be read, so that reading back would do.
outcome native_without_permission(const device &on) {
    const end from(on, true, flush_operation), to(on);
    join(from, to, pair_flushed);
    const opened by(from);
    return refused(by, "native", one_flush(from, by, to, address(to), length, nullptr),
                   IBV_WC_REM_ACCESS_ERR);
}

outcome native_without_permission_of_the_pair(const device &on) {
    const end from(on, true, flush_operation), to(on, false, 0, end::memory_access | flush_access);
    join(from, to);
    const opened by(from);
    return refused(by, "native", one_flush(from, by, to, address(to), length, nullptr),
                   IBV_WC_REM_INV_REQ_ERR);
}

outcome native_beyond_the_memory(const device &on) {
    const end from(on, true, flush_operation), to(on, false, 0, flushed);
    join(from, to, pair_flushed);
    const opened by(from);
    return refused(by, "native", one_flush(from, by, to, address(to, 8), length, nullptr),
                   IBV_WC_REM_ACCESS_ERR);
}

// A queue pair that was made without it.
outcome read_back(const device &on) {
    constexpr std::size_t last = 8;
    end from(on);
    const end to(on);
    join(from, to);
    const opened by(from);
    std::array<std::byte, 64> landing{};
    const owned<ibv_mr, ibv_dereg_mr> landing_mr =
        check(owned<ibv_mr, ibv_dereg_mr>(
                  ibv_reg_mr(from.pd.get(), landing.data(), landing.size(), landed)),
              "register memory");
    const ibv_sge into = {reinterpret_cast<std::uintptr_t>(landing.data()), landing.size(),
                          landing_mr->lkey};
    fill(from, 1);
    write_all(from, to);
    const ending is = one_flush(from, by, to, address(to), length, &into);
    const bool there = to.memory == from.memory;
    const bool read = std::memcmp(landing.data(), from.memory.data() + length - last, last) == 0;
    return {by.way == "read back" && is.any && is.status == IBV_WC_SUCCESS &&
                is.opcode == IBV_WC_RDMA_READ && is.id == told && there && read,
            text(by.way, ", ", is.any ? ibv_wc_status_str(is.status) : "no completion",
                 there ? "" : ", what was written is not there",
                 read ? "" : ", its end was not read")};
}

outcome read_back_without_permission(const device &on) {
    const end from(on), to(on, false, 0, written);
    join(from, to);
    const opened by(from);
    const ibv_sge into = from.piece(8);
    return refused(by, "read back", one_flush(from, by, to, address(to), length, &into),
                   IBV_WC_REM_ACCESS_ERR);
}

constexpr std::array trials{
    fault<device>{"native", native},
    fault<device>{"native-without-permission", native_without_permission},
    fault<device>{"native-without-permission-of-the-pair", native_without_permission_of_the_pair},
    fault<device>{"native-beyond-the-memory", native_beyond_the_memory},
    fault<device>{"read-back", read_back},
    fault<device>{"read-back-without-permission", read_back_without_permission},
};

} // namespace

int main(int count, char **words) try {
    if (count < 3)
        throw failure("flush DEVICE GID_INDEX [TRIAL...]");
    const std::span<char *const> names(words + 3, static_cast<std::size_t>(count - 3));
    return try_each(std::span<const fault<device>>(trials), names,
                    [=] { return open(words[1], std::atoi(words[2])); });
} catch (const std::exception &error) {
    std::fprintf(stderr, "flush: %s\n", error.what());
    return 1;
}
