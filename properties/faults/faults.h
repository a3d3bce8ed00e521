// Planted faults: the reference with one thing wrong, each taken from a real bug report
// (faults.h's table names it). They prove that the properties can fail: `fault:NAME` is a subject like
// any other, and a fault that no property catches is a hole in the harness.
#pragma once

#include <string>
#include <vector>

namespace kvconform {

struct Fault {
  std::string name;         ///< "consumers-without-cache": the subject is `fault:` + name
  std::string bugs;         ///< ids of the reports, "B001, B003"
  std::string description;  ///< one line: what is wrong
  std::string fault_class;  ///< "C01 sharing tied to the cache object"
  std::string caught_by;    ///< the property that must catch it
};

const std::vector<Fault>& all_faults();

}  // namespace kvconform
