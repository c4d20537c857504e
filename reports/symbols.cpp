// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "symbols.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <unistd.h>

namespace coherdma::reports {
namespace {

struct free_memory {
    void operator()(void *memory) const noexcept { std::free(memory); }
};

std::string demangle(const char *name) {
    if (name == nullptr)
        return "??";
    int status = 0;
    const std::unique_ptr<char, free_memory> text(
        abi::__cxa_demangle(name, nullptr, nullptr, &status));
    return text ? text.get() : name;
}

/// Searches this machine only: dwfl_standard_find_debuginfo() may ask a debuginfod server.
int find_debuginfo(Dwfl_Module *module, void **user_data, const char *module_name, Dwarf_Addr base,
                   const char *file_name, const char *debuglink_file, GElf_Word debuglink_crc,
                   char **debuginfo_file_name) {
    return dwfl_build_id_find_debuginfo(module, user_data, module_name, base, file_name,
                                        debuglink_file, debuglink_crc, debuginfo_file_name);
}

constexpr Dwfl_Callbacks callbacks = {dwfl_linux_proc_find_elf, find_debuginfo, nullptr, nullptr};

/// The path of a source file. With -ffile-prefix-map=ROOT=. the folder of the build is relative to
/// ROOT, and so is a name that begins with "./"; other names are relative to the folder of the
/// build, as always.
std::string source_path(std::string_view name, std::string_view build_folder) {
    if (!build_folder.starts_with('/') && name.starts_with("./"))
        build_folder = {};
    return (std::filesystem::path(build_folder) / name).lexically_normal();
}

std::string frame_text(const std::string &function, const std::string &file, int line) {
    return function + " (" + file + ":" + std::to_string(line) + ")";
}

/// nullptr: there is no debug information for the address. GCC writes an index of addresses; clang
/// does not, so that all compile units are searched.
Dwarf_Die *find_compile_unit(Dwfl_Module *module, Dwarf_Addr addr, Dwarf_Addr &bias) {
    if (Dwarf_Die *const indexed = dwfl_module_addrdie(module, addr, &bias))
        return indexed;
    Dwarf_Die *unit = nullptr;
    while ((unit = dwfl_module_nextcu(module, unit, &bias)) != nullptr)
        if (dwarf_haspc(unit, addr - bias) == 1)
            break;
    return unit;
}

/// The function's name, with the namespace and arguments if the compiler has recorded the linkage
/// name.
std::string name_of(Dwarf_Die &function) {
    Dwarf_Attribute attr;
    const char *const linkage_name =
        dwarf_formstring(dwarf_attr_integrate(&function, DW_AT_linkage_name, &attr));
    return demangle(linkage_name != nullptr ? linkage_name : dwarf_diename(&function));
}

/// Where an inlined function is called: file and line.
bool find_inline_call(Dwarf_Die &compile_unit, std::string_view build_folder, Dwarf_Die &inlined,
                      std::string &file, int &line) {
    Dwarf_Attribute attr;
    Dwarf_Word file_index = 0, call_line = 0;
    Dwarf_Files *files = nullptr;
    std::size_t num_files = 0;
    if (dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_file, &attr), &file_index) != 0 ||
        dwarf_formudata(dwarf_attr(&inlined, DW_AT_call_line, &attr), &call_line) != 0 ||
        dwarf_getsrcfiles(&compile_unit, &files, &num_files) != 0)
        return false;
    const char *const name = dwarf_filesrc(files, file_index, nullptr, nullptr);
    if (name == nullptr)
        return false;
    file = source_path(name, build_folder);
    line = static_cast<int>(call_line);
    return true;
}

/// The function of the address and those that are inlined there, outermost first; false: it is not
/// in this DIE. Where dwarf_getscopes() does not look: in namespaces, and in classes of functions.
bool find_functions(Dwarf_Die &parent, Dwarf_Addr addr, std::vector<Dwarf_Die> &functions) {
    Dwarf_Die die;
    for (int error = dwarf_child(&parent, &die); error == 0; error = dwarf_siblingof(&die, &die)) {
        const int tag = dwarf_tag(&die);
        const bool is_function = tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
        const bool has_address =
            (is_function || tag == DW_TAG_lexical_block) && dwarf_haspc(&die, addr) == 1;
        if (has_address && is_function)
            functions.push_back(die);
        if (has_address) {
            find_functions(die, addr, functions);
            return true;
        }
        const bool may_have_functions = tag == DW_TAG_namespace || tag == DW_TAG_class_type ||
                                        tag == DW_TAG_structure_type || tag == DW_TAG_union_type ||
                                        tag == DW_TAG_subprogram;
        if (may_have_functions && find_functions(die, addr, functions))
            return true;
    }
    return false;
}

/// Not thread-safe.
class symbol_table {
  public:
    symbol_table()
        : dwfl_(dwfl_begin(&callbacks)) {}

    const std::vector<std::string> &describe(Dwarf_Addr addr) {
        const auto [it, is_new] = frames_.try_emplace(addr);
        if (is_new)
            it->second = make_frames(addr);
        return it->second;
    }

    std::string describe_data(Dwarf_Addr addr) {
        Dwfl_Module *const module = find_module(addr);
        GElf_Off offset = 0;
        GElf_Sym symbol;
        const char *const name =
            module != nullptr
                ? dwfl_module_addrinfo(module, addr, &offset, &symbol, nullptr, nullptr, nullptr)
                : nullptr;
        if (name == nullptr || GELF_ST_TYPE(symbol.st_info) != STT_OBJECT ||
            offset >= symbol.st_size)
            return "";
        return demangle(name) + (offset != 0 ? "+" + std::to_string(offset) : "");
    }

  private:
    struct end_session {
        void operator()(Dwfl *dwfl) const noexcept { dwfl_end(dwfl); }
    };

    Dwfl_Module *find_known_module(Dwarf_Addr addr) const {
        Dwfl_Module *const module = dwfl_addrmodule(dwfl_.get(), addr); // or the one before
        Dwarf_Addr end = 0;
        dwfl_module_info(module, nullptr, nullptr, &end, nullptr, nullptr, nullptr, nullptr);
        return addr < end ? module : nullptr;
    }

    /// Reads the files of the process again if the address is in none of those known: the program
    /// may have loaded a library.
    Dwfl_Module *find_module(Dwarf_Addr addr) {
        if (!dwfl_)
            return nullptr;
        if (Dwfl_Module *const module = find_known_module(addr))
            return module;
        dwfl_report_begin(dwfl_.get());
        dwfl_linux_proc_report(dwfl_.get(), getpid());
        dwfl_report_end(dwfl_.get(), nullptr, nullptr);
        return find_known_module(addr);
    }

    /// With source lines, else with the offset in the file.
    std::vector<std::string> make_frames(Dwarf_Addr addr) {
        Dwfl_Module *const module = find_module(addr);
        if (module == nullptr)
            return {offset_frame("??", "", addr)};
        if (std::vector<std::string> frames = source_frames(module, addr); !frames.empty())
            return frames;
        Dwarf_Addr start = 0;
        const char *file = nullptr;
        const char *const name =
            dwfl_module_info(module, nullptr, &start, nullptr, nullptr, nullptr, &file, nullptr);
        return {offset_frame(demangle(dwfl_module_addrname(module, addr)),
                             file != nullptr ? file : name, addr - start)};
    }

    static std::string offset_frame(const std::string &function, const std::string &file,
                                    Dwarf_Addr offset) {
        std::array<char, 32> text;
        std::snprintf(text.data(), text.size(), "%#zx", static_cast<std::size_t>(offset));
        return function + " (" + file + (file.empty() ? "" : "+") + text.data() + ")";
    }

    /// The function of the address and those that it is inlined into, innermost first.
    static std::vector<Dwarf_Die> functions_at(Dwarf_Die &compile_unit, Dwarf_Addr addr) {
        Dwarf_Die *memory = nullptr;
        int count = dwarf_getscopes(&compile_unit, addr, &memory);
        const std::unique_ptr<Dwarf_Die, free_memory> scopes(memory);
        memory = nullptr;
        count = count > 0 ? dwarf_getscopes_die(scopes.get(), &memory) : 0;
        const std::unique_ptr<Dwarf_Die, free_memory> enclosing(memory);
        std::vector<Dwarf_Die> functions;
        for (Dwarf_Die &die : std::span(memory, static_cast<std::size_t>(std::max(count, 0))))
            if (const int tag = dwarf_tag(&die);
                tag == DW_TAG_inlined_subroutine || tag == DW_TAG_subprogram)
                functions.push_back(die);
        if (functions.empty()) {
            find_functions(compile_unit, addr, functions);
            std::reverse(functions.begin(), functions.end());
        }
        return functions;
    }

    /// The function of the address and those that it is inlined into, with file and line. Empty:
    /// there is no debug information for the address.
    static std::vector<std::string> source_frames(Dwfl_Module *module, Dwarf_Addr addr) {
        Dwarf_Addr bias = 0;
        Dwarf_Die *const compile_unit = find_compile_unit(module, addr, bias);
        Dwarf_Line *const src_line =
            compile_unit != nullptr ? dwarf_getsrc_die(compile_unit, addr - bias) : nullptr;
        const char *const src_file =
            src_line != nullptr ? dwarf_linesrc(src_line, nullptr, nullptr) : nullptr;
        int line = 0;
        if (src_file == nullptr || dwarf_lineno(src_line, &line) != 0)
            return {};
        Dwarf_Attribute attr;
        const char *const comp_dir =
            dwarf_formstring(dwarf_attr(compile_unit, DW_AT_comp_dir, &attr));
        const std::string_view build_folder = comp_dir != nullptr ? comp_dir : "";
        std::string file = source_path(src_file, build_folder);
        std::vector<std::string> frames;
        std::vector<Dwarf_Die> functions = functions_at(*compile_unit, addr - bias);
        for (Dwarf_Die &die : functions) {
            frames.push_back(frame_text(name_of(die), file, line));
            if (dwarf_tag(&die) == DW_TAG_subprogram ||
                !find_inline_call(*compile_unit, build_folder, die, file, line))
                break;
        }
        if (frames.empty()) // line numbers only, as in assembler files
            frames.push_back(frame_text(demangle(dwfl_module_addrname(module, addr)), file, line));
        return frames;
    }

    std::unique_ptr<Dwfl, end_session> dwfl_;
    std::map<Dwarf_Addr, std::vector<std::string>> frames_;
};

/// The symbols of one process: in a child of fork() another thread of the parent may hold the mutex
/// forever.
struct process_symbols {
    const pid_t pid = getpid();
    std::mutex mutex;
    symbol_table table;
};

/// Created at the first call in each process; the first of several threads stores them.
process_symbols &symbols_of_this_process() {
    static std::atomic<process_symbols *> current = nullptr;
    process_symbols *symbols = current.load();
    if (symbols != nullptr && symbols->pid == getpid())
        return *symbols;
    auto created = std::make_unique<process_symbols>();
    // The parent's are not freed: their mutex may be locked.
    if (current.compare_exchange_strong(symbols, created.get()))
        return *created.release();
    return *symbols; // another thread of this process has stored its own
}

} // namespace

std::vector<std::string> describe_call(const void *return_addr) {
    process_symbols &symbols = symbols_of_this_process();
    const std::lock_guard guard(symbols.mutex);
    // Another function may begin at the return address itself.
    return symbols.table.describe(reinterpret_cast<std::uintptr_t>(return_addr) - 1);
}

std::string describe_data(std::uintptr_t addr) {
    Dl_info info;
    // Not of a file, as most memory is not: the files of the process need not be read again.
    if (dladdr(reinterpret_cast<void *>(addr), &info) == 0)
        return "";
    process_symbols &symbols = symbols_of_this_process();
    const std::lock_guard guard(symbols.mutex);
    return symbols.table.describe_data(addr);
}

} // namespace coherdma::reports
