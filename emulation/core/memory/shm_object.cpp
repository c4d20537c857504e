// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Layout of the file, mostly holes: a header with the mutex and the slots that are taken; for each
// page its holders, a bit for each slot; the hashes; the device's pages. Each process that has the
// file open has a flock on it, which ends with the process: a file without one is unused. It also
// has a slot (slot_lock.hpp): what a process holds whose slot is not locked any more is free.

#include "shm_object.hpp"

#include "private_shm.hpp"
#include "robust_mutex.hpp"
#include "slot_lock.hpp"

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace coherdma::emulation {
namespace {

constexpr std::uint32_t MAGIC = 0xc0e4d102; // contains the version of the layout
constexpr unsigned NUM_SLOTS = 64;
constexpr std::uint64_t MAX_LENGTH = std::uint64_t{1} << 40; // of the shared memory
constexpr std::uint64_t HOLDERS_OFFSET = MAX_LENGTH, HASHES_OFFSET = 2 * MAX_LENGTH,
                        PAGES_OFFSET = 4 * MAX_LENGTH;

std::string name_prefix() {
    return "coherdma-emulation-" + std::to_string(geteuid()) + "-";
}

/// Removes the file unless another process has it open. A process removes only what it has locked:
/// if the locked file has a name at all, no other file has taken the name.
void unlink_unused_file(int fd, const char *name) noexcept {
    struct stat status = {};
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &status) == 0 && status.st_nlink != 0)
        shm_unlink(name);
}

/// Removes files of processes that were killed.
void remove_unused_files() {
    const std::string prefix = name_prefix();
    DIR *const dir = opendir("/dev/shm");
    if (dir == nullptr)
        return;
    while (const dirent *const entry = readdir(dir)) {
        if (std::strncmp(entry->d_name, prefix.c_str(), prefix.size()) != 0)
            continue;
        const int fd = shm_open(entry->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
        if (fd < 0)
            continue;
        unlink_unused_file(fd, entry->d_name);
        close(fd);
    }
    closedir(dir);
}

} // namespace

struct shm_object::header {
    std::atomic<std::uint32_t> magic;
    std::uint32_t hash_bytes;
    pthread_mutex_t mutex;
    std::uint64_t taken_slots; ///< a bit for each slot, also of dead processes
};

shm_object::shm_object(int fd, header *file_header, std::string name, std::size_t page_size,
                       std::size_t hash_bytes)
    : file_(fd)
    , header_(file_header)
    , name_(std::move(name))
    , page_size_(page_size)
    , hash_bytes_(hash_bytes) {}

/// Opens or creates the file and takes a slot in it. nullptr: see reason. retry: another process
/// created or removed the file at the same time.
std::shared_ptr<shm_object> shm_object::try_open(const std::string &name, std::size_t page_size,
                                                 std::size_t hash_bytes, std::string &reason,
                                                 bool &retry) {
    const int fd = open_private_shm(name, reason);
    if (fd < 0)
        return nullptr;
    close_at_fork(fd);
    reason = "/dev/shm/" + name + ": ";
    struct stat status = {};
    void *mapped = MAP_FAILED;
    // The holder of the exclusive flock initializes the file. Exclusive to shared is not atomic:
    // another process may initialize the file in between, so it is checked under the shared lock.
    const bool is_creator = flock(fd, LOCK_EX | LOCK_NB) == 0;
    int error = is_creator && ftruncate(fd, 0) != 0 ? errno : 0;
    if (error == 0 && is_creator)
        error = allocate_shm(fd, 0, sizeof(header));
    if (error == 0)
        mapped = map_slot_file(fd, sizeof(header));
    if (mapped == MAP_FAILED) {
        reason += std::strerror(error != 0 ? error : errno);
        close_slot_file(fd);
        return nullptr;
    }
    auto *const file_header = static_cast<header *>(mapped);
    std::shared_ptr<shm_object> object(
        new shm_object(fd, file_header, name, page_size, hash_bytes));
    if (is_creator) {
        init_robust_mutex(file_header->mutex);
        file_header->hash_bytes = static_cast<std::uint32_t>(hash_bytes);
        file_header->magic.store(MAGIC);
    }
    retry = flock(fd, LOCK_SH) != 0 || fstat(fd, &status) != 0 || status.st_nlink == 0 ||
            status.st_size < static_cast<off_t>(sizeof(header)) || file_header->magic.load() == 0;
    if (retry)
        reason += "not initialized";
    else if (file_header->magic.load() != MAGIC)
        reason += "has another version";
    else if (file_header->hash_bytes != hash_bytes)
        reason = "another process emulates another line size";
    else if (object->claim_slot())
        return object;
    else
        reason = "more than 64 processes share it";
    return nullptr;
}

/// The file with the device's pages of this shared memory. nullptr: see reason.
std::shared_ptr<shm_object> shm_object::open(shm_id id, std::size_t page_size,
                                             std::size_t hash_bytes, std::string &reason) {
    static_assert(sizeof(header) <= 4096);
    constexpr int MAX_TRIES = 1000;
    char id_text[40];
    std::snprintf(id_text, sizeof id_text, "%" PRIx64 "-%" PRIx64, id.device, id.inode);
    reason = "the file size is limited (ulimit -f)";
    if (is_file_size_limited(RLIM_INFINITY))
        return nullptr;
    remove_unused_files();
    std::shared_ptr<shm_object> object;
    bool retry = true;
    for (int i = 0; i < MAX_TRIES && object == nullptr && retry; ++i) {
        retry = false;
        object = try_open(name_prefix() + id_text, page_size, hash_bytes, reason, retry);
    }
    return object;
}

/// A bit for each slot of another process that lives.
std::uint64_t shm_object::other_live_slots() const noexcept {
    std::uint64_t live = 0;
    for (unsigned i = 0; i < NUM_SLOTS; ++i) {
        const std::uint64_t bit = std::uint64_t{1} << i;
        if (bit != slot_bit_ && (header_->taken_slots & bit) != 0 && is_slot_locked(fd(), i))
            live |= bit;
    }
    return live;
}

/// Takes a slot for this process; false: there is none. The slot of a dead process is not reused
/// while other processes live: pages still have its bit.
bool shm_object::claim_slot() noexcept {
    const robust_lock_guard guard(header_->mutex);
    if (other_live_slots() == 0) {
        header_->taken_slots = 0;
        fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, HOLDERS_OFFSET, PAGES_OFFSET);
    }
    for (unsigned i = 0; i < NUM_SLOTS; ++i) {
        const std::uint64_t bit = std::uint64_t{1} << i;
        if ((header_->taken_slots & bit) != 0 || !lock_slot(fd(), i))
            continue;
        header_->taken_slots |= bit;
        slot_bit_ = bit;
        return true;
    }
    return false;
}

/// Frees the slot of this process. The last process removes the file.
shm_object::~shm_object() {
    if (slot_bit_ != 0) {
        const robust_lock_guard guard(header_->mutex);
        header_->taken_slots &= ~slot_bit_;
    }
    munmap(header_, sizeof(header));
    unlink_if_unused();
    close_slot_file(fd());
}

void shm_object::unlink_if_unused() noexcept {
    if (file_.is_open())
        unlink_unused_file(fd(), name_.c_str());
}

std::uint64_t shm_object::page_offset(std::uint64_t offset) noexcept {
    return PAGES_OFFSET + offset;
}
std::uint64_t shm_object::hashes_offset(std::uint64_t offset) const noexcept {
    return HASHES_OFFSET + offset / page_size_ * hash_bytes_;
}
pthread_mutex_t &shm_object::mutex() noexcept {
    cached_other_slots_.reset();
    return header_->mutex;
}

std::uint64_t shm_object::read_holders(std::uint64_t offset) const noexcept {
    std::uint64_t holders = 0; // none beyond the end of the file
    const auto file_offset =
        static_cast<off_t>(HOLDERS_OFFSET + offset / page_size_ * sizeof holders);
    return pread(fd(), &holders, sizeof holders, file_offset) == sizeof holders ? holders : 0;
}

bool shm_object::write_holders(std::uint64_t offset, std::uint64_t holders) const noexcept {
    const auto file_offset =
        static_cast<off_t>(HOLDERS_OFFSET + offset / page_size_ * sizeof holders);
    return pwrite(fd(), &holders, sizeof holders, file_offset) == sizeof holders;
}

int shm_object::allocate(std::uint64_t file_offset, std::uint64_t length) const noexcept {
    const int error = allocate_shm(fd(), file_offset, length);
    return error == ENOSPC ? ENOMEM : error;
}

bool shm_object::has_no_other_holder(std::uint64_t offset) noexcept {
    const std::uint64_t others = read_holders(offset) & ~slot_bit_;
    if (others != 0 && !cached_other_slots_)
        cached_other_slots_ = other_live_slots(); // too slow for each line
    return others == 0 || (others & *cached_other_slots_) == 0;
}

std::uint32_t shm_object::num_refs(std::uint64_t offset) const noexcept {
    const auto it = ref_counts_.find(offset);
    return it != ref_counts_.end() ? it->second : 0;
}

/// Takes a reference to each page. Calls init, under the mutex, for pages that no live process
/// held. Returns 0 or an errno: then no reference is taken.
int shm_object::get_pages(std::uint64_t offset, std::uint64_t length, const page_visitor &init) {
    if (offset > MAX_LENGTH || length > MAX_LENGTH - offset)
        return EFBIG;
    if (!file_.is_open())
        return EBADF;
    const robust_lock_guard guard(header_->mutex);
    const std::uint64_t other_slots = other_live_slots();
    const std::uint64_t end = offset + length;
    int error = allocate(page_offset(offset), length);
    if (error == 0)
        error = allocate(hashes_offset(offset), length / page_size_ * hash_bytes_);
    std::uint64_t page = offset;
    for (; page < end && error == 0; page += page_size_) {
        const std::uint64_t holders = read_holders(page) & (other_slots | slot_bit_);
        if (holders == 0)
            init(page, page_size_);
        if (!write_holders(page, holders | slot_bit_))
            error = ENOMEM;
        else
            ++ref_counts_[page];
    }
    while (error != 0 && page > offset)
        put_page(page -= page_size_, other_slots);
    return error;
}

void shm_object::put_pages(std::uint64_t offset, std::uint64_t length) noexcept {
    const robust_lock_guard guard(header_->mutex);
    const std::uint64_t other_slots = other_live_slots();
    for (std::uint64_t page = offset; page < offset + length; page += page_size_)
        put_page(page, other_slots);
}

/// Drops a reference to a page of this process; frees the page if no live process holds it. With
/// the mutex.
void shm_object::put_page(std::uint64_t offset, std::uint64_t other_slots) noexcept {
    const auto it = ref_counts_.find(offset);
    if (it == ref_counts_.end() || --it->second != 0)
        return;
    ref_counts_.erase(it);
    if (!file_.is_open())
        return;
    const std::uint64_t holders = read_holders(offset) & other_slots;
    write_holders(offset, holders);
    if (holders == 0)
        fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(page_offset(offset)), static_cast<off_t>(page_size_));
}

} // namespace coherdma::emulation
