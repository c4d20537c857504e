// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The command line of a subcommand that runs COMMAND, and the files that the session reads and
// writes.
#pragma once

#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace tools::run {

/// COMMAND and its arguments, unchanged. remaining: what the command line parser returns of a
/// subcommand that is a prefix: unknown options before COMMAND, and everything after "--". Throws
/// cli::usage_error.
std::vector<std::string> build_arguments(const std::string &subcommand, const std::string &program,
                                         const std::vector<std::string> &remaining);

/// For an option: why the file cannot be read, or "".
std::string check_readable(const std::string &path);

/// The executable file that a command's name stands for: a path, or the first one of the name in
/// PATH; "": there is none.
std::string find_program(const std::string &name);

/// A file that the user names, opened before the run, so that an error is reported early. Throws
/// std::runtime_error if it cannot be written.
class output_file {
  public:
    /// path: "": there is none, and text is discarded.
    explicit output_file(std::string path);
    void write(const std::string &text);
    void flush();
    [[nodiscard]] bool exists() const noexcept { return !path_.empty(); }

  private:
    std::string path_;
    std::ofstream stream_;
};

/// A temporary folder, removed with its content by the destructor.
class temp_folder {
  public:
    /// Its name begins with this.
    explicit temp_folder(const std::string &prefix);
    ~temp_folder();
    temp_folder(const temp_folder &) = delete;
    temp_folder &operator=(const temp_folder &) = delete;
    [[nodiscard]] const std::string &path() const noexcept { return path_; }

  private:
    std::string path_;
};

/// The files PID.json of a folder, by their PID, which is mostly the order of their start; none if
/// the folder is gone.
std::map<long, std::string> list_process_logs(const std::string &folder);

/// Throws std::runtime_error if it cannot be read.
std::string read_file(const std::string &path);

} // namespace tools::run
