// Verifies all goldens of the reference and prints a line each. A program of its own, with the
// model in float32 compiled into this very file and little else linked: bit_stability_test.sh
// builds it with every compiler and for other architectures, planted_changes_test.sh with a change
// in it.
//
//   verify_reference [FOLDER]       FOLDER: golden/ of a source tree
//
// Exit code: 0 all have the approved bits, 1 not, 2 something is wrong with the call.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "golden/golden.h"
#include "properties/subjects/reference_subject.hpp"
#include "reference/model.hpp"

namespace kvconform {

template class Model<Float32>;
template class ReferenceSubject<Float32>;

namespace {

int verify_all_of_the_reference() {
  const Numerics reference = {
      "reference-float32",
      [] { return std::make_unique<ReferenceSubject<Float32>>("reference", "float32"); }};
  const std::vector<GoldenResult> results = verify_all({reference});
  bool all = !results.empty();
  for (const GoldenResult& result : results) {
    std::printf("%s %s\n%s", result.name.c_str(), result.sha256.c_str(),
                passes(result.status) ? "" : (result.message + "\n").c_str());
    all = all && result.status == GoldenStatus::same;
  }
  std::printf("%s", summary_of_causes(results).c_str());
  return all ? 0 : 1;
}

}  // namespace
}  // namespace kvconform

int main(int argc, char** argv) {
  if (argc > 2) {
    std::fprintf(stderr, "usage: verify_reference [FOLDER]\n");
    return 2;
  }
  if (argc == 2) setenv("KVCONFORM_GOLDEN_DIR", argv[1], 1);
  try {
    return kvconform::verify_all_of_the_reference();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "verify_reference: %s\n", error.what());
    return 2;
  }
}
