// A failure in words, from top to bottom: what should hold, on what it does not, where, why, how to
// see it again.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>

#include "properties/budget_words.h"
#include "properties/case_judge.h"
#include "properties/reports/plain_text.h"
#include "properties/reports/report.h"
#include "properties/shrinking.h"
#include "reference/counted.h"
#include "reference/layer_plan.h"

namespace kvconform {
namespace {

std::string describe_layers(const std::vector<LayerPlan>& plan) {
  std::string text;
  for (const LayerPlan& layer : plan) {
    const std::string window = layer.window > 0 ? fmt::format("({})", layer.window) : "";
    const std::string reads = layer.owns_keys() ? "" : fmt::format(" reads {}", layer.owner);
    text += fmt::format("{}{} {}{}{}", text.empty() ? "" : ", ", layer.layer,
                        layer.type == AttentionType::sliding ? "sliding" : "full", window, reads);
    if (text.size() > 400) return text + ", …";
  }
  return text;
}

std::string describe_model(const ModelSpec& model) {
  if (!model.folder.empty()) return model.folder.string();
  const ModelConfig config = config_of(model);
  const std::vector<LayerPlan> plan = plan_layers(config);
  std::string text = fmt::format("{}, {}, hidden {}, heads {} over {}, head size {}, vocabulary {}",
                                 to_string(config.family), counted(config.num_layers, "layer"),
                                 config.hidden_size, config.num_attention_heads,
                                 plan[0].key_value_heads, plan[0].head_dim, config.vocab_size);
  if (config.enable_moe_block) text += ", " + counted(config.num_experts, "expert");
  return text + "\n             layers: " + describe_layers(plan);
}

std::string describe_call(const Call& call) {
  const std::string session = fmt::format("session {}", call.session);
  switch (call.kind) {
    case Call::Kind::score:
      return fmt::format("score {}", call.tokens);
    case Call::Kind::open:
      return fmt::format("open {}: {}, capacity {}{}", session, counted(call.batch, "row"),
                         call.capacity,
                         call.start > 0 ? fmt::format(", start {}", call.start) : "");
    case Call::Kind::extend:
      return fmt::format("extend {} by {}", session, call.tokens);
    case Call::Kind::rewind:
      return fmt::format("rewind {} to lengths {}", session, call.numbers);
    case Call::Kind::fork:
      return fmt::format("fork session {} as {}", call.from, call.session);
    case Call::Kind::reorder:
      return fmt::format("reorder {}: rows {}", session, call.numbers);
    case Call::Kind::save:
      return "save " + session;
    case Call::Kind::restore:
      return fmt::format("restore session {} as {}", call.from, call.session);
    case Call::Kind::close:
      return "close " + session;
  }
  return "";
}

std::string line(const char* label, const std::string& text) {
  return fmt::format("  {:<11}{}\n", label, text);
}

/// As it was started itself: the launcher says how (KVCONFORM_CALLED_AS).
std::string replay_of(const std::filesystem::path& file) {
  const char* called_as = std::getenv("KVCONFORM_CALLED_AS");
  const bool known = called_as != nullptr && *called_as != '\0';
  return fmt::format("{} replay {}", known ? called_as : "kvconform", file.string());
}

}  // namespace

std::string describe_values(const Difference& at) {
  if (std::isnan(at.expected)) return fmt::format("seen {:.9g}", at.seen);  // any number would do
  return fmt::format("expected {:.9g}, seen {:.9g}", at.expected, at.seen);
}

std::string describe_others(const OtherFailure& others) {
  const std::string again = others.file.empty() ? "" : "; again: " + replay_of(others.file);
  return fmt::format("{} in {}, the first: {}{}", to_string(others.verdict),
                     counted(others.cases, "case"), others.message, again);
}

std::string describe_earlier(const std::string& property) {
  return fmt::format("{}, which this case breaks as well: one fault may explain both", property);
}

std::string describe_place(const Difference& at) {
  std::string text;
  const auto add = [&](bool known, const std::string& words) {
    if (known) text += (text.empty() ? "" : ", ") + words;
  };
  add(at.layer >= 0, fmt::format("layer {}", at.layer));
  add(!at.part.empty(), at.part);
  add(at.call >= 0, fmt::format("call {}", at.call));
  add(at.row >= 0, fmt::format("row {}", at.row));
  add(at.token >= 0, fmt::format("token {}", at.token));
  add(at.head >= 0, fmt::format("head {}", at.head));
  add(at.dimension >= 0, fmt::format("dimension {}", at.dimension));
  return text;
}

std::string replay_command(const PropertyResult& result) {
  if (!result.failure || result.failure->file.empty()) return "";
  return replay_of(result.failure->file);
}

std::string describe_case(const Case& test_case) {
  std::string text = line("model", describe_model(test_case.model));
  int number = 0;
  for (const Call& call : test_case.calls) {
    if (number == 12) {
      text += line("", fmt::format("… and {}", counted(test_case.calls.size() - 12, "more call")));
      break;
    }
    text += line(number == 0 ? "calls" : "", fmt::format("{} {}", number, describe_call(call)));
    ++number;
  }
  return text;
}

std::string failure_text(const PropertyResult& result) {
  if (!is_failure(result.verdict)) return "";
  std::string text =
      fmt::format("{} {} on {}\n", result.property, to_string(result.verdict), result.subject);
  text += line("property", result.sentence);
  if (!result.failure)
    return plain_text(text + line("seen", result.message));  // no case got that far
  const Failure& failure = *result.failure;
  const Verdict& verdict = failure.verdict;
  text += describe_case(failure.smallest);
  text += line("seen", in_words(verdict));
  if (verdict.first_difference) {
    const Difference& at = *verdict.first_difference;
    const std::string place = describe_place(at);
    if (!place.empty()) text += line("first", place);
    text += line("values", describe_values(at));
  }
  if (verdict.budget_used > 0) {
    text += line("budget", std::isinf(verdict.budget_used)
                               ? std::string("none: the same bits, or a finite number, were due")
                               : times_of_budget(verdict.budget_used) + " the error budget");
  }
  if (!verdict.departs.empty()) text += line("departs", verdict.departs);
  if (!failure.breaks_too.empty()) text += line("first see", describe_earlier(failure.breaks_too));
  if (!verdict.cause.empty()) text += line("cause", verdict.cause);
  const std::string command = replay_command(result);
  if (!command.empty()) text += line("again", command);
  if (result.besides) text += line("besides", describe_others(*result.besides));
  return plain_text(text);
}

}  // namespace kvconform
