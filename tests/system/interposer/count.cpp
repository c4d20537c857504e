// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An observer that counts, and writes what it counted when the process ends, as lines "NAME
// NUMBER", to the file COUNT_FILE. It checks what the interposer promises; a broken promise ends
// the process with status 99. In the environment: COUNT_ONLY: it does not check requests, which
// takes time. COUNT_DECLINE: it wants no device's events. COUNT_MOVE_MR: it registers other memory
// than the program asks for, under the program's addresses. COUNT_DELAY_SENDS: so many microseconds
// pass until the driver gets a send.

#include "interposer/observer.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace coherdma::interposer;

using counter = std::atomic<unsigned long>;

constexpr std::array<const char *, 10> KIND_NAMES = {"context", "pd",  "mr", "mw", "channel",
                                                     "cq",      "srq", "qp", "ah", "cm_id"};

/// What a request moves; others are not counted by their kinds.
enum class transfer : unsigned char { MESSAGE, WRITE, READ, ATOMIC, OTHER };
constexpr std::array<const char *, 5> TRANSFER_NAMES = {"message", "write", "read", "atomic",
                                                        "other"};

transfer transfer_of(ibv_wr_opcode opcode) noexcept {
    switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
        return transfer::MESSAGE;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return transfer::WRITE;
    case IBV_WR_RDMA_READ:
        return transfer::READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return transfer::ATOMIC;
    default:
        return transfer::OTHER;
    }
}

std::uint64_t length_of(const ibv_sge *sges, int num_sge) noexcept {
    std::uint64_t length = 0;
    for (int i = 0; i < num_sge; ++i)
        length += sges[i].length;
    return length;
}

class count : public observer {
  public:
    bool on_open(ibv_context &, int &) override {
        ++opens_;
        return std::getenv("COUNT_DECLINE") == nullptr;
    }

    void on_create(const object &created) override {
        ++created_[static_cast<std::size_t>(created.kind)];
        const std::lock_guard guard(mutex_);
        if (!alive_.emplace(created.number, created.handle).second)
            break_promise("a number is used once");
        if (created.creation.depth < 2)
            break_promise("an object has the stack of its creation");
    }
    void on_destroy(const object &destroyed, int error) override {
        if (error != 0)
            return;
        ++destroyed_[static_cast<std::size_t>(destroyed.kind)];
        const std::lock_guard guard(mutex_);
        if (alive_.erase(destroyed.number) != 1)
            break_promise("an object is destroyed once");
    }

    ibv_mr *reg_mr(const registration &asked, registrar &next) override {
        if (asked.kind != memory_kind::PROGRAM || std::getenv("COUNT_MOVE_MR") == nullptr)
            return next.reg_mr(asked);
        // At the same offset in its page, as the device finds pages by their addresses.
        const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(asked.addr) % MAX_PAGE_SIZE;
        void *const memory = mmap(nullptr, offset + asked.length, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        registration moved = asked;
        moved.addr = static_cast<char *>(memory) + offset;
        ibv_mr *const mr = next.reg_mr(moved);
        if (mr != nullptr && mr->addr == moved.addr)
            ++moved_mrs_;
        return mr;
    }

    std::chrono::microseconds delay_of_sends(const object &) override {
        const char *const setting = std::getenv("COUNT_DELAY_SENDS");
        return std::chrono::microseconds(setting != nullptr ? std::atoi(setting) : 0);
    }

    void before_send(const request &sent, ibv_send_wr &wr) override {
        const std::uint64_t length = length_of(wr.sg_list, wr.num_sge);
        const auto kind = static_cast<std::size_t>(transfer_of(sent.opcode));
        ++sends_;
        send_bytes_ += length;
        ++transfers_[kind];
        transfer_bytes_[kind] += length;
        add(sent);
    }
    void before_receive(const request &receive, ibv_recv_wr &) override {
        ++receives_;
        add(receive);
    }
    void on_post(const request &, const ibv_send_wr &) override { ++accepted_; }
    void on_refuse(const request &refused) override {
        ++refused_;
        end(refused);
    }
    void on_completion(ibv_cq &, completion &polled) override {
        ++completions_;
        if (polled.wc.status != IBV_WC_SUCCESS)
            ++failed_;
        if (polled.completed == nullptr)
            ++unknown_;
        else {
            end(*polled.completed);
            if (polled.completed->wr_id != polled.wc.wr_id) {
                const std::lock_guard guard(mutex_);
                break_promise("a completion has the wr_id of its request");
            }
            if (polled.completed->is_receive && polled.wc.status == IBV_WC_SUCCESS)
                receive_bytes_ += polled.wc.byte_len;
        }
        for (const request &silent : polled.silent) {
            ++silent_;
            end(silent);
            if (silent.is_signaled || silent.is_receive || polled.completed == nullptr ||
                silent.queue != polled.completed->queue) {
                const std::lock_guard guard(mutex_);
                break_promise("silent requests are unsignaled ones of the same queue");
            }
        }
    }
    void on_poll(ibv_cq &, int) override { ++polls_; }
    void on_fork() override {
        // Threads of the parent may have held the mutex; its objects are not the child's.
        new (&mutex_) std::mutex;
        new (&alive_) std::map<std::uint64_t, const void *>;
        new (&outstanding_) std::set<std::uint64_t>;
        for (counter *const reset :
             {&opens_, &moved_mrs_, &accepted_, &sends_, &receives_, &send_bytes_, &receive_bytes_,
              &refused_, &completions_, &failed_, &unknown_, &silent_, &polls_})
            *reset = 0;
        for (std::size_t kind = 0; kind < KIND_NAMES.size(); ++kind)
            created_[kind] = destroyed_[kind] = 0;
        for (std::size_t kind = 0; kind < TRANSFER_NAMES.size(); ++kind)
            transfers_[kind] = transfer_bytes_[kind] = 0;
    }

    /// With the mutex, or before the first event.
    void break_promise(const char *promise) { broken_.insert(promise); }

    /// Writes the counts. A broken promise ends the program with BROKEN_STATUS.
    void report() noexcept {
        if (std::FILE *const file = open_file()) {
            write(file);
            std::fclose(file);
        }
        const std::lock_guard guard(mutex_);
        for (const std::string &promise : broken_)
            std::fprintf(stderr, "interposer: a promise is broken: %s\n", promise.c_str());
        if (!broken_.empty())
            std::_Exit(BROKEN_STATUS);
    }

  private:
    static constexpr int BROKEN_STATUS = 99;
    static constexpr std::uintptr_t MAX_PAGE_SIZE = 65536; ///< of any machine

    /// COUNT_FILE, in which %p stands for the process's number; nullptr: nothing is to be written.
    static std::FILE *open_file() {
        const char *const setting = std::getenv("COUNT_FILE");
        if (setting == nullptr)
            return nullptr;
        std::string path = setting;
        if (const std::size_t position = path.find("%p"); position != std::string::npos)
            path.replace(position, 2, std::to_string(getpid()));
        return std::fopen(path.c_str(), "w");
    }

    void write(std::FILE *file) {
        for (std::size_t kind = 0; kind < KIND_NAMES.size(); ++kind) {
            std::fprintf(file, "%s.created %lu\n", KIND_NAMES[kind], created_[kind].load());
            std::fprintf(file, "%s.destroyed %lu\n", KIND_NAMES[kind], destroyed_[kind].load());
        }
        for (std::size_t kind = 0; kind < TRANSFER_NAMES.size(); ++kind) {
            std::fprintf(file, "%s.requests %lu\n", TRANSFER_NAMES[kind], transfers_[kind].load());
            std::fprintf(file, "%s.bytes %lu\n", TRANSFER_NAMES[kind],
                         transfer_bytes_[kind].load());
        }
        std::fprintf(file,
                     "opens %lu\nmoved_mrs %lu\naccepted %lu\nsends %lu\nreceives %lu\nsend_bytes "
                     "%lu\nreceive_bytes %lu\nrefused %lu\n"
                     "completions %lu\nfailed %lu\nunknown %lu\nsilent %lu\npolls %lu\n",
                     opens_.load(), moved_mrs_.load(), accepted_.load(), sends_.load(),
                     receives_.load(), send_bytes_.load(), receive_bytes_.load(), refused_.load(),
                     completions_.load(), failed_.load(), unknown_.load(), silent_.load(),
                     polls_.load());
        const std::lock_guard guard(mutex_);
        std::fprintf(file, "outstanding %zu\n", outstanding_.size());
    }

    void add(const request &added) {
        if (!checks_promises_)
            return;
        const std::lock_guard guard(mutex_);
        if (!outstanding_.insert(added.number).second)
            break_promise("a request has a number of its own");
    }
    void end(const request &ended) {
        if (!checks_promises_)
            return;
        const std::lock_guard guard(mutex_);
        if (outstanding_.erase(ended.number) != 1)
            break_promise("a request ends once");
    }

    const bool checks_promises_ = std::getenv("COUNT_ONLY") == nullptr;
    std::array<counter, KIND_NAMES.size()> created_{}, destroyed_{};
    std::array<counter, TRANSFER_NAMES.size()> transfers_{}, transfer_bytes_{};
    counter opens_ = 0, moved_mrs_ = 0, accepted_ = 0, sends_ = 0, receives_ = 0, send_bytes_ = 0,
            receive_bytes_ = 0, refused_ = 0, completions_ = 0, failed_ = 0, unknown_ = 0,
            silent_ = 0, polls_ = 0;
    std::mutex mutex_; ///< protects the following
    std::map<std::uint64_t, const void *> alive_;
    std::set<std::uint64_t> outstanding_;
    std::set<std::string> broken_;
};

count *counted = nullptr;

} // namespace

extern "C" [[gnu::visibility("default")]] observer *coherdma_make_observer_9() {
    if (counted != nullptr)
        counted->break_promise("a module is asked for its observer once");
    else
        counted = new count;
    std::atexit([] { counted->report(); });
    return counted;
}
