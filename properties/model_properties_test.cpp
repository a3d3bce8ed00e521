// What the properties about models rest on: every rule, knob and convention is met by drawn models,
// changes what it should, and a subject that errs there is caught and told so.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "properties/case_choice.h"
#include "properties/case_judge.h"
#include "properties/equivalence.h"
#include "properties/invariants/config_knobs.h"
#include "properties/invariants/equal_configuration_rules.h"
#include "properties/invariants/invariants.h"
#include "properties/model_draft.h"
#include "properties/rotary_conventions.h"
#include "properties/yardstick.h"

namespace kvconform {
namespace {

/// The healthy reference, given another model than the one it is asked to load.
class OtherModel : public Subject {
 public:
  using Exchange = std::function<std::unique_ptr<ModelSource>(const ModelSource&)>;
  explicit OtherModel(Exchange exchange)
      : inner_(make_subject("reference")), exchange_(std::move(exchange)) {}

  const SubjectInfo& info() const override { return inner_->info(); }
  ModelId load(const ModelSource& source) override { return inner_->load(*exchange_(source)); }
  void unload(ModelId model) override { inner_->unload(model); }
  Output score(ModelId model, const TokenRows& tokens, bool trace) override {
    return inner_->score(model, tokens, trace);
  }
  SessionId open(ModelId model, int batch, int capacity, int start) override {
    return inner_->open(model, batch, capacity, start);
  }
  Output extend(SessionId session, const TokenRows& tokens, bool trace) override {
    return inner_->extend(session, tokens, trace);
  }
  void rewind(SessionId session, const std::vector<int>& lengths) override {
    inner_->rewind(session, lengths);
  }
  SessionId fork(SessionId session) override { return inner_->fork(session); }
  void reorder(SessionId session, const std::vector<int>& rows) override {
    inner_->reorder(session, rows);
  }
  void save(SessionId session, const std::filesystem::path& file) override {
    inner_->save(session, file);
  }
  SessionId restore(ModelId model, const std::filesystem::path& file) override {
    return inner_->restore(model, file);
  }
  CacheReport cache(SessionId session) override { return inner_->cache(session); }
  void close(SessionId session) override { inner_->close(session); }

 private:
  std::unique_ptr<Subject> inner_;
  Exchange exchange_;
};

Verdict judge(const Property& property, const Case& test_case, Subject& subject) {
  const auto source = make_model_source(test_case.model);
  const auto against = make_subject("reference:double");
  Yardstick yardstick(source->checkpoint(), subject.info().dtype);
  Judgement judgement{*source, subject, *against, yardstick, /*traces=*/true};
  return property.judge(test_case, judgement);
}

/// The first failure of a property on a subject; conforms where none of the cases fails.
Verdict first_failure(const Property& property, Subject& subject, int cases) {
  for (int i = 0; i < cases; ++i) {
    const Verdict verdict = judge(property, property.generate(3, i, CaseSize::smoke), subject);
    if (is_failure(verdict.kind)) return verdict;
  }
  return {};
}

/// A copy of the model with its config changed.
OtherModel::Exchange with_config(std::function<void(nlohmann::json&)> change) {
  return [change](const ModelSource& source) {
    ModelDraft draft = ModelDraft::of(*source.checkpoint());
    change(draft.config());
    return draft.source();
  };
}

TEST(Knobs, EachIsTurnedInSomeDrawnModelAndMovesTheTruth) {
  const auto property = knob_sensitivity();
  const auto truth = make_subject("reference:double");
  std::set<std::string> moved;
  for (int i = 0; i < 150; ++i) {
    const Case test_case = property->generate(3, i, CaseSize::standard);
    const auto config = nlohmann::json::parse(test_case.model.config_text);
    const ModelConfig parsed = parse_model_config(config);
    const KnobInput input{config, parsed, choice_of(test_case, "value")};
    for (const Knob& knob : config_knobs()) {
      if (moved.count(knob.name)) continue;
      const auto turned = knob.turn(input);
      if (!turned) continue;
      try {
        const TokenHistory history = longest_histories(test_case.calls).front();
        const auto before = make_model_source(test_case.model);
        const auto after = ModelDraft::drawn(*turned, test_case.model.weights).source();
        const Output a = ask_score(LoadedModel(*truth, *before), history, false);
        const Output b = ask_score(LoadedModel(*truth, *after), history, false);
        if (a.logits.values != b.logits.values) moved.insert(knob.name);
      } catch (const std::exception&) {
        continue;  // no valid model: the property takes another knob
      }
    }
  }
  for (const Knob& knob : config_knobs()) EXPECT_TRUE(moved.count(knob.name)) << knob.name;
}

TEST(Knobs, ASubjectThatIgnoresOneIsToldWhich) {
  OtherModel deaf(with_config([](nlohmann::json& config) { config["rms_norm_eps"] = 1e-6; }));
  const Verdict verdict = first_failure(*knob_sensitivity(), deaf, 300);
  EXPECT_EQ(verdict.kind, VerdictKind::differs);
  EXPECT_NE(verdict.cause.find("rms_norm_eps is accepted and ignored"), std::string::npos)
      << verdict.cause;
}

TEST(EqualConfigurations, EveryRuleFitsSomeDrawnModel) {
  const auto property = equal_configurations();
  std::set<std::string> fits;
  for (int i = 0; i < 60; ++i) {
    const Case test_case = property->generate(3, i, CaseSize::standard);
    const auto config = nlohmann::json::parse(test_case.model.config_text);
    const RuleInput input{config, test_case.model.weights, parse_model_config(config), 9, true, 0};
    for (const auto* rules : {&spelling_rules(), &weight_rules()}) {
      for (const EqualityRule& rule : *rules) {
        if (!rule.applies(input)) continue;
        EXPECT_NO_THROW(rule.make(input).right.source()->checkpoint()) << rule.sentence;
        fits.insert(rule.sentence);
      }
    }
  }
  EXPECT_EQ(fits.size(), spelling_rules().size() + weight_rules().size());
}

TEST(EqualConfigurations, ASubjectThatIgnoresTheMapIsCaughtWithoutAReference) {
  OtherModel deaf(with_config([](nlohmann::json& config) {
    if (!config.contains("kv_sharing_map")) return;
    for (std::size_t i = 0; i < config["kv_sharing_map"].size(); ++i) {
      // Every reader reads the first layer of its type instead.
      if (config["kv_sharing_map"][i] == i) continue;
      const auto types = config["layer_types"];
      for (std::size_t j = 0; j < i; ++j) {
        if (types[j] != types[i]) continue;
        config["kv_sharing_map"][i] = j;
        break;
      }
    }
  }));
  const auto property = equal_configurations();
  std::string messages;
  for (int i = 0; i < 150; ++i) {
    const Verdict verdict = judge(*property, property->generate(3, i, CaseSize::smoke), deaf);
    if (verdict.kind == VerdictKind::differs) messages += verdict.message + "\n";
  }
  EXPECT_NE(messages.find("an explicit map of the owners"), std::string::npos) << messages;
}

/// A drawn case; both layer types are stretched, which is rarely drawn, where factors are the
/// topic.
Case case_about(const std::string& convention, const Property& property, int index) {
  Case test_case = property.generate(9, index, CaseSize::standard);
  if (convention.find("the rotary factor") == std::string::npos) return test_case;
  auto config = nlohmann::json::parse(test_case.model.config_text);
  for (auto& [type, rope] : config["rope_parameters"].items()) {
    rope = {{"rope_type", "linear"}, {"rope_theta", rope["rope_theta"]}, {"factor", 4.0}};
  }
  test_case.model.config_text = config.dump();
  return test_case;
}

TEST(RotaryConvention, EachConventionIsNamedWhenASubjectFollowsIt) {
  const auto property = rotary_convention();
  for (const std::string& convention : rotary_conventions()) {
    bool found = false;
    for (int i = 0; i < 60 && !found; ++i) {
      OtherModel subject([&](const ModelSource& source) {
        auto other = with_rotary_convention(source, convention);
        return other ? std::move(other) : ModelDraft::of(*source.checkpoint()).source();
      });
      const Verdict verdict = judge(*property, case_about(convention, *property, i), subject);
      found = verdict.cause == convention + ", everywhere";
    }
    EXPECT_TRUE(found) << convention;
  }
}

TEST(Topology, ASubjectThatComputesInvalidLayoutsIsCaught) {
  OtherModel lenient([](const ModelSource& source) {
    try {
      return ModelDraft::of(*source.checkpoint()).source();
    } catch (const std::exception&) {
      nlohmann::json config = source.text_config();
      config.erase("kv_sharing_map");
      config["num_kv_shared_layers"] = 0;
      config.erase("per_layer_config");
      return ModelDraft::drawn(config, {}).source();
    }
  });
  const Verdict verdict = first_failure(*topology(), lenient, 20);
  EXPECT_EQ(verdict.kind, VerdictKind::differs);
  EXPECT_NE(verdict.message.find("invalid layout is loaded and computed"), std::string::npos)
      << verdict.message;
}

}  // namespace
}  // namespace kvconform
