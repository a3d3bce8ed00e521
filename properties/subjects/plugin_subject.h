// A shared library with the interface of properties/plugin.h as a subject of this process: calls
// and statuses, nothing else. What it does to the process is its own; `plugin:FILE.so` therefore
// puts it behind the protocol server, in a process of its own (plugin_host.cpp).
//
//   serve(load_plugin("./my_engine.so"), std::cin, std::cout);
#pragma once

#include <filesystem>
#include <memory>

#include "properties/subject.h"

namespace kvconform {

/// std::runtime_error where the file is no library, or one of another version of the interface.
std::unique_ptr<Subject> load_plugin(const std::filesystem::path& library);

}  // namespace kvconform
