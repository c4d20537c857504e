// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/channel.hpp"
#include "dat_common/to_string.hpp"

#include <cstdlib>
#include <cstring>
#include <fmt/core.h>
#include <new>

namespace tools::datping {
namespace {

constexpr std::size_t PAGE = 4096;
constexpr std::size_t OUTGOING_MESSAGE_OFFSET = PAGE;

constexpr unsigned LOCAL_ACCESS = DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG;
/// On iWARP an RDMA Read response writes to the sink buffer, which needs remote write permission.
constexpr unsigned REMOTE_READ_WRITE =
    LOCAL_ACCESS | DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
constexpr unsigned REMOTE_READ = LOCAL_ACCESS | DAT_MEM_PRIV_REMOTE_READ_FLAG;

DAT_RMR_TRIPLET rmr_segment(const remote_buffer &buffer, std::size_t length) {
    DAT_RMR_TRIPLET segment = {};
    segment.virtual_address = buffer.address;
    segment.segment_length = static_cast<DAT_SEG_LENGTH>(length);
    segment.rmr_context = buffer.rmr_context;
    return segment;
}

} // namespace

void lmr_buffer::free_memory::operator()(std::byte *memory) const {
    std::free(memory);
}

lmr_buffer::lmr_buffer(const dat::adapter &ia, DAT_PZ_HANDLE pz, std::size_t size,
                       unsigned privileges)
    : size_(size) {
    const std::size_t padded_size = (size_ + PAGE - 1) / PAGE * PAGE;
    memory_.reset(static_cast<std::byte *>(std::aligned_alloc(PAGE, padded_size)));
    if (!memory_)
        throw std::bad_alloc();
    std::memset(memory_.get(), 0, padded_size);
    DAT_REGION_DESCRIPTION region = {};
    region.for_va = memory_.get();
    DAT_VLEN length = 0;
    DAT_VADDR vaddr = 0;
    dat::check(dat_lmr_create(ia.get(), DAT_MEM_TYPE_VIRTUAL, region, size_, pz,
                              static_cast<DAT_MEM_PRIV_FLAGS>(privileges), DAT_VA_TYPE_VA,
                              lmr_.out_handle(), &lmr_context_, &rmr_context_, &length, &vaddr),
               fmt::format("cannot register {} bytes with {}", size_, ia.name()),
               "try a smaller -S, or see ulimit -l");
}

DAT_LMR_TRIPLET lmr_buffer::segment(std::size_t offset, std::size_t length) const {
    DAT_LMR_TRIPLET result = {};
    result.virtual_address = reinterpret_cast<DAT_VADDR>(memory_.get() + offset);
    result.segment_length = static_cast<DAT_SEG_LENGTH>(length);
    result.lmr_context = lmr_context_;
    return result;
}

remote_buffer lmr_buffer::as_remote_buffer() const {
    return {reinterpret_cast<DAT_VADDR>(memory_.get()), size_, rmr_context_};
}

const char *dto_kind_name(dto_kind kind) {
    switch (kind) {
    case dto_kind::RECV:
        return "Receive";
    case dto_kind::SEND:
        return "Send";
    case dto_kind::WRITE:
        return "RDMA Write";
    case dto_kind::READ:
        return "RDMA Read";
    }
    return "DTO";
}

/// size: of each buffer for data; number: of the channel, in the cookies of its DTOs.
channel::channel(side end, const dat::adapter &ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE dto_evd,
                 DAT_EVD_HANDLE conn_evd, std::size_t size, std::uint64_t number)
    : ia_(ia)
    , number_(number)
    , messages_(ia_, pz, OUTGOING_MESSAGE_OFFSET + MESSAGE_BYTES, LOCAL_ACCESS)
    , incoming_(ia_, pz, size, REMOTE_READ_WRITE) {
    if (end == side::CLIENT)
        outgoing_.emplace(ia_, pz, size, REMOTE_READ);
    else
        second_incoming_.emplace(ia_, pz, size, LOCAL_ACCESS);
    dat::check(dat_ep_create(ia_.get(), pz, dto_evd, dto_evd, conn_evd, nullptr, ep_.out_handle()),
               "cannot create an EP on " + ia_.name());
}

DAT_DTO_COOKIE channel::make_cookie(dto_kind kind) const {
    DAT_DTO_COOKIE cookie = {};
    cookie.as_64 = number_ << 8 | static_cast<std::uint8_t>(kind);
    return cookie;
}

void channel::post_receive() {
    if (second_incoming_)
        received_ = data_ == &incoming_ ? &*second_incoming_ : &incoming_;
    DAT_LMR_TRIPLET segments[] = {messages_.segment(0, MESSAGE_BYTES), received_->whole_segment()};
    dat::check(dat_ep_post_recv(ep(), 2, segments, make_cookie(dto_kind::RECV),
                                DAT_COMPLETION_DEFAULT_FLAG),
               "cannot post a Receive");
}

std::optional<message> channel::decode_received(std::size_t length) const {
    return decode(messages_.bytes().first(std::min(length, MESSAGE_BYTES)));
}

void channel::store_message(const message &msg) {
    const auto bytes = encode(msg);
    std::memcpy(&messages_.bytes()[OUTGOING_MESSAGE_OFFSET], bytes.data(), bytes.size());
}

void channel::post_send(const message &msg) {
    store_message(msg);
    DAT_LMR_TRIPLET segment = messages_.segment(OUTGOING_MESSAGE_OFFSET, MESSAGE_BYTES);
    dat::check(dat_ep_post_send(ep(), 1, &segment, make_cookie(dto_kind::SEND),
                                DAT_COMPLETION_DEFAULT_FLAG),
               "cannot post a Send");
}

void channel::post_send_with(const message &msg, DAT_LMR_TRIPLET data) {
    store_message(msg);
    DAT_LMR_TRIPLET segments[] = {messages_.segment(OUTGOING_MESSAGE_OFFSET, MESSAGE_BYTES), data};
    dat::check(dat_ep_post_send(ep(), 2, segments, make_cookie(dto_kind::SEND),
                                DAT_COMPLETION_DEFAULT_FLAG),
               "cannot post a Send");
}

void channel::post_write(DAT_LMR_TRIPLET local, const remote_buffer &remote) {
    const DAT_RMR_TRIPLET segment = rmr_segment(remote, local.segment_length);
    dat::check(dat_ep_post_rdma_write(ep(), 1, &local, make_cookie(dto_kind::WRITE), &segment,
                                      DAT_COMPLETION_DEFAULT_FLAG),
               "cannot post an RDMA Write");
}

void channel::post_read(const remote_buffer &remote) {
    DAT_LMR_TRIPLET local = incoming_.whole_segment();
    const DAT_RMR_TRIPLET segment = rmr_segment(remote, local.segment_length);
    dat::check(dat_ep_post_rdma_read(ep(), 1, &local, make_cookie(dto_kind::READ), &segment,
                                     DAT_COMPLETION_DEFAULT_FLAG),
               "cannot post an RDMA Read");
}

void channel::sync_for_read(const lmr_buffer &buffer) {
    const DAT_LMR_TRIPLET segment = buffer.whole_segment();
    dat::check(dat_lmr_sync_rdma_read(ia_.get(), &segment, 1), "dat_lmr_sync_rdma_read failed");
}

void channel::sync_incoming_for_write() {
    const DAT_LMR_TRIPLET segment = incoming_.whole_segment();
    dat::check(dat_lmr_sync_rdma_write(ia_.get(), &segment, 1), "dat_lmr_sync_rdma_write failed");
}

} // namespace tools::datping
