// The oracle: tiny models and what other software computes for them (golden/oracle,
// golden/mlx-lm-1674).
//
// Finds, reads and checks the cases; judges nothing. The folder is that of the environment variable
// KVCONFORM_GOLDEN_DIR, else the one of the source tree this was built from. A case is a folder
// with config.json, weights, case.json and expected.safetensors: put one there and it is found.
// Errors: KV3001, KV3002, KV3003.
//
//   for (const OracleCase& oracle : load_oracle_cases()) …
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "golden/expected_arrays.h"

namespace kvconform {

/// One case of golden/oracle; see the README there for the arrays.
struct OracleCase {
  std::string name, family, description;
  std::filesystem::path folder;
  std::vector<std::vector<int>> prompts;
  int traced_prompt = 0;  ///< the prompt whose intermediate arrays are stored
  bool cached = true;     ///< false: the model is not causal, no cache makes sense

  struct Greedy {
    int prompt = 0;
    std::vector<int> tokens;         ///< arg max of the last position, one after the other
    double smallest_top2_gap = 0.0;  ///< between best and second logit on the way
  } greedy;

  struct Measured {  ///< largest differences between computations of the software that made the
                     ///< case
    double largest_logit = 0.0;
    double float32_vs_float64 = 0.0;
    double plain_double_vs_float64 = 0.0;
    std::optional<double> one_token_at_a_time_vs_no_cache, chunked_vs_no_cache;
  } measured;

  struct Chunks {  ///< `*-decode`: a prompt fed in pieces through a cache
    int prompt = 0;
    std::vector<int> lengths;
  };
  std::optional<Chunks> chunks;

  ExpectedArrays expected;

  const ExpectedArray& array(const std::string& array_name) const {
    return expected_array(expected, array_name, folder / "expected.safetensors");
  }
  /// `K.what` for prompt K, e.g. array(1, "logits_f64").
  const ExpectedArray& array(int prompt, const std::string& what) const {
    return array(std::to_string(prompt) + "." + what);
  }
};

/// One of the models of mlx-lm issue #1674: calls on caches, and the logits of each.
struct MlxLmCase {
  std::string name;
  std::filesystem::path folder;
  std::vector<std::vector<int>> calls;
  std::vector<bool> fresh_cache_before;  ///< one a call
  std::vector<ExpectedArray> logits;     ///< one a call, [tokens of the call, V]
};

std::filesystem::path golden_dir();

std::vector<OracleCase> load_oracle_cases();  ///< by name
OracleCase load_oracle_case(const std::filesystem::path& folder);
std::vector<MlxLmCase> load_mlx_lm_cases();
MlxLmCase load_mlx_lm_case(const std::filesystem::path& folder);

}  // namespace kvconform
