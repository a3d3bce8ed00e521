// All tables in one, and from a name to a subject.
#include "properties/faults/faults.h"

#include <fmt/format.h>

#include "properties/faults/fault_table.h"
#include "properties/faults/faulty_reference.h"
#include "properties/subjects/reference_subject.h"
#include "reference/error.h"

namespace kvconform {
namespace {

const std::vector<Planted>& planted() {
  static const std::vector<Planted> all = [] {
    std::vector<Planted> table;
    for (auto part : {sharing_faults, window_faults, cache_faults, arithmetic_faults, number_faults,
                      refusal_faults, kernel_faults})
      for (Planted& entry : part()) table.push_back(std::move(entry));
    return table;
  }();
  return all;
}

}  // namespace

const std::vector<Fault>& all_faults() {
  static const std::vector<Fault> faults = [] {
    std::vector<Fault> list;
    for (const Planted& entry : planted()) list.push_back(entry.fault);
    return list;
  }();
  return faults;
}

std::unique_ptr<Subject> make_faulty_subject(const std::string& name) {
  const std::string subject = "fault:" + name;
  for (const Planted& entry : planted()) {
    if (entry.fault.name != name) continue;
    if (entry.kernel != cuda::PlantedFault::none) return faulty_engine(subject, entry);
    std::unique_ptr<Subject> inner =
        entry.kind != FaultKind::none
            ? faulty_reference(subject, entry.kind)
            : std::make_unique<ReferenceSubject<Float32>>(subject, "float32");
    return entry.wrap != nullptr ? entry.wrap(std::move(inner)) : std::move(inner);
  }
  std::string names;
  for (const Planted& entry : planted()) names += (names.empty() ? "" : ", ") + entry.fault.name;
  throw Error("KV2103", fmt::format("there is no planted fault \"{}\"", name),
              fmt::format("use one of: {}", names));
}

bool is_at(const FaultSite& site, const Difference& difference, const ModelConfig& config) {
  if (difference.part != site.part) return false;
  if (site.acts_on == nullptr) return true;
  if (difference.layer < 0 || difference.layer >= config.num_layers) return false;
  return site.acts_on(plan_layers(config)[std::size_t(difference.layer)]);
}

}  // namespace kvconform
