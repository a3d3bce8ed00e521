// Wrong calls and wrong input end with exit code 2 and an error that names the id, the problem and
// the remedy. The table is the test: add a line for each way of being wrong.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "cli/run_program.h"

namespace kvconform::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

const fs::path kOracle = fs::path(KVCONFORM_SOURCE_DIR) / "golden" / "oracle";

void expect_refused(const Words& words, const std::string& id, const std::string& says) {
  const Outcome outcome = run_program(words);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.out << outcome.error;
  EXPECT_TRUE(std::regex_search(outcome.error, std::regex("^error KV[0-9]{4}: .+\n  remedy: .+\n")))
      << outcome.error;
  EXPECT_EQ(outcome.error.rfind("error " + id, 0), 0u) << outcome.error;
  EXPECT_NE(outcome.error.find(says), std::string::npos) << outcome.error;
}

std::string bytes_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

std::string with_header_length(std::string bytes, std::uint64_t length) {
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes;
}

class BadInput : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"config.json", "model.safetensors"})
      fs::copy_file(kOracle / "gemma3n-base" / name, folder_ / name);
  }
  void expect_score_refused(const std::string& id, const std::string& says) {
    expect_refused({"score", folder_.path().string(), "--tokens", "1,2"}, id, says);
  }
  void set_field(const std::string& name, const nlohmann::json& value) {
    nlohmann::json config =
        nlohmann::json::parse(bytes_of(kOracle / "gemma3n-base" / "config.json"));
    config[name] = value;
    write(folder_ / "config.json", config.dump());
  }
  TemporaryFolder folder_;
};

TEST_F(BadInput, weights_that_are_no_safetensors_file_are_refused) {
  const std::string good = bytes_of(folder_ / "model.safetensors");
  const std::vector<std::string> wrong = {
      good.substr(0, good.size() / 2), with_header_length(good, 1ULL << 62), "",
      std::string("\4\0\0\0\0\0\0\0{{{{", 12), std::string(64, 'x')};
  for (const std::string& bytes : wrong) {
    write(folder_ / "model.safetensors", bytes);
    expect_score_refused("KV12", "model.safetensors");
  }
}

TEST_F(BadInput, a_config_that_breaks_a_rule_is_refused_by_the_name_of_the_field) {
  struct Wrong {
    std::string field;
    nlohmann::json value;
    std::string says;
  };
  const std::vector<Wrong> table = {{"num_kv_shared_layers", 99, "num_kv_shared_layers"},
                                    {"sliding_window", -1, "sliding_window"},
                                    {"layer_types", Words(6, "x"), "layer_types"},
                                    {"num_key_value_heads", 5, "5 key/value heads"},
                                    {"no_such_field", 1, "no_such_field"}};
  for (const Wrong& wrong : table) {
    set_field(wrong.field, wrong.value);
    expect_score_refused("KV1", wrong.says);
    expect_refused({"plan", folder_.path().string()}, "KV1", wrong.says);
  }
}

TEST_F(BadInput, a_config_that_is_a_pipe_is_refused_at_once) {
  fs::remove(folder_ / "config.json");
  ASSERT_EQ(mkfifo((folder_ / "config.json").c_str(), 0600), 0);
  expect_refused({"plan", folder_.path().string()}, "KV1302", "config.json");
}

TEST_F(BadInput, a_number_that_is_too_large_is_refused_with_the_largest_there_is) {
  for (const char* option : {"--seed", "--cases"})
    expect_refused({"check", option, "99999999999999999999999"}, "KV4003", "at most ");
}

TEST_F(BadInput, a_config_that_is_no_json_is_refused) {
  write(folder_ / "config.json", "{\"model_type\": ");
  expect_score_refused("KV1", "config.json");
}

TEST_F(BadInput, tokens_that_are_not_ids_of_the_vocabulary_are_refused) {
  const std::string folder = folder_.path().string();
  expect_refused({"score", folder, "--tokens", "1,100000"}, "KV4005", "100000");
  expect_refused({"score", folder, "--tokens", "31"}, "KV4005", "31");
  expect_refused({"score", folder, "--tokens=-1"}, "KV4004", "-1");
  expect_refused({"score", folder, "--tokens", "1,,2"}, "KV4004", "empty");
  expect_refused({"score", folder, "--tokens", "1,2,"}, "KV4004", "empty");
  expect_refused({"score", folder, "--tokens", "1,2x"}, "KV4004", "2x");
  expect_refused({"score", folder, "--tokens", "0x1"}, "KV4004", "0x1");
  expect_refused({"score", folder, "--tokens", "99999999999"}, "KV4004", "99999999999");
  expect_refused({"score", folder, "--tokens-file", folder + "/none"}, "KV4007", "none");
  expect_refused({"score", folder}, "KV4003", "tokens");
}

TEST_F(BadInput, paths_that_are_not_there_are_refused) {
  const std::string nowhere = (folder_ / "nowhere").string();
  expect_refused({"score", nowhere, "--tokens", "1"}, "KV1", nowhere);
  expect_refused({"plan", nowhere}, "KV4007", nowhere);
  expect_refused({"replay", nowhere}, "KV20", nowhere);
  expect_refused({"shrink", nowhere}, "KV20", nowhere);
  expect_refused({"check", "--model", nowhere}, "KV1", nowhere);
}

TEST_F(BadInput, folders_that_hold_something_are_not_written_into) {
  const std::string folder = folder_.path().string();
  expect_refused({"check", "--report", folder, "--cases", "1"}, "KV2201", folder);
  expect_refused({"model", "create", folder}, "KV13", folder);
}

TEST(BadCall, unknown_words_are_refused_with_what_may_have_been_meant) {
  expect_refused({"chekc"}, "KV4001", "did you mean check?");
  expect_refused({"no-such-command"}, "KV4001", "the commands are");
  expect_refused({"golden"}, "KV4001", "verify");
  expect_refused({"test"}, "KV4001", "./kvconform test");
  expect_refused({"golden", "verfy"}, "KV4001", "did you mean verify?");
  expect_refused({"--verison"}, "KV4002", "did you mean --version?");
  expect_refused({"check", "--no-such-option"}, "KV4002", "--no-such-option");
  expect_refused({"check", "--caes", "5"}, "KV4002", "did you mean --cases?");
  expect_refused({"check", "--property", "no-such-property"}, "KV4008", "no-such-property");
  expect_refused({"check", "--subject", "no-such-subject"}, "KV21", "no-such-subject");
  expect_refused({"doctor", "extra"}, "KV4003", "kvconform doctor does not take \"extra\"");
}

TEST(BadCall, values_that_an_option_does_not_take_are_refused) {
  for (const char* cases : {"0", "-1", "x", "1.5", "010", "99999999999999999999", ""})
    expect_refused({"check", std::string("--cases=") + cases}, "KV4003", "--cases");
  for (const char* shard : {"0/3", "4/3", "1", "1/", "/3", "1/3x", "a/b"})
    expect_refused({"check", "--shard", shard}, "KV4009", shard);
  for (const char* cases : {"1e3", "0x10", "+5", " 5"})
    expect_refused({"check", std::string("--cases=") + cases}, "KV4003", cases);
  for (const char* option : {"--seconds", "--timeout"})
    for (const char* value :
         {"nan", "inf", "-1", "0", "1e400", "1e3", "0x10", "1.2.3", "5s", ".", "99999999999", "+1"})
      expect_refused({"check", std::string(option) + "=" + value}, "KV4003",
                     std::string(option) + " does not take \"" + value + "\"");
  expect_refused({"check", "--size", "huge"}, "KV4003", "--size does not take \"huge\"");
  expect_refused({"check", "--size", "smok"}, "KV4003", "did you mean smoke?");
  expect_refused({"faults", "--size", "smok"}, "KV4003", "did you mean smoke?");
  expect_refused({"check", "--resume"}, "KV4003", "--report");
}

TEST(BadCall, an_output_never_replaces_a_device_or_what_is_read) {
  const std::string model = (kOracle / "gemma3n-base").string();
  for (const std::string& file :
       {std::string("/dev/null"), std::string(), model + "/new.safetensors", model + "/config.json",
        std::string("/no/such/folder/a")})
    expect_refused({"score", model, "--tokens", "1", "--save", file}, "KV4014", "--save");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  expect_refused({"check", "--report", ""}, "KV4003", "--report");
}

TEST(BadCall, plugins_and_variants_that_do_not_exist_are_refused_before_anything_runs) {
  for (const char* subject : {"plugin:", "plugin:/no/such/engine.so", "plugin:/"})
    expect_refused({"check", "--subject", subject}, "KV2140", subject);
  for (const char* subject : {"mlx-lm:float8", "mlx-lm:", "mlx-lm:float32,float32"})
    expect_refused({"check", "--subject", subject}, "KV2131", "has no variant");
}

TEST(BadCall, a_program_or_library_without_its_kind_is_refused_with_the_whole_name) {
  const auto meant = [](const std::string& subject, const std::string& whole) {
    expect_refused({"check", "--subject", subject}, "KV2101", "did you mean --subject '" + whole);
  };
  meant("python3 engine.py", "process:python3 engine.py'?");
  meant("engine.py", "process:exec python3 ./engine.py'?");
  meant("/opt/engine.so", "plugin:/opt/engine.so'?");
  const TemporaryFolder folder;
  const std::string program = folder.path() / "engine", words = folder.path() / "words";
  write(program, "");
  write(words, "");
  fs::permissions(program, fs::perms::owner_all);
  meant(program, "process:exec " + program + "'?");
  for (const std::string& other : {words, std::string("proces:python3 engine.py")})
    expect_refused({"check", "--subject", other}, "KV2101", "remedy: use one of: reference");
}

TEST(BadCall, a_list_does_not_hide_wrong_names_beside_it) {
  expect_refused({"check", "--list", "--property", "no-such-property"}, "KV4008", "no-such");
  expect_refused({"check", "--list", "--subject", "no-such-subject"}, "KV2101", "no-such");
  expect_refused({"check", "--list", "--against", "no-such-subject"}, "KV2101", "no-such");
  expect_refused({"check", "--list", "--model", "/no/such/model"}, "KV1", "/no/such/model");
  expect_refused({"check", "--list", "--resume"}, "KV4003", "--report");
}

TEST(BadCall, stored_data_is_verified_by_subjects_that_it_is_about_on_its_own_models) {
  expect_refused({"check", "--property", "oracle", "--subject", "cuda"}, "KV4016", "oracle");
  expect_refused({"check", "--property", "golden", "--subject", "reference:double"}, "KV4016",
                 "golden");
  expect_refused({"check", "--property", "oracle", "--model", (kOracle / "gemma3n-base").string()},
                 "KV4016", "--model");
  expect_refused({"check", "--property", "goldn"}, "KV4008", "did you mean golden?");
}

TEST(BadCall, settings_of_a_new_model_that_contradict_each_other_are_both_named) {
  const TemporaryFolder folder;
  const std::string target = (folder / "model").string();
  const auto create = [&](Words words, const std::string& id, const std::string& one,
                          const std::string& other) {
    words.insert(words.begin(), {"model", "create", target});
    expect_refused(words, id, one);
    expect_refused(words, id, other);
    EXPECT_FALSE(fs::exists(target));
  };
  create({"--sliding-window", "3", "--set", "sliding_window=4"}, "KV4015", "sliding_window=3",
         "sliding_window=4");
  create({"--set", "dtype=bfloat16", "--dtype", "float16"}, "KV4015", "dtype=bfloat16",
         "--dtype float16");
  create({"--set", "torch_dtype=bfloat16"}, "KV4015", "torch_dtype=bfloat16", "--dtype float32");
  create({"--family", "gemma4", "--set", "model_type=gemma3n_text"}, "KV4015",
         "model_type=gemma3n_text", "--family gemma4");
  create({"--like", "gemma3n-e2b", "--set", "model_type=gemma4_text"}, "KV4015",
         "model_type=gemma4_text", "--like gemma3n-e2b");
  create({"--like", "gemma3n-e2b", "--num-hidden-layers", "8"}, "KV1", "--like gemma3n-e2b",
         "num_hidden_layers=8");
  create({"--num-kv-shared-layers", "0", "--dead-tensors", "nan"}, "KV4015", "--dead-tensors nan",
         "no layer reads");
  create({"--like", "gemma3n-e2b", "--family", "gemma4"}, "KV4003", "gemma3n-e2b", "gemma4");
}

TEST(BadCall, words_that_an_option_of_model_create_does_not_know_are_refused) {
  const TemporaryFolder folder;
  const std::string target = (folder / "model").string();
  expect_refused({"model", "create", target, "--dtype", "1"}, "KV4003", "--dtype does not take");
  expect_refused({"model", "create", target, "--dtype", "bfloat"}, "KV4003", "mean bfloat16?");
  expect_refused({"model", "create", target, "--dead-tensors", "2"}, "KV4003", "--dead-tensors");
  expect_refused({"model", "create", target, "--family", "gemma"}, "KV4003", "mean gemma4?");
  EXPECT_FALSE(fs::exists(target));
}

TEST(BadCall, a_tmpdir_that_cannot_be_used_is_named_with_its_value) {
  const TemporaryFolder folder;
  const std::string out = (folder / "out").string();
  EXPECT_EQ(run_shell("TMPDIR=/no/such/folder {} check --cases 1 --property chunking 2>" + out), 5);
  const std::string text = bytes_of(out);
  EXPECT_NE(text.find("error KV2011"), std::string::npos) << text;
  EXPECT_NE(text.find("/no/such/folder"), std::string::npos) << text;
  EXPECT_NE(text.find("remedy: set TMPDIR"), std::string::npos) << text;
}

TEST(BadCall, a_program_without_words_shows_its_commands) {
  const Outcome outcome = run_program({});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.error.find("Commands:"), std::string::npos);
}

}  // namespace
}  // namespace kvconform::cli
