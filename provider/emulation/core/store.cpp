// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "store.hpp"

#include "between.hpp"
#include "mappings.hpp"
#include "object.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <sys/mman.h>
#include <unistd.h>

namespace coherdma::emulation {

view::view(int file, std::uint64_t place, std::size_t length) noexcept {
    // Where it begins need not be a page's begin.
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t before = place % page;
    length_ = length + before;
    void *const at = mmap(nullptr, length_, PROT_READ | PROT_WRITE,
                          file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file,
                          static_cast<off_t>(place - before));
    if (at == MAP_FAILED)
        return;
    // A child of the program's gets no second copy of what it never looks at.
    madvise(at, length_, MADV_DONTFORK);
    whole_ = at;
    at_ = static_cast<unsigned char *>(at) + before;
}

view::~view() {
    if (whole_ != nullptr)
        munmap(whole_, length_);
}

store::store(std::size_t page, std::size_t hash_bytes) noexcept
    : page_(page)
    , hash_bytes_(hash_bytes)
    , file_(memfd_create("coherdma: pages of the device", MFD_CLOEXEC)) {}

namespace {

/// The system promises more than it has, and kills when it has to keep that.
bool is_to_be_had(std::size_t bytes) noexcept {
    std::FILE *const facts = std::fopen("/proc/meminfo", "re");
    unsigned long long kilobytes = 0;
    bool known = false;
    for (char line[128]; facts != nullptr && !known && std::fgets(line, sizeof line, facts);)
        known = std::sscanf(line, "MemAvailable: %llu", &kilobytes) == 1;
    if (facts != nullptr)
        std::fclose(facts);
    return !known || bytes / 1024 < kilobytes;
}

} // namespace

std::size_t store::hashes_of(std::size_t pages) const noexcept {
    return pages / page_ * hash_bytes_;
}

std::uint32_t &store::holders_of(run &one, std::uintptr_t page) const noexcept {
    return one.holders[(page - one.pages.begin) / page_];
}

/// Memory for them now, not when they are first written to: there the system could only kill. By
/// pieces, since a signal makes a piece begin anew.
int store::fill(std::uint64_t place, std::size_t length) const noexcept {
    constexpr std::size_t PIECE = 1 << 20;
    if (!is_to_be_had(length + hashes_of(length)))
        return ENOMEM;
    for (std::size_t done = 0; done < length;) {
        const std::size_t piece = std::min(PIECE, length - done);
        const int error =
            posix_fallocate(file_, static_cast<off_t>(place + done), static_cast<off_t>(piece));
        if (error != 0 && error != EINTR)
            return error == ENOSPC ? ENOMEM : error;
        done += error == 0 ? piece : 0;
    }
    return 0;
}

std::shared_ptr<object> store::object_of(object_name name, std::string &why) {
    std::weak_ptr<object> &known = objects_[name];
    std::shared_ptr<object> found = known.lock();
    if (found == nullptr)
        known = found = object::open(name, page_, hash_bytes_, why);
    return found;
}

/// It has addresses, and no memory yet.
int store::map(std::unique_ptr<run> made, runs &all) {
    const std::size_t length = made->pages.size();
    if (made->common != nullptr) {
        made->file = made->common->file();
        made->place = object::place_of(made->offset);
        made->hashes_view = std::make_shared<view>(
            made->file, made->common->hashes_of(made->offset), hashes_of(length));
    } else {
        made->file = file_;
        made->place = end_;
        end_ += length;
        made->hashes_view = std::make_shared<view>(-1, 0, hashes_of(length));
    }
    made->pages_view = std::make_shared<view>(made->file, made->place, length);
    made->device = made->pages_view->at();
    made->agreed = made->hashes_view->at();
    if (made->device == nullptr || made->agreed == nullptr)
        return ENOMEM;
    made->holders.assign(length / page_, 0);
    all[made->pages.begin] = std::move(made);
    return 0;
}

/// Runs for pages that none has.
int store::map(span pages, runs &all, std::string *why) {
    std::vector<shared_mapping> shared;
    if (why != nullptr)
        shared = shared_mappings(pages);
    shared.push_back({{pages.end, pages.end}, {}, 0});
    for (const shared_mapping &each : shared) {
        if (pages.begin < each.where.begin) {
            auto own = std::make_unique<run>();
            own->pages = {pages.begin, each.where.begin};
            if (const int error = map(std::move(own), all))
                return error;
        }
        pages.begin = each.where.end;
        if (each.where.empty())
            continue;
        auto made = std::make_unique<run>();
        made->pages = each.where;
        made->offset = each.offset;
        made->common = object_of(each.of, *why);
        if (made->common == nullptr)
            return ESHARED;
        if (const int error = map(std::move(made), all))
            return error;
    }
    return 0;
}

/// The pages are this run's, and what of them is new is told.
int store::take(run &one, const visitor &fresh) {
    const auto told = [&](std::uint64_t offset, std::uint64_t length) {
        const std::uintptr_t at = one.pages.begin + (offset - one.offset);
        fresh({at, at + length}, one);
    };
    const int error = one.common != nullptr ? one.common->hold(one.offset, one.pages.size(), told)
                                            : fill(one.place, one.pages.size());
    if (error == 0)
        bytes_ += one.pages.size() + hashes_of(one.pages.size());
    else if (one.common == nullptr)
        punch(one, one.pages);
    if (error == 0 && one.common == nullptr)
        fresh(one.pages, one);
    return error;
}

void store::punch(const run &one, span pages) const noexcept {
    const auto from = static_cast<off_t>(one.place + (pages.begin - one.pages.begin));
    while (fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from,
                     static_cast<off_t>(pages.size())) != 0 &&
           errno == EINTR) {
    }
}

/// The pages are not this run's any more.
void store::end(const run &one, span pages) noexcept {
    if (one.common != nullptr)
        one.common->let_go(one.offset + (pages.begin - one.pages.begin), pages.size());
    else
        punch(one, pages);
    bytes_ -= pages.size() + hashes_of(pages.size());
}

void store::each(span where, const visitor &visit) {
    auto next = runs_.upper_bound(where.begin);
    if (next != runs_.begin())
        --next;
    for (; next != runs_.end() && next->first < where.end; ++next) {
        run &one = *next->second;
        const span part = common(where, one.pages);
        if (part.empty())
            continue;
        std::optional<locked> held;
        if (one.common != nullptr)
            held.emplace(one.common->lock());
        visit(part, one);
    }
}

bool store::is_ours(const run &one, std::uintptr_t at) const noexcept {
    return one.common == nullptr ||
           one.common->is_ours(one.offset + (at - one.pages.begin) / page_ * page_);
}

bool store::is_held_once(const run &one, std::uintptr_t at) const noexcept {
    const std::size_t page = (at - one.pages.begin) / page_;
    return one.holders[page] == 1 && is_ours(one, at) &&
           (one.common == nullptr || one.common->is_once_here(one.offset + page * page_));
}

int store::hold(span pages, const visitor &fresh, std::string *why) {
    if (file_ < 0)
        return ENOMEM;
    runs made;
    int error = 0;
    for (std::uintptr_t at = pages.begin; at < pages.end && error == 0;) {
        const auto behind = runs_.upper_bound(at);
        const std::uintptr_t next =
            behind == runs_.end() ? pages.end : std::min(behind->first, pages.end);
        const run *const before =
            behind == runs_.begin() ? nullptr : std::prev(behind)->second.get();
        if (before != nullptr && at < before->pages.end) {
            at = before->pages.end;
            continue;
        }
        error = map({at, next}, made, why);
        at = next;
    }
    auto vacant = made.begin();
    while (vacant != made.end() && error == 0) {
        error = take(*vacant->second, fresh);
        if (error != 0 && vacant->second->common != nullptr) {
            *why = std::string("in /dev/shm: ") + std::strerror(error);
            error = ESHARED;
        }
        if (error == 0)
            ++vacant;
    }
    if (error != 0) {
        while (vacant != made.begin()) {
            --vacant;
            end(*vacant->second, vacant->second->pages);
        }
        return error;
    }
    runs_.merge(made);
    each(pages, [&](span part, run &one) {
        for (std::uintptr_t page = part.begin; page < part.end; page += page_)
            ++holders_of(one, page);
    });
    return 0;
}

void store::let_go(span pages) {
    auto next = runs_.upper_bound(pages.begin);
    if (next != runs_.begin())
        --next;
    while (next != runs_.end() && next->first < pages.end) {
        run &one = *next->second;
        const span here = common(pages, one.pages);
        for (std::uintptr_t page = here.begin; page < here.end; page += page_)
            --holders_of(one, page);
        split(next++);
    }
}

/// In its place come runs of those of its pages that are held.
void store::split(runs::iterator which) {
    const std::vector<std::uint32_t> &counts = which->second->holders;
    if (std::find(counts.begin(), counts.end(), 0U) == counts.end())
        return;
    const std::unique_ptr<run> old = std::move(which->second);
    runs_.erase(which);
    for (std::uintptr_t page = old->pages.begin; page < old->pages.end;) {
        const bool held = holders_of(*old, page) != 0;
        span part = {page, page};
        while (part.end < old->pages.end && (holders_of(*old, part.end) != 0) == held)
            part.end += page_;
        page = part.end;
        const std::size_t from = part.begin - old->pages.begin;
        if (!held) {
            end(*old, part);
            continue;
        }
        auto left = std::make_unique<run>(*old);
        left->pages = part;
        left->place += from;
        left->offset += from;
        left->device += from;
        left->agreed = static_cast<unsigned char *>(old->agreed) + hashes_of(from);
        const auto first = old->holders.begin() + static_cast<std::ptrdiff_t>(from / page_);
        left->holders.assign(first, first + static_cast<std::ptrdiff_t>(part.size() / page_));
        runs_[part.begin] = std::move(left);
    }
}

void store::leave() noexcept {
    for (const auto &[name, each] : objects_)
        if (const std::shared_ptr<object> one = each.lock())
            one->leave();
}

store::~store() {
    for (const auto &[at, each] : runs_)
        end(*each, each->pages);
    runs_.clear();
    if (file_ >= 0)
        close(file_);
}

} // namespace coherdma::emulation
