// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The file has a head with the lock and a seat for each process, and far behind it, so that most of
// it are holes: of each page who holds it, as a bit for each seat; the hashes; the device's pages.
// Who has the file open has a lock of files on it, too, which goes with the process: a file without
// one is nobody's.

#include "object.hpp"

#include "between.hpp"

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

constexpr std::uint32_t MAGIC = 0xc0e4d101; // with the layout's version
constexpr unsigned SEATS = 64;
constexpr std::uint64_t LONGEST = std::uint64_t{1} << 40; // of an object
constexpr std::uint64_t HOLDERS = LONGEST, HASHES = 2 * LONGEST, PAGES = 4 * LONGEST;

std::string prefix() {
    return "coherdma-emulation-" + std::to_string(geteuid()) + "-";
}

/// What processes have left that ended badly.
void sweep() {
    const std::string ours = prefix();
    DIR *const all = opendir("/dev/shm");
    if (all == nullptr)
        return;
    while (const dirent *const each = readdir(all)) {
        if (std::strncmp(each->d_name, ours.c_str(), ours.size()) != 0)
            continue;
        const int file = shm_open(each->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
        if (file < 0)
            continue;
        if (flock(file, LOCK_EX | LOCK_NB) == 0)
            shm_unlink(each->d_name);
        close(file);
    }
    closedir(all);
}

bool is_limited() noexcept {
    rlimit most;
    return getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur != RLIM_INFINITY;
}

} // namespace

struct object::head {
    std::atomic<std::uint32_t> magic;
    std::uint32_t hash_bytes;
    pthread_mutex_t lock;
    struct {
        std::int32_t process; ///< 0: nobody's
        std::uint64_t since;
    } seats[SEATS];
};

object::object(int file, head *at, std::string name, std::size_t page, std::size_t hash_bytes)
    : file_(file)
    , head_(at)
    , name_(std::move(name))
    , page_(page)
    , hash_bytes_(hash_bytes) {}

/// nullptr: *why, or (*again) it was somebody's who ended or began just then.
std::shared_ptr<object> object::try_open(const std::string &name, std::size_t page,
                                         std::size_t hash_bytes, std::string &why, bool &again) {
    const int file =
        shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    why = "/dev/shm/" + name + ": ";
    struct stat is = {};
    void *at = MAP_FAILED;
    // Who is alone makes it, and loses that lock before it waits for the other kind; then it may be
    // another who has made it.
    bool alone = false;
    if (file >= 0 && fstat(file, &is) == 0 && is.st_uid == geteuid()) {
        alone = flock(file, LOCK_EX | LOCK_NB) == 0;
        if (!alone || (ftruncate(file, 0) == 0 && ftruncate(file, sizeof(head)) == 0))
            at = mmap(nullptr, sizeof(head), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    if (at == MAP_FAILED) {
        why += file < 0 || is.st_uid == geteuid() ? std::strerror(errno) : "is another user's";
        if (file >= 0)
            close(file);
        return nullptr;
    }
    auto *const all = static_cast<head *>(at);
    std::shared_ptr<object> made(new object(file, all, name, page, hash_bytes));
    if (alone) {
        init_lock(all->lock);
        all->hash_bytes = static_cast<std::uint32_t>(hash_bytes);
        all->magic.store(MAGIC);
    }
    again = flock(file, LOCK_SH) != 0 || fstat(file, &is) != 0 || is.st_nlink == 0 ||
            is.st_size < static_cast<off_t>(sizeof(head)) || all->magic.load() == 0;
    if (again)
        why += "it does not become whole";
    else if (all->magic.load() != MAGIC)
        why += "it is of another version";
    else if (all->hash_bytes != hash_bytes)
        why = "another process plays lines of another length";
    else if (made->sit_down())
        return made;
    else
        why = "more than 64 processes share it";
    return nullptr;
}

std::shared_ptr<object> object::open(object_name of, std::size_t page, std::size_t hash_bytes,
                                     std::string &why) {
    static_assert(sizeof(head) <= 4096);
    constexpr int MOST_TRIED = 1000;
    char number[40];
    std::snprintf(number, sizeof number, "%" PRIx64 "-%" PRIx64, of.device, of.inode);
    why = "ulimit -f limits files";
    if (is_limited())
        return nullptr;
    sweep();
    std::shared_ptr<object> made;
    bool again = true;
    for (int each = 0; each < MOST_TRIED && made == nullptr && again; ++each) {
        again = false;
        made = try_open(prefix() + number, page, hash_bytes, why, again);
    }
    return made;
}

/// Whose numbers of processes are known, and who lives.
std::uint64_t object::others() const noexcept {
    std::uint64_t all = 0;
    for (unsigned each = 0; each < SEATS; ++each) {
        const auto &seat = head_->seats[each];
        const std::uint64_t bit = std::uint64_t{1} << each;
        if (bit != me_ && seat.process > 0 && begin_of(seat.process) == seat.since)
            all |= bit;
    }
    return all;
}

/// A seat of somebody who died has pages still, as long as others are there.
bool object::sit_down() noexcept {
    const locked held(head_->lock);
    if (others() == 0) {
        std::memset(head_->seats, 0, sizeof head_->seats);
        fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, HOLDERS, PAGES);
    }
    for (unsigned each = 0; each < SEATS; ++each)
        if (head_->seats[each].process == 0) {
            head_->seats[each] = {getpid(), begin_of(getpid())};
            me_ = std::uint64_t{1} << each;
            return true;
        }
    return false;
}

object::~object() {
    if (me_ != 0) {
        const locked held(head_->lock);
        head_->seats[__builtin_ctzll(me_)].process = 0;
    }
    munmap(head_, sizeof(head));
    leave();
    close(file_);
}

void object::leave() noexcept {
    struct stat is = {};
    if (flock(file_, LOCK_EX | LOCK_NB) == 0 && fstat(file_, &is) == 0 && is.st_nlink != 0)
        shm_unlink(name_.c_str());
}

std::uint64_t object::place_of(std::uint64_t offset) noexcept {
    return PAGES + offset;
}
std::uint64_t object::hashes_of(std::uint64_t offset) const noexcept {
    return HASHES + offset / page_ * hash_bytes_;
}
pthread_mutex_t &object::lock() noexcept {
    living_.reset();
    return head_->lock;
}

std::uint64_t object::holders_of(std::uint64_t offset) const noexcept {
    std::uint64_t bits = 0; // behind its end: none
    const auto at = static_cast<off_t>(HOLDERS + offset / page_ * sizeof bits);
    return pread(file_, &bits, sizeof bits, at) == sizeof bits ? bits : 0;
}

bool object::set_holders(std::uint64_t offset, std::uint64_t bits) const noexcept {
    const auto at = static_cast<off_t>(HOLDERS + offset / page_ * sizeof bits);
    return pwrite(file_, &bits, sizeof bits, at) == sizeof bits;
}

/// Memory for it now: who touches a hole when there is none is killed.
int object::fill(std::uint64_t place, std::uint64_t length) const noexcept {
    for (;;) {
        const int error =
            posix_fallocate(file_, static_cast<off_t>(place), static_cast<off_t>(length));
        if (error != EINTR)
            return error == ENOSPC ? ENOMEM : error;
    }
}

bool object::is_ours(std::uint64_t offset) noexcept {
    const std::uint64_t bits = holders_of(offset) & ~me_;
    if (bits != 0 && !living_)
        living_ = others(); // not for each line
    return bits == 0 || (bits & *living_) == 0;
}

bool object::is_once_here(std::uint64_t offset) const noexcept {
    const auto found = held_.find(offset);
    return found != held_.end() && found->second == 1;
}

int object::hold(std::uint64_t offset, std::uint64_t length, const on_pages &fresh) {
    if (offset > LONGEST || length > LONGEST - offset)
        return EFBIG;
    const locked held(head_->lock);
    const std::uint64_t living = others();
    const std::uint64_t end = offset + length;
    int error = fill(place_of(offset), length);
    if (error == 0)
        error = fill(hashes_of(offset), length / page_ * hash_bytes_);
    std::uint64_t at = offset;
    for (; at < end && error == 0; at += page_) {
        const std::uint64_t bits = holders_of(at) & (living | me_);
        if (bits == 0)
            fresh(at, page_);
        if (!set_holders(at, bits | me_))
            error = ENOMEM;
        else
            ++held_[at];
    }
    while (error != 0 && at > offset)
        let_go_of(at -= page_, living);
    return error;
}

void object::let_go(std::uint64_t offset, std::uint64_t length) noexcept {
    const locked held(head_->lock);
    const std::uint64_t living = others();
    for (std::uint64_t at = offset; at < offset + length; at += page_)
        let_go_of(at, living);
}

void object::let_go_of(std::uint64_t offset, std::uint64_t living) noexcept {
    const auto found = held_.find(offset);
    if (found == held_.end() || --found->second != 0)
        return;
    held_.erase(found);
    const std::uint64_t left = holders_of(offset) & living;
    set_holders(offset, left);
    if (left == 0)
        fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(place_of(offset)), static_cast<off_t>(page_));
}

} // namespace coherdma::emulation
