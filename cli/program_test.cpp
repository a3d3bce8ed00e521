// The commands on good input: what they print, what they write, and the exit codes scripts rely on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_program.h"
#include "golden/oracle_cases.h"
#include "reference/safetensors.h"

namespace kvconform::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

const fs::path kOracle = fs::path(KVCONFORM_SOURCE_DIR) / "golden" / "oracle";
const std::string kBase = (kOracle / "gemma3n-base").string();

std::string joined(const std::vector<int>& tokens) {
  std::string text;
  for (int token : tokens) text += (text.empty() ? "" : ",") + std::to_string(token);
  return text;
}

// Largest distance of saved float32 logits from the stored float64 ones; infinity for another shape
// or a NaN.
double distance(const fs::path& saved, const ExpectedArray& expected) {
  const SafetensorsContent content = read_safetensors(saved);
  const TensorView& logits = content.table.tensors.at("logits");
  if (content.table.tensors.size() != 1 || logits.dtype != Dtype::f32 ||
      logits.shape != expected.shape)
    return INFINITY;
  double largest = 0;
  for (std::int64_t i = 0; i < logits.count(); ++i) {
    const double error = std::abs(element(logits, i) - expected.values[std::size_t(i)]);
    if (!(error <= largest)) largest = std::isnan(error) ? INFINITY : error;
  }
  return largest;
}

TEST(Program, version_and_help_are_printed_and_every_command_shows_an_example) {
  EXPECT_EQ(succeed({"--version"}).out.rfind("kvconform ", 0), 0u);
  const std::string help = succeed({"--help"}).out;
  for (const char* command : {"check", "replay", "shrink", "plan", "score", "doctor"}) {
    EXPECT_NE(line_with(help, command), "") << command;
    EXPECT_NE(
        succeed({command, "--help"}).out.find("Example:\n  kvconform " + std::string(command)),
        std::string::npos)
        << command;
  }
  for (const char* second : {"verify", "list", "record", "approve"})
    EXPECT_NE(succeed({"golden", second, "--help"}).out.find("Example:"), std::string::npos);
}

TEST(Program, the_first_of_two_words_shows_its_commands_too) {
  for (const char* word : {"golden", "model"})
    for (const char* help : {"--help", "-h"})
      EXPECT_NE(line_with(succeed({word, help}).out, word), "");
  EXPECT_NE(succeed({"golden", "--help"}).out.find("golden approve"), std::string::npos);
  EXPECT_NE(succeed({"model", "--help"}).out.find("model create"), std::string::npos);
  EXPECT_NE(line_with(succeed({"--help"}).out, "  test "), "");
}

TEST(Program, doctor_names_compilers_libraries_and_subjects) {
  const std::string text = succeed({"doctor"}).out;
  for (const char* what : {"compilers", "libraries", "processor", "nvcc", "reference", "process:"})
    EXPECT_NE(text.find(what), std::string::npos) << what;
}

TEST(Program, plan_shows_the_owner_of_each_layer) {
  const std::string text = succeed({"plan", kBase}).out;
  EXPECT_NE(text.find("consumer"), std::string::npos) << text;
  const nlohmann::json plan =
      nlohmann::json::parse(succeed({"plan", kBase + "/config.json", "--json"}).out);
  ASSERT_EQ(plan.at("layers").size(), 6u);
  EXPECT_EQ(plan.at("layers").at(5).at("role"), "consumer");
  EXPECT_EQ(plan.at("layers").at(5).at("owner"), 1);
  EXPECT_EQ(plan.at("session").at("capacity"), 4096);
}

TEST(Program, plan_adds_up_what_a_session_of_the_engine_reserves) {
  const auto session = [](std::vector<std::string> options) {
    std::vector<std::string> words = {"plan", kBase, "--json"};
    words.insert(words.end(), options.begin(), options.end());
    return nlohmann::json::parse(succeed(words).out).at("session");
  };
  const nlohmann::json one = session({"--capacity", "640"});
  EXPECT_EQ(one.at("bytes"), one.at("workspace").at("bytes").get<std::int64_t>() +
                                 one.at("caches").at("bytes").get<std::int64_t>() +
                                 one.at("rotary_tables").get<std::int64_t>());
  const nlohmann::json three = session({"--capacity", "640", "--batch", "3"});
  EXPECT_EQ(three.at("caches").at("bytes"), 3 * one.at("caches").at("bytes").get<std::int64_t>());
  EXPECT_EQ(three.at("workspace"), one.at("workspace")) << "tokens of a launch, not rows, fill it";
  const nlohmann::json shorter = session({"--capacity", "640", "--chunk", "64"});
  EXPECT_LT(shorter.at("workspace").at("bytes"), one.at("workspace").at("bytes"));
  const std::string text = succeed({"plan", kBase, "--capacity", "640"}).out;
  EXPECT_NE(text.find("together " + one.at("bytes").dump() + " bytes"), std::string::npos) << text;
}

TEST(Score, logits_are_those_that_other_software_computed) {
  const TemporaryFolder folder;
  for (const char* name : {"gemma3n-base", "gemma4-base", "gemma4-bidirectional-all"}) {
    const OracleCase oracle = load_oracle_case(kOracle / name);
    const std::string saved = (folder / "logits.safetensors").string();
    const std::string tokens = joined(oracle.prompts[0]);
    succeed({"score", oracle.folder.string(), "--tokens", tokens, "--save", saved});
    // The bound that accepts transformers' own float32 result six times over.
    EXPECT_LE(distance(saved, oracle.array(0, "logits_f64")),
              6 * std::max(oracle.measured.float32_vs_float64, 1e-6))
        << name;
  }
}

TEST(Score, the_same_numbers_give_the_same_hash_and_other_precisions_another) {
  const auto hash = [](const Words& more) {
    Words words = {"score", kBase};
    words.insert(words.end(), more.begin(), more.end());
    return line_with(succeed(words).out, "sha256 ");
  };
  const TemporaryFolder folder;
  std::ofstream(folder / "tokens.txt") << "1 2\n3,\n4\n";
  const std::string reference = hash({"--tokens", "1,2,3,4"});
  EXPECT_EQ(reference.size(), std::string("sha256 ").size() + 64);
  EXPECT_EQ(hash({"--tokens", "1,2,3,4"}), reference);
  EXPECT_EQ(hash({"--tokens-file", (folder / "tokens.txt").string()}), reference);
  EXPECT_NE(hash({"--tokens", "1,2,3,5"}), reference);
  EXPECT_NE(hash({"--tokens", "1,2,3,4", "--subject", "reference:bfloat16"}), reference);
}

TEST(Score, weights_and_logits_that_are_not_finite_are_warned_of) {
  const TemporaryFolder folder;
  const fs::path model = folder / "model";
  fs::copy(kBase, model, fs::copy_options::recursive);
  EXPECT_EQ(succeed({"score", model.string(), "--tokens", "1,2"}).error, "");
  const SafetensorsContent content = read_safetensors(fs::path(kBase) / "model.safetensors");
  TensorTable table = content.table;
  for (auto& [name, view] : table.tensors) {
    if (!name.ends_with("layers.0.input_layernorm.weight")) continue;
    const TensorView old = view;
    auto* numbers = reinterpret_cast<float*>(table.add(name, Dtype::f32, old.shape));
    for (std::int64_t i = 0; i < old.count(); ++i) numbers[i] = element(old, i);
    numbers[2] = NAN;
    break;
  }
  fs::remove(model / "model.safetensors");
  write_safetensors(model / "model.safetensors", table);
  const std::string warnings = succeed({"score", model.string(), "--tokens", "1,2"}).error;
  EXPECT_NE(line_with(warnings, "warning: the checkpoint holds NaN in tensor ")
                .find("layers.0.input_layernorm.weight, element 2"),
            std::string::npos)
      << warnings;
  EXPECT_NE(line_with(warnings, "warning: the logits hold NaN, first at position 0, token id 0"),
            "")
      << warnings;
  const Outcome check = run_program({"check", "--model", model.string(), "--cases", "1"});
  EXPECT_EQ(check.exit_code, 2);
  EXPECT_NE(check.error.find("layers.0.input_layernorm.weight"), std::string::npos) << check.error;
}

TEST(ModelCreate, a_created_checkpoint_is_scored_and_repeats_bit_for_bit) {
  const TemporaryFolder folder;
  const auto hash = [&](const std::string& name, const Words& more) {
    const std::string target = (folder / name).string();
    Words words = {"model", "create", target};
    words.insert(words.end(), more.begin(), more.end());
    succeed(words);
    return line_with(succeed({"score", target, "--tokens", "1,2,3"}).out, "sha256 ");
  };
  const Words gemma4 = {"--family", "gemma4", "--seed", "7"};
  const std::string first = hash("a", gemma4);
  EXPECT_EQ(hash("b", gemma4), first);
  EXPECT_NE(hash("c", {"--family", "gemma4", "--seed", "8"}), first);
  EXPECT_NE(hash("d", {"--family", "gemma4", "--seed", "7", "--dtype", "bfloat16"}), first);
  EXPECT_EQ(hash("e", {"--family", "gemma4", "--seed", "7", "--dead-tensors", "nan"}), first);
}

TEST(ModelCreate, any_field_of_the_config_can_be_set_in_two_ways) {
  const TemporaryFolder folder;
  const std::string target = (folder / "model").string();
  succeed({"model", "create", target, "--set", "sliding_window=3", "--num-kv-shared-layers", "1"});
  std::ifstream file(folder / "model/config.json");
  const nlohmann::json config = nlohmann::json::parse(file);
  EXPECT_EQ(config.at("sliding_window"), 3);
  EXPECT_EQ(config.at("num_kv_shared_layers"), 1);
}

TEST(Faults, each_fault_is_listed_and_a_matrix_is_written_for_people_and_for_programs) {
  EXPECT_NE(line_with(succeed({"faults", "--list"}).out, "own-keys-without-cache"), "");
  const TemporaryFolder folder;
  const std::string report = (folder / "report").string();
  const std::string text =
      succeed({"faults", "--size", "smoke", "--fault", "own-keys-without-cache", "--fault",
               "dead-tensors-required", "--report", report})
          .out;
  EXPECT_NE(line_with(text, "2 of 2 faults caught"), "") << text;
  std::ifstream file(folder / "report/faults.json");
  const nlohmann::json matrix = nlohmann::json::parse(file);
  ASSERT_EQ(matrix.at("results").size(), 2u);
  const nlohmann::json& first = matrix.at("results").at(0);
  EXPECT_EQ(first.at("catches").at(0).at("property"), "cache-independence");
  EXPECT_EQ(first.at("pinned"), true);
  EXPECT_EQ(matrix.at("results").at(1).at("pinned"), nullptr);  // acts nowhere in the model
  EXPECT_TRUE(fs::exists(folder / "report/faults.md"));
}

TEST(Faults, a_fault_that_nobody_catches_is_exit_code_1) {
  // It takes dozens of cases to show; one is not enough.
  const Outcome outcome = run_program(
      {"faults", "--fault", "accepts-rewind-past-window", "--size", "smoke", "--cases", "1"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
  EXPECT_NE(line_with(outcome.out, "missed"), "") << outcome.out;
}

TEST(Output, a_full_disk_is_exit_code_5_and_a_reader_that_went_away_is_none) {
  EXPECT_EQ(run_shell("{} doctor >/dev/full 2>/dev/null"), 5);
  EXPECT_EQ(run_shell("test $({} check --property chunking --cases 1 2>&1 >/dev/full | grep -c "
                      "KV4091) = 1"),
            0);
  EXPECT_EQ(run_shell("bash -c 'set -o pipefail; {} check --list | true'"), 0);
}

TEST(Output, nothing_is_coloured_where_no_terminal_reads_it) {
  const Outcome outcome = run_program({"check", "--property", "no-such-property"});
  EXPECT_EQ((outcome.out + outcome.error).find('\033'), std::string::npos);
}

}  // namespace
}  // namespace kvconform::cli
