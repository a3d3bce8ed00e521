// A fixture of the tests: any subject of this program behind the subject protocol, well-mannered or
// with one bad manner. Not shipped. A new manner is a line in `manners()`.
//
//   subject_server SUBJECT [MANNER] [ARGUMENT]
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "properties/subject_registry.h"
#include "properties/subjects/protocol_server.h"

namespace kvconform {
namespace {

using nlohmann::json;

/// Where a manner may step in.
struct Moment {
  std::string request;
  int loads = 0;  ///< models loaded so far
  Reply& reply;
  std::string argument;

  bool computes() const { return request == "score" || request == "extend"; }
};

[[noreturn]] void sleep_for_ever() {
  for (;;) pause();
}

using Manner = std::function<void(const Moment&)>;

void fill_with_nan(std::string& payload) {
  const float nan = std::nanf("");
  for (std::size_t i = 0; i + sizeof nan <= payload.size(); i += sizeof nan) {
    std::memcpy(payload.data() + i, &nan, sizeof nan);
  }
}

void refuse(Reply& reply, const char* kind) {
  reply = {{{"error", {{"kind", kind}, {"message", "on purpose"}}}}, ""};
}

const std::map<std::string, Manner>& manners() {
  static const std::map<std::string, Manner> all = {
      {"healthy", [](const Moment&) {}},
      {"crash-in-every-third-case",
       [](const Moment& at) {
         if (at.request == "extend" && at.loads == 3) abort();
       }},
      {"hang",
       [](const Moment& at) {
         if (at.computes()) sleep_for_ever();
       }},
      {"hang-ignoring-sigterm",
       [](const Moment& at) {
         signal(SIGTERM, SIG_IGN);
         if (at.computes()) sleep_for_ever();
       }},
      {"half-a-message",
       [](const Moment& at) {
         if (!at.computes()) return;
         std::cout << "{\"ok\": tr" << std::flush;
         sleep_for_ever();
       }},
      {"half-a-payload",
       [](const Moment& at) {
         if (!at.computes()) return;
         std::cout << json({{"ok", true}, {"payload", at.reply.payload.size()}}) << "\n12"
                   << std::flush;
         _exit(7);
       }},
      {"payload-too-large",
       [](const Moment& at) {
         if (at.computes()) at.reply.fields["payload"] = 99999999;
       }},
      {"payload-too-small",
       [](const Moment& at) {
         if (at.computes()) at.reply.payload.resize(at.reply.payload.size() - 4);
       }},
      {"more-than-a-reply",
       [](const Moment& at) {
         if (at.computes())
           at.reply.payload += "{}", at.reply.fields["payload"] = at.reply.payload.size() - 2;
       }},
      {"close-stdout",
       [](const Moment& at) {
         if (!at.computes()) return;
         close(STDOUT_FILENO);
         sleep_for_ever();
       }},
      {"leave-a-grandchild",
       [](const Moment& at) {
         if (!at.computes()) return;
         if (fork() == 0) sleep_for_ever();  // holds the pipes
         _exit(3);
       }},
      {"flood-standard-error",
       [](const Moment& at) {
         for (int i = 0; i < 20000; ++i) std::cerr << "noise of the engine, line " << i << "\n";
         if (at.computes()) _exit(9);
       }},
      {"nan", [](const Moment& at) { fill_with_nan(at.reply.payload); }},
      {"error-failed",
       [](const Moment& at) {
         if (at.computes()) refuse(at.reply, "failed");
       }},
      {"error-unsupported",
       [](const Moment& at) {
         if (at.computes()) refuse(at.reply, "unsupported");
       }},
      {"error-invalid",
       [](const Moment& at) {
         if (at.computes()) refuse(at.reply, "invalid");
       }},
      {"error-of-no-kind",
       [](const Moment& at) {
         if (at.computes()) refuse(at.reply, "sad");
       }},
      {"no-model",
       [](const Moment& at) {
         if (at.request == "load") at.reply.fields.erase("model");
       }},
      {"model-is-a-list",
       [](const Moment& at) {
         if (at.request == "load") at.reply.fields["model"] = {1};
       }},
      {"hello-fails-once",
       [](const Moment& at) {
         if (at.request == "hello" && rmdir(at.argument.c_str()) == 0) _exit(1);
       }},
      {"dead-after-one-case",
       [](const Moment& at) {  // the argument is a folder that the first extend removes
         if (at.request == "hello" && access(at.argument.c_str(), F_OK) != 0) _exit(1);
         if (at.computes() && rmdir(at.argument.c_str()) == 0) _exit(2);
       }},
  };
  return all;
}

int serve_with(const Manner& manner, const std::string& name, const std::string& argument) {
  ProtocolServer server(make_subject(name));
  for (std::string line; std::getline(std::cin, line);) {
    Reply reply = server.answer(line);
    manner({server.last_request(), server.loads(), reply, argument});
    send(std::cout, reply);
    if (server.last_request() == "quit") return 0;
  }
  return 0;
}

}  // namespace
}  // namespace kvconform

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return kvconform::serve_with(kvconform::manners().at(argc > 2 ? argv[2] : "healthy"), argv[1],
                               argc > 3 ? argv[3] : "");
}
