// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A played cache for tests, with the device's side of its regions, and what it tells.
#pragma once

#include "core/cache.hpp"

#include <cerrno>
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

extern "C" {
#include <cmocka.h>
}

namespace emulation_test {

using namespace coherdma::emulation;

inline const std::size_t PAGE = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

inline constexpr std::size_t SIZES[] = {32, 64, 128, 256}; // of lines

/// What may only be read is written by way of /proc, which is read-only itself where some packages
/// are built.
inline void skip_without_writable_proc() {
    const int opened = open("/proc/self/mem", O_WRONLY | O_CLOEXEC);
    if (opened < 0 && errno == EROFS) {
        print_message("# skipped: /proc is read-only\n");
        skip();
    }
    close(opened);
}

inline std::string text_of(const std::string &name) {
    std::ostringstream all;
    all << std::ifstream(name, std::ios::binary).rdbuf();
    return all.str();
}

/// A file that is gone when the test ends.
class file {
  public:
    explicit file(const std::string &text = "") {
        const int made = mkstemp(name_.data());
        assert_true(made >= 0);
        assert_int_equal(write(made, text.data(), text.size()), text.size());
        close(made);
    }
    ~file() { remove(); }
    file(const file &) = delete;
    file &operator=(const file &) = delete;

    void remove() const { unlink(name_.c_str()); }
    [[nodiscard]] const std::string &name() const { return name_; }
    [[nodiscard]] std::vector<nlohmann::json> lines() const {
        std::ifstream all(name_);
        std::vector<nlohmann::json> found;
        for (std::string line; std::getline(all, line);)
            found.push_back(nlohmann::json::parse(line));
        return found;
    }

  private:
    std::string name_ = "/tmp/coherdma-emulation.XXXXXX";
};

/// Pages of the program's, full of 1, 2, 3, ...
class memory {
  public:
    explicit memory(std::size_t pages)
        : size(pages * PAGE)
        , at(static_cast<unsigned char *>(
              mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        assert_true(at != MAP_FAILED);
        for (std::size_t each = 0; each < size; ++each)
            at[each] = static_cast<unsigned char>(each % 251 + 1);
    }
    ~memory() { munmap(at, size); }
    memory(const memory &) = delete;
    memory &operator=(const memory &) = delete;

    [[nodiscard]] std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(at); }
    [[nodiscard]] span part(std::size_t offset, std::size_t length) const {
        return {begin() + offset, begin() + offset + length};
    }

    const std::size_t size;
    unsigned char *const at;
};

/// The device's pages of a region, as the child process maps them.
class device_side {
  public:
    explicit device_side(const std::vector<cache::piece> &pieces)
        : size_(pieces.back().at + pieces.back().length - pieces.front().at)
        , all_(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        assert_true(all_ != MAP_FAILED);
        auto *const bytes = static_cast<unsigned char *>(all_);
        std::uintptr_t next = pieces.front().at;
        for (const cache::piece &each : pieces) {
            assert_true(each.at == next); // by address, and all of it
            next += each.length;
            assert_true(mmap(bytes + (each.at - pieces.front().at), each.length,
                             PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, each.file,
                             static_cast<off_t>(each.place)) != MAP_FAILED);
        }
        base_ = bytes - pieces.front().at % PAGE;
        first_ = pieces.front().at;
    }
    ~device_side() { munmap(all_, size_); }
    device_side(const device_side &) = delete;
    device_side &operator=(const device_side &) = delete;

    /// What the device has for an address of the program's.
    unsigned char *operator()(const void *program) const {
        return base_ + (reinterpret_cast<std::uintptr_t>(program) - first_);
    }

  private:
    std::size_t size_;
    void *all_;
    unsigned char *base_ = nullptr;
    std::uintptr_t first_ = 0;
};

/// A cache whose findings are only in a file.
class played {
  public:
    explicit played(settings asked = {}, const watcher *by = nullptr)
        : tells_(quiet(asked))
        , told_to_(tells_)
        , all_(tells_, told_to_, by) {}

    cache *operator->() { return &all_; }
    cache &operator*() { return all_; }

    /// Registered, and what the device has for it.
    std::unique_ptr<device_side> add(span where, std::uint32_t *number = nullptr) {
        region one;
        one.where = where;
        one.readable = one.writable = true;
        one.device = "rxe0";
        std::vector<cache::piece> pieces;
        assert_int_equal(all_.add(one, pieces), 0);
        all_.name(one.number, one.number * 256, one.number * 256 + 1);
        if (number != nullptr)
            *number = one.number;
        return std::make_unique<device_side>(pieces);
    }

    /// In a process that will not end as it should.
    void remove_files() const {
        log_.remove();
        all_known_.remove();
    }

    /// What was told since the last time.
    std::vector<nlohmann::json> told() {
        std::vector<nlohmann::json> all = log_.lines(), news;
        news.assign(all.begin() + static_cast<std::ptrdiff_t>(heard_), all.end());
        heard_ = all.size();
        return news;
    }

  private:
    settings quiet(settings asked) {
        asked.log = log_.name();
        asked.suppressions = all_known_.name();
        asked.limit = 1000000;
        if (asked.plays == mode::NONE)
            asked.plays = mode::STALE;
        return asked;
    }

    file log_, all_known_{"*\n"};
    settings tells_;
    findings told_to_;
    cache all_;
    std::size_t heard_ = 0;
};

} // namespace emulation_test
