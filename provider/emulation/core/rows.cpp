// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "rows.hpp"

#include <algorithm>

namespace coherdma::emulation {
namespace {

constexpr std::size_t SHOWN = 16;

using bytes = std::vector<unsigned char>;

} // namespace

void rows::add(kind is, const line &which) {
    if (row_ && row_->is == is && row_->where.end == which.at) {
        row_->where.end += which.size;
        return;
    }
    end();
    finding next;
    next.is = is;
    next.where = which.where();
    const auto *const program = which.program_had.data(), *const device = which.device_had.data();
    const auto begin = static_cast<std::size_t>(
        std::mismatch(program, program + which.size, device).first - program);
    const std::size_t end = std::min(begin + SHOWN, which.size);
    next.first = which.at + std::min(begin, which.size - 1);
    next.program = bytes(program + begin, program + end);
    next.device = bytes(device + begin, device + end);
    std::array<unsigned char, LARGEST_LINE> agreed;
    if (which.agreed_had(agreed.data()))
        next.agreed = bytes(&agreed[begin], &agreed[end]);
    row_ = std::move(next);
}

void rows::end() {
    if (!row_)
        return;
    finding one = std::move(*row_);
    row_.reset();
    one.in = of_.region_of(one.where);
    one.last_sync = of_.last_sync_of(one.where);
    if (by_ != nullptr)
        one.request = *by_;
    else if (const auto *const last = of_.writer_of(one.where))
        one.request = last->by;
    of_.to_.tell(one);
}

} // namespace coherdma::emulation
