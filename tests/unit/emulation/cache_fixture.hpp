// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An emulated cache for tests, with the device's pages and the findings.
#pragma once

#include "../cmocka.hpp"
#include "core/cache/cache_model.hpp"

#include <cerrno>
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

namespace emulation_test {

using namespace coherdma::emulation;

inline const std::size_t PAGE = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

inline constexpr std::size_t LINE_SIZES[] = {32, 64, 128, 256};

/// Where tests change memory: the offset of a line of any size in a program's pages.
inline constexpr std::size_t LINE_OFFSET = 1024;
/// What the program and the device write there.
inline constexpr unsigned char CPU_DATA = 0xfe, DEVICE_DATA = 0xff;

/// Read-only memory is written through /proc/self/mem, which some package builds have read-only.
inline void skip_without_writable_proc() {
    const int opened = open("/proc/self/mem", O_WRONLY | O_CLOEXEC);
    if (opened < 0 && errno == EROFS) {
        print_message("# skipped: /proc is read-only\n");
        skip();
    }
    close(opened);
}

inline std::string read_file(const std::string &name) {
    std::ostringstream text;
    text << std::ifstream(name, std::ios::binary).rdbuf();
    return text.str();
}

/// A temporary file.
class temp_file {
  public:
    explicit temp_file(const std::string &text = "") {
        const int fd = mkstemp(name_.data());
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text.data(), text.size()), text.size());
        close(fd);
    }
    ~temp_file() { remove(); }
    temp_file(const temp_file &) = delete;
    temp_file &operator=(const temp_file &) = delete;

    void remove() const { unlink(name_.c_str()); }
    [[nodiscard]] const std::string &name() const { return name_; }
    [[nodiscard]] std::vector<nlohmann::json> lines() const {
        std::ifstream stream(name_);
        std::vector<nlohmann::json> objects;
        for (std::string line; std::getline(stream, line);)
            objects.push_back(nlohmann::json::parse(line));
        return objects;
    }

  private:
    std::string name_ = "/tmp/coherdma-emulation.XXXXXX";
};

/// Pages of the program with the contents 1, 2, 3, ...
class program_pages {
  public:
    explicit program_pages(std::size_t pages)
        : size(pages * PAGE)
        , bytes(static_cast<unsigned char *>(
              mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        assert_true(bytes != MAP_FAILED);
        for (std::size_t i = 0; i < size; ++i)
            bytes[i] = static_cast<unsigned char>(i % 251 + 1);
    }
    ~program_pages() { munmap(bytes, size); }
    program_pages(const program_pages &) = delete;
    program_pages &operator=(const program_pages &) = delete;

    [[nodiscard]] std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(bytes); }
    [[nodiscard]] addr_range part(std::size_t offset, std::size_t length) const {
        return {begin() + offset, begin() + offset + length};
    }

    const std::size_t size;
    unsigned char *const bytes;
};

/// The device's copy of an MR's pages, mapped so that a test can act as the device.
class device_side {
  public:
    explicit device_side(const std::vector<cache_model::page_mapping> &mappings)
        : size_(mappings.back().addr + mappings.back().length - mappings.front().addr)
        , pages_(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        assert_true(pages_ != MAP_FAILED);
        auto *const start = static_cast<unsigned char *>(pages_);
        std::uintptr_t next = mappings.front().addr;
        for (const cache_model::page_mapping &mapping : mappings) {
            assert_true(mapping.addr == next); // in address order, without gaps
            next += mapping.length;
            assert_true(mmap(start + (mapping.addr - mappings.front().addr), mapping.length,
                             PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, mapping.fd,
                             static_cast<off_t>(mapping.file_offset)) != MAP_FAILED);
        }
        madvise(pages_, size_, MADV_DONTFORK); // a process's mapping keeps the file's locks
        base_ = start - mappings.front().addr % PAGE;
        first_ = mappings.front().addr;
    }
    ~device_side() { munmap(pages_, size_); }
    device_side(const device_side &) = delete;
    device_side &operator=(const device_side &) = delete;

    /// Where the device has its copy of the byte at an address of the program.
    unsigned char *copy_of(const void *program) const {
        return base_ + (reinterpret_cast<std::uintptr_t>(program) - first_);
    }

  private:
    std::size_t size_;
    void *pages_;
    unsigned char *base_ = nullptr;
    std::uintptr_t first_ = 0;
};

/// A cache that writes its findings to a file only.
class test_cache {
  public:
    explicit test_cache(settings config = {}, const memory_checker *checker = nullptr)
        : config_(file_only(config))
        , log_(config_)
        , cache_(config_, log_, checker) {}

    cache_model *operator->() { return &cache_; }
    cache_model &operator*() { return cache_; }

    /// Registers memory that the program has filled, and syncs it; returns the device's side.
    std::unique_ptr<device_side> add_mr(addr_range range, std::uint32_t *mr_number = nullptr) {
        auto device = add_unsynced_mr(range, mr_number);
        cache_.sync_writeback(&range, 1);
        return device;
    }
    /// The same without the sync.
    std::unique_ptr<device_side> add_unsynced_mr(addr_range range,
                                                 std::uint32_t *mr_number = nullptr) {
        memory_region mr;
        mr.range = range;
        mr.remote_read = mr.remote_write = true;
        mr.device_name = "rxe0";
        std::vector<cache_model::page_mapping> mappings;
        assert_int_equal(cache_.add_mr(mr, mappings), 0);
        cache_.set_keys(mr.number, mr.number * 256, mr.number * 256 + 1);
        if (mr_number != nullptr)
            *mr_number = mr.number;
        return std::make_unique<device_side>(mappings);
    }

    /// For a process that ends without destructors.
    void remove_files() const {
        log_file_.remove();
        suppressions_file_.remove();
    }

    /// The findings since the last call.
    std::vector<nlohmann::json> new_findings() {
        std::vector<nlohmann::json> findings = log_file_.lines(), added;
        added.assign(findings.begin() + static_cast<std::ptrdiff_t>(num_read_), findings.end());
        num_read_ = findings.size();
        return added;
    }

  private:
    settings file_only(settings config) {
        config.log_file = log_file_.name();
        config.suppressions_file = suppressions_file_.name();
        config.max_reports = 1000000;
        if (config.mode == cache_mode::OFF)
            config.mode = cache_mode::STALE;
        return config;
    }

    temp_file log_file_, suppressions_file_{"*\n"};
    settings config_;
    finding_log log_;
    cache_model cache_;
    std::size_t num_read_ = 0;
};

/// The process ends, without destructors.
inline void end_process(test_cache &cache) {
    cache->on_process_end();
    cache->report_process_end();
}

} // namespace emulation_test
