// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/channel.hpp"
#include "dat/words.hpp"

#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <new>

namespace tools::datping {
namespace {

constexpr std::size_t PAGE = 4096;
constexpr std::size_t OUTGOING_MESSAGE = PAGE;

constexpr unsigned HERE = DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG;
/// On iWARP the peer's answer to a Read is a write of the peer's, too.
constexpr unsigned WRITTEN_AND_READ =
    HERE | DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
constexpr unsigned ONLY_READ = HERE | DAT_MEM_PRIV_REMOTE_READ_FLAG;

DAT_RMR_TRIPLET remote(const place &there, std::size_t length) {
    DAT_RMR_TRIPLET segment = {};
    segment.virtual_address = there.address;
    segment.segment_length = static_cast<DAT_SEG_LENGTH>(length);
    segment.rmr_context = there.context;
    return segment;
}

} // namespace

void region::release::operator()(std::byte *which) const {
    std::free(which);
}

region::region(const dat::adapter &ia, DAT_PZ_HANDLE pz, std::size_t wanted, unsigned privileges)
    : size(wanted) {
    const std::size_t pages = (size + PAGE - 1) / PAGE * PAGE;
    memory.reset(static_cast<std::byte *>(std::aligned_alloc(PAGE, pages)));
    if (!memory)
        throw std::bad_alloc();
    std::memset(memory.get(), 0, pages);
    DAT_REGION_DESCRIPTION where = {};
    where.for_va = memory.get();
    DAT_VLEN length = 0;
    DAT_VADDR address = 0;
    dat::check(dat_lmr_create(ia.get(), DAT_MEM_TYPE_VIRTUAL, where, size, pz,
                              static_cast<DAT_MEM_PRIV_FLAGS>(privileges), DAT_VA_TYPE_VA,
                              registered.slot(), &lmr, &rmr, &length, &address),
               fmt::format("cannot register {} bytes with {}", size, ia.name()),
               "try a smaller -S, or see ulimit -l");
}

DAT_LMR_TRIPLET region::part(std::size_t from, std::size_t length) const {
    DAT_LMR_TRIPLET segment = {};
    segment.virtual_address = reinterpret_cast<DAT_VADDR>(memory.get() + from);
    segment.segment_length = static_cast<DAT_SEG_LENGTH>(length);
    segment.lmr_context = lmr;
    return segment;
}

place region::shown() const {
    return {reinterpret_cast<DAT_VADDR>(memory.get()), size, rmr};
}

const char *name_of(work which) {
    switch (which) {
    case work::RECEIVE:
        return "Receive";
    case work::SEND:
        return "Send";
    case work::WRITE:
        return "RDMA Write";
    case work::READ:
        return "RDMA Read";
    }
    return "transfer";
}

channel::channel(const dat::adapter &used, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE transfers,
                 DAT_EVD_HANDLE connections, std::size_t size, std::uint64_t given)
    : ia(used)
    , number(given)
    , messages(ia, pz, OUTGOING_MESSAGE + MESSAGE_BYTES, HERE)
    , incoming(ia, pz, size, WRITTEN_AND_READ)
    , outgoing(ia, pz, size, ONLY_READ) {
    dat::check(dat_ep_create(ia.get(), pz, transfers, transfers, connections, nullptr, ep.slot()),
               "cannot make an endpoint on " + ia.name());
}

DAT_DTO_COOKIE channel::cookie(work which) const {
    DAT_DTO_COOKIE made = {};
    made.as_64 = number << 8 | static_cast<std::uint8_t>(which);
    return made;
}

void channel::receive() {
    DAT_LMR_TRIPLET segments[] = {messages.part(0, MESSAGE_BYTES), incoming.whole()};
    dat::check(dat_ep_post_recv(endpoint(), 2, segments, cookie(work::RECEIVE),
                                DAT_COMPLETION_DEFAULT_FLAG),
               "cannot post a Receive");
}

std::optional<message> channel::received(std::size_t length) const {
    return decode(messages.bytes().first(std::min(length, MESSAGE_BYTES)));
}

void channel::put(const message &said) {
    const auto bytes = encode(said);
    std::memcpy(&messages.bytes()[OUTGOING_MESSAGE], bytes.data(), bytes.size());
}

void channel::send(const message &said) {
    put(said);
    DAT_LMR_TRIPLET segment = messages.part(OUTGOING_MESSAGE, MESSAGE_BYTES);
    dat::check(
        dat_ep_post_send(endpoint(), 1, &segment, cookie(work::SEND), DAT_COMPLETION_DEFAULT_FLAG),
        "cannot post a Send");
}

void channel::send_with(const message &said, DAT_LMR_TRIPLET data) {
    put(said);
    DAT_LMR_TRIPLET segments[] = {messages.part(OUTGOING_MESSAGE, MESSAGE_BYTES), data};
    dat::check(
        dat_ep_post_send(endpoint(), 2, segments, cookie(work::SEND), DAT_COMPLETION_DEFAULT_FLAG),
        "cannot post a Send");
}

void channel::write(DAT_LMR_TRIPLET from, const place &there) {
    const DAT_RMR_TRIPLET to = remote(there, from.segment_length);
    dat::check(dat_ep_post_rdma_write(endpoint(), 1, &from, cookie(work::WRITE), &to,
                                      DAT_COMPLETION_DEFAULT_FLAG),
               "cannot post an RDMA Write");
}

void channel::read(const place &there) {
    DAT_LMR_TRIPLET to = incoming.whole();
    const DAT_RMR_TRIPLET from = remote(there, to.segment_length);
    dat::check(dat_ep_post_rdma_read(endpoint(), 1, &to, cookie(work::READ), &from,
                                     DAT_COMPLETION_DEFAULT_FLAG),
               "cannot post an RDMA Read");
}

void channel::before_read(const region &which) {
    const DAT_LMR_TRIPLET all = which.whole();
    dat::check(dat_lmr_sync_rdma_read(ia.get(), &all, 1), "dat_lmr_sync_rdma_read failed");
}

void channel::around_write_of_in() {
    const DAT_LMR_TRIPLET all = incoming.whole();
    dat::check(dat_lmr_sync_rdma_write(ia.get(), &all, 1), "dat_lmr_sync_rdma_write failed");
}

} // namespace tools::datping
