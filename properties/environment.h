// Where a run took place, for its report: compiler, processor, cores, operating system.
#pragma once

#include <map>
#include <string>

namespace kvconform {

std::map<std::string, std::string> describe_environment();

}  // namespace kvconform
