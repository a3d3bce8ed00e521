// The table of commands: the one list that dispatch, help and "did you mean" go by.
#include "cli/command.h"

namespace kvconform::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      {"check", "run the properties on each subject, then verify what is stored",
       "kvconform check --subject reference:bfloat16 --cases 200 --report report", add_check},
      {"replay", "run recorded cases again, with traces", "kvconform replay report/failures/*.json",
       add_replay},
      {"shrink", "make a failing case smaller", "kvconform shrink report/failures/chunking.json",
       add_shrink},
      {"plan", "print who reads whose keys and values, layer by layer",
       "kvconform plan ~/models/gemma-3n-E2B --json", add_plan},
      {"score", "compute the logits of a checkpoint: top tokens, hash, a file",
       "kvconform score ~/models/gemma-3n-E2B --tokens 2,105,2364 --save logits.safetensors",
       add_score},
      {"model create", "write a random checkpoint in Hugging Face layout",
       "kvconform model create tiny --family gemma4 --seed 7 --sliding-window 8", add_model_create},
      {"golden verify", "compare the reference with its approved logits; writes nothing",
       "kvconform golden verify", add_golden_verify},
      {"golden list", "list the goldens", "kvconform golden list", add_golden_list},
      {"golden record", "compute goldens anew, beside the approved ones",
       "kvconform golden record gemma3n-script-b", add_golden_record},
      {"golden approve", "show what changed, ask, and make what was recorded the approved logits",
       "kvconform golden approve gemma3n-script-b", add_golden_approve},
      {"golden prune", "remove files that no golden needs", "kvconform golden prune --yes",
       add_golden_prune},
      {"golden export", "write a golden as a checkpoint with expected logits",
       "kvconform golden export gemma3n-script-b exported", add_golden_export},
      {"faults", "run the planted faults: does a property catch each?",
       "kvconform faults --fault window-one-too-wide", add_faults},
      {"report merge", "join the reports of shards, or of different subjects, into one",
       "kvconform report merge shard-1 shard-2 shard-3 --report whole", add_report_merge},
      {"serve", "answer the subject protocol with a built-in subject, on standard streams",
       "kvconform check --subject process:'kvconform serve reference'", add_serve},
      {"doctor", "show compilers, libraries, processor, GPU and which subjects can run here",
       "kvconform doctor", add_doctor},
  };
  return all;
}

}  // namespace kvconform::cli
