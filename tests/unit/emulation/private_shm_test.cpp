// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A file in /dev/shm that another user made, or can open, is not used: neither the file of requests
// between processes nor those of the device's pages.

#include "cache_fixture.hpp"
#include "core/memory/private_shm.hpp"
#include "core/memory/shared_mappings.hpp"
#include "core/memory/shm_object.hpp"

#include <csignal>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace emulation_test;

namespace {

constexpr uid_t OTHER_USER = 65534;

/// A name in /dev/shm that no other test uses. The file is removed before and after.
struct shm_name {
    std::string name =
        "coherdma-private-shm-test-" + std::to_string(geteuid()) + "-" + std::to_string(getpid());
    std::string path = "/dev/shm/" + name;
    shm_name() { unlink(path.c_str()); }
    ~shm_name() { unlink(path.c_str()); }
    shm_name(const shm_name &) = delete;
    shm_name &operator=(const shm_name &) = delete;
};

void make_file(const std::string &path, mode_t mode, const char *text = "") {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_return_code(fchmod(fd, mode), 0);
    assert_int_equal(write(fd, text, std::strlen(text)), std::strlen(text));
    close(fd);
}

void assert_refused(const shm_name &file, const std::string &expected) {
    std::string reason;
    const int fd = open_private_shm(file.name, reason);
    assert_int_equal(fd, -1);
    assert_string_equal(reason.c_str(), (file.path + " " + expected).c_str());
}

/// A process of another user that has made the file, for all users, and holds all its locks.
class other_user_process {
  public:
    explicit other_user_process(const std::string &path) {
        int ready[2];
        assert_return_code(pipe2(ready, O_CLOEXEC), 0);
        pid_ = fork();
        if (pid_ == 0) {
            const bool is_other = setgid(OTHER_USER) == 0 && setuid(OTHER_USER) == 0;
            const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
            if (is_other && fd >= 0 && fchmod(fd, 0666) == 0 && flock(fd, LOCK_EX) == 0 &&
                lockf(fd, F_LOCK, 0) == 0 && write(ready[1], "", 1) == 1)
                pause();
            _exit(1);
        }
        close(ready[1]);
        char byte;
        assert_int_equal(read(ready[0], &byte, 1), 1);
        close(ready[0]);
    }
    ~other_user_process() {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    other_user_process(const other_user_process &) = delete;
    other_user_process &operator=(const other_user_process &) = delete;

  private:
    pid_t pid_;
};

void skip_without_root() {
    if (geteuid() == 0)
        return;
    print_message("# skipped: it needs root\n");
    skip();
}

void file_is_created_for_its_user_only(void **) {
    const shm_name file;
    std::string reason;
    const mode_t mask = umask(0);
    const int fd = open_private_shm(file.name, reason);
    umask(mask);
    assert_true(fd >= 0);
    struct stat status = {};
    assert_return_code(fstat(fd, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(status.st_size, 0);
    const int second_fd = open_private_shm(file.name, reason);
    assert_true(second_fd >= 0);
    close(second_fd);
    close(fd);
}

void file_that_others_can_open_is_refused(void **) {
    for (const mode_t mode : {0660u, 0606u, 0640u, 0604u}) {
        const shm_name file;
        make_file(file.path, mode);
        char expected[80];
        std::snprintf(expected, sizeof expected,
                      "can be opened by other users (mode %04o); type: rm ", mode);
        assert_refused(file, expected + file.path);
    }
}

void symbolic_link_is_refused(void **) {
    const shm_name file;
    const std::string target = file.path + "-target";
    assert_return_code(symlink(target.c_str(), file.path.c_str()), 0);
    assert_refused(file, "is a symbolic link; type: rm " + file.path);
    assert_int_equal(access(target.c_str(), F_OK), -1);
}

void other_kinds_of_files_are_refused(void **) {
    const shm_name file;
    assert_return_code(mkfifo(file.path.c_str(), 0600), 0);
    assert_refused(file, "is not a regular file; type: rm " + file.path);
}

void folder_is_refused(void **) {
    const shm_name file;
    assert_return_code(mkdir(file.path.c_str(), 0700), 0);
    assert_refused(file, "is a folder; type: rm -r " + file.path);
    assert_return_code(rmdir(file.path.c_str()), 0);
}

/// Another user can give a second name to a file of this user.
void hard_link_is_refused_and_its_file_kept(void **) {
    const shm_name file;
    const std::string original = file.path + "-original";
    unlink(original.c_str());
    make_file(original, 0600, "text");
    assert_return_code(link(original.c_str(), file.path.c_str()), 0);
    assert_refused(file, "has another name, a hard link; type: rm " + file.path);
    assert_string_equal(read_file(original).c_str(), "text");
    unlink(original.c_str());
}

void file_of_another_user_is_refused(void **) {
    skip_without_root();
    const shm_name file;
    const other_user_process other(file.path);
    assert_refused(file, "belongs to user 65534, not to user 0; type: rm " + file.path);
}

/// In a child, since a process cannot become root again.
void ordinary_user_refuses_file_of_root(void **) {
    skip_without_root();
    const shm_name file;
    make_file(file.path, 0666);
    const pid_t child = fork();
    if (child == 0) {
        std::string reason;
        const bool is_refused = setgid(OTHER_USER) == 0 && setuid(OTHER_USER) == 0 &&
                                open_private_shm(file.name, reason) == -1;
        _exit(is_refused && reason == file.path +
                                          " belongs to user 0, not to user 65534; as root: "
                                          "rm " +
                                          file.path
                  ? 0
                  : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/// The file with the device's pages of the shared memory id.
std::string pages_path(shm_id id) {
    std::ostringstream path;
    path << "/dev/shm/coherdma-emulation-" << geteuid() << '-' << std::hex << id.device << '-'
         << id.inode;
    return path.str();
}

/// Device and inode that no shared memory of a test has.
shm_id unused_id() {
    shm_id id = {};
    id.device = 0xffff;
    id.inode = static_cast<decltype(id.inode)>(getpid());
    return id;
}

void device_pages_are_not_in_a_file_of_others(void **) {
    const shm_id id = unused_id();
    const std::string path = pages_path(id), original = path + "-original";
    std::string reason;
    make_file(original, 0600, "text");
    assert_return_code(link(original.c_str(), path.c_str()), 0);
    // A lock, since an unused file is removed first.
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    assert_return_code(flock(fd, LOCK_SH), 0);
    assert_null(shm_object::open(id, PAGE, 8, reason).get());
    assert_string_equal(reason.c_str(),
                        (path + " has another name, a hard link; type: rm " + path).c_str());
    assert_string_equal(read_file(original).c_str(), "text");
    close(fd);
    unlink(original.c_str());
    unlink(path.c_str());
}

void device_pages_are_not_in_a_file_of_another_user(void **) {
    skip_without_root();
    const shm_id id = unused_id();
    const std::string path = pages_path(id);
    const other_user_process other(path);
    std::string reason;
    assert_null(shm_object::open(id, PAGE, 8, reason).get());
    assert_string_equal(reason.c_str(),
                        (path + " belongs to user 65534, not to user 0; type: rm " + path).c_str());
    unlink(path.c_str());
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(file_is_created_for_its_user_only),
        cmocka_unit_test(file_that_others_can_open_is_refused),
        cmocka_unit_test(symbolic_link_is_refused),
        cmocka_unit_test(other_kinds_of_files_are_refused),
        cmocka_unit_test(folder_is_refused),
        cmocka_unit_test(hard_link_is_refused_and_its_file_kept),
        cmocka_unit_test(file_of_another_user_is_refused),
        cmocka_unit_test(ordinary_user_refuses_file_of_root),
        cmocka_unit_test(device_pages_are_not_in_a_file_of_others),
        cmocka_unit_test(device_pages_are_not_in_a_file_of_another_user),
    };
    return cmocka_run_group_tests_name("private_shm", tests, nullptr, nullptr);
}
