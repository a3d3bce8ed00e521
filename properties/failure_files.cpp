// Writing failing cases (see failure_files.h).
#include "properties/failure_files.h"

#include "properties/reports/report.h"
#include "properties/temporary_folder.h"

namespace kvconform {

std::filesystem::path FailureFiles::keep(const Case& test_case, const std::string& which) {
  if (options_.report.empty() && options_.stop_at_first_failure) return {};
  if (folder_.empty()) {
    folder_ = options_.report.empty() ? make_kept_folder("kvconform-failures")
                                      : options_.report / "failures";
    std::filesystem::create_directories(folder_);
  }
  const std::filesystem::path file =
      folder_ / failure_file_name(test_case.property, test_case.subject, which);
  write_case(test_case, file);
  return file;
}

}  // namespace kvconform
